# SPDX-License-Identifier: BSD-2-Clause
"""The tools by name: what each is for, its arguments, and in which order 3.1 tells completion its options (cli, 4).

Which options a tool takes says the row of each option (`options.py`).
"""

from __future__ import annotations


class Tool:
    """One tool: purpose, arguments as its usage shows them and as completion is told them, and 3.1's options in order.

    An option that is not among these is of this release alone: what was enough of a name in 3.1 is still enough.
    """

    __slots__ = ("arguments", "completion", "of_3_1", "purpose")

    def __init__(self, purpose: str, of_3_1: str, arguments: str = "", completion: str = "") -> None:
        self.purpose, self.arguments, self.completion = purpose, arguments, completion
        self.of_3_1 = (*of_3_1.split(), "version", "help", "help-completion")


TOOLS = {
    "hail": Tool(
        "Answers one request of the allocator protocol: where an instance goes, or where instances move.",
        "print-nodes save text-data simulate verbose ignore-dynu ignore-soft-errors no-capacity-checks "
        "restrict-allocation-to mond mond-xen static-kvm-node-memory",
        "FILE",
        "file 1 1",
    ),
    "harep": Tool(
        "Repairs instances that are broken, as far as their tags allow it.",
        "luxi job-delay reason dry-run",
    ),
    "hbal": Tool(
        "Plans moves that balance a cluster; with -L -X it has them carried out.",
        "print-nodes print-instances print-commands text-data evac-mode restricted-migration master luxi ialloc-src "
        "exec first-job-group reason group max-length verbose quiet offline static-kvm-node-memory min-score max-cpu "
        "min-disk min-gain min-gain-limit no-disk-moves select-instances no-instance-moves ignore-soft-errors "
        "dynu-file ignore-dynu mond mond-data exit-on-missing-mond-data mond-xen exclusion-tags exclude-instances "
        "save priority",
    ),
    "hcheck": Tool(
        "Says what is wrong with a cluster, and whether balancing would mend it.",
        "text-data no-disk-moves dynu-file ignore-dynu evac-mode exclude-instances exclusion-tags ialloc-src "
        "no-instance-moves luxi machine-readable max-cpu max-length min-disk min-gain min-gain-limit min-score "
        "ignore-soft-errors no-simulation offline quiet master select-instances no-capacity-checks verbose",
    ),
    "hinfo": Tool(
        "Shows the state of a cluster: node groups, nodes, instances, scores.",
        "print-nodes print-instances text-data master luxi ialloc-src verbose quiet offline ignore-dynu mond "
        "mond-data static-kvm-node-memory",
    ),
    "hroller": Tool(
        "Finds groups of nodes that may reboot at the same time, and their order.",
        "luxi master text-data ialloc-src offline offline-maintenance verbose quiet no-headers node-tags save group "
        "print-moves full-evacuation skip-non-redundant ignore-non-redundant force one-step-only "
        "static-kvm-node-memory",
    ),
    "hscan": Tool(
        "Writes text files of clusters, which the other tools read.",
        "print-nodes output-dir luxi verbose no-headers static-kvm-node-memory",
        "[CLUSTER...]",
        "host 0 none",
    ),
    "hspace": Tool(
        "Counts how many more instances fit on a cluster.",
        "print-nodes text-data disk-template spindle-use simulate master luxi ialloc-src verbose quiet "
        "independent-groups accept-existing-errors offline no-capacity-checks machine-readable max-cpu max-length "
        "min-disk standard-alloc tiered-alloc save static-kvm-node-memory",
    ),
    "hsqueeze": Tool(
        "Finds nodes that may be switched off, or must be switched on; with -L -X it does so.",
        "luxi text-data exec minimal-resources target-resources save print-commands verbose no-headers "
        "static-kvm-node-memory",
    ),
}
