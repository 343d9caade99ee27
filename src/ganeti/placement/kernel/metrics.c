// SPDX-License-Identifier: BSD-2-Clause
// What a node's values mean for the score, and how an instance changes them (definition.metrics_of).
#include "kernel.h"

static double share(int64_t free, double total) { return total != 0 ? (double)free / total : 1.0; }

void metrics_of(const kernel *k, int64_t n, const values *v, double *out) {
    const node *d = &k->node[n];
    double count = (double)(v->primaries + v->secondaries);
    out[FREE_MEMORY] = (double)v->free_memory / d->total_memory;
    out[N1] = fails_n1(v) ? count : 0.0;
    out[RESERVED_MEMORY] = (double)v->reserved_memory / d->total_memory;
    out[INSTANCES] = count;
    out[PRIMARIES] = (double)v->primaries;
    out[CPUS] = (double)v->cpus / d->total_cpus / d->cpu_speed;
    memcpy(&out[LOAD_CPU], v->load, sizeof v->load);
    out[CONFLICTS] = (double)v->conflicts;
    out[SPINDLES] = (double)v->spindle_uses / d->high_spindles;
    out[FREE_MEMORY_FORTHCOMING] = (double)v->free_memory_forthcoming / d->total_memory;
    out[CPUS_FORTHCOMING] = (double)v->cpus_forthcoming / d->total_cpus / d->cpu_speed;
    out[SPINDLES_FORTHCOMING] = (double)v->spindle_uses_forthcoming / d->high_spindles;
    out[LOCATION] = (double)v->location;
    if (d->exclusive) {
        out[FREE_DISK] = share(v->free_spindles, d->spindles);
        out[FREE_DISK_FORTHCOMING] = share(v->free_spindles_forthcoming, d->spindles);
    } else {
        out[FREE_DISK] = share(v->free_disk, d->total_disk);
        out[FREE_DISK_FORTHCOMING] = share(v->free_disk_forthcoming, d->total_disk);
    }
}

// Disks and spindles are the same in both roles. On exclusive storage spindles are counted for every template.
static void use_disk(const kernel *k, int64_t n, const instance *i, int64_t sign, values *v) {
    bool exclusive = k->node[n].exclusive, now = !i->forthcoming;
    if (i->local_disk) {
        if (now) v->free_disk -= sign * i->disk;
        v->free_disk_forthcoming -= sign * i->disk;
        if (!exclusive) {
            if (now) v->spindle_uses += sign * i->spindle_use;
            v->spindle_uses_forthcoming += sign * i->spindle_use;
        }
    }
    if (!exclusive) return;
    int64_t taken = sign * i->spindles;
    if (i->spindles == NOWHERE) taken = now && sign > 0 ? v->free_spindles + 1 : 0;  // leaves less than none
    if (now) v->free_spindles -= taken;
    v->free_spindles_forthcoming -= taken;
}

static void use_as_primary(const kernel *k, int64_t n, const instance *i, int64_t secondary, int64_t sign, values *v) {
    if (i->uses_memory) v->free_memory -= sign * i->memory;
    v->free_memory_forthcoming -= sign * i->memory;
    v->cpus_forthcoming += sign * i->vcpus;
    use_disk(k, n, i, sign, v);
    if (i->forthcoming) return;  // it neither runs nor has disks
    v->cpus += sign * i->vcpus;
    v->primaries += sign;
    v->location += sign * (lacking_locations(k, i, n) + (secondary == NOWHERE ? 0 : shared_locations(k, n, secondary)));
    for (int l = 0; l < 4; l++) v->load[l] = sign > 0 ? v->load[l] + i->load[l] : v->load[l] - i->load[l];
}

static int64_t tags_present(const kernel *k, const instance *i, int64_t n, int32_t at_least) {
    int64_t found = 0;
    for (int32_t t = 0; t < i->exclusions; t++)
        found += k->exclusion_count[k->tags[i->exclusion_first + t] * k->nodes + n] >= at_least;
    return found;
}

// A forthcoming instance does not change what is known of a node now, nor whether that was looked at again.
static void judge(const instance *i, values *v) {
    if (!i->forthcoming) v->fails = v->free_memory <= v->reserved_memory;
}

void without_primary(const kernel *k, int64_t n, const instance *i, int64_t secondary, values *v) {
    use_as_primary(k, n, i, secondary, -1, v);
    v->conflicts -= tags_present(k, i, n, 2);
    judge(i, v);
}

void with_primary(const kernel *k, int64_t n, const instance *i, int64_t secondary, values *v) {
    use_as_primary(k, n, i, secondary, 1, v);
    v->conflicts += tags_present(k, i, n, 1);
    judge(i, v);
}

void without_secondary(const kernel *k, int64_t n, const instance *i, int64_t reserved, values *v) {
    use_disk(k, n, i, -1, v);
    v->reserved_memory = reserved;
    judge(i, v);
    if (i->forthcoming) return;
    v->load[2] -= i->load[2];
    v->secondaries--;
}

void with_secondary(const kernel *k, int64_t n, const instance *i, int64_t reserved, values *v) {
    use_disk(k, n, i, 1, v);
    v->reserved_memory = reserved;
    judge(i, v);
    if (i->forthcoming) return;
    v->load[2] += i->load[2];
    v->secondaries++;
}

int64_t reserved_after(const kernel *k, int64_t secondary, int64_t primary, int64_t change) {
    const int64_t *row = &k->peers[secondary * k->nodes];
    int64_t before = row[primary], after = before + change, most = k->value[secondary].reserved_memory;
    if (after >= most) return after > 0 ? after : 0;
    if (before < most) return most;
    most = after > 0 ? after : 0;
    for (int64_t n = 0; n < k->nodes; n++)
        if (n != primary && row[n] > most) most = row[n];
    return most;
}

int64_t shared_locations(const kernel *k, int64_t a, int64_t b) {
    int64_t found = 0;
    for (int64_t w = 0; w < k->location_words; w++)
        found += __builtin_popcountll(k->location_set[a * k->location_words + w] & k->location_set[b * k->location_words + w]);
    return found;
}

int64_t lacking_locations(const kernel *k, const instance *i, int64_t n) {
    int64_t found = 0;
    for (int32_t t = 0; t < i->desired; t++) {
        int32_t tag = k->tags[i->desired_first + t];
        found += !(k->desired_set[n * k->desired_words + tag / 64] >> (tag % 64) & 1);
    }
    return found;
}

bool shares_exclusion_tag(const kernel *k, const instance *i, int64_t n) { return tags_present(k, i, n, 1) > 0; }
