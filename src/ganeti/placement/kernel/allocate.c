// SPDX-License-Identifier: BSD-2-Clause
// One node for a new instance: every candidate is checked, the lowest score wins (spec: htools, 8).
#include "allocation.h"

int policy_about(const question *q, const kernel *k, int64_t n) {
    return q->policy ? q->policy[2 * k->node[n].group + k->node[n].exclusive] : FITS;
}

candidate *best_for_new(const ranking *r, candidate *c, int64_t count) {
    candidate *best = best_candidate(r, c, count, NOWHERE);
    if (!best || best->score == best->score) return best;
    for (best = c; best->gone; best++) continue;
    return best;
}

static void choose_single(const question *q, kernel *k, const ranking *r, redundancy *n1, candidate *c, placement *out) {
    const instance *i = &k->instance[q->instance];
    int64_t found = 0;
    for (int64_t t = 0; t < q->candidate_count; t++) {
        int64_t n = q->candidates[t];
        int failure = policy_about(q, k, n);
        if (!failure) failure = try_primary(r, i, n, q->ignore_soft_errors, &c[found]);
        if (q->exhaustive && !failure) c[found].low = -INFINITY;
        if (failure) out->failures[failure]++;
        else found++;
    }
    out->successes = found;
    for (candidate *best; (best = best_for_new(r, c, found));) {
        if (!n1 || redundant_with(n1, q->instance, best->node, NOWHERE)) {
            out->primary = best->node;
            out->score = best->score;
            return;
        }
        best->gone = true;
        out->failures[FAIL_N1]++;
        out->successes--;
    }
}

// Gives 0, or -1 without memory.
static int64_t choose(const question *q, kernel *k, ranking *r, redundancy *n1, candidate *c, placement *out) {
    *out = (placement){.primary = NOWHERE, .secondary = NOWHERE, .hopeless = n1 && is_hopeless(n1)};
    ranking_read(r);
    if (q->required == 1) choose_single(q, k, r, n1, c, out);
    else return q->primary != NOWHERE ? choose_secondary(q, r, n1, out) : choose_pair(q, r, n1, out);
    return 0;
}

static int64_t allocate(kernel *k, const question *q, placement *out) {
    ranking r;
    redundancy *n1 = NULL;
    int64_t result = -1;
    candidate *c = aligned_alloc(_Alignof(candidate), (size_t)(q->candidate_count + 1) * sizeof *c);
    if (c && ranking_start(&r, k, q->members, q->member_count)) {
        if (q->redundancy) redundancy_go_on(n1 = q->redundancy, q);
        else if (q->checked_count)
            n1 = redundancy_start(k, q->checked, q->checked_count, q->members, q->member_count, q->lost);
        if (n1 || !q->checked_count) result = choose(q, k, &r, n1, c, out);
        if (!q->redundancy) redundancy_free(n1);
        ranking_free(&r);
    }
    free(c);
    return result;
}

EXPORTED int64_t kernel_allocate(kernel *k, const question *q, placement *out) {
    int64_t mark = kernel_mark(k), primary = k->instance[q->instance].primary, result;
    if (primary != NOWHERE) move_to(k, q->instance, NOWHERE, NOWHERE);
    result = allocate(k, q, out);
    kernel_rollback(k, mark);
    return answer(k, result);
}

enum { MANY = 64 };

// Places instances like the one asked about, which has no nodes, one after the other until none fits or there are
// `limit`; `places` gets as many nodes of each as are required, `out` what was found for the last one that was looked
// at. Gives how many, or -1 without memory, and takes all back.
EXPORTED int64_t kernel_fill(kernel *k, const question *q, int64_t limit, int32_t *places, placement *out) {
    ranking r;
    redundancy *n1 = NULL;
    int64_t placed = 0, left = 0, wished = 1, mark = kernel_mark(k);
    candidate *c = aligned_alloc(_Alignof(candidate), (size_t)(q->candidate_count + 1) * sizeof *c);
    bool ready = c && ranking_start(&r, k, q->members, q->member_count), failed = !ready;
    *out = (placement){.primary = NOWHERE, .secondary = NOWHERE};
    for (bool going = ready; going && !failed && placed < limit; left--) {
        if (q->checked_count && left <= 0) {
            redundancy_free(n1);
            left = wished;
            n1 = redundancy_for_many(k, q->checked, q->checked_count, q->members, q->member_count, q->lost,
                                     q->instance, &left);
            wished = wished * 4 < MANY ? wished * 4 : MANY;
        }
        failed = (q->checked_count && !n1) || choose(q, k, &r, n1, c, out) < 0;
        going = !failed && out->primary != NOWHERE;
        if (!going) break;
        failed = !copy_to(k, q->instance, out->primary, out->secondary);
        places[placed * q->required] = (int32_t)out->primary;
        if (q->required > 1) places[placed * q->required + 1] = (int32_t)out->secondary;
        placed++;
    }
    redundancy_free(n1);
    if (ready) ranking_free(&r);
    free(c);
    kernel_rollback(k, mark);
    return answer(k, failed ? -1 : placed);
}
