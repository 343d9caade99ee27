# SPDX-License-Identifier: BSD-2-Clause
"""Every option of every placement tool, one row each, and so the settings a tool reads (spec: htools, 15; cli, 4).

A new option is a row here, and `options.<name>` where it acts. Names, values and their complaints are those of 3.1.
"""

from __future__ import annotations

from ganeti.tools.htools.command_line import option_values as values
from ganeti.tools.htools.command_line.declaring import EVERY, Group, Option, option, switch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.tools.htools.command_line.option_values import Spec

_FROM_CLUSTER = "as the cluster says"


class _Source(Group, title="Where the cluster comes from"):
    text_data: str | None = option(
        *("t,text-data", "FILE", "hbal hail hcheck hinfo hroller hspace hsqueeze"),
        "read the cluster from a text file, as hscan and --save write it",
        completion="file",
    )
    luxi: str | None = option(
        *("L,luxi", "[SOCKET]", "hbal hcheck hinfo hroller hscan hspace hsqueeze harep"),
        "ask the master daemon of this machine, at its socket",
        without=values.luxi_socket,
        shown=values.LUXI_SOCKET,
        completion="file",
    )
    rapi: str | None = option(
        *("m,master", "ADDRESS", "hbal hcheck hinfo hroller hspace"),
        "ask the remote API of a cluster",
        completion="host",
    )
    ialloc_source: str | None = option(
        *("I,ialloc-src", "FILE", "hbal hcheck hinfo hroller hspace"),
        "take the cluster from the input of an allocator",
        completion="file",
    )
    simulate: list[str] = option(
        *("simulate", "SPEC", "hail hspace"),
        "make up an empty group: POLICY,NODES,DISK,MEMORY,CPUS; once for each group",
        default=[],
        store=values.store_simulate,
        completion="string",
    )


class _Assumptions(Group, title="What is assumed of it"):
    offline: list[str] = option(
        *("O,offline", "NODE", "hbal hcheck hinfo hroller hspace"),
        "treat the node as offline; may be given several times",
        default=[],
        store=values.store_offline,
        completion="onenode",
    )
    _offline_nodes: object = option(
        *("offline-nodes", "NODE,...", "hbal hcheck hinfo hroller hspace"),
        "treat all of these nodes as offline, to ask what if they fail",
        store=lambda options, text: options.offline.extend(values.words(text or "")),
        completion="manynodes",
    )
    if_added: list[str] = option(
        *("if-added", "N:SPEC", "hspace"),
        "count as if there were N more nodes: N:memory=SIZE,disk=SIZE,cpus=N[,group=GROUP], or N:like=NODE",
        default=[],
        store=lambda options, text: options.if_added.append(text or ""),
        completion="string",
    )
    if_lost: list[str] = option(
        *("if-lost", "NODE|GROUP", "hspace"),
        "count as if this node or node group were lost and its instances had moved; may be given several times",
        default=[],
        store=lambda options, text: options.if_lost.append(text or ""),
        completion="string",
    )
    static_node_memory_mib: int = option(
        *("static-kvm-node-memory", "N", "hbal hail hinfo hroller hscan hspace hsqueeze"),
        "memory a KVM node keeps for itself, in MiB; 0: what the node reports",
        default=4096,
        read=values.integer("static node memory"),
        completion="integer",
    )
    max_cpu_ratio: float | None = option(
        *("max-cpu", "RATIO", "hbal hcheck hspace"),
        "most virtual CPUs for each physical one, above 0",
        read=values.real(
            "parsing max-cpu", lambda ratio: not ratio <= 0, "Invalid value of the max-cpu ratio, expected >0"
        ),
        shown=_FROM_CLUSTER,
        completion="float",
    )
    min_disk_ratio: float = option(
        *("min-disk", "RATIO", "hbal hcheck hspace"),
        "share of each node's disk that stays free, 0 to 1",
        default=0.0,
        read=values.real("min free disk space"),
        completion="float",
    )
    exclusion_tags: list[str] | None = option(
        *("exclusion-tags", "TAG,...", "hbal hcheck"),
        "keep instances apart that share a tag with one of these prefixes",
        read=values.words,
        completion="string",
    )
    utilization_file: str | None = option(
        *("U,dynu-file", "FILE", "hbal hcheck"), "read the load of each instance from a file", completion="file"
    )
    ignore_utilization: bool = switch(
        "ignore-dynu", "hbal hail hcheck hinfo", "leave load out: every instance counts the same"
    )
    mond: bool | None = option(
        *("mond", "[CHOICE]", "hbal hail hinfo"),
        "ask the monitoring daemon of each node for its CPU load: yes or no; alone: yes",
        read=values.yes_or_no,
        without=lambda: True,
        shown="no",
        completion="choices=yes,no",
    )
    mond_data: str | None = option(
        *("mond-data", "FILE", "hbal hinfo"), "read the reports of monitoring daemons from a file", completion="file"
    )
    mond_xen: bool = switch("mond-xen", "hbal hail", "with --mond: use what Xen reports of each instance")
    exit_on_missing_mond_data: bool = switch(
        "exit-on-missing-mond-data", "hbal", "stop if the report of a node is missing"
    )


