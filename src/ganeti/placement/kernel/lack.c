// SPDX-License-Identifier: BSD-2-Clause
// How much change each node, or pair of nodes, would take to admit a new instance: the fast form of `Question.alone` and
// `Question.pair` (placement/why/question.py, room.py, remedies.py), which say what every number means and have the words.
//
// For a pair the change is put together from what each of its nodes takes. Asking for less is as expensive as the node
// that leaves less; freeing room costs what both cost together. Only what a secondary keeps for the same primary
// depends on both, so that is looked at for those pairs alone that share instances.
#include "kernel.h"

enum { MEMORY, DISK, VCPUS, SPINDLE_COUNT, SPINDLE_USES, RESOURCES };
// Bits of what is exceeded: the resources by number, then these.
enum { TAG = RESOURCES, REDUNDANCY, UNNAMED_SPINDLES, NO_SECONDARY };
enum { AS_PRIMARY, AS_SECONDARY, ROLES };

// What one range of a policy makes of the request: asking for less of each resource down to a cap costs
// weight * |asked - min(base, cap)| / max(1, asked, min(base, cap)), and nothing less than `least` will do.
typedef struct {
    int64_t asked[RESOURCES], base[RESOURCES], least[RESOURCES];
    double weight[RESOURCES], less, room;  // and these beside; infinite where it cannot be
} window;

// The failure of another node that asks most of a node (NOWHERE: none does), and what there is. `quick`: everything that
// runs there has a second node.
typedef struct { int64_t needed, failing, mirrored, quick, free_memory, free_disk; } failure;

// The request. `fixed` and `present` are changes that only their own cure spares: of a node, of all nodes of a group,
// and of those nodes of `present_of` whose own limits tell them. `first` numbers the windows of
// [group][primary has exclusive storage][one of the nodes has].
typedef struct {
    const window *windows;
    const int64_t *first;
    const double *fixed, *group_fixed, *present, *present_of;
    const uint8_t *known, *redundant;  // [node], [group]
    const int64_t *lost;               // [node] memory nobody accounts for (x_mem)
    const failure *failures;           // [node], of `kernel_failures`
    int64_t instance, disks, paired, forced, primary;  // with a `primary`, other nodes are its secondary
    double memory_share, move_share;
} request;

// A node in a role; `cap` is UNLIMITED where there is none. All but `exceeded`, `missing` and `present_cap` is after
// those instances have left that share an exclusion tag.
typedef struct {
    int64_t exceeded, leaving, missing[RESOURCES + 1];  // the last is what redundancy lacks
    int64_t present_cap[RESOURCES], cap[RESOURCES], freed[RESOURCES];
    double freed_share, ratio_gain;
} spot;
#define UNLIMITED INT64_MAX

// What is told of a node: alone, and with its best partner, in each role.
typedef struct {
    double alone[ROLES], distance[ROLES];
    int64_t partner[ROLES], exceeded[ROLES], other_exceeded[ROLES], alone_exceeded[ROLES];
    int64_t missing[ROLES][RESOURCES + 1], present_cap[ROLES][RESOURCES];
} told;

typedef struct {
    const kernel *k;
    const request *q;
    const instance *asked;
    told *out;
    spot *spot[ROLES];
    double *cost[ROLES];       // [node][other is exclusive][window][resource]
    int64_t most_windows;
    int64_t *kept, *claim;     // [node] what secondaries keep for the primary that is looked at, and would have to find, without what leaves
    int64_t *claim_left, *uses_left, *disk_left, *spindles_left;  // [node] what leaves them with instances that leave that primary
    int32_t *order[ROLES];
    uint8_t *shares;
} work;

static int64_t memory_of(const instance *i) { return i->uses_memory ? i->memory : 0; }

