// SPDX-License-Identifier: BSD-2-Clause
// What the parts of allocation share: scores of states that differ from the present one in the values of one node.
#ifndef GANETI_PLACEMENT_ALLOCATION_H
#define GANETI_PLACEMENT_ALLOCATION_H

#include "kernel.h"

// The metrics that the score adds up, side by side for each node: first those whose deviation counts, then plain sums.
enum { DEVIATIONS = 13, LANE_N1 = 13, LANE_CONFLICTS, LANE_LOCATION, LANES };
extern const int lane_metric[LANES];
extern const double lane_weight[LANES];
enum { LANE_DISK = 1, LANE_RESERVED = 2, LANE_LOAD_DISK = 6, LANE_SPINDLES = 8 };

// Nodes to score over, with the sums over them. Sums with the prefix "about_" are of values less `centre`, which keeps
// their digits when one value is exchanged for another.
typedef struct {
    kernel *k;
    const int64_t *members;
    int64_t count, online;
    double *rows;         // [online members][LANES]
    int32_t *place;       // [nodes] number of a node's row, OFFLINE_MEMBER, or NOWHERE
    double offline_instances, offline_primaries;
    int64_t exclusion;    // location exclusion score of the present state
    double centre[DEVIATIONS], about_total[DEVIATIONS], about_squares[DEVIATIONS], largest[DEVIATIONS];
    double doubted[DEVIATIONS];                 // the most that roundings of `about_squares` are a part of
    double low[DEVIATIONS], high[DEVIATIONS];   // bounds of the deviations
    double sum[LANES], squares[DEVIATIONS];     // in the order of the nodes
} ranking;
#define OFFLINE_MEMBER (-2)

void add_up(const double *rows, int64_t count, int64_t at, const double *row, double *sum, double *squared);

// Gives false without memory. Whoever changes the state reads the ranking again.
bool ranking_start(ranking *r, kernel *k, const int64_t *members, int64_t count);
void ranking_read(ranking *r);
// Takes in that the values of a node are others now, in place of reading all; `squares` are not kept.
void ranking_follow(ranking *r, int64_t n);
void ranking_free(ranking *r);
// Row of a node that has these metrics.
void row_of(const double *metrics, double *row);
// The addends of the score together, in the order of the definition.
double weighted(const double *deviation, const double *sum, double reserved, double offline_instances,
                double offline_primaries, double exclusion);

// A candidate: a node with the metrics it would have, and what the score would be: at first between two bounds.
typedef struct {
    int64_t node;
    double low, high, score;
    bool exact, gone;
    int64_t exclusion;    // location exclusion score then
    int64_t shared;       // what the location score of `partner` grows by
    double more_instances, more_primaries;  // what an offline node gains
    _Alignas(32) double row[LANES];
} candidate;

// Bounds of a candidate's score. `partner` is the node, if any, whose location score changes too.
void estimate(const ranking *r, candidate *c, int64_t partner);
double exact_score(const ranking *r, const candidate *c, int64_t partner);
// The candidate of the lowest score that is not gone, of equals the last; its score is exact then. NULL: none is left.
candidate *best_candidate(const ranking *r, candidate *c, int64_t count, int64_t partner);
// Whether a candidate is taken instead of an earlier one: also where scores are no numbers.
static inline bool not_worse(double score, double earlier) { return !(earlier < score); }
// The same for a new instance; where scores are no numbers it is the first that is not gone.
candidate *best_for_new(const ranking *r, candidate *c, int64_t count);

// targets.c
// Reserved memory of a secondary with an instance that is to have its primary there.
int64_t reserved_with(const kernel *k, const instance *i, int64_t secondary, int64_t primary);
int refuse_failover(const kernel *k, int64_t i, bool forced);
// Tries an instance, which has no nodes now, as a primary of `n`; fills the candidate where it fits.
int try_primary(const ranking *r, const instance *i, int64_t n, bool forced, candidate *c);

// Candidates for a new secondary among the targets, whose failures are noted; the instance is left with its primary
// alone, and the ranking is read. Gives how many.
int64_t secondary_hop(ranking *r, int64_t i, const int64_t *targets, int64_t count, bool forced, uint8_t *failures,
                      candidate *c);

// redundancy.c: whether the failure of each of some nodes could be absorbed.
redundancy *redundancy_start(kernel *k, const int64_t *checked, int64_t count, const int64_t *members,
                             int64_t member_count, const policies *lost);
// Use it for another question about the same nodes and the same state.
void redundancy_go_on(redundancy *r, const question *q);
// The same for several instances like number i, to be placed one after the other: as long as no more than `more` are
// placed, it need not be started again. `more` is what is wished for, and then what is possible.
redundancy *redundancy_for_many(kernel *k, const int64_t *checked, int64_t count, const int64_t *members,
                                int64_t member_count, const policies *lost, int64_t i, int64_t *more);
// Puts an instance like number i on nodes; gives false without memory.
bool copy_to(kernel *k, int64_t i, int64_t primary, int64_t secondary);
void redundancy_free(redundancy *r);
// Whether not all failures could be absorbed, however instances are placed.
bool is_hopeless(const redundancy *r);
// Whether it could with the instance, which has no nodes now, on these; `secondary` may be NOWHERE.
bool redundant_with(redundancy *r, int64_t i, int64_t primary, int64_t secondary);
// Whether no place for the instance on this primary can be redundant, whatever the secondary; quick.
bool hopeless_with(const redundancy *r, int64_t i, int64_t primary);

// Prepares the next call for an instance and these secondaries; gives false without memory.
bool redundancy_measure(redundancy *r, int64_t i, const int64_t *secondaries, int64_t count);
// Whether the instance, with this primary, which is not hopeless, is redundant with each of the secondaries; quick, and
// false where it is not sure.
bool redundant_with_any(const redundancy *r, int64_t i, int64_t primary);

// allocate.c, pairs.c
int policy_about(const question *q, const kernel *k, int64_t n);
int64_t choose_pair(const question *q, const ranking *r, redundancy *n1, placement *out);
int64_t choose_secondary(const question *q, const ranking *r, redundancy *n1, placement *out);

#endif
