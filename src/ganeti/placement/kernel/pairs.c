// SPDX-License-Identifier: BSD-2-Clause
// The best ordered pair of nodes for a new mirrored instance (spec: htools, 8).
//
// 3.1 does not score each pair from scratch: it keeps count, sum and squared deviations of each value and corrects them
// twice, for the primary and for the secondary. The correction leaves rounding of about 1e-9 behind, which decides
// between pairs that are equal on paper; so `score_pair` makes the same correction.
//
// It is made for few pairs. Secondaries are sorted by what their score would be if there were no primary. A primary
// changes the differences between two secondaries by little, since it moves every mean and deviation by an n-th part;
// `shift_of` bounds that little. So for each primary only the first of the sorted secondaries can win, and those near
// it. A secondary that keeps more memory for this primary than for another one (they share instances) is looked at by
// itself. Nodes that are equal in all values stand in one class, scored once for each primary.
#include "pairs.h"

static inline statistics replaced(statistics s, double count, double old, double new) {
    double difference = new - old, total = s.total + difference;
    return (statistics){total, s.squares + difference * ((new - total / count) + (old - s.total / count))};
}

static inline double deviation_of(statistics s, double count) {
    double square = s.squares / count;
    return sqrt(square > 0 ? square : 0);  // 0 also of what is no number
}

static double score_pair(const pairing *p, const chosen *c, const mate *m, const double *new, int64_t shared) {
    double deviation[DEVIATIONS], sum[LANES], instances = c->offline_instances, primaries = c->offline_primaries;
    bool online = p->k->node[m->node].online;
    memcpy(deviation, c->deviation, sizeof deviation);
    memcpy(sum, c->sum, sizeof sum);
    for (int l = 0; l < DEVIATIONS && online; l++)
        if (new[l] != m->old[l]) deviation[l] = deviation_of(replaced(c->now[l], p->count, m->old[l], new[l]), p->count);
    for (int l = DEVIATIONS; l < LANES && online; l++) sum[l] += new[l] - m->old[l];
    if (online) sum[LANE_RESERVED] += new[LANE_RESERVED] - m->old[LANE_RESERVED];
    if (p->k->node[c->node].online) sum[LANE_LOCATION] += (double)shared;
    if (!online) {
        instances += m->more_instances;
        primaries += m->more_primaries;
    }
    return weighted(deviation, sum, sum[LANE_RESERVED], instances, primaries, c->exclusion);
}

int64_t shared_by(const pairing *p, int64_t primary, int64_t secondary) {
    return p->k->instance[p->q->instance].forthcoming ? 0 : shared_locations(p->k, primary, secondary);
}

