// SPDX-License-Identifier: BSD-2-Clause
// Candidates one by one: checked by themselves, and scored as the definition does.
#include "search.h"

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
void try_exactly(const search *f, int64_t number, int kind, int64_t target, step *best) {
    int64_t primary, secondary, mark = kernel_mark(f->k);
    places_after(&f->k->instance[number], kind, target, &primary, &secondary);
    move_to(f->k, number, primary, secondary);
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

void choose_thoroughly(search *f, const uint8_t *movable, const uint8_t *member, step *best) {
    *best = (step){.instance = NOWHERE, .score = f->score};
    for (int64_t n = 0; n < f->k->instances; n++)
        if (is_wanted(f, n, movable, member)) examine_thoroughly(f, n, best);
}

// Whether the instance can be moved so from where it is now, whatever the score; `flags` as for a search.
EXPORTED int64_t kernel_step_is_legal(const kernel *k, int64_t number, int64_t kind, int64_t target, int64_t flags) {
    const instance *i = &k->instance[number];
    search f = {.k = (kernel *)k, .flags = flags};
    subject j = {.i = i, .number = number, .p = i->primary, .s = i->secondary, .bare_p = k->value[i->primary]};
    without_primary(k, j.p, i, j.s, &j.bare_p);
    if (j.s != NOWHERE) {
        j.bare_s = k->value[j.s];
        without_secondary(k, j.s, i, reserved_after(k, j.s, j.p, -i->reserved), &j.bare_s);
    }
    return is_legal(&f, &j, (int)kind, target);
}
