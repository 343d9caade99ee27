// SPDX-License-Identifier: BSD-2-Clause
// Building the cluster, moving instances about, and taking moves back.
//
// Invariant: after every change the values of a node equal what definition.NodeView says of its lists, where sums of
// loads are those of adding and subtracting in the order of the changes.
#include "kernel.h"

#define NODE_INTEGERS 9
#define NODE_NUMBERS 7
#define INSTANCE_INTEGERS 15

static void *room(size_t count, size_t size) { return calloc(count ? count : 1, size); }

EXPORTED void kernel_free(kernel *k) {
    if (!k) return;
    void *all[] = {k->node, k->value, k->metric, k->first_primary, k->first_secondary, k->instance, k->peers,
                   k->peers_of, k->tags, k->exclusion_count, k->location_set, k->desired_set, k->may_migrate,
                   k->watched, k->place_count, k->journal};
    for (size_t p = 0; p < sizeof all / sizeof *all; p++) free(all[p]);
    free(k);
}

// As 3.1 has it, what no 64 bits hold is the least number they do, and from there a difference wraps.
static int64_t less(double whole, int64_t part) {
    int64_t held = whole >= -0x1p63 && whole < 0x1p63 ? (int64_t)whole : INT64_MIN;
    return (int64_t)((uint64_t)held - (uint64_t)part);
}

static void read_node(kernel *k, int64_t n, const int64_t *whole, const double *broken, int64_t cpus) {
    k->node[n] = (node){
        .group = whole[0], .online = whole[1], .exclusive = whole[2], .low_disk = whole[3], .domain = whole[4],
        .total_memory = broken[0], .total_disk = broken[1], .total_cpus = broken[2], .spindles = broken[3],
        .cpu_speed = broken[4], .vcpu_ratio = broken[5], .high_spindles = broken[6]};
    k->value[n] = (values){
        .free_memory = less(broken[0], whole[5]), .free_memory_forthcoming = whole[6],
        .free_disk = whole[7], .free_disk_forthcoming = whole[7], .free_spindles = whole[8],
        .free_spindles_forthcoming = whole[8], .cpus = cpus, .cpus_forthcoming = cpus};
}

// `whole`: per node group, online, exclusive, low disk, domain, node memory, reported free memory, free disk, free
// spindles. `broken`: total memory, disk, cpus, spindles, cpu speed, vcpu ratio, high spindles. Gives NULL without memory.
EXPORTED kernel *kernel_new(int64_t nodes, const int64_t *whole, const double *broken, const int64_t *node_cpus,
                            int64_t exclusion_tags, int64_t location_tags, int64_t desired_tags, int64_t domains) {
    kernel *k = room(1, sizeof *k);
    if (!k) return NULL;
    size_t count = (size_t)nodes;
    k->nodes = nodes;
    k->exclusion_tags = exclusion_tags;
    k->location_tags = location_tags;
    k->desired_tags = desired_tags;
    k->domains = domains;
    k->location_words = (location_tags + 63) / 64;
    k->desired_words = (desired_tags + 63) / 64;
    k->node = room(count, sizeof *k->node);
    k->value = room(count, sizeof *k->value);
    k->metric = room(count * METRICS, sizeof *k->metric);
    k->first_primary = room(count, sizeof *k->first_primary);
    k->first_secondary = room(count, sizeof *k->first_secondary);
    k->peers = room(count * count, sizeof *k->peers);
    k->peers_of = room(count * count, sizeof *k->peers_of);
    k->exclusion_count = room(count * (size_t)exclusion_tags, sizeof *k->exclusion_count);
    k->location_set = room(count * (size_t)k->location_words, sizeof *k->location_set);
    k->desired_set = room(count * (size_t)k->desired_words, sizeof *k->desired_set);
    k->may_migrate = room((size_t)(domains * domains), 1);
    k->watched = room(count, 1);
    k->place_count = room((size_t)(location_tags * exclusion_tags), sizeof *k->place_count);
    void *needed[] = {k->node, k->value, k->metric, k->first_primary, k->first_secondary, k->peers, k->peers_of,
                      k->exclusion_count, k->location_set, k->desired_set, k->may_migrate, k->watched, k->place_count};
    for (size_t p = 0; p < sizeof needed / sizeof *needed; p++)
        if (!needed[p]) {
            kernel_free(k);
            return NULL;
        }
    for (int64_t n = 0; n < nodes; n++, whole += NODE_INTEGERS, broken += NODE_NUMBERS) {
        read_node(k, n, whole, broken, node_cpus[n]);
        k->first_primary[n] = k->first_secondary[n] = NOWHERE;
    }
    return k;
}

