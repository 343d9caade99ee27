// SPDX-License-Identifier: BSD-2-Clause
// Global N+1: could every instance of any one node be started elsewhere (spec: htools, 9).
//
// The meaning is `survives_by_moves`: make the moves, one after the other, each to the place of the lowest score. Nearly
// always less will do. Failing over mirrored instances can only lack memory on the nodes that take them, for their
// disks are on both nodes before and after. And whatever places the others take, the last of them still finds one if
// the nodes together have room for more instances, each as large as the largest, than there are.
#include "redundancy.h"

int64_t kernel_add(kernel *k, const int64_t *whole, const double *load, const int32_t *tags, int64_t primary,
                   int64_t secondary);
enum { MUCH_ROOM = 1 << 20, INSTANCE_NUMBERS = 15 };

static bool full(const kernel *k, int64_t n, const values *v, bool with_disk) {
    return (with_disk && v->free_disk <= 0) || (k->node[n].exclusive && v->free_spindles < 0);
}

bool policy_admits(const redundancy *r, int64_t number, int64_t group, bool exclusive) {
    if (r->k->instance[number].fate != LOST || !r->lost) return true;
    if (number > r->model) number = r->model;
    return !r->lost->refusals[2 * (r->lost->shape_of[number] * r->lost->groups + group) + exclusive];
}

static void grow(int64_t *most, int64_t value) {
    if (value > *most) *most = value;
}

static void add_size(failing *f, const instance *i) {
    grow(&f->memory, memory_of(i));
    if (i->local_disk) {
        f->local = true;
        grow(&f->disk, i->disk);
    }
    if (i->spindles == NOWHERE) f->unnamed = true;
    else grow(&f->spindles, i->spindles);
}

// Takes an instance of the failing node into account; `mirrored` gets those that fail over.
static void add_failing(const redundancy *r, failing *f, int64_t number, int64_t secondary) {
    const kernel *k = r->k;
    const instance *i = &k->instance[number];
    if (i->fate == MIRRORED) {
        f->mirrored = true;
        if (secondary == NOWHERE) f->hopeless = true;
        else if (!may_migrate(k, f->node, secondary)) f->hopeless = true;
        else if (i->spindles == NOWHERE && (k->node[f->node].exclusive || k->node[secondary].exclusive))
            f->hopeless = true;
        else f->unsure |= i->forthcoming;
        return;
    }
    f->count++;
    f->unsure |= i->forthcoming;
    add_size(f, i);
    for (int exclusive = 0; exclusive < 2; exclusive++)
        f->places_differ |= r->has[exclusive] && !policy_admits(r, number, k->node[f->node].group, exclusive);
}

// How many instances of the largest size a node takes; `needed` is memory that failovers use up first.
static int64_t room_for(const kernel *k, const failing *f, int64_t n, const values *v, int64_t needed) {
    int64_t free = v->free_memory - needed, room = MUCH_ROOM;
    if (free <= 0) return 0;
    if (f->memory) room = (free - 1) / f->memory;
    if (f->local && v->free_disk <= 0) return 0;
    if (f->disk && (v->free_disk - 1) / f->disk < room) room = (v->free_disk - 1) / f->disk;
    if (!k->node[n].exclusive) return room;
    if (f->unnamed || v->free_spindles < 0) return 0;
    if (f->spindles && v->free_spindles / f->spindles < room) room = v->free_spindles / f->spindles;
    return room;
}

// The same on a node to which those of the failing node may go.
static int64_t room_on(const kernel *k, const failing *f, int64_t n, const values *v, int64_t needed) {
    if (n == f->node || k->node[n].group != k->node[f->node].group || !may_migrate(k, f->node, n)) return 0;
    return room_for(k, f, n, v, needed);
}

static void need(redundancy *r, int sign) {
    for (const mover *m = r->movers; m < r->movers + r->mover_count; m++) r->needed[m->secondary] += sign * m->memory;
}

