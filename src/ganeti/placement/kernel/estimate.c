// SPDX-License-Identifier: BSD-2-Clause
// Scores of moves without making them, for all targets of an instance at once.
#include "search.h"

// Sums of a series after a node that is a target got another value.
static sums changed(const series *own, sums before, int32_t target, double metric) {
    if (target == NOWHERE) return before;
    double old = own->away[target], fresh = metric - own->mean;
    return (sums){before.total + (fresh - old), before.squares + (fresh * fresh - old * old)};
}

static sums sums_of(const series *own) { return (sums){own->total, own->squares}; }

// Adds to `out` the weighted deviation of a series with the instance on each target.
HOT static void add_deviations(const search *f, const series *own, double size, double spindles, sums base, double *out) {
    const double *away = own->away, *per_unit = own->per_unit, *per_spindle = own->per_spindle;
    double share = f->share, weight = own->weight;
    for (int64_t t = f->from; t < f->until; t++) {
        double change = size * per_unit[t] + (per_spindle ? spindles * per_spindle[t] : 0);
        double mean = (base.total + change) * share;
        double square = (base.squares + change * (2 * away[t] + change)) * share;
        double variance = square - mean * mean - SLACK * square;
        out[t] += weight * sqrt(variance > 0 ? variance : 0);
    }
}

// Deviations that count the instance in both roles: disks and spindles. `leaves` is the target it is taken from.
void add_disks(const search *f, const subject *j, int32_t leaves, const double *metric, double *out) {
    memset(out + f->from, 0, (size_t)(f->until - f->from) * sizeof *out);
    for (int s = 0; s < FIRST_OF_PRIMARY; s++) {
        const series *own = &f->of[s];
        if (own->weight == 0) continue;
        sums base = changed(own, sums_of(own), leaves, metric[metric_of_series[s]]);
        add_deviations(f, own, j->size[s], s == DISK ? j->spindles : j->spindles_f, base, out);
    }
}

// Deviations that count primaries only, with the instance's primary going from P to each target.
void add_primaries(const search *f, const subject *j, double *out) {
    memset(out + f->from, 0, (size_t)(f->until - f->from) * sizeof *out);
    for (int s = FIRST_OF_PRIMARY; s < RESERVED; s++) {
        const series *own = &f->of[s];
        if (own->weight == 0) continue;
        sums base = changed(own, sums_of(own), j->tp, j->metric_p[metric_of_series[s]]);
        add_deviations(f, own, j->size[s], 0, base, out);
    }
}

// Those deviations as one number, with other values at up to two targets.
static double primaries_with(const search *f, int32_t a, const double *metric_a, int32_t b, const double *metric_b) {
    double total = 0;
    for (int s = FIRST_OF_PRIMARY; s < RESERVED; s++) {
        const series *own = &f->of[s];
        if (own->weight == 0) continue;
        sums now = sums_of(own);
        if (metric_a) now = changed(own, now, a, metric_a[metric_of_series[s]]);
        if (metric_b) now = changed(own, now, b, metric_b[metric_of_series[s]]);
        total += own->weight * deviation_below(f, now.total, now.squares);
    }
    return total;
}

// Spindles of exclusive storage are counted for every template, and asked of those with disks on the node.
static double spindles_asked(const instance *i) {
    if (!i->local_disk) return -INFINITY;
    return i->spindles == NOWHERE ? INFINITY : (double)i->spindles;
}

static void bar(const search *f, const subject *j, const limits *own, double *barred) {
    const instance *i = j->i;
    double memory = i->uses_memory ? (double)i->memory : 0, memory_f = (double)i->memory, cpus = (double)i->vcpus;
    double disk = i->local_disk ? (double)i->disk : -INFINITY;
    double use = i->local_disk ? (double)i->spindle_use : -INFINITY, spindles = spindles_asked(i);
    for (int64_t t = f->from; t < f->until; t++) {
        // on exclusive storage an instance uses no spindles of the shared kind: the limit there is all or nothing
        int ok = (memory < own->memory[t]) & (memory_f < own->memory_f[t]) & (disk < own->disk[t]) &
                 (use <= own->spindle_use[t]) & (cpus <= own->cpus[t]) & (spindles <= own->spindles[t]);
        barred[t] = ok ? 0 : INFINITY;
    }
    if (own == &f->unforced && i->exclusions)
        for (int64_t t = f->from; t < f->until; t++)
            if (shares_exclusion_tag(f->k, i, f->node_of[t])) barred[t] = INFINITY;
}