EXPORTED void kernel_set_location(kernel *k, int64_t n, int64_t tag) {
    k->location_set[n * k->location_words + tag / 64] |= 1ULL << (tag % 64);
}

EXPORTED void kernel_set_desired(kernel *k, int64_t n, int64_t tag) {
    k->desired_set[n * k->desired_words + tag / 64] |= 1ULL << (tag % 64);
}

EXPORTED void kernel_set_domains(kernel *k, const uint8_t *allowed) {
    memcpy(k->may_migrate, allowed, (size_t)(k->domains * k->domains));
}

// Make room for exclusion tags nobody had before; gives 0, or -1 without memory.
EXPORTED int64_t kernel_grow_tags(kernel *k, int64_t exclusion_tags) {
    size_t before = (size_t)k->exclusion_tags, more = (size_t)exclusion_tags - before, nodes = (size_t)k->nodes,
           places = (size_t)k->location_tags;
    int32_t *counts = realloc(k->exclusion_count, (before + more) * nodes * sizeof *counts + 1);
    if (!counts) return -1;
    k->exclusion_count = counts;
    memset(counts + before * nodes, 0, more * nodes * sizeof *counts);
    counts = realloc(k->place_count, (before + more) * places * sizeof *counts + 1);
    if (!counts) return -1;
    k->place_count = counts;
    memset(counts + before * places, 0, more * places * sizeof *counts);
    k->exclusion_tags = exclusion_tags;
    return 0;
}

static void list_in(kernel *k, int32_t i, int32_t n, bool secondary) {
    int32_t *head = secondary ? &k->first_secondary[n] : &k->first_primary[n], next = *head;
    instance *own = &k->instance[i];
    if (secondary) {
        own->previous_secondary = NOWHERE;
        own->next_secondary = next;
        if (next != NOWHERE) k->instance[next].previous_secondary = i;
    } else {
        own->previous_primary = NOWHERE;
        own->next_primary = next;
        if (next != NOWHERE) k->instance[next].previous_primary = i;
    }
    *head = i;
}

// Point the neighbours of an instance in a list at each other, or back at it.
static void list_link(kernel *k, int32_t i, int32_t n, bool secondary, bool back) {
    instance *own = &k->instance[i];
    int32_t previous = secondary ? own->previous_secondary : own->previous_primary;
    int32_t next = secondary ? own->next_secondary : own->next_primary;
    int32_t *forward = secondary ? &k->first_secondary[n] : &k->first_primary[n];
    if (previous != NOWHERE)
        forward = secondary ? &k->instance[previous].next_secondary : &k->instance[previous].next_primary;
    *forward = back ? i : next;
    if (next == NOWHERE) return;
    if (secondary) k->instance[next].previous_secondary = back ? i : previous;
    else k->instance[next].previous_primary = back ? i : previous;
}

static void keep_peers(kernel *k, int64_t secondary, int64_t primary, int64_t change) {
    k->peers[secondary * k->nodes + primary] += change;
    k->peers_of[primary * k->nodes + secondary] += change;
}

static void keep(kernel *k, int64_t secondary, int64_t primary, int64_t change) {
    if (!change) return;
    k->value[secondary].reserved_memory = reserved_after(k, secondary, primary, change);
    keep_peers(k, secondary, primary, change);
}

static void count_exclusions(kernel *k, const instance *i, int64_t n, int32_t sign) {
    for (int32_t t = 0; t < i->exclusions; t++) k->exclusion_count[k->tags[i->exclusion_first + t] * k->nodes + n] += sign;
    count_places(k, i, n, sign);
}

static void leave(kernel *k, instance *i) {
    int32_t p = i->primary, s = i->secondary;
    if (p != NOWHERE) {
        without_primary(k, p, i, s, &k->value[p]);
        count_exclusions(k, i, p, -1);
    }
    if (s == NOWHERE) return;
    if (p != NOWHERE) keep(k, s, p, -i->reserved);
    without_secondary(k, s, i, k->value[s].reserved_memory, &k->value[s]);
}

static void enter(kernel *k, instance *i) {
    int32_t p = i->primary, s = i->secondary;
    if (p != NOWHERE) {
        with_primary(k, p, i, s, &k->value[p]);
        count_exclusions(k, i, p, 1);
    }
    if (s == NOWHERE) return;
    if (p != NOWHERE) keep(k, s, p, i->reserved);
    with_secondary(k, s, i, k->value[s].reserved_memory, &k->value[s]);
}

static void refresh(kernel *k, int32_t n) {
    if (n != NOWHERE) metrics_of(k, n, &k->value[n], &k->metric[n * METRICS]);
}

