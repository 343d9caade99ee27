// SPDX-License-Identifier: BSD-2-Clause
// The cluster score as the definition adds it up: component after component, node after node.
#include "kernel.h"

const component components[COMPONENTS] = {
    {0.5, DEVIATION, FREE_MEMORY}, {0.5, DEVIATION, FREE_DISK}, {1, SUM_ONLINE, N1}, {1, DEVIATION, RESERVED_MEMORY},
    {4, SUM_OFFLINE, INSTANCES}, {16, SUM_OFFLINE, PRIMARIES}, {0.5, DEVIATION, CPUS}, {1, DEVIATION, LOAD_CPU},
    {1, DEVIATION, LOAD_MEMORY}, {1, DEVIATION, LOAD_DISK}, {1, DEVIATION, LOAD_NET}, {2, SUM_ONLINE, CONFLICTS},
    {0.5, DEVIATION, SPINDLES}, {0.5, DEVIATION, FREE_MEMORY_FORTHCOMING}, {0.5, DEVIATION, FREE_DISK_FORTHCOMING},
    {0.5, DEVIATION, CPUS_FORTHCOMING}, {0.5, DEVIATION, SPINDLES_FORTHCOMING}, {1, SUM_ONLINE, LOCATION},
    {1, LOCATION_EXCLUSION, 0}, {0.25, SUM_ONLINE, RESERVED_MEMORY}};

void count_places(kernel *k, const instance *i, int64_t n, int sign) {
    if (!k->watched[n] || i->forthcoming || !i->exclusions || !k->location_tags) return;
    const uint64_t *own = &k->location_set[n * k->location_words];
    for (int64_t place = 0; place < k->location_tags; place++) {
        if (!(own[place / 64] >> (place % 64) & 1)) continue;
        for (int32_t t = 0; t < i->exclusions; t++) {
            int32_t *count = &k->place_count[k->tags[i->exclusion_first + t] * k->location_tags + place];
            k->place_kinds += sign > 0 ? *count == 0 : -(*count == 1);
            *count += sign;
            k->place_total += sign;
        }
    }
}

int64_t place_clashes(const kernel *k, const instance *i, int64_t n) {
    int64_t found = 0;
    if (!k->watched[n] || i->forthcoming) return 0;
    const uint64_t *own = &k->location_set[n * k->location_words];
    for (int64_t place = 0; place < k->location_tags; place++)
        for (int32_t t = 0; t < i->exclusions && own[place / 64] >> (place % 64) & 1; t++)
            found += k->place_count[k->tags[i->exclusion_first + t] * k->location_tags + place] > 0;
    return found;
}

void watch(kernel *k, const int64_t *members, int64_t count) {
    if (!k->location_tags || !k->exclusion_tags) return;
    bool same = true;
    int64_t at = 0;
    for (int64_t n = 0; n < k->nodes && same; n++) {
        bool member = at < count && members[at] == n;
        at += member;
        same = k->watched[n] == (member && k->node[n].online);
    }
    if (same) return;
    memset(k->watched, 0, (size_t)k->nodes);
    memset(k->place_count, 0, (size_t)(k->location_tags * k->exclusion_tags) * sizeof *k->place_count);
    k->place_total = k->place_kinds = 0;
    for (int64_t m = 0; m < count; m++) k->watched[members[m]] = k->node[members[m]].online;
    for (int64_t m = 0; m < count; m++)
        for (int32_t i = k->first_primary[members[m]]; i != NOWHERE; i = k->instance[i].next_primary)
            count_places(k, &k->instance[i], members[m], 1);
}

static double deviation(const kernel *k, int metric, const int64_t *members, int64_t count, int64_t online) {
    double total = 0, squares = 0;
    for (int64_t m = 0; m < count; m++)
        if (k->node[members[m]].online) total += k->metric[members[m] * METRICS + metric];
    double mean = total / (double)online;
    for (int64_t m = 0; m < count; m++)
        if (k->node[members[m]].online) {
            double distance = k->metric[members[m] * METRICS + metric] - mean;
            squares += distance * distance;
        }
    return sqrt(squares / (double)online);
}

static double sum(const kernel *k, int metric, const int64_t *members, int64_t count, bool online) {
    double total = 0;
    for (int64_t m = 0; m < count; m++)
        if (k->node[members[m]].online == online) total += k->metric[members[m] * METRICS + metric];
    return total;
}

EXPORTED void kernel_components(kernel *k, const int64_t *members, int64_t count, double *out) {
    int64_t online = 0;
    for (int64_t m = 0; m < count; m++) online += k->node[members[m]].online;
    watch(k, members, count);
    for (int c = 0; c < COMPONENTS; c++) {
        const component *own = &components[c];
        if (own->kind == DEVIATION) out[c] = online ? deviation(k, own->metric, members, count, online) : 0;
        else if (own->kind == LOCATION_EXCLUSION) out[c] = (double)(k->place_total - k->place_kinds);
        else out[c] = sum(k, own->metric, members, count, own->kind == SUM_ONLINE);
    }
}

EXPORTED double kernel_score(kernel *k, const int64_t *members, int64_t count) {
    double values[COMPONENTS], total = 0;
    bool any = false;
    for (int64_t m = 0; m < count && !any; m++) any = k->node[members[m]].online;
    if (!any) return 0;
    kernel_components(k, members, count, values);
    for (int c = 0; c < COMPONENTS; c++) total += components[c].weight * values[c];
    return total;
}
