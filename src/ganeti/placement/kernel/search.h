// SPDX-License-Identifier: BSD-2-Clause
// A search for the best single move: what is kept while all candidates of a group are looked at (balance.c).
#ifndef GANETI_PLACEMENT_SEARCH_H
#define GANETI_PLACEMENT_SEARCH_H

#include "kernel.h"

enum { DISK, DISK_F, LOADED_DISK, SPINDLE, SPINDLE_F, MEMORY, MEMORY_F, CPU, CPU_F, LOADED_CPU, LOADED_MEMORY,
       LOADED_NET, RESERVED, SERIES };
enum { FIRST_OF_PRIMARY = MEMORY };

extern const int metric_of_series[SERIES];

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
    double share, score, base_sums;  // 1 / targets; score now; what is no deviation in it
    int32_t *node_of, *target_of;    // [targets] and [nodes]
    series of[SERIES];
    limits unforced, forced, forthcoming, none;
    double *free, *reserved, *count_of, *per_memory, *failing;  // `failing`: 1 where the node fails N+1 already
    double *primary_barred, *partner_of_primary, *partner_of_secondary, *kept_by_primary, *kept_by_secondary;
    double *disks_without_secondary, *disks_without_primary, *as_primary, *estimate[4], *clash, *location, *place;
    double *room;
    double lowest, hair;
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

// search.c: gives the memory of the search's arrays, NULL if there is none; `f->node_of` is to be freed in any case.
double *search_new(search *f, kernel *k, const int64_t *members, int64_t count, int64_t flags);
void describe_subject(const search *f, int64_t number, subject *j);

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

// thorough.c
void try_exactly(const search *f, int64_t number, int kind, int64_t target, step *best);
void examine_thoroughly(const search *f, int64_t number, step *best);

#endif