class _Moves(Group, title="What may move"):
    group: str | None = option(
        *("G,group", "ID", "hbal hroller"), "work on one node group, by name or UUID", completion="onegroup"
    )
    evacuation: bool = switch("E,evac-mode", "hbal hcheck", "move only what is on offline or drained nodes")
    restricted_migration: bool = switch(
        "restricted-migration", "hbal", "never replace a primary node; with -E: migrate off drained nodes only"
    )
    disk_moves: bool = switch("no-disk-moves", "hbal hcheck", "only fail over or migrate, copy no disk", value=False)
    instance_moves: bool = switch(
        "no-instance-moves", "hbal hcheck", "only replace secondary nodes, leave each primary", value=False
    )
    select_instances: list[str] | None = option(
        *("select-instances", "INSTS", "hbal hcheck"),
        "move only these instances, separated by commas",
        read=values.words,
        completion="manyinstances",
    )
    exclude_instances: list[str] = option(
        *("exclude-instances", "INSTS", "hbal hcheck"),
        "never move these instances, separated by commas",
        default=[],
        read=values.words,
        completion="manyinstances",
    )
    ignore_soft_errors: bool = switch(
        "ignore-soft-errors", "hbal hail hcheck", "allow moves that break soft restrictions, such as policies"
    )
    solver: bool = switch(
        "solver", "hbal", "search for an equally balanced plan with fewer or cheaper moves, and show its price"
    )
    link_speed_mbit: float = option(
        *("link-speed", "MBIT", "hbal"),
        "with --solver: network speed between two nodes in Mbit/s, for the time a plan takes",
        default=1000.0,
        read=values.real(
            "parsing link-speed",
            lambda speed: 0 < speed < float("inf"),
            "Invalid value of the link speed, expected >0",
        ),
        completion="float",
    )


class _Ends(Group, title="When to stop"):
    max_length: int = option(
        *("l,max-length", "N", "hbal hcheck hspace"),
        "end after this many moves or new instances",
        default=-1,
        read=values.integer("max solution length"),
        shown="no limit",
        completion="integer",
    )
    min_score: float = option(
        *("e,min-score", "EPSILON", "hbal hcheck"),
        "end when the score is this close to the best possible one",
        default=1e-9,
        read=values.real("min score"),
        completion="float",
    )
    min_gain: float = option(
        *("g,min-gain", "DELTA", "hbal hcheck"),
        "end when a move improves the score by less",
        default=1e-2,
        read=values.real("min gain"),
        completion="float",
    )
    min_gain_limit: float = option(
        *("min-gain-limit", "SCORE", "hbal hcheck"),
        "apply --min-gain only while the score is below this",
        default=1e-1,
        read=values.real("min gain limit"),
        completion="float",
    )
    load_threshold: float | None = option(
        *("load-threshold", "SHARE", "hbal"),
        "with measured load: move nothing unless a node is busier than the mean by this share of its processors",
        read=values.real(
            "load threshold", lambda share: 0 <= share <= 1, "Invalid value of the load threshold, expected 0 to 1"
        ),
        completion="float",
    )
    cool_down_s: float = option(
        *("cool-down", "SECONDS", "hbal"),
        "leave instances where they are that were changed, such as moved, within this time (needs -L)",
        default=0.0,
        read=values.real("cool down", lambda span: not span < 0, "Invalid value of the cool down, expected >=0"),
        completion="float",
    )
    simulation: bool = switch("no-simulation", "hcheck", "do not try whether balancing helps", value=False)


