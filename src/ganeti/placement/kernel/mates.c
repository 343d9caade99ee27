// SPDX-License-Identifier: BSD-2-Clause
// The secondaries of a pair, read and put in the order in which a primary looks at them; `pairs.c` says what for.
#include "pairs.h"

// Values of a node as secondary that keeps `reserved` in all.
void read_secondary(const pairing *p, int64_t n, int64_t reserved, double *row, mate *m) {
    const instance *i = &p->k->instance[p->q->instance];
    double metrics[METRICS];
    values v = p->k->value[n];
    with_secondary(p->k, n, i, reserved, &v);
    metrics_of(p->k, n, &v, metrics);
    row_of(metrics, row);
    if (!m) return;
    m->more_instances = metrics[INSTANCES] - p->k->metric[n * METRICS + INSTANCES];
    m->more_primaries = metrics[PRIMARIES] - p->k->metric[n * METRICS + PRIMARIES];
}

int refuse_as_secondary(const pairing *p, int64_t n, int64_t reserved) {
    return refuse_secondary(p->k, n, &p->k->value[n], &p->k->instance[p->q->instance], reserved, p->forced, false);
}

void read_mate(pairing *p, int64_t n, mate *m, double *old_row) {
    const instance *i = &p->k->instance[p->q->instance];
    m->node = n;
    m->reserved = reserved_with(p->k, i, n, NOWHERE);
    m->failure = refuse_as_secondary(p, n, m->reserved);
    row_of(&p->k->metric[n * METRICS], old_row);
    m->old = old_row;
    read_secondary(p, n, m->reserved, m->new, m);
    for (int l = 0; l < LANES; l++) {
        double centre = l < DEVIATIONS ? p->r->centre[l] : 0, old = old_row[l] - centre, new = m->new[l] - centre;
        p->finite = p->finite && isfinite(old * old) && isfinite(new * new);  // it is the squares that are compared
    }
}

// The two parts by which a lane's squares change, in values less the centre: a - b * total.
static inline void parts(const pairing *p, int l, double old, double new, double *a, double *b) {
    double from = old - p->r->centre[l], to = new - p->r->centre[l], difference = to - from;
    *a = to * to - from * from - difference * difference / p->count;
    *b = 2 * difference / p->count;
}

static bool add_step(steps *s, double old, double new) {
    for (int32_t at = 0; at < s->count; at++)
        if (s->old[at] == old && s->new[at] == new) return true;
    if (s->count == MOST_STEPS) return false;
    s->old[s->count] = old;
    s->new[s->count++] = new;
    return true;
}

static double change_of(const pairing *p, int l, const mate *m) {
    double a, b;
    parts(p, l, m->old[l], m->new[l], &a, &b);
    return a;
}

static int32_t step_of(const pairing *p, int l, const mate *m) {
    const steps *s = &p->lanes[l];
    int32_t at = 0;
    if (s->count < 2) return 0;
    if (s->banded)
        for (double a = change_of(p, l, m); at < s->count - 1 && a > s->high[at];) at++;
    else
        while (s->old[at] != m->old[l] || s->new[at] != m->new[l]) at++;
    return at;
}

// Values are put in bins; bands are what lies between empty ones, of which so many are asked for that bands are few.
static void find_bands(pairing *p, int l) {
    enum { BINS = 64 };
    steps *s = &p->lanes[l];
    double low = INFINITY, high = -INFINITY, ends[BINS];
    const mate *some[BINS] = {NULL};
    for (const mate *m = p->mates; m < p->mates + p->mate_count; m++) {
        if (m->failure) continue;
        double a = change_of(p, l, m);
        low = a < low ? a : low;
        high = a > high ? a : high;
    }
    for (const mate *m = p->mates; m < p->mates + p->mate_count; m++) {
        if (m->failure) continue;
        double a = change_of(p, l, m);
        int bin = high > low ? (int)((a - low) / (high - low) * BINS) : 0;
        if (bin >= BINS) bin = BINS - 1;
        if (bin < 0) bin = 0;
        ends[bin] = some[bin] && ends[bin] > a ? ends[bin] : a;
        some[bin] = m;
    }
    s->banded = true;
    for (int apart = 2; apart <= 2 * BINS; apart *= 2) {
        s->count = 0;
        for (int bin = 0, last = -2 * BINS; bin < BINS; bin++) {
            if (!some[bin]) continue;
            if (bin - last >= apart && s->count++ == MOST_STEPS) break;
            s->high[s->count - 1] = ends[bin];
            s->old[s->count - 1] = some[bin]->old[l];
            s->new[s->count - 1] = some[bin]->new[l];
            last = bin;
        }
        if (s->count <= MOST_STEPS) return;
    }
}

