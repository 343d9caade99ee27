// SPDX-License-Identifier: BSD-2-Clause
// One other node for an instance that exists: the hops of an evacuation and their best targets (spec: htools, 4 and 10).
#include "allocation.h"

int64_t reserved_with(const kernel *k, const instance *i, int64_t secondary, int64_t primary) {
    int64_t before = k->value[secondary].reserved_memory;
    if (!i->reserved) return before;
    int64_t after = i->reserved + (primary == NOWHERE ? 0 : k->peers_of[primary * k->nodes + secondary]);
    return after > before ? after : before;
}

static void fill(const ranking *r, int64_t n, const values *v, candidate *c) {
    double metrics[METRICS];
    metrics_of(r->k, n, v, metrics);
    row_of(metrics, c->row);
    c->node = n;
    c->more_instances = metrics[INSTANCES] - r->k->metric[n * METRICS + INSTANCES];
    c->more_primaries = metrics[PRIMARIES] - r->k->metric[n * METRICS + PRIMARIES];
}

int try_primary(const ranking *r, const instance *i, int64_t n, bool forced, candidate *c) {
    const kernel *k = r->k;
    int failure = refuse_primary(k, n, &k->value[n], i, forced);
    if (failure) return failure;
    values v = k->value[n];
    with_primary(k, n, i, NOWHERE, &v);
    fill(r, n, &v, c);
    c->exclusion = r->exclusion + place_clashes(k, i, n);
    c->shared = 0;
    estimate(r, c, NOWHERE);
    return FITS;
}

// The same as the secondary of an instance whose primary is on its node already.
static int try_secondary(const ranking *r, const instance *i, int64_t primary, int64_t n, bool forced, candidate *c) {
    const kernel *k = r->k;
    int64_t reserved = reserved_with(k, i, n, primary);
    int failure = refuse_secondary(k, n, &k->value[n], i, reserved, forced, false);
    if (failure) return failure;
    values v = k->value[n];
    with_secondary(k, n, i, reserved, &v);
    fill(r, n, &v, c);
    c->exclusion = r->exclusion;
    c->shared = i->forthcoming ? 0 : shared_locations(k, primary, n);
    estimate(r, c, primary);
    return FITS;
}

int refuse_failover(const kernel *k, int64_t number, bool forced) {
    const instance *i = &k->instance[number];
    int64_t p = i->primary, s = i->secondary;
    if (s == NOWHERE) return FAIL_INTERNAL;
    if (!may_migrate(k, p, s)) return FAIL_MIG;
    bool dead = !k->node[p].online;
    values v = k->value[s];
    without_secondary(k, s, i, reserved_after(k, s, p, -i->reserved), &v);
    int failure = refuse_primary(k, s, &v, i, forced || dead);
    if (failure) return failure;
    v = k->value[p];
    without_primary(k, p, i, s, &v);
    return refuse_secondary(k, p, &v, i, reserved_with(k, i, p, s), forced || dead, dead);
}

EXPORTED int64_t kernel_refuse_failover(kernel *k, int64_t i, int64_t forced) { return refuse_failover(k, i, forced); }

// Candidates among the targets for a new primary; the instance is left without nodes.
static int64_t primary_hop(ranking *r, int64_t i, const int64_t *targets, int64_t count, bool forced,
                           uint8_t *failures, candidate *c) {
    kernel *k = r->k;
    int64_t primary = k->instance[i].primary, found = 0;
    forced = forced || !k->node[primary].online;
    move_to(k, i, NOWHERE, NOWHERE);
    ranking_read(r);
    for (int64_t t = 0; t < count; t++) {
        if (targets[t] == primary) failures[t] = NOT_TRIED;
        else if (!may_migrate(k, primary, targets[t])) failures[t] = FAIL_MIG;
        else failures[t] = (uint8_t)try_primary(r, &k->instance[i], targets[t], forced, &c[found]);
        found += !failures[t];
    }
    return found;
}

int64_t secondary_hop(ranking *r, int64_t i, const int64_t *targets, int64_t count, bool forced,
                             uint8_t *failures, candidate *c) {
    kernel *k = r->k;
    int64_t primary = k->instance[i].primary, secondary = k->instance[i].secondary, found = 0;
    forced = forced || (secondary != NOWHERE && !k->node[secondary].online);
    values bare = k->value[primary];
    without_primary(k, primary, &k->instance[i], secondary, &bare);
    int stays = refuse_primary(k, primary, &bare, &k->instance[i], true);
    move_to(k, i, primary, NOWHERE);
    ranking_read(r);
    for (int64_t t = 0; t < count; t++) {
        failures[t] = NOT_TRIED;
        if (targets[t] == primary || targets[t] == secondary) continue;
        failures[t] = (uint8_t)try_secondary(r, &k->instance[i], primary, targets[t], forced, &c[found]);
        if (!failures[t]) failures[t] = (uint8_t)stays;
        found += !failures[t];
    }
    return found;
}

EXPORTED int64_t kernel_best_target(kernel *k, int64_t i, int64_t secondary, const int64_t *targets, int64_t count,
                                    const int64_t *members, int64_t member_count, int64_t forced, uint8_t *failures,
                                    hop *out) {
    ranking r;
    candidate *c = aligned_alloc(_Alignof(candidate), (size_t)(count + 1) * sizeof *c);
    *out = (hop){.target = NOWHERE};
    if (!c || !ranking_start(&r, k, members, member_count)) {
        free(c);
        return -1;
    }
    int64_t mark = kernel_mark(k), primary = k->instance[i].primary;
    int64_t found = secondary ? secondary_hop(&r, i, targets, count, forced, failures, c)
                              : primary_hop(&r, i, targets, count, forced, failures, c);
    candidate *best = best_candidate(&r, c, found, secondary ? primary : NOWHERE);
    if (best) *out = (hop){.target = best->node, .score = best->score};
    kernel_rollback(k, mark);
    ranking_free(&r);
    free(c);
    return answer(k, 0);
}
