// SPDX-License-Identifier: BSD-2-Clause
// Which of many candidates has the lowest score, where each changes the values of one node: definition.score to the
// last digit for those that may be the best, and two bounds for all others.
#include "allocation.h"

const int lane_metric[LANES] = {
    FREE_MEMORY, FREE_DISK, RESERVED_MEMORY, CPUS, LOAD_CPU, LOAD_MEMORY, LOAD_DISK, LOAD_NET, SPINDLES,
    FREE_MEMORY_FORTHCOMING, FREE_DISK_FORTHCOMING, CPUS_FORTHCOMING, SPINDLES_FORTHCOMING, N1, CONFLICTS, LOCATION};
const double lane_weight[LANES] = {0.5, 0.5, 1, 0.5, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 1, 2, 1};

typedef double quad __attribute__((vector_size(32)));
enum { QUADS = LANES / 4 };

// Sums and squared deviations of all lanes, each in the order of the rows; `row` stands in for row `at` if there is one.
HOT void add_up(const double *rows, int64_t count, int64_t at, const double *row, double *sum, double *squared) {
    quad total[QUADS] = {0}, squares[QUADS] = {0}, mean[QUADS];
    for (int64_t n = 0; n < count; n++) {
        const quad *own = (const quad *)(n == at ? row : rows + n * LANES);
        for (int q = 0; q < QUADS; q++) total[q] += own[q];
    }
    for (int q = 0; q < QUADS; q++) mean[q] = total[q] / (double)count;
    for (int64_t n = 0; n < count; n++) {
        const quad *own = (const quad *)(n == at ? row : rows + n * LANES);
        for (int q = 0; q < QUADS; q++) {
            quad distance = own[q] - mean[q];
            squares[q] += distance * distance;
        }
    }
    memcpy(sum, total, sizeof total);
    memcpy(squared, squares, DEVIATIONS * sizeof *squared);
}

// The same of values less a centre, as squares; and the largest value of each lane.
HOT void add_up_about(const double *rows, int64_t count, const double *centre, double *sum, double *squares,
                      double *largest) {
    for (int l = 0; l < DEVIATIONS; l++) sum[l] = squares[l] = largest[l] = 0;
    for (int64_t n = 0; n < count; n++) {
        const double *own = rows + n * LANES;
        for (int l = 0; l < DEVIATIONS; l++) {
            double distance = own[l] - centre[l], size = own[l] < 0 ? -own[l] : own[l];
            sum[l] += distance;
            squares[l] += distance * distance;
            largest[l] = size > largest[l] ? size : largest[l];
        }
    }
}

void row_of(const double *metrics, double *row) {
    for (int l = 0; l < LANES; l++) row[l] = metrics[lane_metric[l]];
}

// An estimate of a lane's squared deviations is off by no more than this: roundings of the sums, and of the values.
static double doubt(double squares, double largest, double count) {
    return 1e-12 * squares + 1e-14 * largest * sqrt(count * squares) + 1e-20 * largest * largest * count;
}

static void bounds(double squares, double doubt, double count, double *low, double *high) {
    *low = squares > doubt ? sqrt((squares - doubt) / count) : squares == squares ? 0 : NAN;
    *high = sqrt(((squares > 0 ? squares : 0) + doubt) / count);
}

bool ranking_start(ranking *r, kernel *k, const int64_t *members, int64_t count) {
    *r = (ranking){.k = k, .members = members, .count = count};
    r->rows = aligned_alloc(64, (size_t)(count + 1) * LANES * sizeof *r->rows);
    r->place = malloc((size_t)(k->nodes + 1) * sizeof *r->place);
    if (r->rows && r->place) return true;
    ranking_free(r);
    return false;
}

void ranking_free(ranking *r) {
    free(r->rows);
    free(r->place);
}

static void count_offline(ranking *r) {
    r->offline_instances = r->offline_primaries = 0;
    for (int64_t m = 0; m < r->count; m++) {
        const double *metrics = &r->k->metric[r->members[m] * METRICS];
        if (r->k->node[r->members[m]].online) continue;
        r->offline_instances += metrics[INSTANCES];
        r->offline_primaries += metrics[PRIMARIES];
    }
}

static void bound_deviations(ranking *r) {
    double count = (double)r->online;
    for (int l = 0; l < DEVIATIONS; l++)
        bounds(r->about_squares[l] - r->about_total[l] * r->about_total[l] / count,
               doubt(r->doubted[l], r->largest[l], count), count, &r->low[l], &r->high[l]);
}

void ranking_read(ranking *r) {
    kernel *k = r->k;
    r->online = 0;
    count_offline(r);
    for (int64_t n = 0; n < k->nodes; n++) r->place[n] = NOWHERE;
    for (int64_t m = 0; m < r->count; m++) {
        int64_t n = r->members[m];
        const double *metrics = &k->metric[n * METRICS];
        if (k->node[n].online) {
            row_of(metrics, r->rows + r->online * LANES);
            r->place[n] = (int32_t)r->online++;
        } else {
            r->place[n] = OFFLINE_MEMBER;
        }
    }
    watch(k, r->members, r->count);
    r->exclusion = k->place_total - k->place_kinds;
    add_up(r->rows, r->online, NOWHERE, NULL, r->sum, r->squares);
    for (int l = 0; l < DEVIATIONS; l++) r->centre[l] = r->online ? r->sum[l] / (double)r->online : 0;
    add_up_about(r->rows, r->online, r->centre, r->about_total, r->about_squares, r->largest);
    memcpy(r->doubted, r->about_squares, sizeof r->doubted);
    bound_deviations(r);
}