static void limit(spot *s, int resource, int constraint, int64_t asked, int64_t cap) {
    int64_t over = asked - cap;
    if (over > 0) s->exceeded |= 1 << constraint;
    int place = constraint == REDUNDANCY ? RESOURCES : constraint;
    if (place <= RESOURCES && over > s->missing[place]) s->missing[place] = over;
    if (over > s->freed[resource]) s->freed[resource] = over;
    if ((asked || over > 0) && cap < s->cap[resource]) s->cap[resource] = cap;
}

static int64_t whole_part(double value) { return (int64_t)floor(value < 1e15 ? value : 1e15); }

static int64_t vcpu_cap(const node *d, int64_t used) {
    if (d->total_cpus == 0) return -used;
    int64_t cap = whole_part(d->vcpu_ratio * d->total_cpus) - used;
    while ((double)(used + cap + 1) / d->total_cpus <= d->vcpu_ratio && (double)cap < 1e15) cap++;
    while ((double)(used + cap) / d->total_cpus > d->vcpu_ratio) cap--;
    return cap;
}

static void spindle_limits(const work *w, spot *s, int64_t free) {
    int64_t asked = w->asked->spindles;
    if (asked == NOWHERE) {
        s->exceeded |= 1 << UNNAMED_SPINDLES;
        asked = w->q->disks;
    }
    limit(s, SPINDLE_COUNT, SPINDLE_COUNT, asked, free);
}

static void use_limit(const work *w, const node *d, spot *s, int64_t used) {
    limit(s, SPINDLE_USES, SPINDLE_USES, w->asked->spindle_use, whole_part(d->high_spindles) - used);
}

static void disk_limits(const work *w, const node *d, const values *v, spot *s, bool forced) {
    if (!w->asked->local_disk) return;
    limit(s, DISK, DISK, w->asked->disk, v->free_disk - 1);
    if (!forced) limit(s, DISK, DISK, w->asked->disk, v->free_disk - d->low_disk);
    if (d->exclusive) spindle_limits(w, s, v->free_spindles);
    else if (!forced) use_limit(w, d, s, v->spindle_uses);
}

static void later_disk_limits(const work *w, const node *d, const values *v, spot *s) {
    if (!w->asked->local_disk) return;
    limit(s, DISK, DISK, w->asked->disk, v->free_disk_forthcoming - (d->low_disk > 1 ? d->low_disk : 1));
    if (d->exclusive) spindle_limits(w, s, v->free_spindles_forthcoming);
    else use_limit(w, d, s, v->spindle_uses_forthcoming);
}

// What N+1 is judged by: what the node reported, or what is known of it (one MiB more is needed then).
static int64_t judged_free(const work *w, int64_t n) {
    const values *v = &w->k->value[n];
    int64_t reported = v->free_memory + 1 - (w->q->lost[n] < 0 ? w->q->lost[n] : 0);
    return (reported <= v->reserved_memory) == v->fails ? reported : v->free_memory;
}

static void primary_limits(const work *w, int64_t n, const values *v, bool fails, spot *s) {
    const node *d = &w->k->node[n];
    const instance *i = w->asked;
    bool forced = w->q->forced;
    if (!i->forthcoming) {
        limit(s, MEMORY, MEMORY, memory_of(i), v->free_memory - 1);
        disk_limits(w, d, v, s, forced);
        if (!forced && !fails) limit(s, MEMORY, MEMORY, memory_of(i), v->free_memory - v->reserved_memory - 1);
        if (!forced) limit(s, VCPUS, VCPUS, i->vcpus, vcpu_cap(d, v->cpus));
    }
    if (!forced) {
        limit(s, MEMORY, MEMORY, i->memory, v->free_memory_forthcoming - 1);
        later_disk_limits(w, d, v, s);
        limit(s, VCPUS, VCPUS, i->vcpus, vcpu_cap(d, v->cpus_forthcoming));
    }
    if (w->q->redundant[d->group] && w->q->failures[n].failing != NOWHERE)
        limit(s, MEMORY, REDUNDANCY, memory_of(i), v->free_memory - w->q->failures[n].needed - 1);
}