static void put(kernel *k, int64_t number, int32_t primary, int32_t secondary) {
    instance *i = &k->instance[number];
    int32_t touched[4] = {i->primary, i->secondary, primary, secondary};
    leave(k, i);
    if (i->primary != NOWHERE) list_link(k, (int32_t)number, i->primary, false, false);
    if (i->secondary != NOWHERE) list_link(k, (int32_t)number, i->secondary, true, false);
    i->primary = primary;
    i->secondary = secondary;
    if (primary != NOWHERE) list_in(k, (int32_t)number, primary, false);
    if (secondary != NOWHERE) list_in(k, (int32_t)number, secondary, true);
    enter(k, i);
    for (int t = 0; t < 4; t++) refresh(k, touched[t]);
}

// Gives false without memory.
static bool remember(kernel *k, int64_t number, int64_t primary, int64_t secondary, bool added) {
    if (!k->marks) return true;
    if (k->journal_used == k->journal_room) {
        int64_t wanted = k->journal_room ? 2 * k->journal_room : 64;
        journal_entry *grown = realloc(k->journal, (size_t)wanted * sizeof *grown);
        if (!grown) {
            k->starved = true;
            return false;
        }
        k->journal = grown;
        k->journal_room = wanted;
    }
    const instance *i = &k->instance[number];
    journal_entry *e = &k->journal[k->journal_used++];
    *e = (journal_entry){
        .instance = (int32_t)number, .primary = i->primary, .secondary = i->secondary, .added = added,
        .next_primary = i->next_primary, .previous_primary = i->previous_primary,
        .next_secondary = i->next_secondary, .previous_secondary = i->previous_secondary,
        .touched = {i->primary, i->secondary, (int32_t)primary, (int32_t)secondary}};
    for (int t = 0; t < 4; t++)
        if (e->touched[t] != NOWHERE) {
            const values *v = &k->value[e->touched[t]];
            memcpy(e->load[t], v->load, sizeof e->load[t]);
            e->spindles[t][0] = v->free_spindles;
            e->spindles[t][1] = v->free_spindles_forthcoming;
            e->fails[t] = v->fails;
        }
    return true;
}

void move_to(kernel *k, int64_t i, int64_t primary, int64_t secondary) {
    if (remember(k, i, primary, secondary, false)) put(k, i, (int32_t)primary, (int32_t)secondary);
}

EXPORTED int64_t kernel_move(kernel *k, int64_t i, int64_t primary, int64_t secondary) {
    move_to(k, i, primary, secondary);
    return answer(k, 0);
}

EXPORTED int64_t kernel_mark(kernel *k) {
    k->marks++;
    return k->journal_used;
}

static void forget_last(kernel *k) {
    const instance *i = &k->instance[--k->instances];
    k->tags_used -= i->exclusions + i->desired;
}

static void undo(kernel *k, const journal_entry *e) {
    instance *i = &k->instance[e->instance];
    leave(k, i);
    if (i->primary != NOWHERE) list_link(k, e->instance, i->primary, false, false);
    if (i->secondary != NOWHERE) list_link(k, e->instance, i->secondary, true, false);
    i->primary = e->primary;
    i->secondary = e->secondary;
    i->next_primary = e->next_primary;
    i->previous_primary = e->previous_primary;
    i->next_secondary = e->next_secondary;
    i->previous_secondary = e->previous_secondary;
    if (i->primary != NOWHERE) list_link(k, e->instance, i->primary, false, true);
    if (i->secondary != NOWHERE) list_link(k, e->instance, i->secondary, true, true);
    enter(k, i);
    for (int t = 0; t < 4; t++)
        if (e->touched[t] != NOWHERE) {
            values *v = &k->value[e->touched[t]];
            memcpy(v->load, e->load[t], sizeof e->load[t]);
            v->free_spindles = e->spindles[t][0];
            v->free_spindles_forthcoming = e->spindles[t][1];
            v->fails = e->fails[t];
        }
    for (int t = 0; t < 4; t++) refresh(k, e->touched[t]);
    if (e->added) forget_last(k);
}

EXPORTED void kernel_rollback(kernel *k, int64_t mark) {
    while (k->journal_used > mark) undo(k, &k->journal[--k->journal_used]);
    k->marks--;
}

EXPORTED void kernel_settle(kernel *k) {
    if (!--k->marks) k->journal_used = 0;
}

