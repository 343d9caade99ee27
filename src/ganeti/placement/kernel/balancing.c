// SPDX-License-Identifier: BSD-2-Clause
// One best step after the other, as kernel_best_step finds each, with what is kept from one search for the next.
//
// After a step only a few nodes are others than before. Of every instance a number is known that no score it could lead
// to is below. What a move between unchanged nodes leads to has since changed by what the rest of the cluster changed,
// give or take a little, as every deviation is nearly what it is without the move (`least_change`). So those numbers
// are brought forward all alike, moves to the changed nodes are estimated anew, and of instances on changed nodes
// nothing is known. Then instances are looked at from the lowest number on, until the next one can lead to nothing as
// good as what was found. Nothing is lost by that, and ties fall as they do in a search that knows nothing.
#include "search.h"

// Of a series: the sum of the values, their variance and mean, and the largest distance from the mean.
typedef struct { double whole, variance, mean, farthest; } spread;

struct balancing {
    search f;
    int64_t *members, instances;
    uint8_t *movable, *wanted;        // by instance
    uint8_t *member, *changed;        // by node
    values *value;                    // of the nodes at the last search, and below the nodes of the instances
    int32_t *primary, *secondary;
    bool knows;                       // whether there was a search that is of use
    subject *subject;
    double *lowest;                   // no score of the instance's moves is below this and `drift`
    int32_t *queue;
    double drift, base_sums;          // what all scores have changed by, at least; of the last search
    spread before[SERIES];            // the same
    double most[SERIES], most_spindles;  // sizes of the largest instance
};

EXPORTED void kernel_balancing_free(balancing *b) {
    if (!b) return;
    void *all[] = {b->members, b->movable, b->wanted, b->member, b->changed, b->value, b->primary, b->secondary,
                   b->subject, b->lowest, b->queue};
    for (size_t p = 0; p < sizeof all / sizeof *all; p++) free(all[p]);
    search_free(&b->f);
    free(b);
}

EXPORTED balancing *kernel_balancing(kernel *k, const int64_t *members, int64_t count, const uint8_t *movable,
                                     int64_t flags) {
    balancing *b = calloc(1, sizeof *b);
    if (!b) return NULL;
    size_t instances = (size_t)k->instances + 1, nodes = (size_t)k->nodes + 1;
    b->instances = k->instances;
    b->members = malloc((size_t)(count + 1) * sizeof *b->members);
    b->movable = malloc(instances);
    b->wanted = malloc(instances);
    b->member = flags_of(k, members, count);
    b->changed = malloc(nodes);
    b->value = calloc(nodes, sizeof *b->value);
    b->primary = calloc(instances, sizeof *b->primary);
    b->secondary = calloc(instances, sizeof *b->secondary);
    b->subject = malloc(instances * sizeof *b->subject);
    b->lowest = malloc(instances * sizeof *b->lowest);
    b->queue = malloc(instances * sizeof *b->queue);
    if (b->members && b->movable && b->wanted && b->member && b->changed && b->value && b->primary && b->secondary &&
        b->subject && b->lowest && b->queue) {
        memcpy(b->members, members, (size_t)count * sizeof *members);
        memcpy(b->movable, movable, (size_t)k->instances);
        if (search_new(&b->f, k, b->members, count, flags)) return b;
    }
    kernel_balancing_free(b);
    return NULL;
}

// Nothing is known of an instance.
static void describe_anew(balancing *b, int64_t n) {
    const instance *i = &b->f.k->instance[n];
    b->lowest[n] = -INFINITY;
    b->wanted[n] = is_wanted(&b->f, n, b->movable, b->member);
    if (!b->wanted[n]) return;
    subject *j = &b->subject[n];
    describe_subject(&b->f, n, j);
    for (int s = 0; s < SERIES; s++) b->most[s] = fmax(b->most[s], fabs(j->size[s]));
    b->most[RESERVED] = fmax(b->most[RESERVED], fabs((double)i->reserved));
    b->most_spindles = fmax(b->most_spindles, fabs(j->spindles_f));
}

static void read_spread(const search *f, int s, spread *out) {
    const series *own = &f->of[s];
    double mean = own->total * f->share;
    *out = (spread){.whole = own->mean / f->share + own->total, .variance = own->squares * f->share - mean * mean,
                    .mean = own->mean};
    for (int64_t t = 0; t < f->targets; t++) out->farthest = fmax(out->farthest, fabs(own->away[t]));
}

// By how much a deviation has changed at least, with any move between nodes that have not: such a move adds the same as
// before to the sum of the values and to that of their squares. So its variance has changed by what the variance
// without it did, but for a product of two sums; and the root of a variance changes the less, the larger it is.
static double least_change(const balancing *b, int s, const spread *now) {
    const search *f = &b->f;
    const series *own = &f->of[s];
    const spread *before = &b->before[s];
    double unit = 0, spindle = 0, nodes = s == RESERVED ? 3 : 2;
    for (int64_t t = 0; t < f->targets; t++) {
        unit = fmax(unit, fabs(own->per_unit[t]));
        if (own->per_spindle) spindle = fmax(spindle, fabs(own->per_spindle[t]));
    }
    double most = nodes * (b->most[s] * unit + b->most_spindles * spindle);  // that a move adds to the values
    double reach = most * (2 * before->farthest + most) * f->share;
    double variance = fmax(0, before->variance), mean = fabs(before->mean);
    double doubt = 1e-12 * variance + 1e-13 * sqrt(variance) * mean + 1e-27 * mean * mean;  // roundings
    double product = 2 * most * fabs(now->whole - before->whole) * f->share * f->share;
    double change = now->variance - variance - product - doubt;
    double high = variance + reach + doubt, low = fmax(variance - reach - doubt, -change);
    double from = change < 0 ? low : high;
    return sqrt(fmax(0, from + change)) - sqrt(from);
}

