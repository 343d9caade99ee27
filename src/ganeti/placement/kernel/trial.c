// SPDX-License-Identifier: BSD-2-Clause
// The failure of a node tried: its instances are moved, one after the other, each to the place of the lowest score.
//
// Where there is little room, few nodes can take anything at all, and often only one can take an instance: then no score
// is asked for. Otherwise the ranking is read once and follows the moves.
#include "redundancy.h"

// One node that fails. `open` are the nodes of its group that could take the smallest of its instances without a mirror.
typedef struct {
    const redundancy *r;
    int64_t failed, open_count, *open, *mates, mate_count;
    int32_t *list;
    candidate *c;
    ranking by;
    bool is_started, is_read;
} trial;

// Nodes gain nothing by the moves as long as no size is negative.
static void find_open(trial *t, const int32_t *list, int64_t count) {
    const kernel *k = t->r->k;
    int64_t least = INT64_MAX;
    for (int64_t i = 0; i < count; i++) {
        int64_t memory = memory_of(&k->instance[list[i]]);
        if (memory < least) least = memory;
    }
    t->open_count = 0;
    for (int64_t m = 0; m < t->mate_count; m++) {
        int64_t n = t->mates[m];
        if (n != t->failed && (least < 0 || k->value[n].free_memory > least)) t->open[t->open_count++] = n;
    }
}

static bool may_take(const trial *t, int64_t number, int64_t n) {
    const redundancy *r = t->r;
    const instance *i = &r->k->instance[number];
    if (i->fate == LOST ? !admits(r, number, n) : !may_migrate(r->k, t->failed, n)) return false;
    return !refuse_primary(r->k, n, &r->k->value[n], i, true);
}

// Of those whose score decides; gives false without memory.
static bool rank(trial *t, bool lost) {
    const redundancy *r = t->r;
    if (t->is_read) return true;
    if (!t->is_started) {
        if (lost ? !ranking_start(&t->by, r->k, r->members, r->member_count)
                 : !ranking_start(&t->by, r->k, t->mates, t->mate_count))
            return false;
        t->is_started = true;
    }
    ranking_read(&t->by);
    t->is_read = true;
    return true;
}

static void forget_ranking(trial *t) {
    if (t->is_started) ranking_free(&t->by);
    t->is_started = t->is_read = false;
}

static void follow(trial *t, int64_t n) {
    if (t->is_read && n != NOWHERE) ranking_follow(&t->by, n);
}

// Puts one instance on the best of the nodes of the failing node's group.
static bool find_place(trial *t, int64_t number) {
    kernel *k = t->r->k;
    const instance *i = &k->instance[number];
    bool lost = i->fate == LOST;
    int64_t fitting = 0, found = 0, target = NOWHERE, secondary = i->secondary;
    if (!lost) {
        move_to(k, number, NOWHERE, NOWHERE);
        if (k->starved) return false;
        follow(t, t->failed);
        follow(t, secondary);
    }
    for (int64_t o = 0; o < t->open_count && fitting < 2; o++)
        if (may_take(t, number, t->open[o])) {
            target = t->open[o];
            fitting++;
        }
    if (fitting > 1) {
        if (!rank(t, lost)) {
            k->starved = true;
            return false;
        }
        for (int64_t o = 0; o < t->open_count; o++)
            if (may_take(t, number, t->open[o]))
                found += !try_primary(&t->by, &k->instance[number], t->open[o], true, &t->c[found]);
        target = (lost ? best_for_new(&t->by, t->c, found) : best_candidate(&t->by, t->c, found, NOWHERE))->node;
    }
    if (target == NOWHERE) return false;
    if (!lost) move_to(k, number, target, NOWHERE);
    else if (!copy_to(k, number, target, NOWHERE)) return false;
    follow(t, target);
    return true;
}

// Numbers of the node's primaries that share a fate, newest first, or largest memory first; gives how many.
static int64_t list_fate(const kernel *k, int64_t n, int fate, bool by_memory, int32_t *out) {
    int64_t count = 0;
    for (int32_t i = first_real(k, n); i != NOWHERE; i = next_real(k, i)) {
        if (k->instance[i].fate != fate) continue;
        int64_t at = count++;
        for (; by_memory && at > 0 && k->instance[out[at - 1]].memory < k->instance[i].memory; at--) out[at] = out[at - 1];
        out[at] = i;
    }
    return count;
}

static bool place_all(trial *t, const int32_t *list, int64_t count) {
    find_open(t, list, count);
    for (int64_t i = 0; i < count; i++)
        if (!find_place(t, list[i])) return false;
    forget_ranking(t);
    return true;
}

static bool move_all(trial *t) {
    kernel *k = t->r->k;
    int64_t n = t->failed, mirrored = list_fate(k, n, MIRRORED, false, t->list);
    int64_t elsewhere = list_fate(k, n, STARTS_ELSEWHERE, false, t->list + mirrored);
    int64_t lost = list_fate(k, n, LOST, true, t->list + mirrored + elsewhere);
    for (int64_t m = 0; m < mirrored; m++) {
        if (refuse_failover(k, t->list[m], true)) return false;
        move_to(k, t->list[m], k->instance[t->list[m]].secondary, n);
    }
    return place_all(t, t->list + mirrored, elsewhere) && place_all(t, t->list + mirrored + elsewhere, lost);
}

bool survives_by_moves(const redundancy *r, int64_t n) {
    kernel *k = r->k;
    size_t nodes = (size_t)k->nodes + 1, primaries = 1;
    for (int32_t i = first_real(k, n); i != NOWHERE; i = next_real(k, i)) primaries++;
    trial t = {.r = r, .failed = n, .open = malloc(nodes * sizeof *t.open), .mates = malloc(nodes * sizeof *t.mates),
               .list = malloc(primaries * sizeof *t.list), .c = aligned_alloc(_Alignof(candidate), nodes * sizeof *t.c)};
    bool fits = false;
    if (t.open && t.mates && t.list && t.c) {
        for (int64_t other = 0; other < k->nodes; other++)
            if (k->node[other].group == k->node[n].group) t.mates[t.mate_count++] = other;
        int64_t mark = kernel_mark(k);
        fits = move_all(&t);
        kernel_rollback(k, mark);
    } else {
        k->starved = true;
    }
    forget_ranking(&t);
    free(t.open);
    free(t.mates);
    free(t.list);
    free(t.c);
    return fits;
}