// Values of a node as secondary that keeps `reserved` in all.
static void read_secondary(const pairing *p, int64_t n, int64_t reserved, double *row, mate *m) {
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

static int refuse_as_secondary(const pairing *p, int64_t n, int64_t reserved) {
    return refuse_secondary(p->k, n, &p->k->value[n], &p->k->instance[p->q->instance], reserved, p->forced, false);
}

static void read_mate(pairing *p, int64_t n, mate *m, double *old_row) {
    const instance *i = &p->k->instance[p->q->instance];
    m->node = n;
    m->reserved = reserved_with(p->k, i, n, NOWHERE);
    m->failure = refuse_as_secondary(p, n, m->reserved);
    row_of(&p->k->metric[n * METRICS], old_row);
    m->old = old_row;
    read_secondary(p, n, m->reserved, m->new, m);
    for (int l = 0; l < LANES; l++) p->finite = p->finite && isfinite(m->new[l]) && isfinite(old_row[l]);
}

// The two parts by which a lane's squares change, in values less the centre: a - b * total.
static inline void parts(const pairing *p, int l, double old, double new, double *a, double *b) {
    double from = old - p->r->centre[l], to = new - p->r->centre[l], difference = to - from;
    *a = to * to - from * from - difference * difference / p->count;
    *b = 2 * difference / p->count;
}

static void measure_spread(pairing *p) {
    for (int l = 0; l < DEVIATIONS; l++) {
        spread *s = &p->spreads[l];
        *s = (spread){.low_a = INFINITY, .high_a = -INFINITY, .low_b = INFINITY, .high_b = -INFINITY};
        for (int64_t m = 0; m < p->mate_count; m++) {
            const mate *own = &p->mates[m];
            double a, b;
            if (own->failure) continue;
            parts(p, l, own->old[l], own->new[l], &a, &b);
            s->low_a = a < s->low_a ? a : s->low_a;
            s->high_a = a > s->high_a ? a : s->high_a;
            s->low_b = b < s->low_b ? b : s->low_b;
            s->high_b = b > s->high_b ? b : s->high_b;
            double size = fabs(own->new[l]) > fabs(own->old[l]) ? fabs(own->new[l]) : fabs(own->old[l]);
            double change = fabs(own->new[l] - own->old[l]);
            s->largest = size > s->largest ? size : s->largest;
            s->change = change > s->change ? change : s->change;
        }
        s->varies = s->change > 0;
    }
}

static double plain_of(const double *old, const double *new) {
    double plain = 0.25 * (new[LANE_RESERVED] - old[LANE_RESERVED]);
    for (int l = DEVIATIONS; l < LANES; l++) plain += lane_weight[l] * (new[l] - old[l]);
    return plain;
}

static double estimate_of(const pairing *p, const mate *m) {
    double estimate = plain_of(m->old, m->new);
    for (int l = 0; l < DEVIATIONS; l++) {
        if (!p->spreads[l].varies) continue;
        double a, b, squares = p->r->about_squares[l];
        parts(p, l, m->old[l], m->new[l], &a, &b);
        double after = squares + a - b * p->r->about_total[l];
        estimate += lane_weight[l] * sqrt((after > 0 ? after : 0) / p->count);
    }
    return estimate;
}

// By how much the primary may change the difference between two secondaries. With S the squares and T the
// sum of a lane, a secondary's part of the score is f(S, T) = sqrt(S + a - b T). The bound is the largest difference of
// the derivatives of f between two secondaries over the way from (S, T) without the primary to that with it, and the
// roundings of `replaced`. Infinite where the way comes near zero, where f has no derivative.
static double shift_of(const pairing *p, const chosen *c, const double *old, const double *new) {
    double shift = 0, scale = sqrt(p->count);
    for (int l = 0; l < DEVIATIONS; l++) {
        const spread *s = &p->spreads[l];
        if (!s->varies) continue;
        double moved = new[l] - old[l], total = p->r->about_total[l], squares = p->r->about_squares[l];
        double way = fabs(moved) + fabs(total), largest_b = fmax(fabs(s->low_b), fabs(s->high_b));
        double least = fmin(squares, c->now[l].squares) + s->low_a - largest_b * way;
        double range = (s->high_a - s->low_a) + (s->high_b - s->low_b) * way;
        double largest = fmax(s->largest, fmax(fabs(old[l]), fabs(new[l])));
        double rounding = 1e-15 * (largest * largest + 2 * fabs(c->now[l].total) * s->change / p->count + squares) +
                          1e-12 * squares;
        if (!(least > 4 * rounding)) return INFINITY;
        double root = 1 / sqrt(least - 2 * rounding), cube = root * root * root;
        double by_squares = 0.25 * range * cube * fabs(c->now[l].squares - squares);
        double by_total = 0.5 * way * ((s->high_b - s->low_b) * root + 0.5 * largest_b * range * cube);
        shift += lane_weight[l] / scale * (by_squares + by_total + rounding * root);
    }
    return shift;
}

static int compare_mates(const void *one, const void *other) {
    const mate *a = one, *b = other;
    if (a->bucket != b->bucket) return a->bucket < b->bucket ? -1 : 1;
    if (!a->failure != !b->failure) return a->failure ? 1 : -1;
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

void sort_mates(pairing *p) {
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
        bool goes_on = p->finite && m + 1 < p->mate_count && own[1].bucket == own->bucket &&
                       !own[1].failure == !own->failure && !memcmp(own->new, own[1].new, sizeof own->new) && !memcmp(own->old, own[1].old, sizeof own->new);
        if (goes_on) own->class_end = own[1].class_end;
        b->first = m;
        b->size++;
        b->failures[own->failure]++;
        if (own->failure) continue;
        if (!b->fitting++) b->end = m + 1;
    }
}

void put_primary(const pairing *p, chosen *c) {
    const instance *i = &p->k->instance[p->q->instance];
    int64_t n = c->node;
    const double *before = &p->k->metric[n * METRICS];
    double metrics[METRICS], old[LANES], new[LANES];
    values v = p->k->value[n];
    with_primary(p->k, n, i, NOWHERE, &v);
    metrics_of(p->k, n, &v, metrics);
    row_of(before, old);
    row_of(p->k->node[n].online ? metrics : before, new);
    c->offline_instances = p->r->offline_instances;
    c->offline_primaries = p->r->offline_primaries;
    if (!p->k->node[n].online) {
        c->offline_instances += metrics[INSTANCES] - before[INSTANCES];
        c->offline_primaries += metrics[PRIMARIES] - before[PRIMARIES];
    }
    for (int l = 0; l < DEVIATIONS; l++) {
        c->now[l] = replaced(p->base[l], p->count, old[l], new[l]);
        c->deviation[l] = deviation_of(c->now[l], p->count);
    }
    for (int l = 0; l < LANES; l++) c->sum[l] = p->r->sum[l] + (new[l] - old[l]);
    memcpy(c->row, new, sizeof new);
    c->exclusion = (double)(p->r->exclusion + place_clashes(p->k, i, n));
    c->shift = p->finite && !p->q->exhaustive ? shift_of(p, c, old, new) : INFINITY;
}

static void narrow(const chosen *c, looked *l, const scored *s) {
    double limit = s->estimate + 2 * c->shift + 1e-12 * fabs(s->score) + l->spare;
    if (limit < l->limit) l->limit = limit;
}

int64_t next_of_class(const pairing *p, const chosen *c, int64_t at, int64_t end) {
    for (; at < end; at++)
        if (p->mates[at].node != c->node && p->stamp[p->mates[at].node] != c->node) return at;
    return NOWHERE;
}

static void look_at_sorted(const pairing *p, const chosen *c, looked *l, int32_t b) {
    const bucket *own = &p->buckets[b];
    int64_t shared = shared_by(p, c->node, own->any_node);
    while (l->cursor[b] < own->end) {
        const mate *m = &p->mates[l->cursor[b]];
        double estimate = m->estimate + (double)shared;
        if (estimate > l->limit) return;
        int64_t at = next_of_class(p, c, l->cursor[b], m->class_end);
        l->cursor[b] = m->class_end;
        if (at == NOWHERE) continue;
        m = &p->mates[at];
        l->found[l->count] = (scored){score_pair(p, c, m, m->new, shared), estimate, m->node, at};
        narrow(c, l, &l->found[l->count++]);
    }
}

void look_further(const pairing *p, const chosen *c, looked *l) {
    for (int32_t b = 0; b < p->bucket_count; b++)
        if (p->buckets[b].group == p->k->node[c->node].group && p->buckets[b].fitting) look_at_sorted(p, c, l, b);
    for (int64_t s = 0; s < l->special_count; s++) {
        special *own = &l->specials[s];
        const mate *m = &p->mates[p->mate_of[own->node]];
        if (own->done || own->least > l->limit) continue;
        double new[LANES];
        memcpy(new, m->new, sizeof new);
        new[LANE_RESERVED] = own->reserved;
        new[LANE_N1] = own->n1;
        own->done = true;
        int64_t shared = shared_by(p, c->node, own->node);
        l->found[l->count++] = (scored){score_pair(p, c, m, new, shared), 0, own->node, NOWHERE};
    }
}

void start_looking(const pairing *p, looked *l) {
    l->count = 0;
    l->limit = INFINITY;
    for (int32_t b = 0; b < p->bucket_count; b++) l->cursor[b] = p->buckets[b].first;
}

const scored *best_scored(const looked *l) {
    const scored *best = l->count ? l->found : NULL;
    for (const scored *s = l->found + 1; s < l->found + l->count; s++) {
        bool neither = s->score != s->score && best->score != best->score;
        if (neither ? s->node < best->node : s->score == best->score ? s->node > best->node : s->score < best->score)
            best = s;
    }
    return best;
}

// Drops a scored secondary; the next one of its class, which has the same score, takes its place.
static void drop(const pairing *p, const chosen *c, looked *l, scored *own) {
    int64_t next = own->at == NOWHERE ? NOWHERE : next_of_class(p, c, own->at + 1, p->mates[own->at].class_end);
    if (next != NOWHERE) {
        own->at = next;
        own->node = p->mates[next].node;
        return;
    }
    *own = l->found[--l->count];
    l->limit = INFINITY;
    for (int64_t s = 0; s < l->count; s++)
        if (l->found[s].at != NOWHERE) narrow(c, l, &l->found[s]);
    look_further(p, c, l);
}

// To keep more adds a quarter of the share to the score and takes from the deviation no more than its n-th root.
void find_specials(const pairing *p, const chosen *c, looked *l, int64_t *fitting, int64_t *failures) {
    const kernel *k = p->k;
    const instance *i = &k->instance[p->q->instance];
    l->special_count = 0;
    for (int32_t j = i->reserved ? k->first_primary[c->node] : NOWHERE; j != NOWHERE; j = k->instance[j].next_primary) {
        int64_t n = k->instance[j].secondary;
        if (n == NOWHERE || n == c->node || p->mate_of[n] == NOWHERE || p->stamp[n] == c->node) continue;
        const mate *m = &p->mates[p->mate_of[n]];
        int64_t reserved = reserved_with(k, i, n, c->node);
        if (reserved <= m->reserved || k->node[n].group != k->node[c->node].group) continue;
        p->stamp[n] = c->node;
        int failure = refuse_as_secondary(p, n, reserved);
        failures[m->failure]--;
        failures[failure]++;
        *fitting += !failure - !m->failure;
        if (failure) continue;
        const values *v = &k->value[n];
        special *own = &l->specials[l->special_count++];
        *own = (special){.node = n, .reserved = (double)reserved / k->node[n].total_memory};
        own->n1 = v->free_memory <= reserved ? (double)(v->primaries + v->secondaries + !i->forthcoming) : 0;
        double more = own->reserved - m->new[LANE_RESERVED];
        own->least = !p->finite || m->failure ? -INFINITY
                     : m->estimate + (own->n1 - m->new[LANE_N1]) + more * (0.25 - 1 / sqrt(p->count)) - 1e-9 * fabs(more) +
                           (double)shared_by(p, c->node, n);
    }
}

static void keep_best(const pairing *p, const chosen *c, looked *l) {
    placement *out = p->out;
    for (const scored *best; (best = best_scored(l)); drop(p, c, l, (scored *)best)) {
        if (p->n1 && !redundant_with(p->n1, p->q->instance, c->node, best->node)) {
            out->failures[FAIL_N1]++;
            out->successes--;
            continue;
        }
        if (!p->k->node[best->node].online) continue;  // it counts, as in 3.1, but is not chosen
        if (out->primary == NOWHERE || not_worse(best->score, out->score)) {
            out->primary = c->node;
            out->secondary = best->node;
            out->score = best->score;
        }
        return;
    }
}

static bool measure_mates(const pairing *p) {
    int64_t *fitting = malloc((size_t)(p->mate_count + 1) * sizeof *fitting), count = 0;
    for (int64_t m = 0; m < p->mate_count && fitting; m++)
        if (!p->mates[m].failure) fitting[count++] = p->mates[m].node;
    bool measured = fitting && redundancy_measure(p->n1, p->q->instance, fitting, count);
    free(fitting);
    return measured;
}

// Whether no pair with this primary can be as good as what was found before: one secondary is scored, and no other one can
// be better by more than their estimates and the shift say. Pairs that lack redundancy are counted, so there must be none.
static bool is_beaten(const pairing *p, const chosen *c, const looked *l) {
    const mate *first = NULL;
    double least = INFINITY, estimate = INFINITY;
    if (p->out->primary == NOWHERE || c->shift == INFINITY) return false;
    for (int32_t b = 0; b < p->bucket_count; b++) {
        const bucket *own = &p->buckets[b];
        if (own->group != p->k->node[c->node].group || !own->fitting) continue;
        double shared = (double)shared_by(p, c->node, own->any_node);
        int64_t at = next_of_class(p, c, own->first, own->end);
        if (at == NOWHERE || p->mates[at].estimate + shared >= estimate) continue;
        first = &p->mates[at];
        estimate = first->estimate + shared;
    }
    if (!first) return false;
    for (int64_t s = 0; s < l->special_count; s++) least = l->specials[s].least < least ? l->specials[s].least : least;
    double score = score_pair(p, c, first, first->new, shared_by(p, c->node, first->node));
    double bound = score - 2 * c->shift - 1e-12 * fabs(score) + (least < estimate ? least - estimate : 0);
    return bound > p->out->score && (!p->n1 || redundant_with_any(p->n1, p->q->instance, c->node));
}

static void consider(const pairing *p, int64_t n, looked *l) {
    placement *out = p->out;
    const question *q = p->q;
    int64_t partners = -1, fitting = 0, failures[FAIL_MODES] = {0};
    for (int32_t b = 0; b < p->bucket_count; b++) {
        const bucket *own = &p->buckets[b];
        if (own->group != p->k->node[n].group) continue;
        partners += own->size;
        fitting += own->fitting;
        for (int f = 0; f < FAIL_MODES; f++) failures[f] += own->failures[f];
    }
    int failure = policy_about(q, p->k, n);
    if (!failure)
        failure = refuse_primary(p->k, n, &p->k->value[n], &p->k->instance[q->instance], q->ignore_soft_errors);
    if (failure) {
        out->failures[failure] += partners;
        return;
    }
    int own = p->mates[p->mate_of[n]].failure;
    failures[own]--;
    fitting -= !own;
    chosen c = {.node = n};
    start_looking(p, l);
    find_specials(p, &c, l, &fitting, failures);
    for (int f = 1; f < FAIL_MODES; f++) out->failures[f] += failures[f];
    if (p->n1 && hopeless_with(p->n1, q->instance, n)) {
        out->failures[FAIL_N1] += fitting;
        return;
    }
    out->successes += fitting;
    if (!fitting) return;
    put_primary(p, &c);
    if (is_beaten(p, &c, l)) return;
    look_further(p, &c, l);
    keep_best(p, &c, l);
}

void pairing_free(pairing *p, looked *l) {
    void *all[] = {p->mates, p->mate_of, p->stamp, p->buckets, p->old_rows, l->found, l->cursor, l->specials};
    for (size_t a = 0; a < sizeof all / sizeof *all; a++) free(all[a]);
}

bool pairing_start(pairing *p, looked *l, const question *q, const ranking *r, redundancy *n1, placement *out,
                   bool forced) {
    size_t nodes = (size_t)r->k->nodes + 1, count = (size_t)q->candidate_count + 1;
    *p = (pairing){.q = q, .r = r, .k = r->k, .n1 = n1, .out = out, .count = (double)r->online, .finite = true,
                   .forced = forced};
    p->mates = malloc(count * sizeof *p->mates);
    p->mate_of = malloc(nodes * sizeof *p->mate_of);
    p->stamp = malloc(nodes * sizeof *p->stamp);
    p->buckets = malloc(count * sizeof *p->buckets);
    p->old_rows = malloc(count * LANES * sizeof *p->old_rows);
    *l = (looked){.found = malloc(2 * nodes * sizeof *l->found), .cursor = malloc(count * sizeof *l->cursor),
                  .specials = malloc(nodes * sizeof *l->specials)};
    if (!p->mates || !p->mate_of || !p->stamp || !p->buckets || !p->old_rows || !l->found || !l->cursor ||
        !l->specials) {
        pairing_free(p, l);
        return false;
    }
    for (int64_t n = 0; n < r->k->nodes; n++) p->mate_of[n] = p->stamp[n] = NOWHERE;
    for (int lane = 0; lane < DEVIATIONS; lane++) {
        p->base[lane] = (statistics){r->sum[lane], r->squares[lane]};
        p->finite = p->finite && isfinite(r->squares[lane]);
    }
    for (int64_t c = 0; c < q->candidate_count; c++)
        read_mate(p, q->candidates[c], &p->mates[p->mate_count++], p->old_rows + c * LANES);
    measure_spread(p);
    return true;
}

int64_t choose_pair(const question *q, const ranking *r, redundancy *n1, placement *out) {
    pairing p;
    looked l;
    if (!pairing_start(&p, &l, q, r, n1, out, false)) return -1;
    sort_mates(&p);
    int64_t result = !n1 || measure_mates(&p) ? 0 : -1;
    for (int64_t c = 0; c < q->candidate_count && !result; c++) consider(&p, q->candidates[c], &l);
    pairing_free(&p, &l);
    return result;
}

int64_t choose_secondary(const question *q, const ranking *r, redundancy *n1, placement *out) {
    pairing p;
    looked l;
    chosen c = {.node = q->primary};
    if (!pairing_start(&p, &l, q, r, n1, out, false)) return -1;
    const kernel *k = p.k;
    int failure = policy_about(q, k, c.node);
    if (!failure)
        failure = refuse_primary(k, c.node, &k->value[c.node], &k->instance[q->instance], q->ignore_soft_errors);
    if (failure) out->failures[failure] += q->candidate_count;
    else put_primary(&p, &c);
    for (int64_t m = 0; m < p.mate_count && !failure; m++) {
        const mate *own = &p.mates[m];
        int64_t reserved = reserved_with(k, &k->instance[q->instance], own->node, c.node);
        int refusal = refuse_as_secondary(&p, own->node, reserved);
        if (refusal) {
            out->failures[refusal]++;
            continue;
        }
        double new[LANES];
        read_secondary(&p, own->node, reserved, new, NULL);
        double score = score_pair(&p, &c, own, new, shared_by(&p, c.node, own->node));
        l.found[l.count++] = (scored){score, 0, own->node, NOWHERE};
    }
    out->successes += l.count;
    c.shift = INFINITY;
    keep_best(&p, &c, &l);
    pairing_free(&p, &l);
    return 0;
}