static int64_t needed_from(const kernel *k, int64_t primary, int64_t secondary) {
    int64_t memory = 0;
    for (int32_t i = first_real(k, primary); i != NOWHERE; i = next_real(k, i))
        if (k->instance[i].fate == MIRRORED && k->instance[i].secondary == secondary) memory += memory_of(&k->instance[i]);
    return memory;
}

// Whether instances of a failing node fit nowhere even now.
static bool some_fits_nowhere(const redundancy *r, int64_t n) {
    const kernel *k = r->k;
    for (int32_t i = first_real(k, n); i != NOWHERE; i = next_real(k, i)) {
        const instance *own = &k->instance[i];
        bool fits = own->fate == MIRRORED;
        for (int64_t t = 0; t < k->nodes && !fits; t++)
            fits = t != n && k->node[t].group == k->node[n].group && admits(r, i, t) &&
                   (own->fate == LOST || may_migrate(k, n, t)) && !refuse_primary(k, t, &k->value[t], own, true);
        if (!fits) return true;
    }
    return false;
}

// Whether there is room even if the nodes that mirrored instances fail over to, and two more, have none.
static bool is_loose(const redundancy *r, const failing *f) {
    const kernel *k = r->k;
    const group_room *g = &r->groups[k->node[f->node].group];
    if (k->domains > 1 || f->unsure || f->places_differ) return false;
    int64_t room = g->total - r->room[f->node] - (2 + r->more) * g->most;
    for (const mover *m = r->movers; m < r->movers + r->mover_count; m++) room -= r->room[m->secondary];
    return room >= f->count + r->more;
}

// Looks at one node as the state is; gives what it asks for, with `hopeless` set if it fails for good.
static failing examine(redundancy *r, int64_t n, bool as_prepared) {
    const kernel *k = r->k;
    failing f = {.node = n};
    r->mover_count = 0;
    for (int32_t i = first_real(k, n); i != NOWHERE; i = next_real(k, i)) {
        const instance *own = &k->instance[i];
        add_failing(r, &f, i, own->secondary);
        if (own->fate == MIRRORED && own->secondary != NOWHERE)
            r->movers[r->mover_count++] = (mover){memory_of(own), own->secondary};
    }
    if (f.hopeless) return f;
    need(r, 1);
    for (const mover *m = r->movers; m < r->movers + r->mover_count && !f.unsure; m++) {
        int64_t s = m->secondary;
        f.hopeless |= k->value[s].free_memory - r->needed[s] <= 0 || full(k, s, &k->value[s], true);
    }
    f.hopeless |= f.mirrored && !f.unsure && full(k, n, &k->value[n], k->node[n].online);
    f.loose = !f.hopeless && as_prepared && is_loose(r, &f);
    for (int64_t t = 0; t < k->nodes && f.count && !f.hopeless && !f.loose; t++)
        f.room += room_on(k, &f, t, &k->value[t], r->needed[t]);
    need(r, -1);
    return f;
}

static bool is_sure(const failing *f) {
    return f->loose || (!f->unsure && !f->places_differ && f->room >= f->count);
}

void redundancy_free(redundancy *r) {
    if (!r) return;
    free(r->is_checked);
    free(r->is_used);
    free(r->most_needed);
    free(r->needed);
    free(r->moved);
    free(r->movers);
    free(r->room);
    free(r->groups);
    free(r->places);
    free(r->slack);
    free(r);
}

static void measure_groups(redundancy *r, const instance *coming, size_t groups) {
    const kernel *k = r->k;
    for (size_t g = 0; g < groups && coming; g++) add_size(&r->groups[g].largest, coming);
    for (const instance *i = k->instance; i < k->instance + k->instances; i++)
        if (i->fate != MIRRORED && i->primary != NOWHERE) add_size(&r->groups[k->node[i->primary].group].largest, i);
    for (int64_t n = 0; n < k->nodes; n++) {
        group_room *g = &r->groups[k->node[n].group];
        r->room[n] = room_for(k, &g->largest, n, &k->value[n], 0);
        g->total += r->room[n];
        grow(&g->most, r->room[n]);
    }
}

