// SPDX-License-Identifier: BSD-2-Clause
// The cluster as arrays, changed move by move: the fast form of placement/definition/score.py, checks.py and
// definition/moves.py, which say what every value means (spec: htools, 2 to 5 and 8 to 10).
//
// Rules of this directory:
// - Whatever decides between two candidates is computed with the operations of the definition in the order of the
//   definition: ties fall by the last digits. So no fused multiply-add (-ffp-contract=off) and no reordering of sums.
//   A faster estimate may only leave out what cannot win.
// - Nodes, instances and tags are numbers in the order of the input; NOWHERE stands for no node. Sizes are MiB.
// - Nothing here allocates per question but what the question's caller frees; nothing reads a clock or a file.
#ifndef GANETI_PLACEMENT_KERNEL_H
#define GANETI_PLACEMENT_KERNEL_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NOWHERE (-1)
#define EXPORTED __attribute__((visibility("default")))
#define HOT __attribute__((target_clones("avx512f", "avx2", "default")))

// What a node contributes to the score, in the order of definition.METRICS.
enum {
    FREE_MEMORY, FREE_DISK, N1, RESERVED_MEMORY, INSTANCES, PRIMARIES, CPUS, LOAD_CPU, LOAD_MEMORY, LOAD_DISK,
    LOAD_NET, CONFLICTS, SPINDLES, FREE_MEMORY_FORTHCOMING, FREE_DISK_FORTHCOMING, CPUS_FORTHCOMING,
    SPINDLES_FORTHCOMING, LOCATION, METRICS
};

// The addends of the score, in the order of definition.COMPONENTS, which is the order of the sum.
enum { DEVIATION, SUM_ONLINE, SUM_OFFLINE, LOCATION_EXCLUSION };
typedef struct { double weight; int kind, metric; } component;
#define COMPONENTS 20
extern const component components[COMPONENTS];

// failure.FailMode; 0 means that the instance fits.
enum { FITS, FAIL_MEM, FAIL_DISK, FAIL_CPU, FAIL_N1, FAIL_TAGS, FAIL_MIG, FAIL_DISK_COUNT, FAIL_SPINDLES,
       FAIL_INTERNAL, FAIL_MODES };

// What never changes about a node. `domain` numbers the distinct sets of migration tags.
typedef struct {
    int64_t group, low_disk, domain;
    double total_memory, total_disk, total_cpus, spindles, cpu_speed, vcpu_ratio, high_spindles;
    bool online, exclusive;
} node;

// What changes with the instances on it; a plain value, so that "what if" is a copy.
typedef struct {
    int64_t free_memory, reserved_memory, free_disk, free_spindles, cpus, spindle_uses;
    int64_t free_memory_forthcoming, free_disk_forthcoming, free_spindles_forthcoming, cpus_forthcoming,
        spindle_uses_forthcoming;
    int64_t primaries, secondaries, conflicts, location;
    double load[4];  // cpu, memory, disk, net
    bool fails;      // N+1: by what the node reported until something changes on it, then by what is known of it
} values;

// `claim` is what its secondary must be able to keep free for it, `reserved` what it does keep (forthcoming: nothing), `fate` what becomes of it when its node dies.
enum { MIRRORED, STARTS_ELSEWHERE, LOST };
typedef struct {
    int64_t memory, disk, vcpus, claim, reserved, spindle_use, spindles;  // spindles: NOWHERE if a disk names none
    double load[4];
    int32_t exclusion_first, exclusions, desired_first, desired;  // slices of kernel.tags
    int32_t primary, secondary;
    int32_t next_primary, previous_primary, next_secondary, previous_secondary;  // lists of its nodes, newest first
    uint8_t fate;
    bool uses_memory, forthcoming, local_disk, has_secondary, movable, auto_balance;
} instance;

typedef struct {
    int32_t instance, primary, secondary;
    int32_t next_primary, previous_primary, next_secondary, previous_secondary;
    int32_t touched[4];
    double load[4][4];
    int64_t spindles[4][2];  // free ones, now and after what is promised
    bool fails[4], added;
} journal_entry;

