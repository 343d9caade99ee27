// SPDX-License-Identifier: BSD-2-Clause
// The best single move of a group (definition/moves.py: best_step), out of up to four kinds for every instance and target.
//
// A score is a sum of standard deviations, and a move changes two or three nodes: with the sums of the distances from
// the mean and of their squares at hand, each deviation after a move takes a few operations. That estimate is kept below
// the true score, is made for all targets of an instance at once, and leaves only those candidates whose estimate comes
// within a hair of the best; these are scored as the definition does, in its order, and so ties fall as they must.
#include "search.h"

static void choose(search *f, const uint8_t *movable, const uint8_t *member, step *best) {
    do {
        subject j;
        forget_found(f);
        for (int64_t n = 0; n < f->k->instances; n++)
            if (is_wanted(f, n, movable, member)) {
                describe_subject(f, n, &j);
                examine(f, &j);
            }
        try_found(f, best);
    } while (!is_settled(f, best));
}

// The best step of the group `members`, if any lowers the score: 1 and `out`; 0 if none does; -1 without memory.
EXPORTED int64_t kernel_best_step(kernel *k, const int64_t *members, int64_t count, const uint8_t *movable,
                                  int64_t flags, step *out) {
    search f;
    uint8_t *member = flags_of(k, members, count);
    int64_t result = search_new(&f, k, members, count, flags) && member ? 0 : -1;
    if (!result && f.targets) {
        search_read(&f);
        (flags & EXHAUSTIVE || !can_estimate(&f) ? choose_thoroughly : choose)(&f, movable, member, out);
        result = out->instance != NOWHERE;
    }
    search_free(&f);
    free(member);
    return answer(k, result);
}
