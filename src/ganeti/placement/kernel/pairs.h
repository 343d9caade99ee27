// SPDX-License-Identifier: BSD-2-Clause
// Ordered pairs of nodes for one instance: what `pairs.c` knows of them, for those who choose among them.
#ifndef GANETI_PLACEMENT_PAIRS_H
#define GANETI_PLACEMENT_PAIRS_H

#include "allocation.h"

// Sum and mean squared deviation of one value.
typedef struct { double total, variance; } statistics;

// A node as secondary of a primary it shares nothing with, or (special) of one whose memory it keeps already.
typedef struct {
    const double *old;
    double new[LANES];
    double estimate;      // by which those of a shelf are sorted; of the score with an unknown constant
    int64_t node, reserved;
    int32_t bucket;       // which nodes may be its primaries, and at what cost: group and location tags
    int32_t steps;        // number of the combination of its steps in all lanes
    int32_t class_end;    // the first one after it that differs
    double more_instances, more_primaries;
    int failure;
} mate;

typedef struct { int64_t group, any_node, fitting, size, failures[FAIL_MODES]; } bucket;

// Fitting secondaries of one bucket with the same steps.
typedef struct { int64_t group, any_node, first, end; int32_t steps; } shelf;

// The values that secondaries have in a lane: each of them where they are few, else some that others are near to
// (bands). Of a band `high` is the end, by what changes the squares, and `typical` its part of the score with the typical
// primary. A count of 0 stands for values that are no numbers.
enum { MOST_STEPS = 8, MOST_COMBINATIONS = 32 };
typedef struct {
    double old[MOST_STEPS], new[MOST_STEPS], high[MOST_STEPS], typical[MOST_STEPS];
    int32_t count;
    bool banded;
} steps;

// How a banded lane differs between secondaries, in the parts of the change of its squares, a - b * total: the least and
// the largest of all, and the widest ranges of a band.
typedef struct { double low_a, largest_b, range_a, range_b, largest, change; bool varies; } spread;

typedef struct {
    const question *q;
    const ranking *r;
    kernel *k;
    redundancy *n1;
    placement *out;
    double count;
    statistics base[DEVIATIONS];
    statistics typical[DEVIATIONS];  // with some primary that most are like; the total less the centre
    double *old_rows;
    mate *mates;          // by bucket, steps, estimate and class
    int64_t mate_count;
    int32_t *mate_of;     // [nodes]
    int64_t *stamp;       // [nodes] the turn in which the node is special
    bucket *buckets;
    int32_t bucket_count;
    shelf *shelves;
    int64_t shelf_count;
    steps lanes[DEVIATIONS];
    int32_t combination_count;
    uint8_t combinations[MOST_COMBINATIONS][DEVIATIONS];
    spread spreads[DEVIATIONS];
    bool finite;          // every value is a number
    bool forced;          // soft limits do not keep a secondary off a node
} pairing;

// A primary, and the statistics with it.
typedef struct {
    int64_t node, excluded;  // the node that is no secondary: itself
    statistics now[DEVIATIONS];
    double deviation[DEVIATIONS], sum[LANES], exclusion, offline_instances, offline_primaries;
    double row[LANES];    // of the node with the instance
    double offset[MOST_COMBINATIONS];  // what the steps add to the score
    double shift;         // no difference between two secondaries is off by more
    int64_t turn;         // of the search for its specials
} chosen;

// A secondary that was scored for the present primary. `at` is its place among the mates, or NOWHERE if special.
typedef struct { double score, estimate; int64_t node, at; } scored;

// A secondary that keeps more for the present primary: the two values that differ, and the least its estimate can be.
typedef struct { int64_t node; double reserved, n1, least; bool done; } special;

// What the score of a pair owes to its primary, and the lowest score of all secondaries, as if they shared nothing with it.
enum { MOST_EQUALS = 32 };
typedef struct {
    statistics now[DEVIATIONS];
    double sum[LANES], exclusion, least;
    int32_t bucket;
} equal;

// The secondaries scored for one primary, and how far the sorted ones and the special ones were looked at.
typedef struct {
    scored *found;
    int64_t count, *cursor;  // [shelves]
    special *specials;
    int64_t special_count, turn;
    equal *equals;        // the last primaries that were found to be beaten
    int64_t equal_count;
    double limit, spare;     // estimates beyond the limit cannot win; so much is added to it for who asks for more
} looked;

// Reads the candidates of the question as secondaries; gives false without memory.
bool pairing_start(pairing *p, looked *l, const question *q, const ranking *r, redundancy *n1, placement *out,
                   bool forced);
void pairing_free(pairing *p, looked *l);
// Values of a node as secondary that keeps `reserved` in all; `m`, if any, gets what an offline one gains.
void read_secondary(const pairing *p, int64_t n, int64_t reserved, double *row, mate *m);
int refuse_as_secondary(const pairing *p, int64_t n, int64_t reserved);
// Reads a node as a secondary of a primary that it shares nothing with.
void read_mate(pairing *p, int64_t n, mate *m, double *old_row);
// Puts them in order; before primaries are looked at.
void sort_mates(pairing *p);
// Fills what is known of the primary `c->node`; before its specials are found.
void put_primary(const pairing *p, chosen *c);
// Forgets what was looked at for another primary.
void start_looking(const pairing *p, looked *l);
// What the location score grows by.
int64_t shared_by(const pairing *p, int64_t primary, int64_t secondary);
// Finds the secondaries that share instances with the primary, and corrects the counts by what they would keep then.
void find_specials(const pairing *p, chosen *c, looked *l, int64_t *fitting, int64_t *failures);
// Whether no pair with this primary, which was put, has a lower score than this; of those that are special too.
double least_score(const pairing *p, const chosen *c);
// Scores all secondaries that can be the best for the primary, of each class of equals the last one.
void look_further(const pairing *p, const chosen *c, looked *l);
const scored *best_scored(const looked *l);
// The next of a class, from mate number `at` on, that is neither the primary nor special; or NOWHERE.
int64_t next_of_class(const pairing *p, const chosen *c, int64_t at, int64_t end);

#endif
