// SPDX-License-Identifier: BSD-2-Clause
// The best ordered pair of nodes for a new mirrored instance (spec: htools, 8).
//
// 3.1 does not score each pair from scratch: it keeps count, sum and variance of each value and corrects them twice, for
// the primary and for the secondary. The correction leaves rounding of about 1e-8 behind where values become equal, which
// is shown, and decides between pairs that are equal on paper; so `score_pair` makes the same correction, in its order.
//
// It is made for few pairs. A secondary's part of the score is a sum over the lanes. In each lane secondaries have few
// values, or few that the others are near to (steps); its deviation is computed for each of them and each primary.
// Secondaries with the same steps stand on one shelf. There they are sorted by their part of the score with a typical
// primary. Another primary changes the differences between two that are near each other by little; `shift_of` bounds that
// little. So for each primary only the first of a shelf can win, and those near it; and a bound of what the primary can
// reach comes of one pair, so primaries are looked at from the most promising on, until none can be better. A secondary
// that keeps more memory for this primary than for another one (they share instances) is looked at by itself. Nodes that
// an instance changes in the same way stand in one class, scored once for each primary.
#include "pairs.h"

static inline statistics replaced(statistics s, double count, double old, double new) {
    double difference = new - old, mean = s.total / count, shift = difference / count;
    double change = (new * new - old * old - 2 * difference * mean) / count - shift * shift;
    return (statistics){s.total + difference, s.variance + change};
}

static inline double deviation_of(statistics s) {
    return sqrt(s.variance > 0 ? s.variance : 0);  // 0 also of what is no number
}