typedef struct kernel {
    int64_t nodes, instances, instance_room;
    node *node;
    values *value;
    double *metric;           // [nodes][METRICS]
    int32_t *first_primary;   // [nodes] head of the list of its primaries, newest first
    int32_t *first_secondary;
    instance *instance;
    int64_t *peers;           // [secondary][primary] memory the secondary keeps for the failure of the primary
    int64_t *peers_of;        // the same [primary][secondary]
    // tags
    int64_t exclusion_tags, location_tags, desired_tags, domains;
    int32_t *tags, tags_used, tags_room;
    int32_t *exclusion_count; // [exclusion tag][node] primaries that carry it
    uint64_t *location_set;   // [node][location_words]
    uint64_t *desired_set;    // [node][desired_words]: those desired tags the node has
    int64_t location_words, desired_words;
    uint8_t *may_migrate;     // [source domain][target domain]
    // location exclusion over the nodes last asked for
    uint8_t *watched;         // [nodes]
    int32_t *place_count;     // [exclusion tag][location tag]
    int64_t place_total, place_kinds;
    // journal
    journal_entry *journal;
    int64_t journal_used, journal_room, marks;
    bool starved;             // memory could not be had since the last answer
} kernel;

// Where memory cannot be had in the midst of a search, the search goes on with wrong values, within all bounds, to where
// everything is taken back; then the question is answered with -1, and what was found is of no use.
static inline int64_t answer(kernel *k, int64_t result) {
    bool starved = k->starved;
    k->starved = false;
    return starved ? -1 : result;
}

// state.c
// Give an instance these nodes in place of its present ones; nothing is checked. Without memory it stays: the call gives
// -1, and within a search the answer does.
EXPORTED int64_t kernel_move(kernel *k, int64_t i, int64_t primary, int64_t secondary);
void move_to(kernel *k, int64_t i, int64_t primary, int64_t secondary);
// From a mark on, every change is remembered until the rollback to that mark; marks nest, and each is rolled back or
// settled in turn.
EXPORTED int64_t kernel_mark(kernel *k);
EXPORTED void kernel_rollback(kernel *k, int64_t mark);
// Keep what was done since the last mark; an outer mark can still undo it.
EXPORTED void kernel_settle(kernel *k);

// metrics.c
void metrics_of(const kernel *k, int64_t n, const values *v, double *out);  // METRICS numbers
static inline bool fails_n1(const values *v) { return v->fails; }
// Values of a node without, or with, an instance in a role. `reserved` is the node's reserved memory afterwards.
void without_primary(const kernel *k, int64_t n, const instance *i, int64_t secondary, values *v);
void with_primary(const kernel *k, int64_t n, const instance *i, int64_t secondary, values *v);
void without_secondary(const kernel *k, int64_t n, const instance *i, int64_t reserved, values *v);
void with_secondary(const kernel *k, int64_t n, const instance *i, int64_t reserved, values *v);
// Reserved memory of a secondary if the entry of one primary were changed by `change`.
int64_t reserved_after(const kernel *k, int64_t secondary, int64_t primary, int64_t change);
int64_t shared_locations(const kernel *k, int64_t a, int64_t b);
int64_t lacking_locations(const kernel *k, const instance *i, int64_t n);
// Whether a primary elsewhere among the tags of the instance is already on the node.
bool shares_exclusion_tag(const kernel *k, const instance *i, int64_t n);

// checks.c: failure mode or FITS. `v` are the node's values without the instance.
int refuse_primary(const kernel *k, int64_t n, const values *v, const instance *i, bool forced);
int refuse_secondary(const kernel *k, int64_t n, const values *v, const instance *i, int64_t reserved, bool forced,
                     bool ignore_disk);
static inline bool may_migrate(const kernel *k, int64_t source, int64_t target) {
    return k->domains < 2 || k->may_migrate[k->node[source].domain * k->domains + k->node[target].domain];
}

// score.c: `members` are numbers of nodes, ascending.
EXPORTED double kernel_score(kernel *k, const int64_t *members, int64_t count);
EXPORTED void kernel_components(kernel *k, const int64_t *members, int64_t count, double *out);
// Keep the location exclusion counts for these nodes from now on.
void watch(kernel *k, const int64_t *members, int64_t count);
void count_places(kernel *k, const instance *i, int64_t n, int sign);
// How much the location exclusion score grows with the instance as a primary of the (watched) node.
int64_t place_clashes(const kernel *k, const instance *i, int64_t n);

// balance.c, balancing.c
typedef struct { int64_t instance, kind, target, primary, secondary; double score; } step;
enum { FAILOVER, FAILOVER_TO_ANY, REPLACE_SECONDARY, REPLACE_AND_FAILOVER, REPLACE_PRIMARY, FAILOVER_AND_REPLACE };
enum { NO_DISK_MOVES = 1, NO_INSTANCE_MOVES = 2, EVACUATION = 4, RESTRICTED_MIGRATION = 8, IGNORE_SOFT_ERRORS = 16,
       EXHAUSTIVE = 32 };