class _Allocation(Group, title="Where instances fit"):
    capacity_checks: bool = switch(
        "no-capacity-checks", "hail hcheck hspace", "do not ask whether any node may fail (global N+1)", value=False
    )
    accept_existing_errors: bool = switch(
        "accept-existing-errors", "hspace", "fill up a cluster that is not N+1 safe, without making it worse"
    )
    independent_groups: bool = switch("independent-groups", "hspace", "ask for N+1 in each group alone")
    restrict_allocation_to: list[str] | None = option(
        *("restrict-allocation-to", "NODE,...", "hail"),
        "place new instances on these nodes only",
        read=values.words,
        completion="manynodes",
    )
    disk_template: str | None = option(
        *("disk-template", "TEMPLATE", "hspace"),
        "disk template of the instances that are counted",
        read=values.template,
        shown=_FROM_CLUSTER,
        completion="choices=" + ",".join(values.TEMPLATES),
    )
    spindle_use: int | None = option(
        *("spindle-use", "SPINDLES", "hspace"),
        "spindles each instance uses, 0 or more",
        read=values.integer(
            "parsing spindle-use", lambda count: count >= 0, "Invalid value of the spindle-use (expected >= 0)"
        ),
        shown=_FROM_CLUSTER,
        completion="float",
    )
    standard_spec: Spec | None = option(
        *("standard-alloc", "STDSPEC", "hspace"),
        "size of the instances counted: DISK,MEMORY,CPUS[,SPINDLES], in MiB or with a unit",
        read=values.spec("standard"),
        shown=_FROM_CLUSTER,
        completion="string",
    )
    tiered_spec: Spec | None = option(
        *("tiered-alloc", "TSPEC", "hspace"),
        "largest size, which then shrinks until nothing fits: DISK,MEMORY,CPUS[,SPINDLES]",
        read=values.spec("tiered"),
        shown=_FROM_CLUSTER,
        completion="string",
    )
    minimal_resources: float = option(
        *("minimal-resources", "FACTOR", "hsqueeze"),
        "switch nodes on if one lacks room for this many times the standard instance",
        default=2.0,
        read=values.real("minimal resources"),
        completion="float",
    )
    target_resources: float = option(
        *("target-resources", "FACTOR", "hsqueeze"),
        "switch nodes off while each keeps room for this many times the standard instance",
        default=2.0,
        read=values.real("target resources"),
        completion="float",
    )


class _Reboots(Group, title="Which nodes reboot together"):
    node_tags: list[str] | None = option(
        *("node-tags", "TAG,...", "hroller"),
        "only nodes with one of these tags",
        read=values.words,
        completion="string",
    )
    offline_maintenance: bool = switch(
        "offline-maintenance", "hroller", "instances are shut down meanwhile, so none needs room elsewhere"
    )
    full_evacuation: bool = switch("full-evacuation", "hroller", "empty each node, of secondaries too")
    skip_non_redundant: bool = switch(
        "skip-non-redundant", "hroller", "leave out nodes with an instance that has no mirror"
    )
    ignore_non_redundant: bool = switch(
        "ignore-non-redundant", "hroller", "pretend that no instance is without a mirror"
    )
    one_step_only: bool = switch("one-step-only", "hroller", "show the first group of nodes only")
    force: bool = switch("f,force", "hroller", "continue where a warning would end the program")