static double score_pair(const pairing *p, const chosen *c, const mate *m, const double *new, int64_t shared) {
    double deviation[DEVIATIONS], sum[LANES], instances = c->offline_instances, primaries = c->offline_primaries;
    bool online = p->k->node[m->node].online;
    memcpy(deviation, c->deviation, sizeof deviation);
    memcpy(sum, c->sum, sizeof sum);
    for (int l = 0; l < DEVIATIONS && online; l++)
        if (new[l] != m->old[l]) deviation[l] = deviation_of(replaced(c->now[l], p->count, m->old[l], new[l]));
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

// By how much the primary may change the difference between a secondary and the value that stands for its band. With S the squares and T the
// sum of a lane, a secondary's part of the score is f(S, T) = sqrt(S + a - b T). The bound is the largest difference of
// the derivatives of f between two secondaries over the way from (S, T) with the typical primary to that with this one,
// and the roundings of `replaced`. Infinite where the way comes near zero, where f has no derivative.
static double shift_of(const pairing *p, const chosen *c, const double *old, const double *new) {
    double shift = 0, scale = sqrt(p->count);
    for (int l = 0; l < DEVIATIONS; l++) {
        const spread *s = &p->spreads[l];
        if (!s->varies) continue;
        const statistics *from = &p->typical[l];
        double total = p->r->about_total[l] + (new[l] - old[l]), way = fabs(total - from->total);
        double farthest = fmax(fabs(total), fabs(from->total)), largest_b = s->largest_b;
        double typical = from->variance * p->count, squares = c->now[l].variance * p->count;
        double least = fmin(typical, squares) + s->low_a - largest_b * farthest;
        double range = s->range_a + s->range_b * farthest;
        double largest = fmax(s->largest, fmax(fabs(old[l]), fabs(new[l]))), most = fmax(typical, squares);
        double rounding = 2e-15 * (largest * largest + 2 * fabs(c->now[l].total) * s->change / p->count + most) +
                          1e-12 * most;
        if (!(least > 4 * rounding)) return INFINITY;
        double root = 1 / sqrt(least - 2 * rounding), cube = root * root * root;
        double by_squares = 0.25 * range * cube * fabs(squares - typical);
        double by_total = 0.5 * way * (s->range_b * root + 0.5 * largest_b * range * cube);
        shift += lane_weight[l] / scale * (by_squares + by_total + rounding * root);
    }
    return shift;
}

static void measure_steps(const pairing *p, chosen *c) {
    double part[DEVIATIONS][MOST_STEPS];
    for (int32_t b = 0; b < p->combination_count; b++) c->offset[b] = 0;
    for (int l = 0; l < DEVIATIONS; l++) {
        const steps *s = &p->lanes[l];
        for (int32_t at = 0; at < s->count; at++) {
            bool same = s->old[at] == s->new[at];
            statistics then = same ? c->now[l] : replaced(c->now[l], p->count, s->old[at], s->new[at]);
            part[l][at] = lane_weight[l] * deviation_of(then);
        }
        for (int32_t b = 0; b < p->combination_count && s->count > 1; b++) c->offset[b] += part[l][p->combinations[b][l]];
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
    c->excluded = n;
    c->offline_instances = p->r->offline_instances;
    c->offline_primaries = p->r->offline_primaries;
    if (!p->k->node[n].online) {
        c->offline_instances += metrics[INSTANCES] - before[INSTANCES];
        c->offline_primaries += metrics[PRIMARIES] - before[PRIMARIES];
    }
    for (int l = 0; l < DEVIATIONS; l++) {
        c->now[l] = replaced(p->base[l], p->count, old[l], new[l]);
        c->deviation[l] = deviation_of(c->now[l]);
    }
    for (int l = 0; l < LANES; l++) c->sum[l] = p->r->sum[l] + (new[l] - old[l]);
    memcpy(c->row, new, sizeof new);
    c->exclusion = (double)(p->r->exclusion + place_clashes(p->k, i, n));
    c->shift = p->finite && !p->q->exhaustive ? shift_of(p, c, old, new) : INFINITY;
    measure_steps(p, c);
}

static void narrow(const chosen *c, looked *l, const scored *s) {
    double limit = s->estimate + 2 * c->shift + 1e-12 * fabs(s->score) + l->spare;
    if (limit < l->limit) l->limit = limit;
}

int64_t next_of_class(const pairing *p, const chosen *c, int64_t at, int64_t end) {
    for (; at < end; at++)
        if (p->mates[at].node != c->excluded && p->stamp[p->mates[at].node] != c->turn) return at;
    return NOWHERE;
}

static void look_at_shelf(const pairing *p, const chosen *c, looked *l, int64_t s) {
    const shelf *own = &p->shelves[s];
    int64_t shared = shared_by(p, c->node, own->any_node);
    double offset = c->offset[own->steps] + (double)shared;
    while (l->cursor[s] < own->end) {
        const mate *m = &p->mates[l->cursor[s]];
        double estimate = m->estimate + offset;
        if (estimate > l->limit) return;
        int64_t at = next_of_class(p, c, l->cursor[s], m->class_end);
        l->cursor[s] = m->class_end;
        if (at == NOWHERE) continue;
        m = &p->mates[at];
        l->found[l->count] = (scored){score_pair(p, c, m, m->new, shared), estimate, m->node, at};
        narrow(c, l, &l->found[l->count++]);
    }
}

// The first of all shelves, whether special or not, and its estimate; its shelf, or NOWHERE.
static int64_t first_shelf(const pairing *p, const chosen *c, const mate **first, double *estimate) {
    int64_t best = NOWHERE, group = p->k->node[c->node].group;
    for (int64_t s = 0; s < p->shelf_count; s++) {
        const shelf *own = &p->shelves[s];
        if (own->group != group) continue;
        int64_t at = own->first + (p->mates[own->first].node == c->excluded);
        if (at == own->end) continue;
        double here = p->mates[at].estimate + c->offset[own->steps] + (double)shared_by(p, c->node, own->any_node);
        if (best != NOWHERE && here >= *estimate) continue;
        best = s;
        *first = &p->mates[at];
        *estimate = here;
    }
    return best;
}

double least_score(const pairing *p, const chosen *c) {
    const mate *first;
    double estimate;
    if (first_shelf(p, c, &first, &estimate) == NOWHERE) return INFINITY;
    if (c->shift == INFINITY) return -INFINITY;
    double score = score_pair(p, c, first, first->new, shared_by(p, c->node, first->node));
    return score - 2 * c->shift - 1e-12 * fabs(score);
}

void look_further(const pairing *p, const chosen *c, looked *l) {
    const mate *first;
    double estimate;
    int64_t best = first_shelf(p, c, &first, &estimate), group = p->k->node[c->node].group;
    if (best != NOWHERE) look_at_shelf(p, c, l, best);
    for (int64_t s = 0; s < p->shelf_count; s++)
        if (p->shelves[s].group == group) look_at_shelf(p, c, l, s);
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
    for (int64_t s = 0; s < p->shelf_count; s++) l->cursor[s] = p->shelves[s].first;
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

// No more than so much of a deviation is rounding that `replaced` has left, of values up to one.
static const double MOST_LEFT = 4e-8;

// To keep more adds a quarter of the share to the score and takes from the deviation no more than its n-th root.
void find_specials(const pairing *p, chosen *c, looked *l, int64_t *fitting, int64_t *failures) {
    const kernel *k = p->k;
    const instance *i = &k->instance[p->q->instance];
    l->special_count = 0;
    c->turn = ++l->turn;
    for (int32_t j = i->reserved ? k->first_primary[c->node] : NOWHERE; j != NOWHERE; j = k->instance[j].next_primary) {
        int64_t n = k->instance[j].secondary;
        if (n == NOWHERE || n == c->node || p->mate_of[n] == NOWHERE || p->stamp[n] == c->turn) continue;
        const mate *m = &p->mates[p->mate_of[n]];
        int64_t reserved = reserved_with(k, i, n, c->node);
        if (reserved <= m->reserved || k->node[n].group != k->node[c->node].group) continue;
        p->stamp[n] = c->turn;
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
                     : m->estimate + c->offset[m->steps] + (own->n1 - m->new[LANE_N1]) + more * (0.25 - 1 / sqrt(p->count)) - 1e-9 * fabs(more) -
                           MOST_LEFT + (double)shared_by(p, c->node, n);
    }
}

// Of equals the later primary is taken; where scores are no numbers, primaries come in their order.
static bool is_better(const placement *out, int64_t primary, double score) {
    if (out->primary == NOWHERE) return true;
    return score == out->score ? primary > out->primary : not_worse(score, out->score);
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
        if (is_better(out, c->node, best->score)) {
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

// Primaries for which the secondaries that share instances with them have to be known to count what fits: those of
// nodes that could keep the memory for some of their primaries, but not for all.
static void find_affected(const pairing *p, bool *affected) {
    const kernel *k = p->k;
    const instance *i = &k->instance[p->q->instance];
    for (int64_t m = 0; m < p->mate_count && i->reserved; m++) {
        int64_t n = p->mates[m].node;
        if (k->value[n].free_memory > i->reserved + k->value[n].reserved_memory) continue;
        for (int32_t j = k->first_secondary[n]; j != NOWHERE; j = k->instance[j].next_secondary)
            if (k->instance[j].primary != NOWHERE) affected[k->instance[j].primary] = true;
    }
}

// A primary that fits, and a score that no pair with it is below.
typedef struct { int64_t node; double least; } prospect;

static int compare_prospects(const void *one, const void *other) {
    const prospect *a = one, *b = other;
    if (a->least != b->least) return a->least < b->least ? -1 : 1;
    return (a->node < b->node) == (a->least == -INFINITY) ? -1 : 1;  // of equals the later one wins: then it is the first
}

// Counts the pairs of a primary; gives whether some may do.
static bool count_pairs(const pairing *p, chosen *c, looked *l, bool affected) {
    placement *out = p->out;
    const question *q = p->q;
    int64_t partners = -1, fitting = 0, failures[FAIL_MODES] = {0}, n = c->node;
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
        return false;
    }
    int own = p->mates[p->mate_of[n]].failure;
    failures[own]--;
    fitting -= !own;
    if (affected) find_specials(p, c, l, &fitting, failures);
    for (int f = 1; f < FAIL_MODES; f++) out->failures[f] += failures[f];
    if (p->n1 && hopeless_with(p->n1, q->instance, n)) {
        out->failures[FAIL_N1] += fitting;
        return false;
    }
    out->successes += fitting;
    return fitting;
}

// What a primary may reach. To keep more never makes a score lower where nodes are many, so specials need not be known.
// Pairs that lack redundancy are counted, so nothing is left out where there may be some.
static prospect prospect_of(const pairing *p, chosen *c) {
    enum { MANY_NODES = 64 };
    prospect found = {.node = c->node, .least = -INFINITY};
    if (!p->finite || p->q->exhaustive || p->count < MANY_NODES) return found;
    if (p->n1 && !redundant_with_any(p->n1, p->q->instance, c->node)) return found;
    put_primary(p, c);
    found.least = least_score(p, c);
    return found;
}

// The lowest score with a primary, of all secondaries, itself too, as if they shared nothing with it. Primaries that are
// alike have the same.
static double least_of_all(const pairing *p, const chosen *c, looked *l) {
    int32_t bucket = p->mates[p->mate_of[c->node]].bucket;
    for (const equal *e = l->equals; e < l->equals + (l->equal_count < MOST_EQUALS ? l->equal_count : MOST_EQUALS); e++)
        if (e->bucket == bucket && e->exclusion == c->exclusion && !memcmp(e->now, c->now, sizeof e->now) &&
            !memcmp(e->sum, c->sum, sizeof e->sum))
            return e->least;
    chosen any = *c;
    any.excluded = NOWHERE;
    any.turn = ++l->turn;
    l->special_count = 0;
    look_further(p, &any, l);
    const scored *best = best_scored(l);
    equal *own = &l->equals[l->equal_count++ % MOST_EQUALS];
    *own = (equal){.exclusion = c->exclusion, .bucket = bucket, .least = best ? best->score : INFINITY};
    memcpy(own->now, c->now, sizeof own->now);
    memcpy(own->sum, c->sum, sizeof own->sum);
    return own->least;
}

// Whether no pair with a primary for which specials need not be known would be taken.
static bool is_beaten(const pairing *p, const chosen *c, looked *l) {
    return p->out->primary != NOWHERE && !is_better(p->out, c->node, least_of_all(p, c, l));
}

static void consider(const pairing *p, const prospect *own, looked *l) {
    int64_t fitting = 0, failures[FAIL_MODES] = {0};
    chosen c = {.node = own->node};
    put_primary(p, &c);
    start_looking(p, l);
    if (own->least > -INFINITY && is_beaten(p, &c, l)) return;
    start_looking(p, l);
    find_specials(p, &c, l, &fitting, failures);
    look_further(p, &c, l);
    keep_best(p, &c, l);
}

// Gives false without memory.
static bool consider_all(const pairing *p, looked *l) {
    const question *q = p->q;
    prospect *prospects = malloc((size_t)(q->candidate_count + 1) * sizeof *prospects);
    bool *affected = calloc((size_t)p->k->nodes + 1, sizeof *affected), ready = prospects && affected;
    int64_t count = 0;
    if (ready) find_affected(p, affected);
    for (int64_t c = 0; c < q->candidate_count && ready; c++) {
        chosen one = {.node = q->candidates[c]};
        if (count_pairs(p, &one, l, affected[one.node])) prospects[count++] = prospect_of(p, &one);
    }
    if (ready) qsort(prospects, (size_t)count, sizeof *prospects, compare_prospects);
    for (int64_t at = 0; at < count; at++) {
        if (p->out->primary != NOWHERE && prospects[at].least > p->out->score) break;
        consider(p, &prospects[at], l);
    }
    free(prospects);
    free(affected);
    return ready;
}

void pairing_free(pairing *p, looked *l) {
    void *all[] = {p->mates, p->mate_of, p->stamp, p->buckets, p->shelves, p->old_rows, l->found, l->cursor, l->specials,
                   l->equals};
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
    p->shelves = malloc(count * sizeof *p->shelves);
    p->old_rows = malloc(count * LANES * sizeof *p->old_rows);
    *l = (looked){.found = malloc(2 * nodes * sizeof *l->found), .cursor = malloc(count * sizeof *l->cursor),
                  .specials = malloc(nodes * sizeof *l->specials),
                  .equals = malloc(MOST_EQUALS * sizeof *l->equals)};
    if (!p->mates || !p->mate_of || !p->stamp || !p->buckets || !p->shelves || !p->old_rows || !l->found || !l->cursor ||
        !l->specials || !l->equals) {
        pairing_free(p, l);
        return false;
    }
    for (int64_t n = 0; n < r->k->nodes; n++) p->mate_of[n] = p->stamp[n] = NOWHERE;
    for (int lane = 0; lane < DEVIATIONS; lane++) {
        p->base[lane] = (statistics){r->sum[lane], r->squares[lane] / p->count};
        p->finite = p->finite && isfinite(r->squares[lane]);
    }
    for (int64_t c = 0; c < q->candidate_count; c++)
        read_mate(p, q->candidates[c], &p->mates[p->mate_count++], p->old_rows + c * LANES);
    return true;
}

int64_t choose_pair(const question *q, const ranking *r, redundancy *n1, placement *out) {
    pairing p;
    looked l;
    if (!pairing_start(&p, &l, q, r, n1, out, false)) return -1;
    sort_mates(&p);
    int64_t result = (!n1 || measure_mates(&p)) && consider_all(&p, &l) ? 0 : -1;
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
