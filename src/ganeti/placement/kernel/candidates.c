// SPDX-License-Identifier: BSD-2-Clause
// The candidates of an instance with their estimates, and the choice among those that were found.
#include "search.h"

static void offer(search *f, const subject *j, int kind, int64_t target, double estimate) {
    if (estimate < f->lowest_own) f->lowest_own = estimate;
    if (!(estimate < INFINITY && estimate <= f->lowest + f->hair)) return;
    if (estimate < f->lowest) f->lowest = estimate;
    if (f->found_count == f->found_room) {  // leave out what has been overtaken since, then grow
        int64_t left = 0;
        for (int64_t c = 0; c < f->found_count; c++)
            if (f->found[c].estimate <= f->lowest + f->hair) f->found[left++] = f->found[c];
        f->found_count = left;
        if (2 * left >= f->found_room) {
            int64_t wanted = f->found_room ? 2 * f->found_room : 1024;
            candidate *grown = realloc(f->found, (size_t)wanted * sizeof *grown);
            if (!grown) {
                f->k->starved = true;
                return;
            }
            f->found = grown;
            f->found_room = wanted;
        }
    }
    f->found[f->found_count++] = (candidate){(int32_t)j->number, kind, (int32_t)target, estimate};
}

HOT static double lowest_of(const double *all, int64_t from, int64_t until) {
    double lowest = INFINITY;
    for (int64_t t = from; t < until; t++) lowest = all[t] < lowest ? all[t] : lowest;
    return lowest;
}

// Estimates of all kinds of moves of a mirrored instance that have a target; gives how many kinds there are.
static int estimate_mirrored(search *f, const subject *j, double **estimates, int *kinds) {
    const kernel *k = f->k;
    const instance *i = j->i;
    bool soft = f->flags & IGNORE_SOFT_ERRORS, restricted = f->flags & RESTRICTED_MIGRATION;
    bool instances_move = !(f->flags & NO_INSTANCE_MOVES), p_online = k->node[j->p].online;
    bool s_online = k->node[j->s].online, use_secondary = instances_move && s_online;
    bool forced_p = soft || !p_online, forced_s = soft || !s_online;
    if (f->flags & NO_DISK_MOVES) return 0;
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
    int count = 0;
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
    return count;
}

static int estimate_shared(search *f, const subject *j, double **estimates, int *kinds) {
    if (f->flags & NO_INSTANCE_MOVES) return 0;
    bool forced = f->flags & IGNORE_SOFT_ERRORS || !f->k->node[j->p].online;
    kinds[0] = FAILOVER_TO_ANY;
    estimate_failover_to_any(f, j, forced, estimates[0] = f->estimate[0]);
    return 1;
}

static int estimate_targets(search *f, const subject *j, double **estimates, int *kinds, double *lowest) {
    int count = (j->i->has_secondary ? estimate_mirrored : estimate_shared)(f, j, estimates, kinds);
    *lowest = INFINITY;
    for (int c = 0; c < count; c++) *lowest = least(*lowest, lowest_of(estimates[c], f->from, f->until));
    return count;
}

double lowest_with_target(search *f, const subject *j) {
    int kinds[4];
    double *estimates[4], lowest;
    estimate_targets(f, j, estimates, kinds, &lowest);
    return lowest;
}

static void offer_all(search *f, const subject *j) {
    int kinds[4];
    double *estimates[4], lowest;
    if (j->i->has_secondary && !(f->flags & NO_INSTANCE_MOVES) && f->k->node[j->s].online) {
        bool forced = f->flags & IGNORE_SOFT_ERRORS || !f->k->node[j->p].online;
        offer(f, j, FAILOVER, NOWHERE, estimate_failover(f, j, forced));
    }
    int count = estimate_targets(f, j, estimates, kinds, &lowest);
    if (lowest < f->lowest_own) f->lowest_own = lowest;
    if (!(lowest <= f->lowest + f->hair)) return;
    for (int64_t t = f->from; t < f->until; t++)
        for (int c = 0; c < count; c++)
            if (estimates[c][t] <= f->lowest + f->hair) offer(f, j, kinds[c], f->node_of[t], estimates[c][t]);
}