static void secondary_limits(const work *w, int64_t n, const values *v, bool fails, int64_t kept, int64_t claim,
                             bool alone, spot *s) {
    const node *d = &w->k->node[n];
    const instance *i = w->asked;
    if (!i->has_secondary) s->exceeded |= 1 << NO_SECONDARY;
    if (!i->forthcoming) {
        disk_limits(w, d, v, s, false);
        limit(s, MEMORY, MEMORY, i->reserved, v->free_memory - 1);
        if (!fails) limit(s, MEMORY, MEMORY, i->reserved, v->free_memory - kept - 1);
        if (!fails) limit(s, MEMORY, MEMORY, 0, v->free_memory - v->reserved_memory - 1);
    }
    limit(s, MEMORY, MEMORY, i->claim, v->free_memory_forthcoming - 1);
    later_disk_limits(w, d, v, s);
    if (!w->q->redundant[d->group]) return;
    if (!alone) limit(s, MEMORY, REDUNDANCY, memory_of(i), v->free_memory - claim - 1);
    if (w->q->failures[n].failing != NOWHERE)
        limit(s, MEMORY, REDUNDANCY, 0, v->free_memory - w->q->failures[n].needed - 1);
}

static double larger(double a, double b) { return a > b ? a : b; }

static double ratio_share(double wanted, double present) { return (wanted - present) / larger(wanted, 1e-9) + 1e-6; }

// What freeing costs, and what is spared at best where one ratio is raised instead.
static void price_room(const work *w, int64_t n, const values *v, spot *s) {
    const node *d = &w->k->node[n];
    const instance *i = w->asked;
    int64_t spindles = i->spindles == NOWHERE ? w->q->disks : i->spindles;
    double asked[RESOURCES] = {w->q->memory_share, (double)i->disk, (double)i->vcpus, (double)spindles,
                               (double)i->spindle_use};
    double share[RESOURCES];
    s->freed_share = s->ratio_gain = 0;
    for (int r = 0; r < RESOURCES; r++) s->freed_share += share[r] = (double)s->freed[r] / larger(1, asked[r]);
    if (s->freed[VCPUS] && d->total_cpus != 0) {
        double wanted = (double)(v->cpus_forthcoming + i->vcpus) / d->total_cpus;
        s->ratio_gain = larger(s->ratio_gain, share[VCPUS] - ratio_share(wanted, d->vcpu_ratio));
    }
    if (s->freed[SPINDLE_USES] && d->spindles != 0) {
        double wanted = (double)(v->spindle_uses_forthcoming + i->spindle_use) / d->spindles;
        s->ratio_gain =
            larger(s->ratio_gain, share[SPINDLE_USES] - ratio_share(wanted, d->high_spindles / d->spindles));
    }
}

// With so much freed that the node could take over what it should, it is asked to again.
static void ask_again(const work *w, spot *s, const values *v, int64_t judged, int64_t asked, int64_t kept,
                      bool forced) {
    int64_t *freed = &s->freed[MEMORY];
    if (w->asked->forthcoming || forced || judged + *freed <= v->reserved_memory) return;
    if (asked + kept - v->free_memory + 1 > *freed) *freed = asked + kept - v->free_memory + 1;
}

static spot nothing(void) {
    spot s = {0};
    for (int r = 0; r < RESOURCES; r++) s.cap[r] = s.present_cap[r] = UNLIMITED;
    return s;
}

static void keep_present(spot *s, const spot *present) {
    bool told = present->exceeded >> MEMORY & 1 && present->missing[MEMORY] >= present->missing[RESOURCES];
    s->exceeded = present->exceeded & ~(told ? 1 << REDUNDANCY : 0);  // the lack of memory says the same
    memcpy(s->missing, present->missing, sizeof s->missing);
    memcpy(s->present_cap, present->cap, sizeof s->present_cap);
}

static bool leaves(const kernel *k, const instance *asked, const instance *other) {
    for (int32_t a = 0; a < asked->exclusions; a++)
        for (int32_t b = 0; b < other->exclusions; b++)
            if (k->tags[asked->exclusion_first + a] == k->tags[other->exclusion_first + b]) return true;
    return false;
}