EXPORTED int64_t kernel_best_step(kernel *k, const int64_t *members, int64_t count, const uint8_t *movable,
                                  int64_t flags, step *out);
// The same again and again, with much kept from each step for the next. Instances may be moved meanwhile, by whatever
// means, and none may come or go. NULL without memory.
typedef struct balancing balancing;
EXPORTED balancing *kernel_balancing(kernel *k, const int64_t *members, int64_t count, const uint8_t *movable,
                                     int64_t flags);
EXPORTED int64_t kernel_balancing_step(balancing *b, step *out);
EXPORTED void kernel_balancing_free(balancing *b);
EXPORTED int64_t kernel_step_is_legal(const kernel *k, int64_t i, int64_t kind, int64_t target, int64_t flags);

// allocation (targets.c, redundancy.c, allocate.c, pairs.c, dedicated.c; what they share is in allocation.h). Calls give
// 0, or -1 without memory, and leave the state as it was.
enum { NOT_TRIED = 255 };
typedef struct { int64_t target; double score; } hop;
// The best of some targets as the new secondary, or as the new primary of an instance without one; `failures` gets what
// is against each, NOT_TRIED for nodes it is on.
EXPORTED int64_t kernel_best_target(kernel *k, int64_t i, int64_t secondary, const int64_t *targets, int64_t count,
                                    const int64_t *members, int64_t member_count, int64_t forced, uint8_t *failures,
                                    hop *out);
EXPORTED int64_t kernel_refuse_failover(kernel *k, int64_t i, int64_t forced);
// The best two targets as new primary and secondary (`flags`: IGNORE_SOFT_ERRORS, EXHAUSTIVE); if there are none, the step at which the last attempt failed.
enum { LEAVING_THE_DEAD = 1, NEW_PRIMARY, TURNING, FINAL_SECONDARY };
typedef struct { int64_t first, second; double score; int64_t failed_step, failure; } exchange;
EXPORTED int64_t kernel_exchange(kernel *k, int64_t i, const int64_t *targets, int64_t count, const int64_t *members,
                                 int64_t member_count, int64_t flags, exchange *out);
// Failure modes of group policies, [shape][group][exclusive storage], about instances by their shape.
typedef struct { const int32_t *shape_of; const uint8_t *refusals; int64_t groups; } policies;
// What the failure of each of some nodes asks for; NULL without memory. It lasts as long as the state stays as it is.
typedef struct redundancy redundancy;
EXPORTED redundancy *kernel_redundancy(kernel *k, const int64_t *checked, int64_t count, const int64_t *members,
                                       int64_t member_count, const policies *lost);
EXPORTED void kernel_redundancy_free(redundancy *r);
// Nodes among `candidates` (all online, ascending) for an instance: one, or a pair within a group. It counts nowhere
// else meanwhile. Without `checked` nodes global N+1 is not asked for. With a `primary` only its secondary is looked
// for, among candidates that may be offline too.
typedef struct {
    const int64_t *candidates, *members, *checked;
    const uint8_t *policy;         // [group][exclusive storage] failure mode of the group's policy about the instance
    const policies *lost;          // may be NULL if no instance is LOST
    redundancy *redundancy;        // of the checked nodes in this very state, where several questions share it; or NULL
    int64_t instance, required, primary, candidate_count, member_count, checked_count, ignore_soft_errors,
        exhaustive;                // leave nothing out (for tests)
} question;
// `hopeless`: global N+1 was asked for, and no placement whatever would have it.
typedef struct { int64_t primary, secondary, successes; double score; int64_t failures[FAIL_MODES], hopeless; } placement;
EXPORTED int64_t kernel_allocate(kernel *k, const question *q, placement *out);
EXPORTED int64_t kernel_fill(kernel *k, const question *q, int64_t limit, int32_t *places, placement *out);
// Which of the nodes could not fail without loss; gives how many.
EXPORTED int64_t kernel_failing(kernel *k, const int64_t *checked, int64_t count, const int64_t *members,
                                int64_t member_count, const policies *lost, int64_t *out);
// On exclusive storage what is lost counts instead of the score: for each of the smallest sizes how many instances of
// it fit no more. `sizes`: memory, disk, vcpus, spindle use of each. `loss` gets one number for each size, then the disk
// that is left; it has room for one more than there are sizes.
EXPORTED int64_t kernel_allocate_dedicated(kernel *k, const question *q, const int64_t *sizes, int64_t size_count,
                                           placement *out, int64_t *loss);

#endif
