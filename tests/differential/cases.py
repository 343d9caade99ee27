# SPDX-License-Identifier: BSD-2-Clause
"""From a seed to a cluster, its files and a command line with random options."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.differential import capacity_cases
from tests.fakes.cluster_drawing import Dice, Drawing, draw
from tests.fakes.cluster_files import REQUESTS, draw_request, to_message, to_text, to_utilization

from ganeti.placement.cluster.picture import Cluster, Node
from ganeti.placement.definition.moves import PlainCluster, Wishes, read_plain

CLUSTER, LOADS, REQUEST = "cluster.data", "loads", "request.json"


@dataclass
class Case:
    """One command line and the files it reads. *cluster*, *limits* and *wishes* say the same to the definition."""

    seed: int
    tool: str
    arguments: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    cluster: Cluster = field(default_factory=Cluster)
    limits: dict[str, object] = field(default_factory=dict)
    wishes: Wishes = field(default_factory=Wishes)
    select: list[str] = field(default_factory=list)
    exclude: list[str] = field(default_factory=list)
    group: str = ""

    def plain(self) -> PlainCluster:
        """The cluster as the definition reads it with the options of the command line."""
        return read_plain(self.cluster, **self.limits)  # type: ignore[arg-type]

    def command(self, program: list[str] | None = None) -> str:
        """What to type in the directory of the files."""
        return " ".join(
            [*(program or []), self.tool, *(repr(word) if "|" in word else word for word in self.arguments)]
        )


def cases(seed: int, tools: list[str]) -> list[Case]:
    """Everything that is tried for *seed*."""
    drawing = draw(seed)
    return [_MAKERS[tool](drawing) for tool in tools]


class Draft:
    """A case being made; options are drawn in the order of the calls."""

    def __init__(self, tool: str, drawing: Drawing) -> None:
        self.dice = Dice(drawing.seed * 31 + sum(map(ord, tool)))
        self.case = Case(drawing.seed, tool, cluster=drawing.cluster)
        self.drawing = drawing

    def add(self, *words: str, share: float = 1.0) -> bool:
        taken = share >= 1 or self.dice.chance(share)
        if taken:
            self.case.arguments += words
        return taken

    def wish(self, option: str, share: float, **wishes: object) -> None:
        if self.add(option, share=share):
            self.case.wishes = replace(self.case.wishes, **wishes)  # type: ignore[arg-type]

    def number(self, option: str, share: float, values: tuple[float, ...]) -> float | None:
        """An option with a value, in one of the ways to write it."""
        value = self.dice.pick(values)
        attached = self.dice.chance(0.5) and option.startswith("--")
        if not self.add(*([f"{option}={value}"] if attached else [option, str(value)]), share=share):
            return None
        return value

    def text_data(self) -> None:
        self.case.files[CLUSTER] = to_text(self.drawing)
        self.add("-t", CLUSTER)

    def verbosity(self, quiet: bool = True) -> None:
        for _ in range(self.dice.pick((0, 0, 0, 1, 2, 3, 4))):
            self.add("-v")
        if quiet:
            self.add("-q", share=0.1)

    def loads(self, share: float = 0.2, from_file: bool = True) -> None:
        """Measured loads where the drawing has them; sometimes all load is ignored."""
        if from_file and self.drawing.load:
            self.case.files[LOADS] = to_utilization(self.drawing) + "stranger 1 2 3 4\n"
            self.add("-U", LOADS)
            self.case.cluster = replace(self.case.cluster, instances=self.drawing.with_load().instances)
        if self.add("--ignore-dynu", share=share):
            none = (0.0, 0.0, 0.0, 0.0)
            instances = [replace(one, load=none) for one in self.case.cluster.instances]
            self.case.cluster = replace(self.case.cluster, instances=instances)

    def offline(self, share: float = 0.2) -> None:
        node = self.dice.pick(self.case.cluster.nodes)
        name = node.name
        if (
            self.dice.chance(0.3)
            and sum(n.name.startswith(f"{node.name.partition('.')[0]}.") for n in self._nodes) == 1
        ):
            name = name.partition(".")[0]
        if self.add("-O", name, share=share):
            nodes = [replace(one, unavailable="offline") if one is node else one for one in self._nodes]
            self.case.cluster = replace(self.case.cluster, nodes=nodes)

    @property
    def _nodes(self) -> list[Node]:
        return list(self.case.cluster.nodes)

    def balancing(self, length: tuple[float, ...]) -> None:
        """Options of everything that balances."""
        value = self.number("-l", 0.95, length)
        self.case.wishes = replace(self.case.wishes, max_length=-1 if value is None else int(value))
        self.wish("-E", 0.15, evacuation=True)
        self.wish("--no-disk-moves", 0.1, disk_moves=False)
        self.wish("--no-instance-moves", 0.1, instance_moves=False)
        self.wish("--ignore-soft-errors", 0.15, ignore_soft_errors=True)
        for option, share, values, name in (
            ("-g", 0.2, (0.0, 0.001, 0.5, 3), "min_gain"),
            ("--min-gain-limit", 0.15, (0, 0.5, 5, 100), "min_gain_limit"),
            ("-e", 0.15, (0.5, 0.01, 1e-3, 5), "min_score"),
        ):
            value = self.number(option, share, values)
            if value is not None:
                self.case.wishes = replace(self.case.wishes, **{name: float(value)})  # type: ignore[arg-type]
        self.limits()
        self._chosen_instances()

    def limits(self) -> None:
        value = self.number("--max-cpu", 0.15, (0.5, 1.5, 3, 16))
        if value is not None:
            self.case.limits["max_cpu_ratio"] = float(value)
        value = self.number("--min-disk", 0.15, (0, 0.1, 0.5, 0.9))
        if value is not None:
            self.case.limits["min_disk_ratio"] = float(value)
        if self.case.tool in ("hbal", "hcheck") and self.add("--exclusion-tags=owner,service", share=0.1):
            self.case.limits["exclusion_prefixes"] = ("owner", "service")

    def _chosen_instances(self) -> None:
        names = [one.name for one in self.case.cluster.instances]
        if not names:
            return
        chosen = [name for name in names if self.dice.chance(0.5)] or names[:1]
        if self.add(f"--select-instances={','.join(chosen)}", share=0.08):
            self.case.select = chosen
        chosen = [name for name in names if self.dice.chance(0.15)] or names[:1]
        if self.add("--exclude-instances", ",".join(chosen), share=0.08):
            self.case.exclude = chosen


def _hbal(drawing: Drawing) -> Case:
    draft = Draft("hbal", drawing)
    draft.text_data()
    draft.verbosity()
    draft.loads()
    draft.offline()
    draft.balancing((3, 2, 5, 0, 8) if len(drawing.cluster.nodes) < 12 else (2, 1))
    draft.wish("--restricted-migration", 0.15, restricted_migration=True)
    draft.add(draft.dice.pick(("-p", "-p+plist,slist", "-pname,idx,ptags,peermap,amem,fqdn,nonsense")), share=0.2)
    draft.add("--print-instances", share=0.15)
    draft.add(draft.dice.pick(("-C", "-Ccommands.sh")), share=0.25)
    draft.add("--first-job-group", share=0.1)
    draft.add("-S", "saved", share=0.15)
    groups = drawing.cluster.groups
    if len(groups) > 1 and not draft.dice.chance(0.1):
        chosen = draft.dice.pick(groups)
        draft.case.group = chosen.uuid
        draft.add("-G", draft.dice.pick((chosen.name, chosen.uuid)))
    else:
        draft.case.group = groups[0].uuid
        draft.add("-G", "nowhere", share=0.03)
    return draft.case


def _hinfo(drawing: Drawing) -> Case:
    draft = Draft("hinfo", drawing)
    draft.text_data()
    draft.verbosity()
    draft.loads(from_file=False)
    draft.offline()
    draft.add(draft.dice.pick(("-p", "-p+plist,slist", "-pname,hi_spindles,inst_spindles,spindle_count")), share=0.5)
    draft.add("--print-instances", share=0.4)
    return draft.case


def _hcheck(drawing: Drawing) -> Case:
    draft = Draft("hcheck", drawing)
    draft.text_data()
    draft.verbosity()
    draft.loads()
    draft.offline()
    draft.balancing((2, 3, 0) if len(drawing.cluster.nodes) < 12 else (1, 0))
    draft.add(draft.dice.pick(("--machine-readable", "--machine-readable=yes", "--machine-readable=no")), share=0.4)
    draft.add("--no-simulation", share=0.3)
    draft.add("--no-capacity-checks", share=0.2)
    return draft.case


def _hail(drawing: Drawing) -> Case:
    draft = Draft("hail", drawing)
    kind = draft.dice.pick(REQUESTS)
    request = draw_request(drawing, kind)
    hypervisor = draft.dice.pick(("kvm", "fake", "xen-pvm"))
    draft.case.files[REQUEST] = json.dumps(to_message(drawing, request, hypervisor), indent=1)
    # The peer takes numbers of the request's instances for those of the other cluster: both must hold the same ones.
    if draft.dice.chance(0.2) and not any(one.forthcoming for one in drawing.cluster.instances):
        draft.text_data()
    draft.add("--no-capacity-checks", share=0.3)
    draft.add("--ignore-soft-errors", share=0.15)
    draft.add("--ignore-dynu", share=0.1)
    draft.add("-v", share=0.1)
    draft.number("--static-kvm-node-memory", 0.2, (0, 1024, 3000))
    names = [node.name for node in drawing.cluster.nodes if draft.dice.chance(0.6)]
    draft.add("--restrict-allocation-to", ",".join(names) or drawing.cluster.nodes[0].name, share=0.12)
    draft.add("-S", "saved", share=0.1)
    draft.add("-v", "-v", share=0.1)
    draft.add(REQUEST)
    return draft.case


_MAKERS: dict[str, Callable[[Drawing], Case]] = {
    "hbal": _hbal,
    "hinfo": _hinfo,
    "hcheck": _hcheck,
    "hail": _hail,
    "hspace": lambda drawing: capacity_cases.hspace(drawing, Draft),
    "hroller": lambda drawing: capacity_cases.hroller(drawing, Draft),
    "hsqueeze": lambda drawing: capacity_cases.hsqueeze(drawing, Draft),
}
TOOLS = tuple(_MAKERS)
