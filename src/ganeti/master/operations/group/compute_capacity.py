# SPDX-License-Identifier: BSD-2-Clause
"""OP_COMPUTE_CAPACITY: how many more instances fit into each node group (S1.64 to S1.72)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from ganeti.base.command import PRIORITY, Argument, Command, Option
from ganeti.base.errors import INSUFFICIENT_RESOURCES, WRONG_INPUT, GanetiError, ParameterError, PrerequisiteError
from ganeti.master.allocation import allocator_named
from ganeti.master.allocators import BUILT_IN, ask_allocator
from ganeti.master.capacity import (
    PARAMETERS,
    check_template,
    question,
    read_answer,
    reasons,
    refusal,
    requests,
    summed,
    supposed,
)
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.parameters import Allocator
from ganeti.master.parameter import Parameter
from ganeti.model.capacity import Capacity, Ratio, Share, Spec, spec_fault
from ganeti.model.placement_requests import CountCapacity
from ganeti.model.view import ConfigView
from ganeti.placement.request import what_if
from ganeti.ports.context import OperationContext
from ganeti.ports.luxid import KeepCapacity, KnownCapacity

_Plain = dict[str, Any]


@dataclass(frozen=True)
class Checked:
    """The allocator, and what it is asked about each group; *refused* says of some why their policy admits nothing."""

    allocator: str
    questions: dict[str, _Plain]
    refused: Mapping[str, str]
    lost: list[str]
    """What is supposed to be lost, by its name."""


@operation(
    "OP_COMPUTE_CAPACITY",
    cli=Command(
        "gnt-group capacity",
        "show how many more instances fit into node groups",
        arguments=(Argument("groups", "group", 0, None, subject="group"),),
        options=(
            Option(("--no-headers",), "no_headers", "flag", "no line of titles"),
            Option(("--separator",), "separator", help="between columns, which are then not padded", metavar="TEXT"),
            Option(("--units",), "units", help="unit of sizes; h picks one for each", choices=("h", "m", "g", "t")),
            Option(
                ("--cache",),
                "cache",
                help="off: ask the nodes, even if they said it seconds ago",
                choices=("on", "off"),
            ),
            PRIORITY,
        ),
        handler="group.capacity:show",
        is_job=False,
    ),
    examples=(Example("capacity", {"iallocator": "hail"}, before=("create",)),),
)
class ComputeCapacity(Operation[_Plain], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Count what fits, or say what was counted; *node_groups* (names or UUIDs; not in 3.1) are all if none is named.

    The parameters override those of the groups and of the cluster. What the policy of a group admits nothing of is
    refused for groups that are named, or if it is so of all; of others the answer is that nothing fits. Why a group has
    no room stands in the job's log, as the result's form is fixed (S1.69 to S1.71). With *if_added* and *if_lost*
    (not in 3.1) it is counted as if nodes had come and gone, and what would become of instances stands in the log;
    nothing of that is kept. No lock is held: what is counted may be taken the next moment, like any free room.
    """

    iallocator: Allocator | None = None
    cached: Annotated[bool, Parameter("what is known is not counted again")] = True
    max_inst_spec: Annotated[
        Spec | None,
        Parameter(
            "largest size; the largest of the group's policy without it",
            options=(
                Option(
                    ("--max-spec",),
                    "max_spec",
                    "keyvalues",
                    "largest size; the largest of the group's policy without it",
                    metavar="memory=SIZE,disk=SIZE,vcpus=N",
                ),
            ),
        ),
    ] = None
    default_template: Annotated[
        str | None,
        Parameter("kind of the disks", "-t", "--disk-template", subject="disk template", metavar="TEMPLATE"),
    ] = None
    max_cpu_ratio: Annotated[Ratio | None, Parameter("virtual to physical processors", "--max-cpu-ratio")] = None
    max_disk_usage: Annotated[Share | None, Parameter("share of a node's disk, up to 1", "--max-disk-usage")] = None
    if_added: Annotated[
        list[str],
        Parameter(
            "count as if there were these new nodes",
            "--if-added",
            repeatable=True,
            metavar="N:memory=SIZE,disk=SIZE,cpus=N",
        ),
    ] = []
    if_lost: Annotated[
        list[str],
        Parameter(
            "count as if this node or node group were lost",
            "--if-lost",
            repeatable=True,
            kind="list",
            metavar="NODE|GROUP",
        ),
    ] = []
    node_groups: Annotated[
        list[str], Parameter("groups to count in; all without it", subject="group", metavar="group")
    ] = []

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> Checked:
        allocator = allocator_named(view, self.iallocator)
        if not allocator:
            raise PrerequisiteError(
                "No allocator was named and the cluster has no default one: add -I ALLOCATOR", WRONG_INPUT
            )
        if self.max_inst_spec is not None and (fault := spec_fault(self.max_inst_spec)):
            raise PrerequisiteError(fault, WRONG_INPUT)
        check_template(view, self.default_template)
        lost = self._check_supposed(view, allocator)
        named = [view.find_group(name) for name in self.node_groups] or view.groups()
        groups = sorted({group.uuid: group for group in named}.values(), key=lambda group: group.name)
        given = {name: getattr(self, name) for name in PARAMETERS}
        if self.max_inst_spec is not None:
            given["max_inst_spec"] = list(self.max_inst_spec)
        questions = {group.uuid: question(view, group, allocator, given) for group in groups}
        refused = {group.uuid: why for group in groups if (why := refusal(view, group, questions[group.uuid]))}
        if refused and (self.node_groups or len(refused) == len(groups)):
            raise PrerequisiteError(next(iter(refused.values())), WRONG_INPUT)
        return Checked(allocator, questions, refused, lost)

    def _check_supposed(self, view: ConfigView, allocator: str) -> list[str]:
        """Give the names of what is lost; raises `PrerequisiteError`."""
        if not self.if_added and not self.if_lost:
            return []
        if allocator != BUILT_IN:
            raise PrerequisiteError(
                f"The allocator '{allocator}' cannot count what is only supposed: use -I {BUILT_IN}", WRONG_INPUT
            )
        try:
            what_if.read(self.if_added, self.if_lost)
        except ParameterError as err:
            raise PrerequisiteError(err.message, WRONG_INPUT) from err
        groups = [view.uuid_by_name("nodegroups", name) or view.get("nodegroups", name) for name in self.if_lost]
        return [
            name if group is not None else view.find_node(name).name
            for name, group in zip(self.if_lost, groups, strict=True)
        ]

    async def execute(self, checked: Checked, ctx: OperationContext) -> _Plain:
        now_s = ctx.clock.now_s()
        supposing = bool(self.if_added or checked.lost)
        known: dict[str, Capacity] = {}
        if not supposing:
            known = await ctx.luxid.ask(KnownCapacity(ctx.client, checked.questions, self.cached))
        missing = {uuid: asked for uuid, asked in checked.questions.items() if uuid not in known}
        counted: dict[str, Capacity] = {}
        for request in requests(missing, self.if_added, checked.lost):
            entries, whys = await _count(ctx, checked.allocator, request)
            counted |= {uuid: Capacity(entry, now_s, whys.get(uuid, "")) for uuid, entry in entries.items()}
        if counted and not supposing:
            await ctx.luxid.ask(KeepCapacity(ctx.client, counted))
        found = {**known, **counted}
        for uuid in checked.questions:
            if not found[uuid].result["tspecs"] and (why := checked.refused.get(uuid) or found[uuid].why):
                ctx.log.info(why)
        return summed({uuid: found[uuid] for uuid in checked.questions}, now_s)


async def _count(
    ctx: OperationContext, allocator: str, request: CountCapacity
) -> tuple[dict[str, _Plain], Mapping[str, str]]:
    """Ask *allocator*; gives the entry of each group, and why some have no room."""
    refused = f"Can't compute capacity using iallocator '{allocator}': "
    answer, _ = await ask_allocator(ctx, allocator, request, reserve=False)
    if not answer.success:
        raise PrerequisiteError(f"{refused}{answer.info}", INSUFFICIENT_RESOURCES)
    try:
        entries = read_answer(request, answer.result)
    except GanetiError as err:
        raise PrerequisiteError(f"{refused}{err}", WRONG_INPUT) from err
    if told := supposed(answer):
        ctx.log.info(f"If this were lost, {told}")
    return entries, reasons(answer)