static void bar_migration(const search *f, int64_t source, double *barred) {
    if (f->k->domains < 2) return;
    for (int64_t t = f->from; t < f->until; t++)
        if (!may_migrate(f->k, source, f->node_of[t])) barred[t] = INFINITY;
}

static double plain_sums(const double *metric, bool online) {
    if (online) return metric[N1] + 2 * metric[CONFLICTS] + metric[LOCATION] + 0.25 * metric[RESERVED_MEMORY];
    return 4 * metric[INSTANCES] + 16 * metric[PRIMARIES];
}

static double plain_sums_of(const search *f, int64_t n, const double *metric) {
    return plain_sums(metric, f->k->node[n].online);
}

static void partners(const search *f, const int64_t *row, const double *least_kept, double least_own, double more,
                     double *out) {
    for (int64_t t = f->from; t < f->until; t++) {
        double kept = (double)row[f->node_of[t]] + more, least_now = least_kept ? least_kept[t] : least_own;
        out[t] = kept > least_now ? kept : least_now;
    }
}

// out: what each target as a secondary, keeping `kept`, adds: deviation of reserved memory, N+1 and its total.
HOT static void add_secondary(const search *f, const double *kept, double added, sums base, const double *disks,
                              double rest, double *out) {
    const series *own = &f->of[RESERVED];
    const double *away = own->away, *per_memory = f->per_memory, *reserved = f->reserved, *free = f->free,
                 *count = f->count_of, *failing = f->failing;
    double share = f->share;
    for (int64_t t = f->from; t < f->until; t++) {
        double change = (kept[t] - reserved[t]) * per_memory[t];
        double mean = (base.total + change) * share;
        double square = (base.squares + change * (2 * away[t] + change)) * share;
        double variance = square - mean * mean - SLACK * square;
        double n1 = (free[t] <= kept[t] ? count[t] + added : 0) - (failing[t] != 0 ? count[t] : 0);
        out[t] = disks[t] + rest + sqrt(variance > 0 ? variance : 0) + added * n1 + 0.25 * change;
    }
}

// out: what each target as a primary adds, while node x (of the given total memory) keeps `kept` for it.
HOT static void add_primary(const search *f, const double *kept, double free_x, double count_x, double per_memory_x,
                            double mean_reserved, sums base, double memory, double added, const double *disks,
                            const double *primaries, double rest, double *out) {
    const double *reserved = f->reserved, *free = f->free, *count = f->count_of, *failing = f->failing;
    double share = f->share;
    for (int64_t t = f->from; t < f->until; t++) {
        double away = kept[t] * per_memory_x - mean_reserved;
        double mean = (base.total + away) * share;
        double square = (base.squares + away * away) * share;
        double variance = square - mean * mean - SLACK * square;
        double n1 = (free[t] - memory <= reserved[t] ? count[t] + added : 0) - (failing[t] != 0 ? count[t] : 0);
        double n1_x = free_x <= kept[t] ? count_x : 0;
        out[t] = disks[t] + primaries[t] + rest + sqrt(variance > 0 ? variance : 0) + added * n1 + n1_x +
                 0.25 * kept[t] * per_memory_x;
    }
}

static void add_everywhere(const search *f, const double *more, double weight, double *out) {
    for (int64_t t = f->from; t < f->until; t++) out[t] += weight * more[t];
}

bool has_tags(const search *f, const subject *j) {
    return j->i->exclusions || (!j->i->forthcoming && (j->i->desired || f->k->location_words));
}