static bool make_room(kernel *k, int64_t more, int64_t more_tags) {
    if (k->instances + more > k->instance_room) {
        int64_t wanted = k->instances + more + (k->instance_room ? k->instance_room / 2 + 16 : 0);
        instance *grown = realloc(k->instance, (size_t)wanted * sizeof *grown);
        if (!grown) return false;
        k->instance = grown;
        k->instance_room = wanted;
    }
    if (k->tags_used + more_tags > k->tags_room) {
        int64_t wanted = 2 * (k->tags_used + more_tags);
        int32_t *grown = realloc(k->tags, (size_t)wanted * sizeof *grown);
        if (!grown) return false;
        k->tags = grown;
        k->tags_room = (int32_t)wanted;
    }
    return true;
}

// Memory, disk, counted vcpus, claimed memory, spindle use, spindles, fate, uses memory, forthcoming, local disk, has
// secondary, movable, auto balance, number of exclusion tags, number of desired tags; the tags follow in `tags`.
static instance *describe(kernel *k, const int64_t *whole, const double *load, const int32_t *tags) {
    instance *i = &k->instance[k->instances];
    *i = (instance){
        .memory = whole[0], .disk = whole[1], .vcpus = whole[2], .claim = whole[3], .reserved = whole[8] ? 0 : whole[3], .spindle_use = whole[4],
        .spindles = whole[5], .fate = (uint8_t)whole[6], .uses_memory = whole[7], .forthcoming = whole[8],
        .local_disk = whole[9], .has_secondary = whole[10], .movable = whole[11], .auto_balance = whole[12],
        .exclusion_first = k->tags_used, .exclusions = (int32_t)whole[13],
        .desired_first = k->tags_used + (int32_t)whole[13], .desired = (int32_t)whole[14],
        .primary = NOWHERE, .secondary = NOWHERE, .next_primary = NOWHERE, .previous_primary = NOWHERE,
        .next_secondary = NOWHERE, .previous_secondary = NOWHERE};
    memcpy(i->load, load, sizeof i->load);
    int32_t count = (int32_t)(whole[13] + whole[14]);
    memcpy(&k->tags[k->tags_used], tags, (size_t)count * sizeof *tags);
    k->tags_used += count;
    k->instances++;
    return i;
}

// Put a new instance on its nodes, or on none; gives its number, or -1 without memory.
EXPORTED int64_t kernel_add(kernel *k, const int64_t *whole, const double *load, const int32_t *tags, int64_t primary,
                            int64_t secondary) {
    if (!make_room(k, 1, whole[13] + whole[14])) return -1;
    describe(k, whole, load, tags);
    int64_t number = k->instances - 1;
    if (!remember(k, number, primary, secondary, true)) {
        forget_last(k);
        return answer(k, -1);
    }
    put(k, number, (int32_t)primary, (int32_t)secondary);
    return number;
}

// A role is the number of a primary, or the complement of that of a secondary.

// What an instance on the node takes of it, where the node's report has its disks (and its spindles) taken off already.
static void count_reported(kernel *k, int64_t n, int32_t role, int64_t most_reserved) {
    const instance *i = &k->instance[role < 0 ? ~role : role];
    values *v = &k->value[n];
    int64_t spindles = v->free_spindles;
    if (role >= 0) {
        with_primary(k, n, i, i->secondary, v);
        count_exclusions(k, i, n, 1);
        if (i->uses_memory) v->free_memory_forthcoming += i->memory;
    } else {
        with_secondary(k, n, i, most_reserved, v);
    }
    if (!i->forthcoming && i->local_disk) {
        v->free_disk += i->disk;
        v->free_disk_forthcoming += i->disk;
    }
    v->free_spindles_forthcoming += spindles - v->free_spindles;
    v->free_spindles = spindles;
}

// The values of a node as its report and its roles, given in the order of the instances, have them; gives the memory nobody accounts for (x_mem).
// Its primaries count for no exclusion tag before. `by_report`: N+1 as 3.0 judges a node nothing has changed on.
static int64_t count_anew(kernel *k, int64_t n, const int32_t *roles, int64_t count, int64_t reported, bool by_report) {
    values *v = &k->value[n];
    const int64_t *row = &k->peers[n * k->nodes];
    int64_t most = 0;
    for (int64_t other = 0; other < k->nodes; other++)
        if (row[other] > most) most = row[other];
    for (int64_t r = 0; r < count; r++) count_reported(k, n, roles[r], most);
    int64_t extra = (int64_t)((uint64_t)v->free_memory - (uint64_t)reported);
    if (extra > 0) v->free_memory -= extra;
    v->fails = by_report ? reported < v->reserved_memory : v->free_memory <= v->reserved_memory;
    refresh(k, (int32_t)n);
    return extra;
}

