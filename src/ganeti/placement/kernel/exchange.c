// SPDX-License-Identifier: BSD-2-Clause
// Two other nodes for a mirrored instance: ``[f if its primary is offline,] r:t1, f, r:t2`` (spec: htools, 10).
//
// In the end it is a pair of nodes for an instance that is nowhere, and so the best pair is found as in `pairs.c`. Only
// if there is none are the moves made one by one, to say what failed last.
#include "pairs.h"

// What an exchange of both nodes needs from one turn to the next.
typedef struct {
    kernel *k;
    int64_t i, count;
    const int64_t *targets;
    bool forced;
    ranking r;
    candidate *c;
    uint8_t *first, *second;  // failures of the targets in the two hops
    exchange *out;
} exchanging;

static void fail(exchanging *e, int step, int mode) {
    e->out->failed_step = step;
    e->out->failure = mode;
}

// The instance is on its primary and the new node: turn it, and look for the final secondary.
static void turn(exchanging *e, int64_t one) {
    kernel *k = e->k;
    int64_t primary = k->instance[e->i].primary, last = FITS;
    int failure = refuse_failover(k, e->i, e->forced);
    if (failure) {
        fail(e, TURNING, failure);
        return;
    }
    move_to(k, e->i, one, primary);
    int64_t found = secondary_hop(&e->r, e->i, e->targets, e->count, e->forced, e->second, e->c);
    for (int64_t t = 0; t < e->count; t++)
        if (e->second[t] != NOT_TRIED) last = e->second[t];
    if (last) fail(e, FINAL_SECONDARY, (int)last);
    candidate *best = best_candidate(&e->r, e->c, found, one);
    if (best && (e->out->first == NOWHERE || not_worse(best->score, e->out->score))) {
        e->out->first = one;
        e->out->second = best->node;
        e->out->score = best->score;
    }
}

// Tries every pair. Says what failed last, and finds the best.
static void try_all(exchanging *e) {
    kernel *k = e->k;
    int64_t primary = k->instance[e->i].primary, mark;
    for (int64_t t = 0; t < e->count && e->count > 1; t++) {
        if (e->first[t] == NOT_TRIED) continue;
        if (e->first[t]) {
            fail(e, NEW_PRIMARY, e->first[t]);
            continue;
        }
        mark = kernel_mark(k);
        move_to(k, e->i, primary, e->targets[t]);
        turn(e, e->targets[t]);
        kernel_rollback(k, mark);
    }
}

// Whether the instance, as it is on its nodes now, can get `one` as its secondary, fail over to it, and stay there.
static bool can_be_primary(const exchanging *e, int64_t primary, int64_t one) {
    const kernel *k = e->k;
    const instance *i = &k->instance[e->i];
    bool dead = !k->node[primary].online, forced = e->forced || dead;
    return may_migrate(k, primary, one) && !refuse_primary(k, one, &k->value[one], i, forced) &&
           !refuse_secondary(k, primary, &k->value[primary], i, reserved_with(k, i, primary, one), forced, dead);
}

// How far a score that was corrected for the two nodes may be off.
static double tolerance_of(const ranking *r) {
    double tolerance = 1e-9;
    for (int l = 0; l < DEVIATIONS; l++) {
        double largest = 2 * r->largest[l] + 1;
        tolerance += lane_weight[l] * sqrt(1e-14 * (largest * largest + r->about_squares[l]) / (double)r->online);
    }
    return tolerance;
}

// Takes a pair if it is the best so far by the exact score.
static void take(exchanging *e, const pairing *p, const chosen *c, int64_t n, const double *row) {
    exchange *out = e->out;
    candidate exact = {.node = n, .exclusion = (int64_t)c->exclusion, .shared = shared_by(p, c->node, n)};
    memcpy(exact.row, row, sizeof exact.row);
    double score = exact_score(p->r, &exact, c->node);
    bool later = c->node > out->first || (c->node == out->first && n > out->second);
    if (out->first != NOWHERE && (later ? score > out->score : score >= out->score)) return;
    *out = (exchange){.first = c->node, .second = n, .score = score};
}