// Find the nodes that are others than at the last search, and remember how all are now.
static void mark_changed(balancing *b) {
    const kernel *k = b->f.k;
    for (int64_t n = 0; n < k->nodes; n++) b->changed[n] = memcmp(&k->value[n], &b->value[n], sizeof *b->value) != 0;
    memcpy(b->value, k->value, (size_t)k->nodes * sizeof *b->value);
    for (int64_t n = 0; n < b->instances; n++) {
        const instance *i = &k->instance[n];
        if (i->primary == b->primary[n] && i->secondary == b->secondary[n]) continue;
        const int32_t nodes[] = {i->primary, i->secondary, b->primary[n], b->secondary[n]};
        for (int p = 0; p < 4; p++)
            if (nodes[p] != NOWHERE) b->changed[nodes[p]] = 1;
        b->primary[n] = i->primary;
        b->secondary[n] = i->secondary;
    }
}

static bool is_on_changed(const balancing *b, int64_t n) {
    int32_t p = b->primary[n], s = b->secondary[n];
    return (p != NOWHERE && b->changed[p]) || (s != NOWHERE && b->changed[s]);
}

static double least_change_of_all(const balancing *b) {
    const search *f = &b->f;
    double change = f->base_sums - b->base_sums;
    for (int s = 0; s < SERIES; s++) {
        spread now;
        read_spread(f, s, &now);
        change += weight_of_series[s] * least_change(b, s, &now);
    }
    return change - 1e-12 * (1 + fabs(f->score));  // for the rounding of sums
}

// Have what is known of the last search hold for the cluster as it is now; false if too much of it has changed.
static bool bring_forward(balancing *b) {
    search *f = &b->f;
    int32_t targets[COPIES];
    int64_t count = 0;
    b->drift += least_change_of_all(b);
    for (int64_t t = 0; t < f->targets; t++) {
        if (!b->changed[f->node_of[t]]) continue;
        if (count == COPIES) return false;
        targets[count++] = (int32_t)t;
    }
    if (!isfinite(b->drift)) return false;
    narrow(f, targets, count);
    for (int64_t n = 0; n < b->instances; n++) {
        if (is_on_changed(b, n)) {
            describe_anew(b, n);
        } else if (b->wanted[n]) {
            b->subject[n].i = &f->k->instance[n];  // they may stand elsewhere now
            if (count) b->lowest[n] = least(b->lowest[n], lowest_with_target(f, &b->subject[n]) - b->drift);
        }
    }
    widen(f);
    return true;
}

static void start_anew(balancing *b) {
    b->drift = b->most_spindles = 0;
    memset(b->most, 0, sizeof b->most);
    for (int64_t n = 0; n < b->instances; n++) describe_anew(b, n);
}

// The queue is a heap with the lowest first.
static void sink(const balancing *b, int64_t count, int64_t at) {
    int32_t *queue = b->queue, own = queue[at];
    for (int64_t below; (below = 2 * at + 1) < count; at = below) {
        if (below + 1 < count && b->lowest[queue[below + 1]] < b->lowest[queue[below]]) below++;
        if (b->lowest[own] <= b->lowest[queue[below]]) break;
        queue[at] = queue[below];
    }
    queue[at] = own;
}

static void choose_from_lowest(balancing *b, step *best) {
    search *f = &b->f;
    do {
        int64_t count = 0;
        forget_found(f);
        for (int64_t n = 0; n < b->instances; n++)
            if (b->wanted[n]) b->queue[count++] = (int32_t)n;
        for (int64_t at = count / 2; at-- > 0;) sink(b, count, at);
        while (count) {
            int32_t first = b->queue[0];
            if (b->lowest[first] + b->drift > least(f->lowest + f->hair, f->score)) break;
            b->queue[0] = b->queue[--count];
            if (count) sink(b, count, 0);
            examine(f, &b->subject[first]);
            b->lowest[first] = f->lowest_own - b->drift;
        }
        try_found(f, best);
    } while (!is_settled(f, best));
}

// As kernel_best_step. Where memory cannot be had, it may be asked again.
EXPORTED int64_t kernel_balancing_step(balancing *b, step *out) {
    search *f = &b->f;
    if (!f->targets) return 0;
    search_read(f);
    mark_changed(b);
    if (f->flags & EXHAUSTIVE || !can_estimate(f)) {
        b->knows = false;
        choose_thoroughly(f, b->movable, b->member, out);
        return answer(f->k, out->instance != NOWHERE);
    }
    bool apart = !(f->k->location_tags && f->k->exclusion_tags);  // else instances on other nodes count in an estimate
    if (!b->knows || !apart || !bring_forward(b)) start_anew(b);
    b->knows = true;
    b->base_sums = f->base_sums;
    for (int s = 0; s < SERIES; s++) read_spread(f, s, &b->before[s]);
    choose_from_lowest(b, out);
    return answer(f->k, out->instance != NOWHERE);
}