void examine(search *f, subject *j) {
    bool places = f->k->location_tags && j->i->exclusions;
    double before = f->base_sums;
    f->lowest_own = INFINITY;
    if (places) {  // so that clashes are asked of the cluster without it
        int64_t clashes = f->k->place_total - f->k->place_kinds;
        count_places(f->k, j->i, j->p, -1);
        f->base_sums -= (double)(clashes - (f->k->place_total - f->k->place_kinds));
    }
    offer_all(f, j);
    f->base_sums = before;
    if (places) count_places(f->k, j->i, j->p, 1);
}

uint8_t *flags_of(const kernel *k, const int64_t *members, int64_t count) {
    uint8_t *flags = calloc((size_t)k->nodes + 1, 1);
    for (int64_t m = 0; flags && m < count; m++) flags[members[m]] = 1;
    return flags;
}

bool is_wanted(const search *f, int64_t number, const uint8_t *movable, const uint8_t *member) {
    const kernel *k = f->k;
    const instance *i = &k->instance[number];
    if (!movable[number] || !i->movable || !i->auto_balance || i->primary == NOWHERE || !member[i->primary]) return false;
    if (i->has_secondary != (i->secondary != NOWHERE) || i->secondary == i->primary) return false;
    if (i->secondary != NOWHERE && !member[i->secondary]) return false;
    bool dead = !k->node[i->primary].online || (i->secondary != NOWHERE && !k->node[i->secondary].online);
    return dead || !(f->flags & EVACUATION);
}

// What comes to exclusive storage without naming its spindles changes a node by more than its own size.
bool can_estimate(const search *f) {
    const kernel *k = f->k;
    bool unnamed = false;
    for (int64_t n = 0; n < k->instances && !unnamed; n++)
        unnamed = k->instance[n].spindles == NOWHERE && !k->instance[n].local_disk;
    for (int64_t t = 0; t < f->targets; t++) {
        const node *d = &k->node[f->node_of[t]];
        if (unnamed && d->exclusive) return false;
        if (!(d->total_memory > 0 && d->total_cpus > 0 && d->cpu_speed > 0 && d->high_spindles > 0)) return false;
        for (int m = 0; m < METRICS; m++)
            if (!isfinite(k->metric[f->node_of[t] * METRICS + m])) return false;
    }
    return true;
}

// The definition's order: instance, failover, target, kind.
static int in_order(const void *a, const void *b) {
    const candidate *one = a, *other = b;
    if (one->instance != other->instance) return one->instance < other->instance ? -1 : 1;
    if (one->target != other->target) return one->target < other->target ? -1 : 1;
    return (one->kind > other->kind) - (one->kind < other->kind);
}

void try_found(search *f, step *best) {
    int64_t left = 0;
    for (int64_t c = 0; c < f->found_count; c++)
        if (f->found[c].estimate <= f->lowest + f->hair) f->found[left++] = f->found[c];
    f->found_count = left;
    if (left) qsort(f->found, (size_t)left, sizeof *f->found, in_order);
    *best = (step){.instance = NOWHERE, .score = f->score};
    for (int64_t c = 0; c < left; c++)
        try_exactly(f, f->found[c].instance, f->found[c].kind, f->found[c].target, best);
}

void forget_found(search *f) {
    f->found_count = 0;
    f->lowest = INFINITY;
}

// Where the best of the candidates that were kept is worse than its estimate by more than a hair, others could be
// better: then all up to it are looked at. Without memory nothing is looked for any more.
bool is_settled(search *f, const step *best) {
    if (f->lowest + f->hair >= best->score || f->k->starved) return true;
    f->hair = best->score - f->lowest + HAIR;
    return false;
}
