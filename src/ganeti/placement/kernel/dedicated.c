// SPDX-License-Identifier: BSD-2-Clause
// Placement on nodes with exclusive storage: what is lost counts, not balance (spec: htools, 10).
//
// For each node: how many instances of each smallest size would still fit before, and how many after. The candidate that
// loses least wins, first sizes first; of those the one that leaves the least disk free; of equals the last.
#include "allocation.h"

typedef struct {
    kernel *k;
    const question *q;
    const instance *sizes;
    int64_t size_count, width;  // the width of a loss: one number for each size, and the disk that is left
} dedicated;

static int64_t floored(int64_t part, int64_t whole) { return part / whole - (part % whole < 0); }

static void limit(int64_t *most, int64_t available, int64_t each) {
    if (each && floored(available, each) < *most) *most = floored(available, each);
}

// The number of such instances a node takes, added one by one; they claim no spindles of exclusive storage.
static int64_t how_many(const kernel *k, int64_t n, const values *v, const instance *i) {
    const node *d = &k->node[n];
    if (refuse_primary(k, n, v, i, false)) return 0;
    int64_t most = INT64_MAX, kept = fails_n1(v) || v->reserved_memory < 0 ? 0 : v->reserved_memory;
    int64_t low = d->low_disk > 1 ? d->low_disk : 1, uses = d->exclusive ? 0 : i->spindle_use;
    double allowed = d->vcpu_ratio * d->total_cpus;  // a ratio below zero is no bound, and comes as infinity
    int64_t cpus = allowed < 0x1p62 ? (int64_t)allowed : INT64_MAX / 2;
    limit(&most, v->free_memory - kept - 1, i->memory);
    limit(&most, v->free_memory_forthcoming - 1, i->memory);
    limit(&most, v->free_disk - low, i->disk);
    limit(&most, v->free_disk_forthcoming - low, i->disk);
    if (uses) {
        limit(&most, (int64_t)d->high_spindles - v->spindle_uses, uses);
        limit(&most, (int64_t)d->high_spindles - v->spindle_uses_forthcoming, uses);
    }
    limit(&most, cpus - v->cpus, i->vcpus);
    limit(&most, cpus - v->cpus_forthcoming, i->vcpus);
    return most == INT64_MAX ? 1 : most;
}

static void lose(const dedicated *d, int64_t n, const values *after, int64_t *loss) {
    for (int64_t s = 0; s < d->size_count; s++)
        loss[s] = how_many(d->k, n, &d->k->value[n], &d->sizes[s]) - how_many(d->k, n, after, &d->sizes[s]);
    loss[d->size_count] = after->free_disk;
}

static void lose_as_secondary(const dedicated *d, int64_t n, int64_t reserved, int64_t *loss) {
    values v = d->k->value[n];
    with_secondary(d->k, n, &d->k->instance[d->q->instance], reserved, &v);
    lose(d, n, &v, loss);
}

static void offer(const dedicated *d, int64_t primary, int64_t secondary, const int64_t *one, const int64_t *other,
                  placement *out, int64_t *best) {
    out->successes++;
    int64_t more = 0;
    for (int64_t w = 0; w < d->width && !more; w++) more = one[w] + (other ? other[w] : 0) - best[w];
    if (out->primary != NOWHERE && more > 0) return;
    out->primary = primary;
    out->secondary = secondary;
    for (int64_t w = 0; w < d->width; w++) best[w] = one[w] + (other ? other[w] : 0);
}

// All pairs of one primary. `losses` and `failures` are those of secondaries that share nothing with it.
static void pair_up(const dedicated *d, int64_t at, const int64_t *own, const int64_t *losses, const int64_t *reserves,
                    int64_t *special, placement *out, int64_t *best) {
    const question *q = d->q;
    const kernel *k = d->k;
    const instance *i = &k->instance[q->instance];
    int64_t primary = q->candidates[at];
    for (int64_t c = 0; c < q->candidate_count; c++) {
        int64_t n = q->candidates[c], reserved = reserved_with(k, i, n, primary);
        if (c == at || k->node[n].group != k->node[primary].group) continue;
        int failure = refuse_secondary(k, n, &k->value[n], i, reserved, false, false);
        if (failure) {
            out->failures[failure]++;
            continue;
        }
        const int64_t *other = &losses[c * d->width];
        if (reserved != reserves[c]) {
            lose_as_secondary(d, n, reserved, special);
            other = special;
        }
        offer(d, primary, n, own, other, out, best);
    }
}

static void choose(const dedicated *d, int64_t *room, placement *out, int64_t *best) {
    const question *q = d->q;
    const kernel *k = d->k;
    const instance *i = &k->instance[q->instance];
    int64_t *losses = room, *reserves = losses + q->candidate_count * d->width, *own = reserves + q->candidate_count,
            *special = own + d->width;
    for (int64_t c = 0; c < q->candidate_count && q->required == 2; c++) {
        reserves[c] = reserved_with(k, i, q->candidates[c], NOWHERE);
        lose_as_secondary(d, q->candidates[c], reserves[c], &losses[c * d->width]);
    }
    for (int64_t c = 0; c < q->candidate_count; c++) {
        int64_t n = q->candidates[c], partners = 0;
        int failure = policy_about(q, k, n);
        if (!failure) failure = refuse_primary(k, n, &k->value[n], i, q->ignore_soft_errors);
        if (failure) {
            for (int64_t o = 0; o < q->candidate_count; o++)
                partners += o != c && k->node[q->candidates[o]].group == k->node[n].group;
            out->failures[failure] += q->required == 2 ? partners : 1;
            continue;
        }
        values v = k->value[n];
        with_primary(k, n, i, NOWHERE, &v);
        lose(d, n, &v, own);
        if (q->required == 1) offer(d, n, NOWHERE, own, NULL, out, best);
        else pair_up(d, c, own, losses, reserves, special, out, best);
    }
}

EXPORTED int64_t kernel_allocate_dedicated(kernel *k, const question *q, const int64_t *sizes, int64_t size_count,
                                           placement *out, int64_t *loss) {
    size_t width = (size_t)size_count + 1, count = (size_t)q->candidate_count + 1;
    *out = (placement){.primary = NOWHERE, .secondary = NOWHERE};
    instance *smallest = calloc(width, sizeof *smallest);
    int64_t *room = calloc((width + 1) * (count + 2), sizeof *room);
    for (int64_t s = 0; s < size_count && smallest; s++, sizes += 4)
        smallest[s] = (instance){.memory = sizes[0], .disk = sizes[1], .vcpus = sizes[2], .claim = sizes[0],
                                 .reserved = sizes[0], .spindle_use = sizes[3], .uses_memory = true, .local_disk = true, .auto_balance = true};
    bool ready = smallest && room;
    if (ready) {
        dedicated d = {.k = k, .q = q, .sizes = smallest, .size_count = size_count, .width = size_count + 1};
        choose(&d, room, out, loss);
    }
    free(smallest);
    free(room);
    return ready ? 0 : -1;
}
