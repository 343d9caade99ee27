// SPDX-License-Identifier: BSD-2-Clause
// The best single move of a group (definition_moves.best_step), out of up to four kinds for every instance and target.
//
// A score is a sum of standard deviations, and a move changes two or three nodes: with the sums of the distances from
// the mean and of their squares at hand, each deviation after a move takes a few operations. That estimate is kept below
// the true score, is made for all targets of an instance at once, and leaves only those candidates whose estimate comes
// within a hair of the best; these are scored as the definition does, in its order, and so ties fall as they must.
#include "kernel.h"

enum { DISK, DISK_F, LOADED_DISK, SPINDLE, SPINDLE_F, MEMORY, MEMORY_F, CPU, CPU_F, LOADED_CPU, LOADED_MEMORY,
       LOADED_NET, RESERVED, SERIES };
enum { FIRST_OF_PRIMARY = MEMORY };

static const int metric_of_series[SERIES] = {FREE_DISK, FREE_DISK_FORTHCOMING, LOAD_DISK, SPINDLES,
    SPINDLES_FORTHCOMING, FREE_MEMORY, FREE_MEMORY_FORTHCOMING, CPUS, CPUS_FORTHCOMING, LOAD_CPU, LOAD_MEMORY, LOAD_NET,
    RESERVED_MEMORY};

// Slack of an estimate for the rounding of its sums, as a share of the mean square, and how far apart two estimates may
// be and still need exact scores.
#define SLACK 1e-13
#define HAIR 1e-9

// One deviation: distances from the mean per target, and by how much a target's value changes per unit of size.
typedef struct { double weight, mean, total, squares; double *away, *per_unit, *per_spindle; } series;
typedef struct { double *memory, *memory_f, *disk, *spindle_use, *cpus, *spindles, *reserve; } limits;
typedef struct { double total, squares; } sums;
typedef struct { int32_t instance, kind, target; double estimate; } candidate;

typedef struct {
    kernel *k;
    const int64_t *members;
    int64_t count, flags, targets;
    double share, score, base_sums;  // 1 / targets; score now; what is no deviation in it
    int32_t *node_of, *target_of;    // [targets] and [nodes]
    series of[SERIES];
    limits unforced, forced, forthcoming;
    double *free, *reserved, *count_of, *per_memory, *failing;  // `failing`: 1 where the node fails N+1 already
    double *primary_barred, *partner_of_primary, *partner_of_secondary, *kept_by_primary, *kept_by_secondary;
    double *disks_without_secondary, *disks_without_primary, *as_primary, *estimate[4], *clash, *location, *place;
    double *room;
    double lowest, hair;
    candidate *found;
    int64_t found_count, found_room;
} search;

// One instance under examination: its nodes without it, and its size in each series.
typedef struct {
    const instance *i;
    int64_t number, p, s;
    int32_t tp, ts;  // targets' numbers of its nodes, NOWHERE if offline
    values bare_p, bare_s;
    double metric_p[METRICS], metric_s[METRICS];  // of the nodes without it
    double size[SERIES], spindles, spindles_f;
} subject;

static double *take(search *f) {
    double *own = f->room;
    f->room += (f->targets + 15) / 8 * 8;
    return own;
}

static double deviation_below(const search *f, double total, double squares) {
    double mean = total * f->share, square = squares * f->share;
    double variance = square - mean * mean - SLACK * square;
    return variance > 0 ? sqrt(variance) : 0;
}

static bool same_row(const search *f, int a, int b) {
    size_t size = (size_t)f->targets * sizeof(double);
    return !memcmp(f->of[a].away, f->of[b].away, size) && !memcmp(f->of[a].per_unit, f->of[b].per_unit, size);
}

// Deviations that are the same for every candidate are computed once, with the sum of their weights.
static void merge_series(search *f) {
    const kernel *k = f->k;
    bool none_forthcoming = true, all_use_memory = true, equal_loads = true;
    for (int64_t n = 0; n < k->instances; n++) {
        const instance *i = &k->instance[n];
        none_forthcoming &= !i->forthcoming;
        all_use_memory &= i->uses_memory;
        equal_loads &= i->load[0] == i->load[1] && i->load[0] == i->load[3];
    }
    const struct { int kept, merged; bool allowed; } pairs[] = {
        {DISK, DISK_F, none_forthcoming}, {SPINDLE, SPINDLE_F, none_forthcoming}, {CPU, CPU_F, none_forthcoming},
        {MEMORY, MEMORY_F, all_use_memory}, {LOADED_CPU, LOADED_MEMORY, equal_loads},
        {LOADED_CPU, LOADED_NET, equal_loads}};
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
        if (!pairs[p].allowed || !same_row(f, pairs[p].kept, pairs[p].merged)) continue;
        f->of[pairs[p].kept].weight += f->of[pairs[p].merged].weight;
        f->of[pairs[p].merged].weight = 0;
    }
}

