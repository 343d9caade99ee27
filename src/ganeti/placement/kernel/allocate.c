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

static int64_t allocate(kernel *k, const question *q, placement *out) {
    ranking r;
    redundancy *n1 = NULL;
    *out = (placement){.primary = NOWHERE, .secondary = NOWHERE};
    if (!ranking_start(&r, k, q->members, q->member_count)) return -1;
    ranking_read(&r);
    int64_t result = -1;
    candidate *c = aligned_alloc(_Alignof(candidate), (size_t)(q->candidate_count + 1) * sizeof *c);
    if (q->redundancy) redundancy_go_on(n1 = q->redundancy, q);
    else if (q->checked_count) n1 = redundancy_start(k, q->checked, q->checked_count, q->members, q->member_count, q->lost);
    if (c && (n1 || !q->checked_count)) {
        result = 0;
        if (q->required == 1) choose_single(q, k, &r, n1, c, out);
        else if (q->primary != NOWHERE) result = choose_secondary(q, &r, n1, out);
        else result = choose_pair(q, &r, n1, out);
    }
    if (!q->redundancy) redundancy_free(n1);
    free(c);
    ranking_free(&r);
    return result;
}

EXPORTED int64_t kernel_allocate(kernel *k, const question *q, placement *out) {
    int64_t mark = kernel_mark(k), primary = k->instance[q->instance].primary, result;
    if (primary != NOWHERE) kernel_move(k, q->instance, NOWHERE, NOWHERE);
    result = allocate(k, q, out);
    kernel_rollback(k, mark);
    return result;
}

enum { MANY = 64 };

// Places instances like the one asked about, which has no nodes, one after the other until none fits or there are
// `limit`; `primaries` gets their nodes, `out` what was against a further one (or none). Gives how many, and takes all
// back. For one node each.
EXPORTED int64_t kernel_fill(kernel *k, const question *q, int64_t limit, int32_t *primaries, placement *out) {
    ranking r;
    redundancy *n1 = NULL;
    int64_t placed = 0, left = 0, mark = kernel_mark(k);
    candidate *c = aligned_alloc(_Alignof(candidate), (size_t)(q->candidate_count + 1) * sizeof *c);
    bool ready = c && ranking_start(&r, k, q->members, q->member_count);
    *out = (placement){.primary = NOWHERE, .secondary = NOWHERE};
    for (bool going = ready; going && placed < limit; left--) {
        if (q->checked_count && left <= 0) {
            redundancy_free(n1);
            left = MANY;
            n1 = redundancy_for_many(k, q->checked, q->checked_count, q->members, q->member_count, q->lost,
                                     q->instance, &left);
            if (!n1) break;
        }
        *out = (placement){.primary = NOWHERE, .secondary = NOWHERE};
        ranking_read(&r);
        choose_single(q, k, &r, n1, c, out);
        going = out->primary != NOWHERE && copy_to(k, q->instance, out->primary);
        if (going) primaries[placed++] = (int32_t)out->primary;
    }
    bool failed = !ready || (q->checked_count && limit && !n1);
    redundancy_free(n1);
    if (ready) ranking_free(&r);
    free(c);
    kernel_rollback(k, mark);
    return failed ? -1 : placed;
}