// All roles of a node, ascending, from lists that are newest first; gives how many.
static int64_t roles_of(const kernel *k, int64_t n, int32_t *out) {
    int32_t p = k->first_primary[n], s = k->first_secondary[n];
    int64_t count = 0;
    while (p != NOWHERE || s != NOWHERE)
        if (p > s) {
            out[count++] = p;
            p = k->instance[p].next_primary;
        } else {
            out[count++] = ~s;
            s = k->instance[s].next_secondary;
        }
    for (int64_t low = 0, high = count - 1; low < high; low++, high--) {
        int32_t other = out[low];
        out[low] = out[high];
        out[high] = other;
    }
    return count;
}

// Read all instances of a new cluster. `extra` has each node's reported free memory and gets the memory that nobody
// accounts for. Gives 0, or -1 without memory.
EXPORTED int64_t kernel_load(kernel *k, int64_t count, const int64_t *whole, const double *load, const int32_t *tags,
                             int64_t tag_count, const int32_t *places, int64_t by_report, int64_t *extra) {
    int32_t *roles = room(2 * (size_t)count, sizeof *roles);
    if (!roles || !make_room(k, count, tag_count)) {
        free(roles);
        return -1;
    }
    for (int64_t number = 0; number < count; number++, whole += INSTANCE_INTEGERS, load += 4) {
        instance *i = describe(k, whole, load, tags);
        tags += i->exclusions + i->desired;
        i->primary = places[2 * number];
        i->secondary = places[2 * number + 1];
        if (i->primary != NOWHERE) list_in(k, (int32_t)number, i->primary, false);
        if (i->secondary == NOWHERE) continue;
        list_in(k, (int32_t)number, i->secondary, true);
        if (i->primary != NOWHERE) keep_peers(k, i->secondary, i->primary, i->reserved);
    }
    for (int64_t n = 0; n < k->nodes; n++)
        extra[n] = count_anew(k, n, roles, roles_of(k, n, roles), extra[n], by_report);
    free(roles);
    return 0;
}

// The next two are not part of any question: no mark may be open, and what they touch is right after kernel_renew_node.

// Remove an instance, which is on no node; the last one gets its number.
EXPORTED void kernel_drop(kernel *k, int64_t number) {
    int64_t last = k->instances - 1;
    int32_t primary = k->instance[last].primary, secondary = k->instance[last].secondary;
    if (number != last) {
        move_to(k, last, NOWHERE, NOWHERE);
        k->instance[number] = k->instance[last];
        move_to(k, number, primary, secondary);
    }
    k->instances--;
}

// Read the report of a node anew and bring all its roles in this order. Arguments as kernel_new has them for each node;
// gives the memory nobody accounts for.
EXPORTED int64_t kernel_renew_node(kernel *k, int64_t n, const int64_t *whole, const double *broken, int64_t cpus,
                                   const int32_t *roles, int64_t count, int64_t by_report) {
    k->first_primary[n] = k->first_secondary[n] = NOWHERE;
    for (int64_t r = 0; r < count; r++) {
        bool secondary = roles[r] < 0;
        list_in(k, secondary ? ~roles[r] : roles[r], (int32_t)n, secondary);
        if (!secondary) count_exclusions(k, &k->instance[roles[r]], n, -1);
    }
    read_node(k, n, whole, broken, cpus);
    return count_anew(k, n, roles, count, whole[6], by_report);
}

// What was measured on a node, itself included, takes the place of what its instances add up to.
EXPORTED void kernel_set_cpu_load(kernel *k, int64_t n, double cpu) {
    k->value[n].load[0] = cpu;
    refresh(k, (int32_t)n);
}

// Numbers of a node's primaries or secondaries, newest first; gives how many. `out` has room for all.
EXPORTED int64_t kernel_list(const kernel *k, int64_t n, int64_t secondary, int32_t *out) {
    int64_t count = 0;
    if (secondary)
        for (int32_t i = k->first_secondary[n]; i != NOWHERE; i = k->instance[i].next_secondary) out[count++] = i;
    else
        for (int32_t i = k->first_primary[n]; i != NOWHERE; i = k->instance[i].next_primary) out[count++] = i;
    return count;
}

// The whole numbers of `values` in their order, and the four loads.
EXPORTED void kernel_values(const kernel *k, int64_t n, int64_t *whole, double *load) {
    const values *v = &k->value[n];
    memcpy(whole, v, 15 * sizeof *whole);
    memcpy(load, v->load, sizeof v->load);
}

EXPORTED int64_t kernel_fails(const kernel *k, int64_t n) { return fails_n1(&k->value[n]); }

EXPORTED void kernel_metrics(const kernel *k, int64_t n, double *out) {
    memcpy(out, &k->metric[n * METRICS], METRICS * sizeof *out);
}