static bool somebody_leaves(const work *w) { return w->asked->exclusions && !w->q->forced && !w->asked->forthcoming; }

static spot primary_spot(const work *w, int64_t n) {
    const kernel *k = w->k;
    values v = k->value[n];
    int64_t judged = judged_free(w, n), before = v.free_memory;
    spot s = nothing();
    primary_limits(w, n, &v, judged <= v.reserved_memory, &s);
    for (int32_t i = k->first_primary[n]; i != NOWHERE && somebody_leaves(w); i = k->instance[i].next_primary)
        if (leaves(k, w->asked, &k->instance[i])) {
            s.leaving++;
            without_primary(k, n, &k->instance[i], k->instance[i].secondary, &v);
        }
    if (s.leaving) s.exceeded |= 1 << TAG;
    spot present = s;
    if (s.leaving) {
        judged += v.free_memory - before;
        s = nothing();
        s.leaving = present.leaving;
        primary_limits(w, n, &v, judged <= v.reserved_memory, &s);
    }
    keep_present(&s, &present);
    ask_again(w, &s, &v, judged, memory_of(w->asked), v.reserved_memory, w->q->forced);
    price_room(w, n, &v, &s);
    return s;
}

// The secondary of a primary whose mirrors were noted, or (NOWHERE) of one with which it shares nothing; or `alone`.
static spot secondary_spot(const work *w, int64_t n, int64_t primary, bool alone) {
    const kernel *k = w->k;
    values v = k->value[n];
    int64_t judged = judged_free(w, n), kept = primary == NOWHERE ? 0 : k->peers[n * k->nodes + primary];
    int64_t claim = primary == NOWHERE ? 0 : w->claim[n] + w->claim_left[n];
    spot present = nothing(), s;
    secondary_limits(w, n, &v, judged <= v.reserved_memory, kept, claim, alone, &present);
    s = present;
    if (primary != NOWHERE && w->shares[n] == 2) {  // some of them leave the primary, and so their mirrors
        int64_t most = 0;
        v.spindle_uses -= w->uses_left[2 * n];
        v.spindle_uses_forthcoming -= w->uses_left[2 * n + 1];
        v.free_disk_forthcoming += w->disk_left[n];
        v.free_spindles_forthcoming += w->spindles_left[n];
        for (int64_t p = 0; p < k->nodes; p++) {
            int64_t own = p == primary ? w->kept[n] : k->peers[n * k->nodes + p];
            if (own > most) most = own;
        }
        v.reserved_memory = most;
        kept = w->kept[n];
        claim = w->claim[n];
        s = nothing();
        secondary_limits(w, n, &v, judged <= most, kept, claim, alone, &s);
    }
    keep_present(&s, &present);
    ask_again(w, &s, &v, judged, w->asked->reserved, kept, false);
    price_room(w, n, &v, &s);
    return s;
}

static int64_t windows_at(int64_t group, bool primary_exclusive, bool any) {
    return 4 * group + 2 * primary_exclusive + any;
}

static double cost_of(const window *at, int r, int64_t cap) {
    if (cap < at->least[r]) return INFINITY;
    int64_t now = at->base[r] < cap ? at->base[r] : cap, most = at->asked[r] > now ? at->asked[r] : now;
    int64_t change = at->asked[r] > now ? at->asked[r] - now : now - at->asked[r];
    return at->weight[r] * (double)change / (double)(most > 1 ? most : 1);
}

// What asking for less costs because of one node, by window and resource, if the other has exclusive storage or not.
static void price_less(const work *w, int64_t n, int role, const spot *s, double *out) {
    bool own = w->k->node[n].exclusive;
    for (int other = 0; other < 2; other++) {
        int64_t at = windows_at(w->k->node[n].group, role == AS_PRIMARY ? own : other, own || other);
        for (int64_t x = w->q->first[at]; x < w->q->first[at + 1]; x++) {
            double *row = &out[(other * w->most_windows + x - w->q->first[at]) * RESOURCES];
            for (int r = 0; r < RESOURCES; r++) row[r] = cost_of(&w->q->windows[x], r, s->cap[r]);
        }
    }
}

