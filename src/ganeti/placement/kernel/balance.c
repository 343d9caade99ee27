// SPDX-License-Identifier: BSD-2-Clause
// The best single move of a group (definition_moves.best_step), out of up to four kinds for every instance and target.
//
// A score is a sum of standard deviations, and a move changes two or three nodes: with the sums of the distances from
// the mean and of their squares at hand, each deviation after a move takes a few operations. That estimate is kept below
// the true score, is made for all targets of an instance at once, and leaves only those candidates whose estimate comes
// within a hair of the best; these are scored as the definition does, in its order, and so ties fall as they must.
#include "search.h"

static void offer(search *f, const subject *j, int kind, int64_t target, double estimate) {
    if (!(estimate < INFINITY && estimate <= f->lowest + f->hair)) return;
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

static void examine_mirrored(search *f, const subject *j) {
    const kernel *k = f->k;
    const instance *i = j->i;
    bool soft = f->flags & IGNORE_SOFT_ERRORS, restricted = f->flags & RESTRICTED_MIGRATION;
    bool instances_move = !(f->flags & NO_INSTANCE_MOVES), p_online = k->node[j->p].online;
    bool s_online = k->node[j->s].online, use_secondary = instances_move && s_online;
    bool forced_p = soft || !p_online, forced_s = soft || !s_online;
    if (use_secondary) offer(f, j, FAILOVER, NOWHERE, estimate_failover(f, j, forced_p));
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
    bool forced = f->flags & IGNORE_SOFT_ERRORS || !f->k->node[j->p].online;
    int kind = FAILOVER_TO_ANY;
    estimate_failover_to_any(f, j, forced, f->estimate[0]);
    offer_targets(f, j, f->estimate, &kind, 1);
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

// What comes to exclusive storage without naming its spindles changes a node by more than its own size.
static bool can_estimate(const search *f) {
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
