// SPDX-License-Identifier: BSD-2-Clause
// What global N+1 knows of a state: for `redundancy.c`, which adds up, and `trial.c`, which moves.
#ifndef GANETI_PLACEMENT_REDUNDANCY_H
#define GANETI_PLACEMENT_REDUNDANCY_H

#include "allocation.h"

// What a node's failure asks for. `count` instances without mirror need a place, none needing more than `memory`,
// `disk` and `spindles` (`unnamed`: some do not say how many); `room` is the number of places of that size. What is
// `unsure`, or where `places_differ` for another reason than size, is settled by the moves.
// Where there is plenty of room it is `loose`: one more instance, wherever it is put, changes nothing.
typedef struct {
    int64_t node, count, memory, disk, spindles, room;
    bool local, unnamed, unsure, hopeless, mirrored, places_differ, loose;
} failing;

// A mirrored instance of the node that was examined last, and the memory that its failover asks for.
typedef struct { int64_t memory, secondary; } mover;

// A group of nodes by itself: how many instances as large as the largest of the group there is room for, on all of its
// nodes, and on the one that has most.
typedef struct { failing largest; int64_t total, most; } group_room;

struct redundancy {
    kernel *k;
    const int64_t *checked, *members;
    int64_t checked_count, member_count;
    const policies *lost;          // what policies say of LOST instances
    uint8_t *is_checked;           // [nodes]
    uint8_t *is_used;              // [nodes] takes part in a failover between a checked node and another
    int64_t *most_needed;          // [nodes] most memory that the failover of one checked node asks for; or NOWHERE
    int64_t *needed;               // [nodes] scratch, all zero between two questions
    int64_t *moved;                // [nodes] memory of all that fails over from a checked node; or NOWHERE
    mover *movers;
    int64_t mover_count;
    int64_t *room;                 // [nodes] room for the largest instances of its group
    group_room *groups;
    failing *places;               // checked nodes whose instances may or may not find another place
    int64_t place_count, last;     // `last` failed when asked last
    int64_t model;                 // instances behind it are copies of it
    int64_t *slack;                // [nodes] memory for failovers beside the instance asked about as a secondary; NULL: not measured
    int64_t least_slack;
    int64_t more;                  // so many further instances like the one it was started for change nothing if loose
    bool hopeless;                 // no further instance can help it
    bool has[2];                   // nodes without, and with, exclusive storage
};

static inline int64_t memory_of(const instance *i) { return i->uses_memory ? i->memory : 0; }

// Primaries of a node that are there: a forthcoming instance has nothing to lose when its node fails.
static inline int32_t real_from(const kernel *k, int32_t i) {
    while (i != NOWHERE && k->instance[i].forthcoming) i = k->instance[i].next_primary;
    return i;
}

static inline int32_t first_real(const kernel *k, int64_t n) { return real_from(k, k->first_primary[n]); }

static inline int32_t next_real(const kernel *k, int32_t i) { return real_from(k, k->instance[i].next_primary); }

bool policy_admits(const redundancy *r, int64_t number, int64_t group, bool exclusive);

static inline bool admits(const redundancy *r, int64_t number, int64_t n) {
    return policy_admits(r, number, r->k->node[n].group, r->k->node[n].exclusive);
}

// Whether the moves that the failure of a node asks for can be made, one after the other.
bool survives_by_moves(const redundancy *r, int64_t n);

#endif