// The smaller way of all ranges of the policy; `b` may be NULL.
static double cheapest(const work *w, int64_t at, const spot *a, const double *a_cost, const spot *b,
                       const double *b_cost) {
    double best = INFINITY;
    double gain = b && b->ratio_gain > a->ratio_gain ? b->ratio_gain : a->ratio_gain;
    double room = a->freed_share + (b ? b->freed_share : 0) - gain;
    for (int64_t x = w->q->first[at]; x < w->q->first[at + 1]; x++) {
        const window *of = &w->q->windows[x];
        double less = of->less;
        for (int r = 0; r < RESOURCES; r++, a_cost++)
            less += b && b_cost[r] > *a_cost ? b_cost[r] : *a_cost;
        if (b) b_cost += RESOURCES;
        if (less < best) best = less;
        if (of->room + room < best) best = of->room + room;
    }
    return best;
}

static const double *costs(const work *w, int role, int64_t n, bool other) {
    return &w->cost[role][(2 * n + other) * w->most_windows * RESOURCES];
}

static double fixed_of(const work *w, int64_t a, int64_t b) {
    int64_t g = w->k->node[a].group;
    double fixed = w->q->fixed[a] + w->q->group_fixed[g];
    if (b != NOWHERE) fixed += w->q->fixed[b];
    if (!w->q->redundant[g]) return fixed;
    fixed += w->q->present[g];
    if (w->q->known[a] && (b == NOWHERE || w->q->known[b]))
        fixed -= w->q->present_of[a] + (b == NOWHERE ? 0 : w->q->present_of[b]);
    return fixed;
}

static double alone(const work *w, int64_t n, int role) {
    const spot *s = &w->spot[role][n];
    double fixed = fixed_of(w, n, NOWHERE);
    if (!w->q->known[n]) return fixed;
    if (s->exceeded >> NO_SECONDARY & 1) return INFINITY;
    bool own = w->k->node[n].exclusive;
    return fixed + (double)s->leaving * w->q->move_share +
           cheapest(w, windows_at(w->k->node[n].group, own, own), s, costs(w, role, n, own), NULL, NULL);
}

// `b` and its costs are those of the secondary beside this primary.
static double together(const work *w, int64_t p, int64_t s, const spot *b, const double *b_cost) {
    double fixed = fixed_of(w, p, s);
    if (!w->q->known[p] || !w->q->known[s]) return fixed;
    if (b->exceeded >> NO_SECONDARY & 1) return INFINITY;
    const spot *a = &w->spot[AS_PRIMARY][p];
    bool first = w->k->node[p].exclusive, second = w->k->node[s].exclusive;
    return fixed + (double)a->leaving * w->q->move_share +
           cheapest(w, windows_at(w->k->node[p].group, first, first || second), a, costs(w, AS_PRIMARY, p, second),
                    b, b_cost);
}

// Notes what secondaries keep for this primary; `sign` -1 forgets it again.
static void note_mirrors(work *w, int64_t p, int sign) {
    const kernel *k = w->k;
    for (int32_t i = k->first_primary[p]; i != NOWHERE; i = k->instance[i].next_primary) {
        const instance *own = &k->instance[i];
        int64_t s = own->secondary;
        if (s == NOWHERE) continue;
        if (sign < 0) {
            w->shares[s] = 0;
            w->kept[s] = w->claim[s] = w->claim_left[s] = w->uses_left[2 * s] = w->uses_left[2 * s + 1] = w->disk_left[s] = 0;
            w->spindles_left[s] = 0;
            continue;
        }
        if (!w->shares[s]) w->shares[s] = 1;
        if (!somebody_leaves(w) || !leaves(k, w->asked, own)) {
            w->kept[s] += own->reserved;
            w->claim[s] += memory_of(own);
            continue;
        }
        w->shares[s] = 2;
        w->claim_left[s] += memory_of(own);
        if (!own->local_disk) continue;
        if (!k->node[s].exclusive) {
            w->uses_left[2 * s] += own->forthcoming ? 0 : own->spindle_use;
            w->uses_left[2 * s + 1] += own->spindle_use;
        }
        if (!own->forthcoming) continue;
        w->disk_left[s] += own->disk;
        if (k->node[s].exclusive && own->spindles != NOWHERE) w->spindles_left[s] += own->spindles;
    }
}