class _Jobs(Group, title="Jobs for the cluster"):
    execute: bool = switch("X,exec", "hbal hsqueeze", "with -L: submit the jobs and wait for them")
    first_job_group: bool = switch("first-job-group", "hbal", "with -X: submit the first set of jobs only")
    dry_run: bool = switch("dry-run", "harep", "only say what would be repaired")
    priority: str | None = option(
        *("priority", "PRIO", "hbal"),
        "priority of the jobs: low, normal or high",
        read=values.priority,
        shown="normal",
        completion="choices=" + ",".join(values.PRIORITIES),
    )
    reason: str | None = option(*("reason", "REASON", "hbal harep"), "reason that is recorded with the jobs")
    job_delay_s: float = option(
        *("job-delay", "SECONDS", "harep"),
        "wait this many seconds before a repair begins",
        default=10.0,
        read=values.real("job delay"),
        completion="float",
    )


class _Output(Group, title="Output"):
    print_nodes: list[str] | None = option(
        *("p,print-nodes", "[FIELDS]", "hbal hail hinfo hscan hspace"),
        "show the nodes as a table; FIELDS are its columns, +FIELDS further ones",
        read=values.words,
        without=list,
    )
    print_instances: bool = switch("print-instances", "hbal hinfo", "show the instances and their nodes")
    print_commands: bool = option(
        *("C,print-commands", "[FILE]", "hbal hsqueeze"),
        "show the commands that carry out the plan, or write them to FILE as a script",
        default=False,
        store=values.store_commands,
    )
    commands_file: str | None = None
    print_moves: bool = switch("print-moves", "hroller", "show where each instance goes")
    why: bool = switch("why", "hail", "explain on standard error why the other nodes were not chosen")
    html: str | None = option(
        *("html", "FILE", "hbal hspace"), "write the result as a page for a browser", completion="file"
    )
    save: str | None = option(
        *("S,save", "FILE", "hbal hail hroller hspace hsqueeze"),
        "write the cluster before and after to text files whose names begin with FILE",
    )
    output_directory: str = option(
        *("d,output-dir", "PATH", "hscan"), "directory for the text files", default=".", completion="dir"
    )
    machine_readable: bool = option(
        *("machine-readable", "[CHOICE]", "hcheck hspace"),
        "print KEY=VALUE lines for programs: yes or no; alone: yes",
        default=False,
        read=values.yes_or_no,
        without=lambda: True,
        shown="no",
        completion="choices=yes,no",
    )
    headers: bool = switch("no-headers", "hroller hscan hsqueeze", "leave out the title line", value=False)
    verbosity = 1
    _more: object = option(
        *("v,verbose", "", "hbal hail hcheck hinfo hroller hscan hspace hsqueeze"),
        "say more; may be given several times",
        store=values.more_verbose(1),
    )
    _less: object = option(
        *("q,quiet", "", "hbal hcheck hinfo hroller hspace"), "say less", store=values.more_verbose(-1)
    )


class _About(Group, title="About the program"):
    show_version: bool = switch("V,version", EVERY, "show the version")
    show_help: bool = switch("h,help", EVERY, "show this help")
    show_completion: bool = switch("help-completion", EVERY, "list options and kinds of values for completion scripts")


class Options(_Source, _Assumptions, _Moves, _Ends, _Allocation, _Reboots, _Jobs, _Output, _About):
    """What the command line of a tool asks for; None is "not given".

    `print_nodes` is the list of fields (`[]` for the default ones), `commands_file` where `print_commands` go if not to
    standard output, `arguments` what is no option.
    """

    def __init__(self) -> None:
        self.arguments: list[str] = []
        self.simulate, self.offline, self.exclude_instances = [], [], []

    @property
    def first_number(self) -> int:
        """What the first node and group are called by number: those of simulated clusters are counted from one."""
        return 1 if self.simulate and not self.rapi and self.luxi is None else 0


def options_of(tool: str) -> list[Option]:
    """The options of *tool* in the order of their groups."""
    return [row for row in Group.rows if tool in row.programs or not row.programs]