static redundancy *prepare(kernel *k, const int64_t *checked, int64_t count, const int64_t *members,
                           int64_t member_count, const policies *lost, const instance *coming) {
    redundancy *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    size_t nodes = (size_t)k->nodes + 1, groups = 1;
    for (int64_t n = 0; n < k->nodes; n++)
        if ((size_t)k->node[n].group >= groups) groups = (size_t)k->node[n].group + 1;
    *r = (redundancy){.k = k, .checked = checked, .checked_count = count, .members = members,
                      .member_count = member_count, .lost = lost, .model = INT64_MAX};
    for (int64_t n = 0; n < k->nodes; n++) r->has[k->node[n].exclusive] = true;
    r->is_checked = calloc(nodes, 1);
    r->is_used = calloc(nodes, 1);
    r->most_needed = malloc(nodes * sizeof *r->most_needed);
    r->needed = calloc(nodes, sizeof *r->needed);
    r->moved = malloc(nodes * sizeof *r->moved);
    r->movers = malloc((size_t)(k->instances + 1) * sizeof *r->movers);
    r->room = malloc(nodes * sizeof *r->room);
    r->groups = calloc(groups, sizeof *r->groups);
    r->places = malloc(nodes * sizeof *r->places);
    if (r->is_checked && r->is_used && r->most_needed && r->needed && r->moved && r->movers && r->room && r->groups && r->places) {
        measure_groups(r, coming, groups);
        return r;
    }
    redundancy_free(r);
    return NULL;
}

// What the failover of the node that was examined asks of others.
static void note_failover(redundancy *r, int64_t n) {
    need(r, 1);
    r->moved[n] = 0;
    for (const mover *m = r->movers; m < r->movers + r->mover_count; m++) {
        r->is_used[m->secondary] = 1;
        r->moved[n] += m->memory;
        grow(&r->most_needed[m->secondary], r->needed[m->secondary]);
    }
    need(r, -1);
}

static redundancy *start(kernel *k, const int64_t *checked, int64_t count, const int64_t *members,
                         int64_t member_count, const policies *lost, const instance *coming, int64_t more) {
    redundancy *r = prepare(k, checked, count, members, member_count, lost, coming);
    if (!r) return NULL;
    r->more = more;
    if (coming) r->model = coming - k->instance;
    for (int64_t n = 0; n < k->nodes; n++) r->most_needed[n] = r->moved[n] = NOWHERE;
    for (int64_t c = 0; c < count && !r->hopeless; c++) {
        int64_t n = checked[c];
        failing f = examine(r, n, true);
        r->is_checked[n] = 1;
        r->hopeless = f.hopeless || (f.count && !is_sure(&f) && some_fits_nowhere(r, n));
        if ((f.count && !f.loose) || f.unsure) r->places[r->place_count++] = f;
        if (f.hopeless || !f.mirrored || f.unsure) continue;
        r->is_used[n] = 1;
        note_failover(r, n);
    }
    return r;
}

redundancy *redundancy_start(kernel *k, const int64_t *checked, int64_t count, const int64_t *members,
                             int64_t member_count, const policies *lost) {
    return start(k, checked, count, members, member_count, lost, NULL, 0);
}

void redundancy_go_on(redundancy *r, const question *q) {
    r->checked = q->checked;
    r->members = q->members;
    r->lost = q->lost;
}

EXPORTED redundancy *kernel_redundancy(kernel *k, const int64_t *checked, int64_t count, const int64_t *members,
                                       int64_t member_count, const policies *lost) {
    redundancy *r = redundancy_start(k, checked, count, members, member_count, lost);
    if (answer(k, 0) == 0) return r;
    redundancy_free(r);
    return NULL;
}

EXPORTED void kernel_redundancy_free(redundancy *r) { redundancy_free(r); }