// What tags say of the instance as a primary of each target, and of the pairs it would make.
void read_tags(search *f, const subject *j) {
    for (int64_t t = f->from; t < f->until; t++) {
        values v = {0};
        int64_t n = f->node_of[t];
        with_primary(f->k, n, j->i, NOWHERE, &v);
        f->clash[t] = (double)v.conflicts;
        f->location[t] = (double)v.location;
        f->place[t] = f->k->location_tags && j->i->exclusions ? (double)place_clashes(f->k, j->i, n) : 0;
    }
}

// Location score of a pair whose one side is x: only online primaries count, and targets are online.
static void add_pair_locations(const search *f, const subject *j, int64_t x, double *out) {
    if (!f->k->location_words || j->i->forthcoming) return;
    for (int64_t t = f->from; t < f->until; t++) out[t] += (double)shared_locations(f->k, x, f->node_of[t]);
}

static void add_tags_of_primary(const search *f, double *out) {
    add_everywhere(f, f->clash, 2, out);
    add_everywhere(f, f->location, 1, out);
    add_everywhere(f, f->place, 1, out);
}

static void bar_own(const subject *j, double *out) {
    if (j->tp != NOWHERE) out[j->tp] = INFINITY;
    if (j->ts != NOWHERE) out[j->ts] = INFINITY;
}

static const limits *limits_for(const search *f, const subject *j, bool forced) {
    if (j->i->forthcoming) return forced ? &f->none : &f->forthcoming;
    return forced ? &f->forced : &f->unforced;
}

static void bar_secondary(const search *f, const subject *j, const double *kept, bool forced, double *out) {
    const limits *own = limits_for(f, j, forced);
    const instance *i = j->i;
    double disk = i->local_disk ? (double)i->disk : -INFINITY, reserve = (double)i->claim;
    double use = i->local_disk ? (double)i->spindle_use : -INFINITY, spindles = spindles_asked(i);
    bool keeps = own == &f->unforced;
    for (int64_t t = f->from; t < f->until; t++) {
        int ok = (disk < own->disk[t]) & (use <= own->spindle_use[t]) & (spindles <= own->spindles[t]) &
                 (reserve < own->reserve[t]) & (!keeps | (f->free[t] > kept[t]) | (f->failing[t] != 0));
        out[t] += ok ? 0 : INFINITY;
    }
}

// The node x stays or becomes the secondary, keeping `kept` if the target is the primary.
static void bar_kept(const search *f, const subject *j, const values *bare, const double *kept, bool forced, double *out) {
    if (forced || j->i->forthcoming || fails_n1(bare)) return;
    for (int64_t t = f->from; t < f->until; t++)
        if (!((double)bare->free_memory > kept[t])) out[t] = INFINITY;
}

static double reserved_deviation(const search *f, sums now) { return deviation_below(f, now.total, now.squares); }

double estimate_failover(const search *f, const subject *j, bool forced) {
    const kernel *k = f->k;
    const instance *i = j->i;
    bool dead = !k->node[j->p].online;
    if (!may_migrate(k, j->p, j->s) || refuse_primary(k, j->s, &j->bare_s, i, forced)) return INFINITY;
    int64_t bare_reserved = k->value[j->p].reserved_memory;
    int64_t kept = reserved_after(k, j->p, j->s, i->reserved);
    if (!i->reserved) kept = bare_reserved;
    if (refuse_secondary(k, j->p, &j->bare_p, i, kept, forced, dead)) return INFINITY;
    values p = j->bare_p, s = j->bare_s;
    with_secondary(k, j->p, i, kept, &p);
    with_primary(k, j->s, i, j->p, &s);
    double metric_p[METRICS], metric_s[METRICS], total = f->base_sums;
    metrics_of(k, j->p, &p, metric_p);
    metrics_of(k, j->s, &s, metric_s);
    total += plain_sums_of(f, j->p, metric_p) - plain_sums_of(f, j->p, &k->metric[j->p * METRICS]);
    total += plain_sums_of(f, j->s, metric_s) - plain_sums_of(f, j->s, &k->metric[j->s * METRICS]);
    for (int s_ = 0; s_ < SERIES; s_++) {
        const series *own = &f->of[s_];
        if (own->weight == 0) continue;
        sums now = changed(own, sums_of(own), j->tp, metric_p[metric_of_series[s_]]);
        now = changed(own, now, j->ts, metric_s[metric_of_series[s_]]);
        total += own->weight * deviation_below(f, now.total, now.squares);
    }
    return total + (double)place_clashes(k, i, j->s);
}