static void take_role(work *w, int64_t own, int64_t other, int role, double distance, const spot *at, const spot *mate) {
    told *t = &w->out[own];
    if (t->partner[role] != NOWHERE && !(distance < t->distance[role])) return;
    t->partner[role] = other;
    t->distance[role] = distance;
    t->exceeded[role] = at->exceeded;
    t->other_exceeded[role] = mate->exceeded;
    memcpy(t->missing[role], at->missing, sizeof t->missing[role]);
}

static void pair_with(work *w, int64_t p, double *scratch) {
    const kernel *k = w->k;
    const spot *a = &w->spot[AS_PRIMARY][p];
    bool first = k->node[p].exclusive, chosen = w->q->primary != NOWHERE;
    bool bound = chosen && p != w->q->primary && k->node[p].group == k->node[w->q->primary].group;
    note_mirrors(w, p, 1);
    for (int64_t at = 0; at < k->nodes; at++) {
        int64_t s = w->order[AS_SECONDARY][at];
        if (s == p || k->node[s].group != k->node[p].group) continue;
        const spot *b = &w->spot[AS_SECONDARY][s];
        const double *b_cost = costs(w, AS_SECONDARY, s, first);
        spot own;
        if (w->shares[s]) {
            own = secondary_spot(w, s, p, false);
            b = &own;
            price_less(w, s, AS_SECONDARY, b, scratch);
            b_cost = &scratch[first * w->most_windows * RESOURCES];
        }
        double distance = together(w, p, s, b, b_cost);
        take_role(w, p, s, AS_PRIMARY, distance, a, b);
        if (!bound) take_role(w, s, p, AS_SECONDARY, distance, b, a);
    }
    note_mirrors(w, p, -1);
}

// `claim` is scratch, all zero before and after.
static failure failure_of(const kernel *k, int64_t n, int64_t *claim) {
    failure f = {.failing = NOWHERE, .quick = 1, .free_memory = k->value[n].free_memory, .free_disk = k->value[n].free_disk};
    for (int32_t i = k->first_secondary[n]; i != NOWHERE; i = k->instance[i].next_secondary)
        if (k->instance[i].primary != NOWHERE) claim[k->instance[i].primary] += memory_of(&k->instance[i]);
    for (int32_t i = k->first_secondary[n]; i != NOWHERE; i = k->instance[i].next_secondary) {
        int32_t p = k->instance[i].primary;
        if (p == NOWHERE || (f.failing != NOWHERE && claim[p] <= f.needed)) continue;
        f.needed = claim[p];
        f.failing = p;
    }
    for (int32_t i = k->first_secondary[n]; i != NOWHERE; i = k->instance[i].next_secondary)
        if (k->instance[i].primary != NOWHERE) claim[k->instance[i].primary] = 0;
    for (int32_t i = k->first_primary[n]; i != NOWHERE; i = k->instance[i].next_primary) {
        const instance *own = &k->instance[i];
        f.mirrored |= own->secondary != NOWHERE;
        f.quick &= !own->forthcoming && own->has_secondary && own->secondary != NOWHERE;
    }
    return f;
}

EXPORTED int64_t kernel_failures(const kernel *k, failure *out) {
    int64_t *claim = calloc((size_t)k->nodes + 1, sizeof *claim);
    if (!claim) return -1;
    for (int64_t n = 0; n < k->nodes; n++) out[n] = failure_of(k, n, claim);
    free(claim);
    return 0;
}