static double inverse(double whole) { return whole != 0 ? 1 / whole : 0; }

static void read_series(search *f) {
    static const double weights[SERIES] = {0.5, 0.5, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1, 1, 1, 1};
    const kernel *k = f->k;
    for (int s = 0; s < SERIES; s++) {
        series *own = &f->of[s];
        own->weight = weights[s];
        own->mean = own->total = own->squares = 0;
        for (int64_t t = 0; t < f->targets; t++) own->mean += k->metric[f->node_of[t] * METRICS + metric_of_series[s]];
        own->mean *= f->share;
        for (int64_t t = 0; t < f->targets; t++) {
            const node *d = &k->node[f->node_of[t]];
            double away = k->metric[f->node_of[t] * METRICS + metric_of_series[s]] - own->mean;
            own->away[t] = away;
            own->total += away;
            own->squares += away * away;
            switch (s) {
            case DISK: case DISK_F:
                own->per_unit[t] = d->exclusive ? 0 : -inverse(d->total_disk);
                own->per_spindle[t] = d->exclusive ? -inverse(d->spindles) : 0;
                break;
            case SPINDLE: case SPINDLE_F: own->per_unit[t] = d->exclusive ? 0 : 1 / d->high_spindles; break;
            case MEMORY: case MEMORY_F: own->per_unit[t] = -1 / d->total_memory; break;
            case CPU: case CPU_F: own->per_unit[t] = 1 / d->total_cpus / d->cpu_speed; break;
            case RESERVED: own->per_unit[t] = 1 / d->total_memory; break;
            default: own->per_unit[t] = 1;
            }
        }
    }
    merge_series(f);
}

static double least(double a, double b) { return a < b ? a : b; }

// The most vcpus a node may have by its ratio, as the check's division says it.
static double most_cpus(const node *d) {
    if (!(d->total_cpus > 0)) return 0;
    double most = floor(d->vcpu_ratio * d->total_cpus);
    while (most > 0 && most / d->total_cpus > d->vcpu_ratio) most--;
    while ((most + 1) / d->total_cpus <= d->vcpu_ratio && most < 1e15) most++;
    return most;
}

static void read_limits(search *f) {
    const kernel *k = f->k;
    for (int64_t t = 0; t < f->targets; t++) {
        const node *d = &k->node[f->node_of[t]];
        const values *v = &k->value[f->node_of[t]];
        double free = (double)v->free_memory, reserved = (double)v->reserved_memory, cpus = most_cpus(d);
        double now = least((double)v->free_disk, (double)(v->free_disk - d->low_disk + 1));
        double later = least((double)v->free_disk_forthcoming, (double)(v->free_disk_forthcoming - d->low_disk + 1));
        double uses = floor(d->high_spindles) - (double)v->spindle_uses;
        double uses_later = floor(d->high_spindles) - (double)v->spindle_uses_forthcoming;
        double spindles = d->exclusive ? (double)v->free_spindles : INFINITY;
        double spindles_later = d->exclusive ? (double)v->free_spindles_forthcoming : INFINITY;
        if (d->exclusive) {
            uses = (double)v->spindle_uses > d->high_spindles ? -1 : INFINITY;
            uses_later = (double)v->spindle_uses_forthcoming > d->high_spindles ? -1 : INFINITY;
        }
        f->free[t] = free;
        f->reserved[t] = reserved;
        f->failing[t] = fails_n1(v);
        f->count_of[t] = (double)(v->primaries + v->secondaries);
        f->per_memory[t] = 1 / d->total_memory;
        f->unforced.memory[t] = fails_n1(v) ? free : least(free, free - reserved);
        f->unforced.memory_f[t] = f->forthcoming.memory_f[t] = (double)v->free_memory_forthcoming;
        f->unforced.disk[t] = least(now, later);
        f->unforced.spindle_use[t] = least(uses, uses_later);
        f->unforced.cpus[t] = cpus - (double)(v->cpus > v->cpus_forthcoming ? v->cpus : v->cpus_forthcoming);
        f->unforced.spindles[t] = least(spindles, spindles_later);
        f->unforced.reserve[t] = least(free, (double)v->free_memory_forthcoming);
        f->forced.memory[t] = free;
        f->forced.disk[t] = (double)v->free_disk;
        f->forced.spindles[t] = spindles;
        f->forced.memory_f[t] = f->forced.spindle_use[t] = f->forced.cpus[t] = f->forced.reserve[t] = INFINITY;
        f->forthcoming.memory[t] = INFINITY;
        f->forthcoming.disk[t] = later;
        f->forthcoming.spindle_use[t] = uses_later;
        f->forthcoming.cpus[t] = cpus - (double)v->cpus_forthcoming;
        f->forthcoming.spindles[t] = spindles_later;
        f->forthcoming.reserve[t] = (double)v->free_memory_forthcoming;
    }
}