static void find_steps(pairing *p, int l) {
    steps *s = &p->lanes[l];
    s->count = 0;
    for (const mate *m = p->mates; m < p->mates + p->mate_count; m++)
        if (!m->failure && !add_step(s, m->old[l], m->new[l])) {
            find_bands(p, l);
            return;
        }
}

// Numbers the combinations of steps that there are; false if there are too many.
static bool combine(pairing *p) {
    p->combination_count = 0;
    for (mate *own = p->mates; own < p->mates + p->mate_count; own++) {
        uint8_t combination[DEVIATIONS];
        int32_t at = 0;
        own->steps = 0;
        if (own->failure) continue;
        for (int l = 0; l < DEVIATIONS; l++) combination[l] = (uint8_t)step_of(p, l, own);
        while (at < p->combination_count && memcmp(p->combinations[at], combination, sizeof combination)) at++;
        if (at == MOST_COMBINATIONS) return false;
        if (at == p->combination_count) memcpy(p->combinations[p->combination_count++], combination, sizeof combination);
        own->steps = at;
    }
    return true;
}

// As far as not too many combinations come of it.
static void find_combinations(pairing *p) {
    for (int l = 0; l < DEVIATIONS && p->finite; l++) find_steps(p, l);
    while (!combine(p)) {
        int most = 0;
        for (int l = 1; l < DEVIATIONS; l++)
            if (p->lanes[l].count > p->lanes[most].count) most = l;
        p->lanes[most].count = 1;
        p->lanes[most].banded = true;
    }
}

static void measure_spread(pairing *p) {
    for (int l = 0; l < DEVIATIONS; l++) {
        spread *s = &p->spreads[l];
        double low_a[MOST_STEPS], high_a[MOST_STEPS], low_b[MOST_STEPS], high_b[MOST_STEPS];
        *s = (spread){.low_a = INFINITY};
        if (!p->lanes[l].banded) continue;
        for (int32_t at = 0; at < MOST_STEPS; at++) {
            low_a[at] = low_b[at] = INFINITY;
            high_a[at] = high_b[at] = -INFINITY;
        }
        for (const mate *own = p->mates; own < p->mates + p->mate_count; own++) {
            double a, b;
            if (own->failure) continue;
            int32_t at = step_of(p, l, own);
            parts(p, l, own->old[l], own->new[l], &a, &b);
            low_a[at] = a < low_a[at] ? a : low_a[at];
            high_a[at] = a > high_a[at] ? a : high_a[at];
            low_b[at] = b < low_b[at] ? b : low_b[at];
            high_b[at] = b > high_b[at] ? b : high_b[at];
            double size = fabs(own->new[l]) > fabs(own->old[l]) ? fabs(own->new[l]) : fabs(own->old[l]);
            double change = fabs(own->new[l] - own->old[l]);
            s->low_a = a < s->low_a ? a : s->low_a;
            s->largest_b = fabs(b) > s->largest_b ? fabs(b) : s->largest_b;
            s->largest = size > s->largest ? size : s->largest;
            s->change = change > s->change ? change : s->change;
        }
        for (int32_t at = 0; at < p->lanes[l].count; at++) {
            s->range_a = high_a[at] - low_a[at] > s->range_a ? high_a[at] - low_a[at] : s->range_a;
            s->range_b = high_b[at] - low_b[at] > s->range_b ? high_b[at] - low_b[at] : s->range_b;
        }
        s->varies = s->change > 0;
    }
}

// The mean of some primaries: the closer a primary is to it, the less it changes between two secondaries.
static void find_typical(pairing *p) {
    enum { MOST_ASKED = 32 };
    const int64_t *all = p->q->candidates, stride = p->q->candidate_count / MOST_ASKED + 1;
    double asked = 0;
    for (int l = 0; l < DEVIATIONS; l++) p->typical[l] = (statistics){0};
    for (int64_t c = stride / 2; c < p->q->candidate_count; c += stride, asked++) {
        chosen one = {.node = all[c]};
        put_primary(p, &one);
        for (int l = 0; l < DEVIATIONS; l++) {
            double before = p->k->metric[all[c] * METRICS + lane_metric[l]];
            p->typical[l].total += p->r->about_total[l] + (one.row[l] - before);
            p->typical[l].variance += one.now[l].variance;
        }
    }
    for (int l = 0; l < DEVIATIONS && asked > 0; l++) {
        p->typical[l].total /= asked;
        p->typical[l].variance /= asked;
    }
}

static double plain_of(const double *old, const double *new) {
    double plain = 0.25 * (new[LANE_RESERVED] - old[LANE_RESERVED]);
    for (int l = DEVIATIONS; l < LANES; l++) plain += lane_weight[l] * (new[l] - old[l]);
    return plain;
}