redundancy *redundancy_for_many(kernel *k, const int64_t *checked, int64_t count, const int64_t *members,
                                int64_t member_count, const policies *lost, int64_t i, int64_t *more) {
    const instance *coming = &k->instance[i];
    for (*more = coming->fate == MIRRORED || coming->forthcoming ? 0 : *more; *more; *more /= 4) {
        redundancy *r = start(k, checked, count, members, member_count, lost, coming, *more);
        if (!r || (!r->hopeless && !r->place_count)) return r;
        redundancy_free(r);
    }
    return start(k, checked, count, members, member_count, lost, coming, 0);
}

// The moves

bool copy_to(kernel *k, int64_t number, int64_t primary, int64_t secondary) {
    const instance *i = &k->instance[number];
    int64_t whole[INSTANCE_NUMBERS] = {
        i->memory, i->disk, i->vcpus, i->claim, i->spindle_use, i->spindles, i->fate, i->uses_memory,
        i->forthcoming, i->local_disk, i->has_secondary, i->movable, i->auto_balance, i->exclusions, i->desired};
    size_t tags = (size_t)(i->exclusions + i->desired);
    int32_t *own = malloc((tags + 1) * sizeof *own);
    double load[4];
    memcpy(load, i->load, sizeof load);
    k->starved |= !own;
    if (!own) return false;
    if (tags) memcpy(own, &k->tags[i->exclusion_first], tags * sizeof *own);
    int64_t added = kernel_add(k, whole, load, own, primary, secondary);
    free(own);
    k->starved |= added < 0;
    return added >= 0;
}

static bool survives(redundancy *r, int64_t n, bool as_prepared) {
    failing f = examine(r, n, as_prepared);
    return !f.hopeless && (is_sure(&f) || survives_by_moves(r, n));
}

// One more instance

// Whether the mirrored instances of all nodes still fail over when there is one more on the primary.
static bool primary_holds(const redundancy *r, const instance *i, int64_t primary) {
    const kernel *k = r->k;
    values v = k->value[primary];
    with_primary(k, primary, i, NOWHERE, &v);
    if (r->most_needed[primary] != NOWHERE && v.free_memory - r->most_needed[primary] <= 0) return false;
    bool used = r->is_used[primary] || (r->is_checked[primary] && i->fate == MIRRORED && !i->forthcoming);
    return !used || !full(k, primary, &v, k->node[primary].online || r->most_needed[primary] != NOWHERE);
}

static bool secondary_holds(const redundancy *r, const instance *i, int64_t primary, int64_t secondary) {
    const kernel *k = r->k;
    values v = k->value[secondary];
    with_secondary(k, secondary, i, v.reserved_memory, &v);
    bool fails_over = r->is_checked[primary] && i->fate == MIRRORED && !i->forthcoming;
    if (fails_over && !may_migrate(k, primary, secondary)) return false;
    if (fails_over && i->spindles == NOWHERE && (k->node[primary].exclusive || k->node[secondary].exclusive)) return false;
    if (fails_over && v.free_memory - needed_from(k, primary, secondary) - memory_of(i) <= 0) return false;
    return !(fails_over || r->is_used[secondary]) ||
           !full(k, secondary, &v, fails_over || r->most_needed[secondary] != NOWHERE || k->node[secondary].online);
}

// Whether the instances of a node without mirrors surely still find places with one more instance on two other nodes.
static bool places_hold(const redundancy *r, const failing *f, const instance *i, int64_t primary, int64_t secondary) {
    const kernel *k = r->k;
    if (!is_sure(f)) return false;
    int64_t room = f->room, nodes[2] = {primary, secondary};
    for (int side = 0; side < 2; side++) {
        int64_t n = nodes[side];
        if (n == NOWHERE || k->node[n].group != k->node[f->node].group) continue;
        int64_t needed = f->mirrored ? needed_from(k, f->node, n) : 0;
        values v = k->value[n];
        room -= room_on(k, f, n, &v, needed);
        if (side) with_secondary(k, n, i, v.reserved_memory, &v);
        else with_primary(k, n, i, secondary, &v);
        room += room_on(k, f, n, &v, needed);
    }
    return room >= f->count;
}