static double *search_new(search *f, kernel *k, const int64_t *members, int64_t count, int64_t flags) {
    *f = (search){.k = k, .members = members, .count = count, .flags = flags, .lowest = INFINITY, .hair = HAIR};
    int32_t *numbers = malloc((size_t)(2 * k->nodes + 1) * sizeof *numbers);
    if (!numbers) return NULL;
    f->node_of = numbers;
    f->target_of = numbers + k->nodes;
    for (int64_t n = 0; n < k->nodes; n++) f->target_of[n] = NOWHERE;
    for (int64_t m = 0; m < count; m++)
        if (k->node[members[m]].online) {
            f->target_of[members[m]] = (int32_t)f->targets;
            f->node_of[f->targets++] = (int32_t)members[m];
        }
    f->share = 1 / (double)f->targets;
    size_t rows = 2 * SERIES + 2 + 3 * 7 + 5 + 5 + 3 + 4 + 3;
    double *memory = calloc(rows * (size_t)((f->targets + 15) / 8 * 8) + 8, sizeof *memory);
    if (!memory) return NULL;
    f->room = memory;
    for (int s = 0; s < SERIES; s++) {
        f->of[s].away = take(f);
        f->of[s].per_unit = take(f);
        f->of[s].per_spindle = s == DISK || s == DISK_F ? take(f) : NULL;
    }
    limits *all[] = {&f->unforced, &f->forced, &f->forthcoming};
    for (int l = 0; l < 3; l++) {
        double **own[] = {&all[l]->memory, &all[l]->memory_f, &all[l]->disk, &all[l]->spindle_use, &all[l]->cpus,
                          &all[l]->spindles, &all[l]->reserve};
        for (int r = 0; r < 7; r++) *own[r] = take(f);
    }
    double **rest[] = {&f->free, &f->reserved, &f->count_of, &f->per_memory, &f->failing, &f->primary_barred,
                       &f->partner_of_primary, &f->partner_of_secondary, &f->kept_by_primary, &f->kept_by_secondary,
                       &f->disks_without_secondary, &f->disks_without_primary, &f->as_primary, &f->estimate[0],
                       &f->estimate[1], &f->estimate[2], &f->estimate[3], &f->clash, &f->location, &f->place};
    for (size_t r = 0; r < sizeof rest / sizeof *rest; r++) *rest[r] = take(f);
    read_series(f);
    read_limits(f);
    double parts[COMPONENTS];
    kernel_components(k, members, count, parts);
    for (int c = 0; c < COMPONENTS; c++)
        if (components[c].kind != DEVIATION) f->base_sums += components[c].weight * parts[c];
    f->score = kernel_score(k, members, count);
    return memory;
}

static void describe_subject(const search *f, int64_t number, subject *j) {
    const kernel *k = f->k;
    const instance *i = &k->instance[number];
    *j = (subject){.i = i, .number = number, .p = i->primary, .s = i->secondary, .tp = f->target_of[i->primary],
                   .ts = NOWHERE, .bare_p = k->value[i->primary]};
    without_primary(k, j->p, i, j->s, &j->bare_p);
    metrics_of(k, j->p, &j->bare_p, j->metric_p);
    if (j->s != NOWHERE) {
        j->ts = f->target_of[j->s];
        j->bare_s = k->value[j->s];
        without_secondary(k, j->s, i, reserved_after(k, j->s, j->p, -i->reserved), &j->bare_s);
        metrics_of(k, j->s, &j->bare_s, j->metric_s);
    }
    bool now = !i->forthcoming;
    double disk = i->local_disk ? (double)i->disk : 0, use = i->local_disk ? (double)i->spindle_use : 0;
    double spindles = i->spindles == NOWHERE ? 0 : (double)i->spindles;
    double sizes[SERIES] = {now ? disk : 0, disk, now ? i->load[2] : 0, now ? use : 0, use,
                            i->uses_memory ? (double)i->memory : 0, (double)i->memory, now ? (double)i->vcpus : 0,
                            (double)i->vcpus, now ? i->load[0] : 0, now ? i->load[1] : 0, now ? i->load[3] : 0, 0};
    memcpy(j->size, sizes, sizeof sizes);
    j->spindles = now ? spindles : 0;
    j->spindles_f = now || i->local_disk ? spindles : 0;
}

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
    for (int64_t t = 0; t < f->targets; t++) {
        double change = size * per_unit[t] + (per_spindle ? spindles * per_spindle[t] : 0);
        double mean = (base.total + change) * share;
        double square = (base.squares + change * (2 * away[t] + change)) * share;
        double variance = square - mean * mean - SLACK * square;
        out[t] += weight * sqrt(variance > 0 ? variance : 0);
    }
}

// Deviations that count the instance in both roles: disks and spindles. `leaves` is the target it is taken from.
static void add_disks(const search *f, const subject *j, int32_t leaves, const double *metric, double *out) {
    memset(out, 0, (size_t)f->targets * sizeof *out);
    for (int s = 0; s < FIRST_OF_PRIMARY; s++) {
        const series *own = &f->of[s];
        if (own->weight == 0) continue;
        sums base = changed(own, sums_of(own), leaves, metric[metric_of_series[s]]);
        add_deviations(f, own, j->size[s], s == DISK ? j->spindles : j->spindles_f, base, out);
    }
}