// The pairs of one primary that can be the best: those whose corrected score is not too far off.
static void take_best(exchanging *e, const pairing *p, const chosen *c, looked *l, double tolerance) {
    const scored *best = best_scored(l);
    if (!best || (e->out->first != NOWHERE && best->score > e->out->score + tolerance)) return;
    double *own = p->r->rows + p->r->place[c->node] * LANES, before[LANES], limit = best->score + 2 * tolerance;
    memcpy(before, own, sizeof before);
    memcpy(own, c->row, sizeof before);
    for (const scored *s = l->found; s < l->found + l->count; s++) {
        if (s->score > limit) continue;
        double row[LANES];
        const mate *m = &p->mates[p->mate_of[s->node]];
        read_secondary(p, s->node, m->reserved, row, NULL);
        for (int64_t o = 0; o < l->special_count && s->at == NOWHERE; o++)
            if (l->specials[o].node == s->node) {
                row[LANE_RESERVED] = l->specials[o].reserved;
                row[LANE_N1] = l->specials[o].n1;
            }
        take(e, p, c, s->node, row);
        for (int64_t at = s->at; at != NOWHERE && (at = next_of_class(p, c, at + 1, m->class_end)) != NOWHERE;) {
            read_secondary(p, p->mates[at].node, p->mates[at].reserved, row, NULL);
            take(e, p, c, p->mates[at].node, row);
        }
    }
    memcpy(own, before, sizeof before);
}

// Finds the best pair as `pairs.c` does for a new instance; `usable` are the primaries that the first hop allows. Gives
// -1 without memory, and 1 if some value is not a number: then every pair has to be tried.
static int64_t search(exchanging *e, const int64_t *mates, int64_t mate_count, int64_t primary) {
    kernel *k = e->k;
    question q = {.candidates = mates, .candidate_count = mate_count, .instance = e->i, .required = 2};
    pairing p;
    looked l;
    ranking_read(&e->r);
    if (!pairing_start(&p, &l, &q, &e->r, NULL, NULL, e->forced || !k->node[primary].online)) return -1;
    sort_mates(&p);
    double tolerance = tolerance_of(&e->r);
    l.spare = 2 * tolerance;
    for (int64_t t = 0; t < e->count && p.finite; t++) {
        int64_t n = e->targets[t], fitting = 0, failures[FAIL_MODES];
        if (e->first[t] || !can_be_primary(e, primary, n)) continue;
        chosen c = {.node = n};
        start_looking(&p, &l);
        put_primary(&p, &c);
        find_specials(&p, &c, &l, &fitting, failures);
        look_further(&p, &c, &l);
        take_best(e, &p, &c, &l, tolerance);
    }
    int64_t result = p.finite ? 0 : 1;
    pairing_free(&p, &l);
    return result;
}

static int64_t search_bare(exchanging *e) {
    kernel *k = e->k;
    int64_t primary = k->instance[e->i].primary, count = 0, mark = kernel_mark(k), result = 1;
    bool online = e->count > 1;
    int64_t *mates = malloc((size_t)(e->count + 1) * sizeof *mates);
    for (int64_t t = 0; t < e->count && mates; t++) {
        online &= k->node[e->targets[t]].online && e->r.place[e->targets[t]] >= 0;
        if (e->targets[t] != primary) mates[count++] = e->targets[t];
    }
    if (mates && online) {
        move_to(k, e->i, NOWHERE, NOWHERE);
        result = search(e, mates, count, primary);
    }
    kernel_rollback(k, mark);
    free(mates);
    return mates ? result : -1;
}

// Fills the failures of the first hop, which leaves the ranking read.
static void try_first(exchanging *e) {
    int64_t mark = kernel_mark(e->k);
    secondary_hop(&e->r, e->i, e->targets, e->count, e->forced, e->first, e->c);
    kernel_rollback(e->k, mark);
}

EXPORTED int64_t kernel_exchange(kernel *k, int64_t i, const int64_t *targets, int64_t count, const int64_t *members,
                                 int64_t member_count, int64_t flags, exchange *out) {
    bool forced = flags & IGNORE_SOFT_ERRORS;
    exchanging e = {.k = k, .i = i, .count = count, .targets = targets, .forced = forced, .out = out};
    *out = (exchange){.first = NOWHERE, .second = NOWHERE};
    e.c = aligned_alloc(_Alignof(candidate), (size_t)(count + 1) * sizeof *e.c);
    e.first = malloc((size_t)(2 * count + 1));
    e.second = e.first + count;
    int64_t found = 0;
    bool ready = e.c && e.first && ranking_start(&e.r, k, members, member_count);
    if (ready) {
        int64_t mark = kernel_mark(k);
        int failure = FITS;
        if (!k->node[k->instance[i].primary].online) {
            failure = refuse_failover(k, i, forced);
            if (!failure) move_to(k, i, k->instance[i].secondary, k->instance[i].primary);
            else if (count > 1) fail(&e, LEAVING_THE_DEAD, failure);
        }
        if (!failure) {
            try_first(&e);
            found = flags & EXHAUSTIVE ? 1 : search_bare(&e);
            if (found > 0 || (!found && out->first == NOWHERE)) try_all(&e);
        }
        kernel_rollback(k, mark);
        ranking_free(&e.r);
    }
    free(e.c);
    free(e.first);
    return answer(k, ready && found >= 0 ? 0 : -1);
}
