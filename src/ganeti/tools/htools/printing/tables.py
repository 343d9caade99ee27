# SPDX-License-Identifier: BSD-2-Clause
"""Tables of nodes, instances, groups and coefficients (spec: htools, 7)."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ganeti.placement.cluster.picture import Status
from ganeti.placement.definition.score import COMPONENTS, METRICS, metrics_of, ratio, wrapped
from ganeti.tools.htools.haskell.figures import fixed, shown
from ganeti.tools.htools.printing.peer_maps import PeerMaps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ganeti.placement.cluster.picture import Instance
    from ganeti.placement.kernel.state import ClusterState

MIB_IN_GIB = 1024
DEFAULT_FIELDS = (
    *("status", "name", "tmem", "nmem", "imem", "xmem", "fmem", "umem", "rmem", "tdsk", "fdsk", "tcpu", "ucpu"),
    *("pcnt", "scnt", "pfmem", "pfdsk", "rcpu", "cload", "mload", "dload", "nload"),
)
UNKNOWN_FIELD = "<unknown field>"

Alias = Callable[[str], str]
Peers = Callable[[int], Sequence[tuple[int, int]]]


def table(prefix: str, header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    """Lay out *rows* under *header*; *right* says which columns are numbers. Ends with a newline."""
    everything = [header, *rows]
    widths = [max(len(row[column]) for row in everything) for column in range(len(header))]
    lines = []
    for row in everything:
        cells = zip(row, widths, right, strict=True)
        padded = [cell.rjust(width) if number else cell.ljust(width) for cell, width, number in cells]
        lines.append(f"{prefix} {' '.join(padded)}\n")
    return "".join(lines)


# nodes


class _NodeRow:
    """One node being printed; what several columns need is looked at once."""

    def __init__(
        self, state: "ClusterState", number: int, alias: Alias, peers: Peers, first: int, called: "Mapping[int, int]"
    ) -> None:
        self.number = number
        self.first = first
        self._called = called
        self._state = state
        self._peers = peers
        self.view = state.view(number)
        self.node = self.view.node
        self.alias = alias(self.node.name)
        self.loads = self.view.load()
        self.metrics = dict(zip(METRICS, metrics_of(self.view), strict=True))

    def status(self) -> str:
        if self.node.unavailable:
            return "-"
        return "*" if self.view.fails_n1 else " "

    def listed(self, *, secondary: bool = False) -> str:
        everyone = self._state.listed(self.number, secondary=secondary)
        real = [number for number in everyone if not self._state.instances[number].forthcoming]
        return f"[{','.join(str(self._called.get(number, number)) for number in real)}]"

    def peers(self) -> str:
        return f"[{','.join(f'({self.first + node},{memory})' for node, memory in self._peers(self.number))}]"

    def tags(self) -> str:
        return ",".join(f"{tag}={count}" for tag, count in sorted(self.view.exclusion_counts.items()))

    def cpu_ratio(self) -> float:
        return ratio(self.view.used_cpus(), self.node.total_cpus)


_NODE_FIELDS: dict[str, tuple[str, bool, Callable[[_NodeRow], str]]] = {
    "idx": ("Index", True, lambda row: f"{row.first + row.number:4d}"),
    "name": ("Name", False, lambda row: row.alias),
    "fqdn": ("Name", False, lambda row: row.node.name),
    "status": ("F", False, _NodeRow.status),
    "tmem": ("t_mem", True, lambda row: fixed(row.node.total_memory_mib, 0)),
    "nmem": ("n_mem", True, lambda row: f"{row.node.node_memory_mib:5d}"),
    "imem": ("i_mem", True, lambda row: f"{wrapped(row.view.used_memory_mib):5d}"),
    "xmem": ("x_mem", True, lambda row: f"{row.view.extra_memory_mib:5d}"),
    "fmem": ("f_mem", True, lambda row: f"{row.node.free_memory_mib:5d}"),
    "umem": ("u_mem", True, lambda row: f"{row.view.free_memory_mib:5d}"),
    "rmem": ("r_mem", True, lambda row: f"{row.view.reserved_memory_mib:5d}"),
    "amem": ("a_mem", True, lambda row: f"{row.view.available_memory_mib:5d}"),
    "tdsk": ("t_dsk", True, lambda row: fixed(row.node.total_disk_mib / MIB_IN_GIB, 0)),
    "fdsk": ("f_dsk", True, lambda row: f"{row.view.free_disk_mib // MIB_IN_GIB:5d}"),
    "tcpu": ("pcpu", True, lambda row: fixed(row.node.total_cpus, 0)),
    "ucpu": ("vcpu", True, lambda row: f"{row.view.used_cpus():4d}"),
    "pcnt": ("pcnt", True, lambda row: f"{len(row.view.real_primaries):3d}"),
    "scnt": ("scnt", True, lambda row: f"{len(row.view.real_secondaries):3d}"),
    "plist": ("primaries", True, _NodeRow.listed),
    "slist": ("secondaries", True, lambda row: row.listed(secondary=True)),
    "pfmem": ("p_fmem", True, lambda row: fixed(row.metrics["free_memory"], 4)),
    "pfdsk": ("p_fdsk", True, lambda row: fixed(row.metrics["free_disk"], 4)),
    "rcpu": ("r_cpu", True, lambda row: fixed(row.cpu_ratio(), 2)),
    "cload": ("lCpu", True, lambda row: fixed(row.loads[0], 3)),
    "mload": ("lMem", True, lambda row: fixed(row.loads[1], 3)),
    "dload": ("lDsk", True, lambda row: fixed(row.loads[2], 3)),
    "nload": ("lNet", True, lambda row: fixed(row.loads[3], 3)),
    "ptags": ("PrimaryTags", False, _NodeRow.tags),
    "peermap": ("PeerMap", False, _NodeRow.peers),
    "spindle_count": ("NodeSpindles", True, lambda row: str(row.node.spindles)),
    "hi_spindles": ("MaxSpindles", True, lambda row: shown(float(row.view.high_spindles))),
    "inst_spindles": ("InstSpindles", True, lambda row: shown(float(row.view.instance_spindles()))),
}


def chosen_fields(asked: Sequence[str]) -> list[str]:
    """What ``-p`` asked for: nothing means the default fields, a leading ``+`` adds to them."""
    if not asked:
        return list(DEFAULT_FIELDS)
    if not asked[0].startswith("+"):
        return list(asked)
    first = asked[0][1:]
    return [*DEFAULT_FIELDS, *([first, *asked[1:]] if first or asked[1:] else [])]


def node_table(
    state: "ClusterState",
    members: Sequence[int],
    asked: Sequence[str],
    alias: Alias,
    peers: Peers | None = None,
    *,
    first: int = 0,
    called: "Mapping[int, int] | None" = None,
) -> str:
    """The nodes *members* with the fields *asked* for on the command line.

    *peers* gives the peer map of a node; *first* is what the first node is called by number, *called* what those
    instances are that have another number here than in 3.1.
    """
    names = chosen_fields(asked)
    unknown = (UNKNOWN_FIELD, False, lambda row: UNKNOWN_FIELD)
    fields = [_NODE_FIELDS.get(name, unknown) for name in names]
    peers = peers or PeerMaps(state).of
    rows = [_NodeRow(state, number, alias, peers, first, called or {}) for number in members]
    cells = [[show(row) for _, _, show in fields] for row in rows]
    return table("", [header for header, _, _ in fields], cells, [right for _, right, _ in fields])


# instances

_INSTANCE_HEADER = (
    "F",
    "Name",
    "Pri_node",
    "Sec_node",
    "Auto_bal",
    "vcpu",
    "mem",
    "dsk",
    "lCpu",
    "lMem",
    "lDsk",
    "lNet",
)
_INSTANCE_NUMBERS = (False,) * 5 + (True,) * 7
_RUNNING = (Status.RUNNING, Status.ERROR_UP)


def is_running(instance: "Instance") -> bool:
    """Whether the instance runs where it should, as far as the nodes say."""
    return instance.status in _RUNNING


def instance_table(state: "ClusterState", numbers: Iterable[int]) -> str:
    """The instances *numbers*, with the full names of their nodes."""
    rows = []
    for number in numbers:
        instance = state.instances[number]
        nodes = [state.name_of(state.primary_of[number]), state.name_of(state.secondary_of[number])]
        rows.append(
            [
                "R" if is_running(instance) else " ",
                instance.name,
                *nodes,
                "Y" if instance.auto_balance else "N",
                f"{instance.vcpus:3d}",
                f"{instance.memory_mib:5d}",
                f"{instance.disk_mib // MIB_IN_GIB:5d}",
                *(fixed(load, 3) for load in instance.load),
            ]
        )
    return table("", _INSTANCE_HEADER, rows, _INSTANCE_NUMBERS)


# scores and groups


def coefficient_table(components: "Mapping[str, float]") -> str:
    """The parts of a score with their weights; no rows without parts."""
    rows = [
        [component.name, fixed(components[component.name], 8), f"x{fixed(component.weight, 2)}"]
        for component in COMPONENTS
        if component.name in components
    ]
    return table("  ", ("Field", "Value", "Weight"), rows, (False, True, True))


def group_table(rows: Sequence[tuple[str, int, int, int, int, bool, float]]) -> str:
    """Name, nodes, instances, bad nodes, bad instances, N+1 and score of each group."""
    header = ("Group", "Nodes", "Instances", "Bad_Nodes", "Bad_Instances", "N+1", "Score")
    cells = [[name, *map(str, counts), str(happy), fixed(score, 8)] for name, *counts, happy, score in rows]
    return table("  ", header, cells, (False, True, True, True, True, False, True))