// Deviations that count primaries only, with the instance's primary going from P to each target.
static void add_primaries(const search *f, const subject *j, double *out) {
    memset(out, 0, (size_t)f->targets * sizeof *out);
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

static void bar(const search *f, const subject *j, const limits *own, double *barred) {
    const instance *i = j->i;
    double memory = i->uses_memory ? (double)i->memory : 0, memory_f = (double)i->memory, cpus = (double)i->vcpus;
    double disk = i->local_disk ? (double)i->disk : -INFINITY;
    double use = i->local_disk ? (double)i->spindle_use : -INFINITY, spindles = -INFINITY;
    if (i->local_disk) spindles = i->spindles == NOWHERE ? INFINITY : (double)i->spindles;
    for (int64_t t = 0; t < f->targets; t++) {
        // on exclusive storage an instance uses no spindles of the shared kind: the limit there is all or nothing
        int ok = (memory < own->memory[t]) & (memory_f < own->memory_f[t]) & (disk < own->disk[t]) &
                 (use <= own->spindle_use[t]) & (cpus <= own->cpus[t]) & (spindles <= own->spindles[t]);
        barred[t] = ok ? 0 : INFINITY;
    }
    if (own == &f->unforced && i->exclusions)
        for (int64_t t = 0; t < f->targets; t++)
            if (shares_exclusion_tag(f->k, i, f->node_of[t])) barred[t] = INFINITY;
}

static void bar_migration(const search *f, int64_t source, double *barred) {
    if (f->k->domains < 2) return;
    for (int64_t t = 0; t < f->targets; t++)
        if (!may_migrate(f->k, source, f->node_of[t])) barred[t] = INFINITY;
}

static void offer(search *f, const subject *j, int kind, int64_t target, double estimate) {
    if (!(estimate <= f->lowest + f->hair)) return;
    if (estimate < f->lowest) f->lowest = estimate;
    if (f->found_count == f->found_room) {  // leave out what has been overtaken since, then grow
        int64_t left = 0;
        for (int64_t c = 0; c < f->found_count; c++)
            if (f->found[c].estimate <= f->lowest + f->hair) f->found[left++] = f->found[c];
        f->found_count = left;
        if (2 * left >= f->found_room) {
            f->found_room = f->found_room ? 2 * f->found_room : 1024;
            f->found = realloc(f->found, (size_t)f->found_room * sizeof *f->found);
            if (!f->found) abort();
        }
    }
    f->found[f->found_count++] = (candidate){(int32_t)j->number, kind, (int32_t)target, estimate};
}

HOT static double lowest_of(const double *all, int64_t count) {
    double lowest = INFINITY;
    for (int64_t t = 0; t < count; t++) lowest = all[t] < lowest ? all[t] : lowest;
    return lowest;
}

static void offer_targets(search *f, const subject *j, double *const *estimates, const int *kinds, int count) {
    double lowest = INFINITY;
    for (int c = 0; c < count; c++) lowest = least(lowest, lowest_of(estimates[c], f->targets));
    if (!(lowest <= f->lowest + f->hair)) return;
    for (int64_t t = 0; t < f->targets; t++)
        for (int c = 0; c < count; c++)
            if (estimates[c][t] <= f->lowest + f->hair) offer(f, j, kinds[c], f->node_of[t], estimates[c][t]);
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
    for (int64_t t = 0; t < f->targets; t++) {
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
    for (int64_t t = 0; t < f->targets; t++) {
        double change = (kept[t] - reserved[t]) * per_memory[t];
        double mean = (base.total + change) * share;
        double square = (base.squares + change * (2 * away[t] + change)) * share;
        double variance = square - mean * mean - SLACK * square;
        double n1 = (free[t] <= kept[t] ? count[t] + added : 0) - (failing[t] != 0 ? count[t] : 0);
        out[t] = disks[t] + rest + sqrt(variance > 0 ? variance : 0) + n1 + 0.25 * change;
    }
}

// out: what each target as a primary adds, while node x (of the given total memory) keeps `kept` for it.
HOT static void add_primary(const search *f, const double *kept, double free_x, double count_x, double per_memory_x,
                            double mean_reserved, sums base, double memory, double added, const double *disks,
                            const double *primaries, double rest, double *out) {
    const double *reserved = f->reserved, *free = f->free, *count = f->count_of, *failing = f->failing;
    double share = f->share;
    for (int64_t t = 0; t < f->targets; t++) {
        double away = kept[t] * per_memory_x - mean_reserved;
        double mean = (base.total + away) * share;
        double square = (base.squares + away * away) * share;
        double variance = square - mean * mean - SLACK * square;
        double n1 = (free[t] - memory <= reserved[t] ? count[t] + added : 0) - (failing[t] != 0 ? count[t] : 0);
        double n1_x = free_x <= kept[t] ? count_x : 0;
        out[t] = disks[t] + primaries[t] + rest + sqrt(variance > 0 ? variance : 0) + n1 + n1_x +
                 0.25 * kept[t] * per_memory_x;
    }
}

static void add_everywhere(const search *f, const double *more, double weight, double *out) {
    for (int64_t t = 0; t < f->targets; t++) out[t] += weight * more[t];
}

static bool has_tags(const search *f, const subject *j) {
    return !j->i->forthcoming && (j->i->exclusions || j->i->desired || f->k->location_words);
}

// What tags say of the instance as a primary of each target, and of the pairs it would make.
static void read_tags(search *f, const subject *j) {
    for (int64_t t = 0; t < f->targets; t++) {
        values v = {0};
        int64_t n = f->node_of[t];
        with_primary(f->k, n, j->i, NOWHERE, &v);
        f->clash[t] = (double)v.conflicts;
        f->location[t] = (double)v.location;
        f->place[t] = f->k->location_tags && j->i->exclusions ? (double)place_clashes(f->k, j->i, n) : 0;
    }
}

// Location score of a pair whose one side is x: only online primaries count, and targets are online.
static void add_pair_locations(const search *f, int64_t x, double *out) {
    if (!f->k->location_words) return;
    for (int64_t t = 0; t < f->targets; t++) out[t] += (double)shared_locations(f->k, x, f->node_of[t]);
}

static void add_tags_of_primary(const search *f, double *out) {
    add_everywhere(f, f->clash, 2, out);
    add_everywhere(f, f->location, 1, out);
    add_everywhere(f, f->place, 1, out);
}

static void bar_own(const search *f, const subject *j, double *out) {
    if (j->tp != NOWHERE) out[j->tp] = INFINITY;
    if (j->ts != NOWHERE) out[j->ts] = INFINITY;
    (void)f;
}

static const limits *limits_for(const search *f, const subject *j, bool forced) {
    if (j->i->forthcoming) return &f->forthcoming;
    return forced ? &f->forced : &f->unforced;
}

static void bar_secondary(const search *f, const subject *j, const double *kept, bool forced, double *out) {
    const limits *own = limits_for(f, j, forced);
    const instance *i = j->i;
    double disk = i->local_disk ? (double)i->disk : -INFINITY, reserve = (double)i->reserved;
    double use = i->local_disk ? (double)i->spindle_use : -INFINITY, spindles = -INFINITY;
    if (i->local_disk) spindles = i->spindles == NOWHERE ? INFINITY : (double)i->spindles;
    bool keeps = own == &f->unforced;
    for (int64_t t = 0; t < f->targets; t++) {
        int ok = (disk < own->disk[t]) & (use <= own->spindle_use[t]) & (spindles <= own->spindles[t]) &
                 (reserve < own->reserve[t]) & (!keeps | (f->free[t] > kept[t]) | (f->failing[t] != 0));
        out[t] += ok ? 0 : INFINITY;
    }
}

// The node x stays or becomes the secondary, keeping `kept` if the target is the primary.
static void bar_kept(const search *f, const subject *j, const values *bare, const double *kept, bool forced, double *out) {
    if (forced || j->i->forthcoming || fails_n1(bare)) return;
    for (int64_t t = 0; t < f->targets; t++)
        if (!((double)bare->free_memory > kept[t])) out[t] = INFINITY;
}

static double reserved_deviation(const search *f, sums now) { return deviation_below(f, now.total, now.squares); }

static void offer_failover(search *f, const subject *j, bool forced) {
    const kernel *k = f->k;
    const instance *i = j->i;
    bool dead = !k->node[j->p].online;
    if (!may_migrate(k, j->p, j->s) || refuse_primary(k, j->s, &j->bare_s, i, forced)) return;
    int64_t bare_reserved = k->value[j->p].reserved_memory;
    int64_t kept = reserved_after(k, j->p, j->s, i->reserved);
    if (!i->reserved) kept = bare_reserved;
    if (refuse_secondary(k, j->p, &j->bare_p, i, kept, forced, dead)) return;
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
    total += (double)place_clashes(k, i, j->s);
    offer(f, j, FAILOVER, NOWHERE, total);
}

// Sums that are no deviations once both nodes are without the instance.
static double rest_without(const search *f, const subject *j, bool without_p, bool without_s) {
    const kernel *k = f->k;
    double rest = f->base_sums;
    if (without_p) rest += plain_sums_of(f, j->p, j->metric_p) - plain_sums_of(f, j->p, &k->metric[j->p * METRICS]);
    if (without_s) rest += plain_sums_of(f, j->s, j->metric_s) - plain_sums_of(f, j->s, &k->metric[j->s * METRICS]);
    return rest;
}

static void estimate_replace_secondary(search *f, const subject *j, bool forced_s, double *out) {
    const kernel *k = f->k;
    const instance *i = j->i;
    const series *own = &f->of[RESERVED];
    double added = !i->forthcoming, rest = rest_without(f, j, false, true);
    double primaries = primaries_with(f, NOWHERE, NULL, NOWHERE, NULL);
    partners(f, &k->peers_of[j->p * k->nodes], f->reserved, 0, (double)i->reserved, f->partner_of_primary);
    sums base = changed(own, sums_of(own), j->ts, j->metric_s[RESERVED_MEMORY]);
    add_secondary(f, f->partner_of_primary, added, base, f->disks_without_secondary, rest + primaries, out);
    if (has_tags(f, j) && k->node[j->p].online) {
        add_pair_locations(f, j->p, out);
        for (int64_t t = 0; t < f->targets; t++) out[t] -= (double)shared_locations(k, j->p, j->s);
        // the instance's tags at P were not taken away for this kind
    }
    if (has_tags(f, j)) {
        double kept_place = (double)place_clashes(k, i, j->p);
        for (int64_t t = 0; t < f->targets; t++) out[t] += kept_place;
    }
    bar_secondary(f, j, f->partner_of_primary, forced_s, out);
    bar_own(f, j, out);
}

// T becomes primary and x, one of the two nodes, is its secondary: x = P for "r:T f", x = S for "f r:T f".
static void estimate_replace(search *f, const subject *j, bool x_is_p, bool forced_primary, bool forced_x, double *out) {
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
        add_pair_locations(f, x, out);
    }
    bar(f, j, limits_for(f, j, forced_primary), f->primary_barred);
    bar_migration(f, x, f->primary_barred);
    add_everywhere(f, f->primary_barred, 1, out);
    bar_kept(f, j, bare, kept, forced_x, out);
    bar_own(f, j, out);
}

static void estimate_failover_and_replace(search *f, const subject *j, bool forced_p, double *out) {
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
    if (has_tags(f, j) && k->node[j->s].online) add_pair_locations(f, j->s, out);
    bar_secondary(f, j, f->partner_of_secondary, forced_p, out);
    bar_own(f, j, out);
}

static void examine_mirrored(search *f, const subject *j) {
    const kernel *k = f->k;
    const instance *i = j->i;
    bool soft = f->flags & IGNORE_SOFT_ERRORS, restricted = f->flags & RESTRICTED_MIGRATION;
    bool instances_move = !(f->flags & NO_INSTANCE_MOVES), p_online = k->node[j->p].online;
    bool s_online = k->node[j->s].online, use_secondary = instances_move && s_online;
    bool forced_p = soft || !p_online, forced_s = soft || !s_online;
    if (use_secondary) offer_failover(f, j, forced_p);
    if (f->flags & NO_DISK_MOVES) return;
    bool only_secondary = !instances_move || (restricted && p_online);
    bool s_can_run = use_secondary && may_migrate(k, j->p, j->s) && !refuse_primary(k, j->s, &j->bare_s, i, forced_p);
    bool r = !refuse_primary(k, j->p, &j->bare_p, i, true);
    bool rf = !only_secondary &&
              !refuse_secondary(k, j->p, &j->bare_p, i, j->bare_p.reserved_memory, forced_s, false);
    bool frf = !only_secondary && !restricted && s_can_run &&
               !refuse_secondary(k, j->s, &j->bare_s, i, j->bare_s.reserved_memory, forced_p, false);
    bool fr = !only_secondary && s_can_run;
    if (has_tags(f, j)) read_tags(f, j);
    if (r || rf) add_disks(f, j, j->ts, j->metric_s, f->disks_without_secondary);
    if (frf || fr) add_disks(f, j, j->tp, j->metric_p, f->disks_without_primary);
    if (rf || frf) add_primaries(f, j, f->as_primary);
    int kinds[4], count = 0;
    double *estimates[4];
    if (r) {
        estimate_replace_secondary(f, j, forced_s, estimates[count] = f->estimate[0]);
        kinds[count++] = REPLACE_SECONDARY;
    }
    if (rf) {
        estimate_replace(f, j, true, soft, forced_s, estimates[count] = f->estimate[1]);
        kinds[count++] = REPLACE_AND_FAILOVER;
    }
    if (frf) {
        estimate_replace(f, j, false, forced_p, forced_p, estimates[count] = f->estimate[2]);
        kinds[count++] = REPLACE_PRIMARY;
    }
    if (fr) {
        estimate_failover_and_replace(f, j, forced_p, estimates[count] = f->estimate[3]);
        kinds[count++] = FAILOVER_AND_REPLACE;
    }
    if (count) offer_targets(f, j, estimates, kinds, count);
}

static void examine_shared(search *f, const subject *j) {
    if (f->flags & NO_INSTANCE_MOVES) return;
    const instance *i = j->i;
    bool forced = f->flags & IGNORE_SOFT_ERRORS || !f->k->node[j->p].online;
    double rest = rest_without(f, j, true, false), memory = i->uses_memory ? (double)i->memory : 0;
    double added = !i->forthcoming, *out = f->estimate[0];
    rest += reserved_deviation(f, sums_of(&f->of[RESERVED]));
    add_disks(f, j, j->tp, j->metric_p, f->disks_without_primary);
    add_primaries(f, j, f->as_primary);
    for (int64_t t = 0; t < f->targets; t++) {
        double n1 = (f->free[t] - memory <= f->reserved[t] ? f->count_of[t] + added : 0) -
                    (f->failing[t] != 0 ? f->count_of[t] : 0);
        out[t] = f->disks_without_primary[t] + f->as_primary[t] + rest + n1;
    }
    if (has_tags(f, j)) {
        read_tags(f, j);
        add_tags_of_primary(f, out);
    }
    bar(f, j, limits_for(f, j, forced), f->primary_barred);
    bar_migration(f, j->p, f->primary_barred);
    add_everywhere(f, f->primary_barred, 1, out);
    bar_own(f, j, out);
    int kind = FAILOVER_TO_ANY;
    offer_targets(f, j, &out, &kind, 1);
}

static bool is_wanted(const search *f, int64_t number, const uint8_t *movable, const uint8_t *member) {
    const kernel *k = f->k;
    const instance *i = &k->instance[number];
    if (!movable[number] || !i->movable || !i->auto_balance || i->primary == NOWHERE || !member[i->primary]) return false;
    if (i->has_secondary != (i->secondary != NOWHERE) || i->secondary == i->primary) return false;
    if (i->secondary != NOWHERE && !member[i->secondary]) return false;
    bool dead = !k->node[i->primary].online || (i->secondary != NOWHERE && !k->node[i->secondary].online);
    return dead || !(f->flags & EVACUATION);
}

static void examine(search *f, int64_t number) {
    subject j;
    const instance *i = &f->k->instance[number];
    bool places = f->k->location_tags && i->exclusions;
    describe_subject(f, number, &j);
    double before = f->base_sums;
    if (places) {  // so that clashes are asked of the cluster without it
        int64_t clashes = f->k->place_total - f->k->place_kinds;
        count_places(f->k, i, j.p, -1);
        f->base_sums -= (double)(clashes - (f->k->place_total - f->k->place_kinds));
    }
    if (i->has_secondary) examine_mirrored(f, &j);
    else examine_shared(f, &j);
    f->base_sums = before;
    if (places) count_places(f->k, i, j.p, 1);
}

static void places_after(const instance *i, int kind, int64_t t, int64_t *primary, int64_t *secondary) {
    int64_t p = i->primary, s = i->secondary;
    switch (kind) {
    case FAILOVER: *primary = s, *secondary = p; break;
    case FAILOVER_TO_ANY: *primary = t, *secondary = NOWHERE; break;
    case REPLACE_SECONDARY: *primary = p, *secondary = t; break;
    case REPLACE_AND_FAILOVER: *primary = t, *secondary = p; break;
    case REPLACE_PRIMARY: *primary = t, *secondary = s; break;
    default: *primary = s, *secondary = t;
    }
}

// Scores a candidate as the definition does, and keeps it if it is strictly better.
static void try_exactly(const search *f, int64_t number, int kind, int64_t target, step *best) {
    int64_t primary, secondary, mark = kernel_mark(f->k);
    places_after(&f->k->instance[number], kind, target, &primary, &secondary);
    kernel_move(f->k, number, primary, secondary);
    double score = kernel_score(f->k, f->members, f->count);
    kernel_rollback(f->k, mark);
    if (score < best->score)
        *best = (step){.instance = number, .kind = kind, .target = target, .primary = primary,
                       .secondary = secondary, .score = score};
}

// Without estimates: each candidate is checked by itself and scored exactly. For clusters whose numbers make no sense
// to divide by, and to test the estimates against.
static bool is_legal(const search *f, const subject *j, int kind, int64_t t) {
    const kernel *k = f->k;
    const instance *i = j->i;
    bool soft = f->flags & IGNORE_SOFT_ERRORS, dead_p = !k->node[j->p].online, forced_p = soft || dead_p;
    bool forced_s = soft || (j->s != NOWHERE && !k->node[j->s].online);
    const values *at = t == NOWHERE ? NULL : &k->value[t];
    switch (kind) {
    case FAILOVER:
        return may_migrate(k, j->p, j->s) && !refuse_primary(k, j->s, &j->bare_s, i, forced_p) &&
               !refuse_secondary(k, j->p, &j->bare_p, i, reserved_after(k, j->p, j->s, i->reserved), forced_p, dead_p);
    case FAILOVER_TO_ANY: return may_migrate(k, j->p, t) && !refuse_primary(k, t, at, i, forced_p);
    case REPLACE_SECONDARY:
        return !refuse_secondary(k, t, at, i, reserved_after(k, t, j->p, i->reserved), forced_s, false) &&
               !refuse_primary(k, j->p, &j->bare_p, i, true);
    case REPLACE_AND_FAILOVER:
        return may_migrate(k, j->p, t) && !refuse_primary(k, t, at, i, soft) &&
               !refuse_secondary(k, j->p, &j->bare_p, i, reserved_after(k, j->p, t, i->reserved), forced_s, false);
    case REPLACE_PRIMARY: {
        int64_t now = k->peers[j->s * k->nodes + t] + i->reserved, bare = j->bare_s.reserved_memory;
        return may_migrate(k, j->p, j->s) && may_migrate(k, j->s, t) &&
               !refuse_primary(k, j->s, &j->bare_s, i, forced_p) && !refuse_primary(k, t, at, i, forced_p) &&
               !refuse_secondary(k, j->s, &j->bare_s, i, now > bare ? now : bare, forced_p, false);
    }
    default:
        return may_migrate(k, j->p, j->s) && !refuse_primary(k, j->s, &j->bare_s, i, forced_p) &&
               !refuse_secondary(k, t, at, i, reserved_after(k, t, j->s, i->reserved), forced_p, false);
    }
}

static void examine_thoroughly(const search *f, int64_t number, step *best) {
    const kernel *k = f->k;
    subject j;
    describe_subject(f, number, &j);
    bool instances_move = !(f->flags & NO_INSTANCE_MOVES), restricted = f->flags & RESTRICTED_MIGRATION;
    bool mirrored = j.i->has_secondary, use_secondary = mirrored && instances_move && k->node[j.s].online;
    if (use_secondary && is_legal(f, &j, FAILOVER, NOWHERE)) try_exactly(f, number, FAILOVER, NOWHERE, best);
    bool only_secondary = !instances_move || (restricted && k->node[j.p].online);
    const bool wanted[] = {false, !mirrored && instances_move, mirrored, mirrored && !only_secondary,
                           use_secondary && !only_secondary && !restricted, use_secondary && !only_secondary};
    for (int64_t t = 0; t < f->targets; t++) {
        int64_t n = f->node_of[t];
        if (n == j.p || n == j.s || (mirrored && f->flags & NO_DISK_MOVES)) continue;
        for (int kind = FAILOVER_TO_ANY; kind <= FAILOVER_AND_REPLACE; kind++)
            if (wanted[kind] && is_legal(f, &j, kind, n)) try_exactly(f, number, kind, n, best);
    }
}

static bool can_estimate(const search *f) {
    const kernel *k = f->k;
    for (int64_t t = 0; t < f->targets; t++) {
        const node *d = &k->node[f->node_of[t]];
        if (!(d->total_memory > 0 && d->total_cpus > 0 && d->cpu_speed > 0 && d->high_spindles > 0)) return false;
        for (int m = 0; m < METRICS; m++)
            if (!isfinite(k->metric[f->node_of[t] * METRICS + m])) return false;
    }
    return true;
}

// Candidates were found in the definition's order: instance, failover, target, kind. Where the best of those that were
// kept is worse than its estimate by more than a hair, others could be better: then all up to it are looked at.
static void choose(search *f, const uint8_t *movable, const uint8_t *member, step *best) {
    for (;;) {
        f->found_count = 0;
        f->lowest = INFINITY;
        for (int64_t n = 0; n < f->k->instances; n++)
            if (is_wanted(f, n, movable, member)) examine(f, n);
        *best = (step){.instance = NOWHERE, .score = f->score};
        for (int64_t c = 0; c < f->found_count; c++)
            if (f->found[c].estimate <= f->lowest + f->hair)
                try_exactly(f, f->found[c].instance, f->found[c].kind, f->found[c].target, best);
        if (f->lowest + f->hair >= best->score) return;
        f->hair = best->score - f->lowest + HAIR;
    }
}

// The best step of the group `members`, if any lowers the score: 1 and `out`; 0 if none does; -1 without memory.
EXPORTED int64_t kernel_best_step(kernel *k, const int64_t *members, int64_t count, const uint8_t *movable,
                                  int64_t flags, step *out) {
    search f;
    double *memory = search_new(&f, k, members, count, flags);
    uint8_t *member = calloc((size_t)k->nodes + 1, 1);
    int64_t result = memory && member ? 0 : -1;
    if (!result && f.targets) {
        for (int64_t m = 0; m < count; m++) member[members[m]] = 1;
        *out = (step){.instance = NOWHERE, .score = f.score};
        if (flags & EXHAUSTIVE || !can_estimate(&f)) {
            for (int64_t n = 0; n < k->instances; n++)
                if (is_wanted(&f, n, movable, member)) examine_thoroughly(&f, n, out);
        } else {
            choose(&f, movable, member, out);
        }
        result = out->instance != NOWHERE;
    }
    free(f.found);
    free(f.node_of);
    free(memory);
    free(member);
    return result;
}