void ranking_follow(ranking *r, int64_t n) {
    int32_t at = r->place[n];
    double row[LANES];
    r->exclusion = r->k->place_total - r->k->place_kinds;
    if (at == NOWHERE) return;
    if (at == OFFLINE_MEMBER) {
        count_offline(r);
        return;
    }
    double *own = r->rows + at * LANES;
    row_of(&r->k->metric[n * METRICS], row);
    for (int l = 0; l < DEVIATIONS; l++) {
        double old = own[l] - r->centre[l], new = row[l] - r->centre[l];
        r->about_total[l] += new - old;
        r->about_squares[l] += new * new - old * old;
        r->doubted[l] += old * old + new * new;
        r->largest[l] = fabs(row[l]) > r->largest[l] ? fabs(row[l]) : r->largest[l];
    }
    for (int l = 0; l < LANES; l++) r->sum[l] += row[l] - own[l];
    memcpy(own, row, sizeof row);
    bound_deviations(r);
}

double weighted(const double *deviation, const double *sum, double reserved, double offline_instances,
                double offline_primaries, double exclusion) {
    double total = 0;
    total += 0.5 * deviation[0];
    total += 0.5 * deviation[1];
    total += 1 * sum[LANE_N1];
    total += 1 * deviation[LANE_RESERVED];
    total += 4 * offline_instances;
    total += 16 * offline_primaries;
    total += 0.5 * deviation[3];
    for (int l = 4; l < 8; l++) total += 1 * deviation[l];
    total += 2 * sum[LANE_CONFLICTS];
    for (int l = 8; l < DEVIATIONS; l++) total += 0.5 * deviation[l];
    total += 1 * sum[LANE_LOCATION];
    total += 1 * exclusion;
    return total + 0.25 * reserved;
}

double exact_score(const ranking *r, const candidate *c, int64_t partner) {
    double sum[LANES], deviation[DEVIATIONS];
    double offline_instances = r->offline_instances, offline_primaries = r->offline_primaries;
    if (!r->online) return 0;
    int32_t at = r->place[c->node];
    add_up(r->rows, r->online, at, c->row, sum, deviation);
    for (int l = 0; l < DEVIATIONS; l++) deviation[l] = sqrt(deviation[l] / (double)r->online);
    if (partner != NOWHERE && r->place[partner] >= 0) sum[LANE_LOCATION] += (double)c->shared;
    if (at == OFFLINE_MEMBER) {
        offline_instances += c->more_instances;
        offline_primaries += c->more_primaries;
    }
    return weighted(deviation, sum, sum[LANE_RESERVED], offline_instances, offline_primaries, (double)c->exclusion);
}

void estimate(const ranking *r, candidate *c, int64_t partner) {
    double low = 0, high = 0, count = (double)r->online, plain = 4 * r->offline_instances + 16 * r->offline_primaries;
    int32_t at = r->place[c->node];
    const double *before = at < 0 ? c->row : r->rows + at * LANES;
    for (int l = 0; l < DEVIATIONS; l++) {
        double own_low = r->low[l], own_high = r->high[l];
        if (before[l] != c->row[l]) {
            double old = before[l] - r->centre[l], new = c->row[l] - r->centre[l];
            double total = r->about_total[l] + (new - old), squares = r->about_squares[l] + (new * new - old * old);
            double most = fabs(c->row[l]) > r->largest[l] ? fabs(c->row[l]) : r->largest[l];
            bounds(squares - total * total / count, doubt(r->doubted[l] + new * new + old * old, most, count),
                   count, &own_low, &own_high);
        }
        low += lane_weight[l] * own_low;
        high += lane_weight[l] * own_high;
    }
    for (int l = DEVIATIONS; l < LANES; l++) plain += lane_weight[l] * (r->sum[l] + (c->row[l] - before[l]));
    if (at == OFFLINE_MEMBER) plain += 4 * c->more_instances + 16 * c->more_primaries;
    if (partner != NOWHERE && r->place[partner] >= 0) plain += (double)c->shared;
    plain += (double)c->exclusion + 0.25 * (r->sum[LANE_RESERVED] + (c->row[LANE_RESERVED] - before[LANE_RESERVED]));
    double rounding = 1e-12 * (fabs(plain) + high);
    c->low = low + plain - rounding;
    c->high = high + plain + rounding;
    c->exact = c->gone = false;
    if (c->low <= c->high && c->high < INFINITY) return;  // else some lane is no number: only the exact score will do
    c->low = -INFINITY;
    c->high = INFINITY;
}

candidate *best_candidate(const ranking *r, candidate *c, int64_t count, int64_t partner) {
    double limit = INFINITY;
    for (int64_t t = 0; t < count; t++)
        if (!c[t].gone && c[t].high < limit) limit = c[t].high;
    candidate *best = NULL;
    for (int64_t t = 0; t < count; t++) {
        if (c[t].gone || c[t].low > limit) continue;
        if (!c[t].exact) {
            c[t].score = exact_score(r, &c[t], partner);
            c[t].exact = true;
            if (c[t].score == c[t].score) c[t].low = c[t].high = c[t].score;
            if (c[t].high < limit) limit = c[t].high;
        }
        if (!best || not_worse(c[t].score, best->score)) best = &c[t];
    }
    return best;
}
