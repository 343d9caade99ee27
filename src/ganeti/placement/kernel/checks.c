// SPDX-License-Identifier: BSD-2-Clause
// What keeps an instance off a node: placement/definition/checks.py without its sentences, check for check in the same order.
#include "kernel.h"

static int refuse_spindles(const instance *i, int64_t free) {
    return i->spindles == NOWHERE || i->spindles > free ? FAIL_SPINDLES : FITS;
}

static int refuse_disk(const node *d, const values *v, const instance *i, bool forced, bool hard_disk) {
    if (!i->local_disk) return FITS;
    int64_t left = v->free_disk - i->disk, uses = v->spindle_uses + (d->exclusive ? 0 : i->spindle_use);
    if (left <= 0 && hard_disk) return FAIL_DISK;
    if (!forced && left < d->low_disk) return FAIL_DISK;
    if (d->exclusive && refuse_spindles(i, v->free_spindles)) return FAIL_SPINDLES;
    return !forced && (double)uses > d->high_spindles ? FAIL_DISK : FITS;
}

static int refuse_forthcoming_disk(const node *d, const values *v, const instance *i) {
    if (!i->local_disk) return FITS;
    int64_t left = v->free_disk_forthcoming - i->disk;
    if (left <= 0 || left < d->low_disk) return FAIL_DISK;
    if (d->exclusive && refuse_spindles(i, v->free_spindles_forthcoming)) return FAIL_SPINDLES;
    int64_t uses = v->spindle_uses_forthcoming + (d->exclusive ? 0 : i->spindle_use);
    return (double)uses > d->high_spindles ? FAIL_DISK : FITS;
}

static int refuse_primary_now(const kernel *k, int64_t n, const values *v, const instance *i, bool forced) {
    const node *d = &k->node[n];
    int64_t left = v->free_memory - (i->uses_memory ? i->memory : 0);
    if (left <= 0) return FAIL_MEM;
    int refusal = refuse_disk(d, v, i, forced, true);
    if (refusal || forced) return refusal;
    if (left <= v->reserved_memory && !fails_n1(v)) return FAIL_MEM;
    if ((double)(v->cpus + i->vcpus) / d->total_cpus > d->vcpu_ratio) return FAIL_CPU;
    return shares_exclusion_tag(k, i, n) ? FAIL_TAGS : FITS;
}

int refuse_primary(const kernel *k, int64_t n, const values *v, const instance *i, bool forced) {
    const node *d = &k->node[n];
    if (forced && i->forthcoming) return FITS;  // there is nothing yet that would not fit
    if (!i->forthcoming) {
        int refusal = refuse_primary_now(k, n, v, i, forced);
        if (refusal || forced) return refusal;
    }
    if (v->free_memory_forthcoming - i->memory <= 0) return FAIL_MEM;
    int refusal = refuse_forthcoming_disk(d, v, i);
    if (refusal) return refusal;
    return (double)(v->cpus_forthcoming + i->vcpus) / d->total_cpus > d->vcpu_ratio ? FAIL_CPU : FITS;
}

int refuse_secondary(const kernel *k, int64_t n, const values *v, const instance *i, int64_t reserved, bool forced,
                     bool ignore_disk) {
    const node *d = &k->node[n];
    if (!i->has_secondary) return FAIL_DISK;
    if (forced && i->forthcoming) return FITS;
    if (!i->forthcoming) {
        int refusal = refuse_disk(d, v, i, forced, !ignore_disk);
        if (refusal || forced) return refusal;
        if (i->reserved >= v->free_memory) return FAIL_MEM;
        if (v->free_memory <= reserved && !fails_n1(v)) return FAIL_MEM;
    }
    if (i->claim >= v->free_memory_forthcoming) return FAIL_MEM;
    return refuse_forthcoming_disk(d, v, i);
}

// The same asked of an instance by number: its own place on the node, if any, is not taken away first.
EXPORTED int64_t kernel_refuse_primary(const kernel *k, int64_t i, int64_t n, int64_t forced) {
    return refuse_primary(k, n, &k->value[n], &k->instance[i], forced);
}

EXPORTED int64_t kernel_refuse_secondary(const kernel *k, int64_t i, int64_t n, int64_t primary, int64_t forced) {
    const instance *own = &k->instance[i];
    int64_t kept = k->peers[n * k->nodes + primary] + own->reserved, most = k->value[n].reserved_memory;
    return refuse_secondary(k, n, &k->value[n], own, kept > most ? kept : most, forced, false);
}
