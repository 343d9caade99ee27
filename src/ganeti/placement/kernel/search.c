// SPDX-License-Identifier: BSD-2-Clause
// The arrays of a search: deviations with their sums, and what each node can still take.
#include "search.h"

const int metric_of_series[SERIES] = {FREE_DISK, FREE_DISK_FORTHCOMING, LOAD_DISK, SPINDLES,
    SPINDLES_FORTHCOMING, FREE_MEMORY, FREE_MEMORY_FORTHCOMING, CPUS, CPUS_FORTHCOMING, LOAD_CPU, LOAD_MEMORY, LOAD_NET,
    RESERVED_MEMORY};
const double weight_of_series[SERIES] = {0.5, 0.5, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1, 1, 1, 1};

static double *take(search *f) {
    double *own = f->room;
    f->room += f->row_length;
    return own;
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
    const kernel *k = f->k;
    for (int s = 0; s < SERIES; s++) {
        series *own = &f->of[s];
        own->weight = weight_of_series[s];
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

// The most vcpus a node may have by its ratio, as the check's division says it.
static double most_cpus(const node *d) {
    if (isnan(d->vcpu_ratio) || isnan(d->total_cpus) || d->total_cpus < 0) return INFINITY;  // never above the ratio
    if (d->total_cpus == 0) return 0;
    double most = floor(d->vcpu_ratio * d->total_cpus);
    while (most > 0 && most / d->total_cpus > d->vcpu_ratio) most = least(most - 1, nextafter(most, 0));
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
        double most_uses = isnan(d->high_spindles) ? INFINITY : floor(d->high_spindles);
        double uses = most_uses - (double)v->spindle_uses;
        double uses_later = most_uses - (double)v->spindle_uses_forthcoming;
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
        f->none.memory[t] = f->none.memory_f[t] = f->none.disk[t] = f->none.spindle_use[t] = f->none.cpus[t] =
            f->none.spindles[t] = f->none.reserve[t] = INFINITY;
        f->forthcoming.memory[t] = INFINITY;
        f->forthcoming.disk[t] = later;
        f->forthcoming.spindle_use[t] = uses_later;
        f->forthcoming.cpus[t] = cpus - (double)v->cpus_forthcoming;
        f->forthcoming.spindles[t] = spindles_later;
        f->forthcoming.reserve[t] = (double)v->free_memory_forthcoming;
    }
}

bool search_new(search *f, kernel *k, const int64_t *members, int64_t count, int64_t flags) {
    *f = (search){.k = k, .members = members, .count = count, .flags = flags};
    int32_t *numbers = malloc((size_t)(2 * k->nodes + COPIES + 1) * sizeof *numbers);
    if (!numbers) return false;
    f->node_of = numbers;
    f->target_of = numbers + k->nodes + COPIES;
    for (int64_t n = 0; n < k->nodes; n++) f->target_of[n] = NOWHERE;
    for (int64_t m = 0; m < count; m++)
        if (k->node[members[m]].online) {
            f->target_of[members[m]] = (int32_t)f->targets;
            f->node_of[f->targets++] = (int32_t)members[m];
        }
    f->share = 1 / (double)f->targets;
    f->row_count = 2 * SERIES + 2 + 4 * 7 + 5 + 5 + 3 + 4 + 3;
    f->row_length = (f->targets + COPIES + 7) / 8 * 8;
    f->rows = f->room = calloc((size_t)(f->row_count * f->row_length) + 8, sizeof *f->rows);
    if (!f->rows) return false;
    for (int s = 0; s < SERIES; s++) {
        f->of[s].away = take(f);
        f->of[s].per_unit = take(f);
        f->of[s].per_spindle = s == DISK || s == DISK_F ? take(f) : NULL;
    }
    limits *all[] = {&f->unforced, &f->forced, &f->forthcoming, &f->none};
    for (int l = 0; l < 4; l++) {
        double **own[] = {&all[l]->memory, &all[l]->memory_f, &all[l]->disk, &all[l]->spindle_use, &all[l]->cpus,
                          &all[l]->spindles, &all[l]->reserve};
        for (int r = 0; r < 7; r++) *own[r] = take(f);
    }
    double **rest[] = {&f->free, &f->reserved, &f->count_of, &f->per_memory, &f->failing, &f->primary_barred,
                       &f->partner_of_primary, &f->partner_of_secondary, &f->kept_by_primary, &f->kept_by_secondary,
                       &f->disks_without_secondary, &f->disks_without_primary, &f->as_primary, &f->estimate[0],
                       &f->estimate[1], &f->estimate[2], &f->estimate[3], &f->clash, &f->location, &f->place};
    for (size_t r = 0; r < sizeof rest / sizeof *rest; r++) *rest[r] = take(f);
    return true;
}

void search_free(search *f) {
    free(f->found);
    free(f->node_of);
    free(f->rows);
}

void search_read(search *f) {
    double parts[COMPONENTS];
    read_series(f);
    read_limits(f);
    kernel_components(f->k, f->members, f->count, parts);
    f->score = f->base_sums = 0;
    for (int c = 0; c < COMPONENTS; c++) {  // in the order in which kernel_score adds them
        f->score += components[c].weight * parts[c];
        if (components[c].kind != DEVIATION) f->base_sums += components[c].weight * parts[c];
    }
    widen(f);
    forget_found(f);
    f->hair = HAIR;
}

void widen(search *f) {
    f->from = 0;
    f->until = f->targets;
}

void narrow(search *f, const int32_t *targets, int64_t count) {
    f->from = f->targets;
    f->until = f->targets + count;
    for (int64_t c = 0; c < count; c++) {
        f->node_of[f->from + c] = f->node_of[targets[c]];
        for (int64_t r = 0; r < f->row_count; r++) {
            double *row = f->rows + r * f->row_length;
            row[f->from + c] = row[targets[c]];
        }
    }
}

void describe_subject(const search *f, int64_t number, subject *j) {
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
    j->spindles_f = spindles;
}