static double typical_part(const pairing *p, int l, double old, double new) {
    double a, b;
    parts(p, l, old, new, &a, &b);
    double after = p->typical[l].variance * p->count + a - b * p->typical[l].total;
    return lane_weight[l] * sqrt((after > 0 ? after : 0) / p->count);
}

static void measure_bands(pairing *p) {
    for (int l = 0; l < DEVIATIONS; l++)
        for (int32_t at = 0; at < p->lanes[l].count && p->spreads[l].varies; at++)
            p->lanes[l].typical[at] = typical_part(p, l, p->lanes[l].old[at], p->lanes[l].new[at]);
}

// What is not in the offset of its combination.
static double estimate_of(const pairing *p, const mate *m) {
    double estimate = plain_of(m->old, m->new);
    for (int l = 0; l < DEVIATIONS; l++)
        if (p->spreads[l].varies)
            estimate += typical_part(p, l, m->old[l], m->new[l]) - p->lanes[l].typical[p->combinations[m->steps][l]];
    return estimate;
}

// What a secondary leaves as it is does not tell it from others.
static void forget_unchanged(pairing *p) {
    for (int64_t m = 0; m < p->mate_count; m++) {
        double *old = p->old_rows + m * LANES, *new = p->mates[m].new;
        for (int l = 0; l < LANES; l++)
            if (l != LANE_RESERVED && l != LANE_N1 && old[l] == new[l]) old[l] = new[l] = 0;
    }
}

static int compare_mates(const void *one, const void *other) {
    const mate *a = one, *b = other;
    if (a->bucket != b->bucket) return a->bucket < b->bucket ? -1 : 1;
    if (!a->failure != !b->failure) return a->failure ? 1 : -1;
    if (a->steps != b->steps) return a->steps < b->steps ? -1 : 1;
    if (a->estimate != b->estimate) return a->estimate < b->estimate ? -1 : 1;
    int order = memcmp(a->new, b->new, sizeof a->new);
    if (!order) order = memcmp(a->old, b->old, sizeof a->new);
    return order ? order : a->node > b->node ? -1 : 1;  // the later node first: of equals it wins
}

static bool same_bucket(const pairing *p, const bucket *b, int64_t n) {
    size_t words = (size_t)p->k->location_words;
    return p->k->node[b->any_node].group == p->k->node[n].group &&
           (!words || !memcmp(&p->k->location_set[b->any_node * (int64_t)words], &p->k->location_set[n * (int64_t)words],
                              words * sizeof(uint64_t)));
}

// Whether two neighbours belong together.
static bool shares_shelf(const mate *one, const mate *other) {
    return one->bucket == other->bucket && !one->failure == !other->failure && one->steps == other->steps;
}

static void fill_shelves(pairing *p) {
    for (int64_t m = 0; m < p->mate_count; m++) {
        const mate *own = &p->mates[m];
        if (own->failure) continue;
        if (!m || !shares_shelf(own - 1, own))
            p->shelves[p->shelf_count++] = (shelf){.group = p->buckets[own->bucket].group, .first = m, .steps = own->steps,
                                                   .any_node = own->node};
        p->shelves[p->shelf_count - 1].end = m + 1;
    }
}

void sort_mates(pairing *p) {
    forget_unchanged(p);
    find_combinations(p);
    measure_spread(p);
    find_typical(p);
    measure_bands(p);
    for (int64_t m = 0; m < p->mate_count; m++) {
        mate *own = &p->mates[m];
        own->estimate = own->failure || !p->finite ? 0 : estimate_of(p, own);
        if (own->estimate != own->estimate) own->estimate = 0;
        own->bucket = 0;
        while (own->bucket < p->bucket_count && !same_bucket(p, &p->buckets[own->bucket], own->node)) own->bucket++;
        if (own->bucket < p->bucket_count) continue;
        p->buckets[p->bucket_count++] = (bucket){.group = p->k->node[own->node].group, .any_node = own->node};
    }
    qsort(p->mates, (size_t)p->mate_count, sizeof *p->mates, compare_mates);
    for (int64_t m = p->mate_count - 1; m >= 0; m--) {
        mate *own = &p->mates[m];
        bucket *b = &p->buckets[own->bucket];
        p->mate_of[own->node] = (int32_t)m;
        own->class_end = (int32_t)m + 1;
        bool goes_on = p->finite && m + 1 < p->mate_count && shares_shelf(own, own + 1) &&
                       !memcmp(own->new, own[1].new, sizeof own->new) && !memcmp(own->old, own[1].old, sizeof own->new);
        if (goes_on) own->class_end = own[1].class_end;
        b->size++;
        b->failures[own->failure]++;
        b->fitting += !own->failure;
    }
    fill_shelves(p);
}