static bool survives_with(redundancy *r, int64_t number, int64_t primary, int64_t secondary, int64_t n) {
    int64_t mark = kernel_mark(r->k);
    move_to(r->k, number, primary, secondary);
    bool fits = survives(r, n, false);
    kernel_rollback(r->k, mark);
    return fits;
}

bool redundancy_measure(redundancy *r, int64_t number, const int64_t *nodes, int64_t count) {
    const kernel *k = r->k;
    const instance *i = &k->instance[number];
    if (!r->slack) r->slack = malloc((size_t)(k->nodes + 1) * sizeof *r->slack);
    if (!r->slack) return false;
    for (int64_t n = 0; n < k->nodes; n++) r->slack[n] = INT64_MAX;
    r->least_slack = INT64_MAX;
    for (int64_t c = 0; c < count; c++) {
        int64_t n = nodes[c];
        values v = k->value[n];
        with_secondary(k, n, i, v.reserved_memory, &v);
        bool holds = !full(k, n, &v, true) && (i->spindles != NOWHERE || !k->node[n].exclusive);
        r->slack[n] = holds ? v.free_memory - memory_of(i) : 0;
        if (r->slack[n] < r->least_slack) r->least_slack = r->slack[n];
    }
    return true;
}

bool redundant_with_any(const redundancy *r, int64_t number, int64_t primary) {
    const kernel *k = r->k;
    const instance *new = &k->instance[number];
    if (!r->slack || r->least_slack <= 0 || r->place_count || k->domains > 1) return false;
    if (new->fate != MIRRORED || new->forthcoming || (new->spindles == NOWHERE && k->node[primary].exclusive)) return false;
    int64_t all = 0;
    bool holds = true;
    if (r->moved[primary] != NOWHERE && r->moved[primary] < r->least_slack) return true;
    for (int32_t i = first_real(k, primary); i != NOWHERE; i = next_real(k, i))
        if (k->instance[i].fate == MIRRORED && k->instance[i].secondary != NOWHERE) {
            all += memory_of(&k->instance[i]);
            r->needed[k->instance[i].secondary] += memory_of(&k->instance[i]);
        }
    for (int32_t i = first_real(k, primary); i != NOWHERE; i = next_real(k, i)) {
        int64_t s = k->instance[i].secondary;
        if (k->instance[i].fate != MIRRORED || s == NOWHERE) continue;
        holds = holds && (all < r->slack[s] || r->needed[s] < r->slack[s]);
        r->needed[s] = 0;
    }
    return holds;
}

bool is_hopeless(const redundancy *r) { return r->hopeless; }

bool hopeless_with(const redundancy *r, int64_t i, int64_t primary) {
    return r->hopeless || !primary_holds(r, &r->k->instance[i], primary);
}

bool redundant_with(redundancy *r, int64_t number, int64_t primary, int64_t secondary) {
    const kernel *k = r->k;
    if (hopeless_with(r, number, primary)) return false;
    if (secondary != NOWHERE && !secondary_holds(r, &k->instance[number], primary, secondary)) return false;
    bool alone = r->is_checked[primary] && (k->instance[number].fate != MIRRORED || k->instance[number].forthcoming);
    if (alone && !survives_with(r, number, primary, secondary, primary)) return false;
    for (int64_t p = 0; p < r->place_count; p++) {
        const failing *f = &r->places[(p + r->last) % r->place_count];
        if (alone && f->node == primary) continue;
        if (f->node != primary && places_hold(r, f, &r->k->instance[number], primary, secondary)) continue;
        if (survives_with(r, number, primary, secondary, f->node)) continue;
        r->last = (p + r->last) % r->place_count;
        return false;
    }
    return true;
}

EXPORTED int64_t kernel_failing(kernel *k, const int64_t *checked, int64_t count, const int64_t *members,
                                int64_t member_count, const policies *lost, int64_t *out) {
    redundancy *r = prepare(k, checked, count, members, member_count, lost, NULL);
    if (!r) return -1;
    int64_t found = 0;
    for (int64_t c = 0; c < count; c++)
        if (!survives(r, checked[c], true)) out[found++] = checked[c];
    redundancy_free(r);
    return answer(k, found);
}
