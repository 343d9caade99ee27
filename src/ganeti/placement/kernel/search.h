// SPDX-License-Identifier: BSD-2-Clause
// A search for the best single move: what is kept while all candidates of a group are looked at (balance.c).
#ifndef GANETI_PLACEMENT_SEARCH_H
#define GANETI_PLACEMENT_SEARCH_H

#include "kernel.h"

enum { DISK, DISK_F, LOADED_DISK, SPINDLE, SPINDLE_F, MEMORY, MEMORY_F, CPU, CPU_F, LOADED_CPU, LOADED_MEMORY,
       LOADED_NET, RESERVED, SERIES };
enum { FIRST_OF_PRIMARY = MEMORY };

#define COPIES 8  // there is room for so many copies of targets at least

extern const int metric_of_series[SERIES];
extern const double weight_of_series[SERIES];

// Slack of an estimate for the rounding of its sums, as a share of the mean square, and how far apart two estimates may
// be and still need exact scores.
#define SLACK 1e-13
#define HAIR 1e-9

// One deviation: distances from the mean per target, and by how much a target's value changes per unit of size.
typedef struct { double weight, mean, total, squares; double *away, *per_unit, *per_spindle; } series;
typedef struct { double *memory, *memory_f, *disk, *spindle_use, *cpus, *spindles, *reserve; } limits;
typedef struct { double total, squares; } sums;
typedef struct { int32_t instance, kind, target; double estimate; } candidate;

typedef struct {
    kernel *k;
    const int64_t *members;
    int64_t count, flags, targets;
    int64_t from, until;             // the columns estimates are made for: all targets, or copies of some behind them
    double share, score, base_sums;  // 1 / targets; score now; what is no deviation in it
    int32_t *node_of, *target_of;    // [targets and copies] and [nodes]
    series of[SERIES];
    limits unforced, forced, forthcoming, none;
    double *free, *reserved, *count_of, *per_memory, *failing;  // `failing`: 1 where the node fails N+1 already
    double *primary_barred, *partner_of_primary, *partner_of_secondary, *kept_by_primary, *kept_by_secondary;
    double *disks_without_secondary, *disks_without_primary, *as_primary, *estimate[4], *clash, *location, *place;
    double *rows, *room;             // all arrays above, `row_length` apart; what is left of them
    int64_t row_length, row_count;
    double lowest, lowest_own, hair; // of all candidates so far, and of those of the instance under examination
    candidate *found;
    int64_t found_count, found_room;
} search;

// One instance under examination: its nodes without it, and its size in each series.
typedef struct {
    const instance *i;
    int64_t number, p, s;
    int32_t tp, ts;  // targets' numbers of its nodes, NOWHERE if offline
    values bare_p, bare_s;
    double metric_p[METRICS], metric_s[METRICS];  // of the nodes without it
    double size[SERIES], spindles, spindles_f;
} subject;

static inline double deviation_below(const search *f, double total, double squares) {
    double mean = total * f->share, square = squares * f->share;
    double variance = square - mean * mean - SLACK * square;
    return variance > 0 ? sqrt(variance) : 0;
}

static inline double least(double a, double b) { return a < b ? a : b; }

// search.c: arrays for a search that reads nothing yet; false without memory, and to be freed in any case.
bool search_new(search *f, kernel *k, const int64_t *members, int64_t count, int64_t flags);
void search_read(search *f);  // the cluster as it is now
void search_free(search *f);
void describe_subject(const search *f, int64_t number, subject *j);
// Have estimates made for these targets only, or for all again.
void narrow(search *f, const int32_t *targets, int64_t count);
void widen(search *f);

// estimate.c: each writes an estimate below the true score for every target, INFINITY where a check forbids it.
bool has_tags(const search *f, const subject *j);
void read_tags(search *f, const subject *j);
void add_disks(const search *f, const subject *j, int32_t leaves, const double *metric, double *out);
void add_primaries(const search *f, const subject *j, double *out);
double estimate_failover(const search *f, const subject *j, bool forced);
void estimate_replace_secondary(search *f, const subject *j, bool forced_s, double *out);
void estimate_replace(search *f, const subject *j, bool x_is_p, bool forced_primary, bool forced_x, double *out);
void estimate_failover_and_replace(search *f, const subject *j, bool forced_p, double *out);
void estimate_failover_to_any(search *f, const subject *j, bool forced, double *out);

// candidates.c
uint8_t *flags_of(const kernel *k, const int64_t *members, int64_t count);  // which nodes are members; NULL without memory
bool can_estimate(const search *f);
bool is_wanted(const search *f, int64_t number, const uint8_t *movable, const uint8_t *member);
// Offer the candidates of an instance; `lowest_own` is their lowest estimate afterwards.
void examine(search *f, subject *j);
// The lowest estimate of the candidates with a target among those in question.
double lowest_with_target(search *f, const subject *j);
void try_found(search *f, step *best);
bool is_settled(search *f, const step *best);
void forget_found(search *f);

// thorough.c
void try_exactly(const search *f, int64_t number, int kind, int64_t target, step *best);
void choose_thoroughly(search *f, const uint8_t *movable, const uint8_t *member, step *best);

#endif