static void tell_alone(work *w, int64_t n, int role) {
    told *t = &w->out[n];
    spot *s = &w->spot[role][n];
    double *cost = &w->cost[role][2 * n * w->most_windows * RESOURCES];
    *s = role == AS_PRIMARY ? primary_spot(w, n) : secondary_spot(w, n, NOWHERE, true);
    price_less(w, n, role, s, cost);
    t->alone[role] = t->distance[role] = alone(w, n, role);
    t->partner[role] = NOWHERE;
    t->exceeded[role] = t->alone_exceeded[role] = s->exceeded;
    t->other_exceeded[role] = 0;
    memcpy(t->missing[role], s->missing, sizeof s->missing);
    memcpy(t->present_cap[role], s->present_cap, sizeof s->present_cap);
    if (role == AS_PRIMARY) return;
    *s = secondary_spot(w, n, NOWHERE, false);  // from now on beside a primary with which it shares nothing
    price_less(w, n, role, s, cost);
}

typedef struct { double distance; int32_t node; } place;

static int nearer(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static void order_nodes(work *w, int role, place *places) {
    for (int64_t n = 0; n < w->k->nodes; n++) places[n] = (place){w->out[n].alone[role], (int32_t)n};
    qsort(places, (size_t)w->k->nodes, sizeof *places, nearer);
    for (int64_t n = 0; n < w->k->nodes; n++) w->order[role][n] = places[n].node;
}

static void tell_all(work *w, place *places, double *scratch) {
    const kernel *k = w->k;
    for (int role = 0; role < (w->q->paired ? ROLES : 1); role++) {
        for (int64_t n = 0; n < k->nodes; n++) tell_alone(w, n, role);
        order_nodes(w, role, places);
    }
    for (int64_t at = 0; at < k->nodes && w->q->paired; at++) pair_with(w, w->order[AS_PRIMARY][at], scratch);
}

EXPORTED int64_t kernel_lacks(const kernel *k, const request *q, int64_t group_count, told *out) {
    size_t nodes = (size_t)k->nodes + 1, most = 1;
    for (int64_t at = 0; at < 4 * group_count; at++)
        if ((size_t)(q->first[at + 1] - q->first[at]) > most) most = (size_t)(q->first[at + 1] - q->first[at]);
    work w = {.k = k, .q = q, .asked = &k->instance[q->instance], .out = out, .most_windows = (int64_t)most};
    w.kept = calloc(nodes, sizeof *w.kept);
    w.claim = calloc(nodes, sizeof *w.claim);
    w.claim_left = calloc(nodes, sizeof *w.claim_left);
    w.uses_left = calloc(2 * nodes, sizeof *w.uses_left);
    w.disk_left = calloc(nodes, sizeof *w.disk_left);
    w.spindles_left = calloc(nodes, sizeof *w.spindles_left);
    w.shares = calloc(nodes, 1);
    place *places = calloc(nodes, sizeof *places);
    double *scratch = calloc(2 * most * RESOURCES, sizeof *scratch);
    bool all = w.kept && w.claim && w.claim_left && w.uses_left && w.disk_left && w.spindles_left && w.shares && places && scratch;
    for (int role = 0; role < ROLES; role++) {
        w.spot[role] = calloc(nodes, sizeof *w.spot[role]);
        w.cost[role] = calloc(2 * nodes * most * RESOURCES, sizeof *w.cost[role]);
        w.order[role] = calloc(nodes, sizeof *w.order[role]);
        all = all && w.spot[role] && w.cost[role] && w.order[role];
    }
    if (all) tell_all(&w, places, scratch);
    void *made[] = {w.kept, w.claim, w.claim_left, w.uses_left, w.disk_left, w.spindles_left, w.shares, places, scratch, w.spot[0], w.spot[1],
                    w.cost[0], w.cost[1], w.order[0], w.order[1]};
    for (size_t m = 0; m < sizeof made / sizeof *made; m++) free(made[m]);
    return all ? 0 : -1;
}