// Sums that are no deviations once both nodes are without the instance.
static double rest_without(const search *f, const subject *j, bool without_p, bool without_s) {
    const kernel *k = f->k;
    double rest = f->base_sums;
    if (without_p) rest += plain_sums_of(f, j->p, j->metric_p) - plain_sums_of(f, j->p, &k->metric[j->p * METRICS]);
    if (without_s) rest += plain_sums_of(f, j->s, j->metric_s) - plain_sums_of(f, j->s, &k->metric[j->s * METRICS]);
    return rest;
}

// P is taken for the instance's primary anew, so that it is judged by what is known of it.
static double n1_judged_again(const search *f, const subject *j) {
    const values *p = &f->k->value[j->p];
    if (!f->k->node[j->p].online || j->i->forthcoming) return 0;
    double count = (double)(p->primaries + p->secondaries);
    return (p->free_memory <= p->reserved_memory ? count : 0) - (p->fails ? count : 0);
}

void estimate_replace_secondary(search *f, const subject *j, bool forced_s, double *out) {
    const kernel *k = f->k;
    const instance *i = j->i;
    const series *own = &f->of[RESERVED];
    double added = !i->forthcoming, rest = rest_without(f, j, false, true);
    double primaries = primaries_with(f, NOWHERE, NULL, NOWHERE, NULL);
    rest += n1_judged_again(f, j);
    partners(f, &k->peers_of[j->p * k->nodes], f->reserved, 0, (double)i->reserved, f->partner_of_primary);
    sums base = changed(own, sums_of(own), j->ts, j->metric_s[RESERVED_MEMORY]);
    add_secondary(f, f->partner_of_primary, added, base, f->disks_without_secondary, rest + primaries, out);
    if (has_tags(f, j) && k->node[j->p].online) {
        double pair_now = i->forthcoming ? 0 : (double)shared_locations(k, j->p, j->s);
        add_pair_locations(f, j, j->p, out);
        for (int64_t t = f->from; t < f->until; t++) out[t] -= pair_now;
        // the instance's tags at P were not taken away for this kind
    }
    if (has_tags(f, j)) {
        double kept_place = (double)place_clashes(k, i, j->p);
        for (int64_t t = f->from; t < f->until; t++) out[t] += kept_place;
    }
    bar_secondary(f, j, f->partner_of_primary, forced_s, out);
    bar_own(j, out);
}

