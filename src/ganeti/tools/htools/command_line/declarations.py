# SPDX-License-Identifier: BSD-2-Clause
"""Every option of every placement tool, declared once (spec: htools, 15; cli, 4).

Words, order and help are those of 3.1: people and completion scripts read them. Light on imports: `--help` needs this.
"""

from __future__ import annotations

from ganeti.tools.htools.command_line import option_values as values
from ganeti.tools.htools.command_line.options import Options
from ganeti.tools.htools.command_line.tools import TOOLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Option:
    """One option: its letters, what completion is told, its help, and `store`, which puts the value into `Options`.

    *metavar* is empty for a switch; *optional* says that the value may be left out (and else must be attached).
    """

    __slots__ = ("completion", "help", "long", "metavar", "optional", "short", "store")

    def __init__(
        self,
        names: str,
        explanation: str,
        store: Callable[[Options, str | None], None],
        metavar: str = "",
        completion: str = "none",
    ) -> None:
        self.short, _, self.long = names.rpartition(",")
        self.optional = metavar.startswith("[")
        self.metavar = metavar.strip("[]")
        self.help, self.store, self.completion = explanation, store, completion


_DECLARED = (
    Option("p,print-nodes", "print the final node list", values.store_fields, "[FIELDS]"),
    Option("print-instances", "print the final instance map", values.switch("print_instances")),
    Option(
        "C,print-commands",
        "print the ganeti command list for reaching the solution, if an argument is passed then write the commands to"
        " a file named as such",
        values.store_commands,
        "[FILE]",
    ),
    Option("t,text-data", "the cluster data FILE", values.set_to("text_data"), "FILE", "file"),
    Option(
        "E,evac-mode",
        "enable evacuation mode, where the algorithm only moves instances away from offline and drained nodes",
        values.switch("evacuation"),
    ),
    Option(
        "restricted-migration",
        "disallow replace-primary moves (aka frf-moves); in evacuation mode, this will ensure that the only migrations"
        " are off the drained nodes",
        values.switch("restricted_migration"),
    ),
    Option("m,master", "collect data via RAPI at the given ADDRESS", values.set_to("rapi"), "ADDRESS", "host"),
    Option(
        "L,luxi",
        f"collect data via Luxi, optionally using the given SOCKET path [{values.luxi_socket()}]",
        values.store_luxi,
        "[SOCKET]",
        "file",
    ),
    Option(
        "I,ialloc-src",
        "Specify an iallocator spec as the cluster data source",
        values.set_to("ialloc_source"),
        "FILE",
        "file",
    ),
    Option(
        "X,exec",
        "execute the suggested moves via Luxi (only available when using it for data gathering)",
        values.switch("execute"),
    ),
    Option("first-job-group", "only execute the first group of jobs", values.switch("first_job_group")),
    Option("reason", "The reason to pass to the submitted jobs", values.set_to("reason"), "REASON"),
    Option("G,group", "the target node group (name or UUID)", values.set_to("group"), "ID", "onegroup"),
    Option(
        "l,max-length",
        "cap the solution at this many balancing or allocation rounds (useful for very unbalanced clusters or empty"
        " clusters)",
        values.integer("max_length", "max solution length"),
        "N",
        "integer",
    ),
    Option("v,verbose", "increase the verbosity level", values.louder(1)),
    Option("q,quiet", "decrease the verbosity level", values.louder(-1)),
    Option("O,offline", "set node as offline", values.store_offline, "NODE", "onenode"),
    Option(
        "static-kvm-node-memory",
        "use static node memory [in MB] on KVM instead of value reported by hypervisor. Use 0 to take value reported"
        " from hypervisor.",
        values.integer("static_node_memory_mib", "static node memory"),
        "N",
        "integer",
    ),
    Option(
        "e,min-score",
        "mininum excess to the N+1 limit to aim for",
        values.real("min_score", "min score"),
        "EPSILON",
        "float",
    ),
    Option(
        "max-cpu",
        "maximum virtual-to-physical cpu ratio for nodes (from 0 upwards) [default read from cluster]",
        values.store_max_cpu,
        "RATIO",
        "float",
    ),
    Option(
        "min-disk",
        "minimum free disk space for nodes (between 0 and 1) [0]",
        values.real("min_disk_ratio", "min free disk space"),
        "RATIO",
        "float",
    ),
    Option(
        "g,min-gain",
        "minimum gain to aim for in a balancing step before giving up",
        values.real("min_gain", "min gain"),
        "DELTA",
        "float",
    ),
    Option(
        "min-gain-limit",
        "minimum cluster score for which we start checking the min-gain",
        values.real("min_gain_limit", "min gain limit"),
        "SCORE",
        "float",
    ),
    Option(
        "no-disk-moves",
        "disallow disk moves from the list of allowed instance changes, thus allowing only the 'cheap' failover/migrate"
        " operations",
        values.switch("disk_moves", False),
    ),
    Option(
        "select-instances",
        "only select given instances for any moves",
        values.set_to("select_instances", values.words),
        "INSTS",
        "manyinstances",
    ),
    Option(
        "no-instance-moves",
        "disallow instance (primary node) moves from the list of allowed, instance changes, thus allowing only slower,"
        " but sometimes safer, drbd secondary changes",
        values.switch("instance_moves", False),
    ),
    Option("ignore-soft-errors", "Ignore any soft restrictions in balancing", values.switch("ignore_soft_errors")),
    Option(
        "U,dynu-file",
        "Import dynamic utilisation data from the given FILE",
        values.set_to("utilization_file"),
        "FILE",
        "file",
    ),
    Option("ignore-dynu", "Ignore any dynamic utilisation information", values.switch("ignore_utilization")),
    Option(
        "mond", "pass either 'yes' or 'no' to query all monDs", values.yes_or_no("mond"), "[CHOICE]", "choices=yes,no"
    ),
    Option(
        "mond-data", "Import data provided by MonDs from the given FILE", values.set_to("mond_data"), "FILE", "file"
    ),
    Option(
        "exit-on-missing-mond-data",
        "abort if the data available from the monitoring daemons is incomplete",
        values.switch("exit_on_missing_mond_data"),
    ),
    Option("mond-xen", "also consider xen-specific collectors in MonD queries", values.switch("mond_xen")),
    Option(
        "exclusion-tags",
        "Enable instance exclusion based on given tag prefix",
        values.set_to("exclusion_tags", values.words),
        "TAG,...",
        "string",
    ),
    Option(
        "exclude-instances",
        "exclude given instances from any moves",
        values.set_to("exclude_instances", values.words),
        "INSTS",
        "manyinstances",
    ),
    Option("S,save", "Save cluster state at the end of the processing to FILE", values.set_to("save"), "FILE"),
    Option(
        "priority",
        "set the priority of submitted jobs",
        values.set_to("priority", values.priority),
        "PRIO",
        "choices=" + ",".join(values.PRIORITIES),
    ),
    Option(
        "simulate",
        "simulate an empty cluster, given as 'alloc_policy,num_nodes,disk,ram,cpu'",
        values.store_simulate,
        "SPEC",
        "string",
    ),
    Option(
        "no-capacity-checks",
        "disable capacity checks (like global N+1 redundancy)",
        values.switch("capacity_checks", False),
    ),
    Option(
        "restrict-allocation-to",
        "Restrict allocations to the given set of nodes",
        values.set_to("restrict_allocation_to", values.words),
        "NODE,...",
        "manynodes",
    ),
    Option("why", "say why each node that was not chosen was not, on standard error", values.switch("why")),
    Option(
        "machine-readable",
        "enable machine readable output (pass either 'yes' or 'no' to explicitly control the flag, or without an"
        " argument defaults to yes)",
        values.yes_or_no("machine_readable"),
        "[CHOICE]",
        "choices=yes,no",
    ),
    Option("no-simulation", "do not perform rebalancing simulation", values.switch("simulation", False)),
    Option(
        "offline-maintenance",
        "Schedule offline maintenance, i.e., pretend that all instance are offline.",
        values.switch("offline_maintenance"),
    ),
    Option("no-headers", "do not show a header line", values.switch("headers", False)),
    Option(
        "node-tags",
        "Restrict to nodes with the given tags",
        values.set_to("node_tags", values.words),
        "TAG,...",
        "string",
    ),
    Option("print-moves", "print the moves of the instances", values.switch("print_moves")),
    Option("full-evacuation", "fully evacuate the nodes to be rebooted", values.switch("full_evacuation")),
    Option("skip-non-redundant", "Skip nodes that host a non-redundant instance", values.switch("skip_non_redundant")),
    Option(
        "ignore-non-redundant",
        "Pretend that there are no non-redundant instances in the cluster",
        values.switch("ignore_non_redundant"),
    ),
    Option(
        "f,force",
        "force the execution of this program, even if warnings would otherwise prevent it",
        values.switch("force"),
    ),
    Option("one-step-only", "Only do the first step", values.switch("one_step_only")),
    Option(
        "d,output-dir", "directory in which to write output files", values.set_to("output_directory"), "PATH", "dir"
    ),
    Option(
        "disk-template",
        "select the desired disk template",
        values.set_to("disk_template", values.template),
        "TEMPLATE",
        "choices=" + ",".join(values.TEMPLATES),
    ),
    Option(
        "spindle-use",
        "select how many virtual spindle instances use [default read from cluster]",
        values.store_spindle_use,
        "SPINDLES",
        "float",
    ),
    Option("independent-groups", "Consider groups independently", values.switch("independent_groups")),
    Option(
        "accept-existing-errors",
        "Accept existing N+1 violations; just don't add new ones",
        values.switch("accept_existing_errors"),
    ),
    Option(
        "standard-alloc",
        "enable standard specs allocation, given as 'disk,ram,cpu'",
        values.set_to("standard_spec", values.spec("standard")),
        "STDSPEC",
        "string",
    ),
    Option(
        "tiered-alloc",
        "enable tiered specs allocation, given as 'disk,ram,cpu'",
        values.set_to("tiered_spec", values.spec("tiered")),
        "TSPEC",
        "string",
    ),
    Option(
        "minimal-resources",
        "minimal resources to be present on each in multiples of the standard allocation for not onlining standby"
        " nodes",
        values.real("minimal_resources", "minimal resources"),
        "FACTOR",
        "float",
    ),
    Option(
        "target-resources",
        "target resources to be left on each node after squeezing in multiples of the standard allocation",
        values.real("target_resources", "target resources"),
        "FACTOR",
        "float",
    ),
    Option(
        "job-delay",
        "insert this much delay before the execution of repair jobs to allow the tool to continue processing instances",
        values.real("job_delay_s", "job delay"),
        "SECONDS",
        "float",
    ),
    Option("dry-run", "do not execute any commands and just report what would be done", values.switch("dry_run")),
    Option(
        "solver",
        "seek a plan that ends as balanced as the usual one with fewer or cheaper moves, and show what it costs",
        values.switch("solver"),
    ),
    Option(
        "link-speed",
        "what the network between two nodes carries, for the time a plan takes (default 1000)",
        values.store_link_speed,
        "MBIT",
        "float",
    ),
    Option("html", "write the result as a page to look at with a browser", values.set_to("html"), "FILE", "file"),
    Option("V,version", "show the version of the program", values.switch("show_version")),
    Option("h,help", "show help", values.switch("show_help")),
    Option("help-completion", "show completion info", values.switch("show_completion")),
)
_BY_NAME = {option.long: option for option in _DECLARED}

EVERYWHERE = ("version", "help", "help-completion")


def options_of(tool: str) -> list[Option]:
    """The options of *tool* in the order of its help."""
    return [_BY_NAME[name] for name in (*TOOLS[tool], *EVERYWHERE)]