// T becomes primary and x, one of the two nodes, is its secondary: x = P for "r:T f", x = S for "f r:T f".
void estimate_replace(search *f, const subject *j, bool x_is_p, bool forced_primary, bool forced_x, double *out) {
    const kernel *k = f->k;
    const instance *i = j->i;
    const series *own = &f->of[RESERVED];
    int64_t x = x_is_p ? j->p : j->s;
    int32_t tx = x_is_p ? j->tp : j->ts;
    const values *bare = x_is_p ? &j->bare_p : &j->bare_s;
    double *kept = x_is_p ? f->kept_by_primary : f->kept_by_secondary;
    double added = !i->forthcoming, memory = i->uses_memory ? (double)i->memory : 0;
    double rest = rest_without(f, j, true, true), per_memory = 1 / k->node[x].total_memory;
    double count_x = (double)(bare->primaries + bare->secondaries) + added;
    partners(f, &k->peers[x * k->nodes], NULL, (double)bare->reserved_memory, (double)i->reserved, kept);
    sums base = sums_of(own);
    if (x_is_p) base = changed(own, base, j->ts, j->metric_s[RESERVED_MEMORY]);
    double free_x = (double)bare->free_memory;
    if (i->forthcoming) free_x = fails_n1(bare) ? -INFINITY : INFINITY;  // it is not judged again
    if (tx == NOWHERE) {  // an offline node is in no deviation; what it holds counts as offline
        count_x = per_memory = 0;
        free_x = INFINITY;
        if (added > 0) rest += 4;
    } else {  // its own distance goes, the new one comes per target; its sums were added without the instance
        base.total -= own->away[tx];
        base.squares -= own->away[tx] * own->away[tx];
        const double *bare_metric = x_is_p ? j->metric_p : j->metric_s;
        rest -= bare_metric[N1] + 0.25 * bare_metric[RESERVED_MEMORY];
    }
    const double *disks = x_is_p ? f->disks_without_secondary : f->disks_without_primary;
    add_primary(f, kept, free_x, count_x, per_memory, tx == NOWHERE ? 0 : own->mean, base, memory, added, disks,
                f->as_primary, rest, out);
    if (has_tags(f, j)) {
        add_tags_of_primary(f, out);
        add_pair_locations(f, j, x, out);
    }
    bar(f, j, limits_for(f, j, forced_primary), f->primary_barred);
    bar_migration(f, x, f->primary_barred);
    add_everywhere(f, f->primary_barred, 1, out);
    bar_kept(f, j, bare, kept, forced_x, out);
    bar_own(j, out);
}

void estimate_failover_and_replace(search *f, const subject *j, bool forced_p, double *out) {
    const kernel *k = f->k;
    const instance *i = j->i;
    const series *own = &f->of[RESERVED];
    values s = j->bare_s;
    double metric_s[METRICS], added = !i->forthcoming, rest = rest_without(f, j, true, false);
    with_primary(k, j->s, i, NOWHERE, &s);
    metrics_of(k, j->s, &s, metric_s);
    rest += plain_sums_of(f, j->s, metric_s) - plain_sums_of(f, j->s, &k->metric[j->s * METRICS]);
    rest += (double)place_clashes(k, i, j->s);
    double primaries = primaries_with(f, j->tp, j->metric_p, j->ts, metric_s);
    partners(f, &k->peers_of[j->s * k->nodes], f->reserved, 0, (double)i->reserved, f->partner_of_secondary);
    sums base = changed(own, sums_of(own), j->ts, metric_s[RESERVED_MEMORY]);
    add_secondary(f, f->partner_of_secondary, added, base, f->disks_without_primary, rest + primaries, out);
    if (has_tags(f, j) && k->node[j->s].online) add_pair_locations(f, j, j->s, out);
    bar_secondary(f, j, f->partner_of_secondary, forced_p, out);
    bar_own(j, out);
}

void estimate_failover_to_any(search *f, const subject *j, bool forced, double *out) {
    const instance *i = j->i;
    double rest = rest_without(f, j, true, false), memory = i->uses_memory ? (double)i->memory : 0;
    double added = !i->forthcoming;
    rest += reserved_deviation(f, sums_of(&f->of[RESERVED]));
    add_disks(f, j, j->tp, j->metric_p, f->disks_without_primary);
    add_primaries(f, j, f->as_primary);
    for (int64_t t = f->from; t < f->until; t++) {
        double n1 = (f->free[t] - memory <= f->reserved[t] ? f->count_of[t] + added : 0) -
                    (f->failing[t] != 0 ? f->count_of[t] : 0);
        out[t] = f->disks_without_primary[t] + f->as_primary[t] + rest + added * n1;
    }
    if (has_tags(f, j)) {
        read_tags(f, j);
        add_tags_of_primary(f, out);
    }
    bar(f, j, limits_for(f, j, forced), f->primary_barred);
    bar_migration(f, j->p, f->primary_barred);
    add_everywhere(f, f->primary_barred, 1, out);
    bar_own(j, out);
}
