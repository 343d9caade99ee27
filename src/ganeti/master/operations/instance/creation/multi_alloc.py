# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_MULTI_ALLOC: create many instances, placed by one question to the allocator, each in a job of its own.

The placement is one for all: each instance counts for those after it. Nothing is reserved meanwhile; each job checks
its nodes when it begins.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Final

from msgspec.structs import replace

from ganeti.base import names
from ganeti.base.command import Argument, Command
from ganeti.base.errors import ALREADY_EXISTS, WRONG_INPUT, PrerequisiteError
from ganeti.master import allocation
from ganeti.master.allocator_input import allocate_request, groups_for_new
from ganeti.master.allocators import BUILT_IN
from ganeti.master.operation import Example, Operation, SubmitJobs, decode, operation
from ganeti.master.operations.instance.creation.create import CreateInstance
from ganeti.master.operations.instance.creation.reading import sketch
from ganeti.master.operations.instance.wanted.creation_checks import refuse_opportunistic
from ganeti.master.operations.lock_plans import locks_of, placeable, plan
from ganeti.master.operations.parameters import Allocator
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@dataclass(frozen=True)
class Placed:
    creations: list[CreateInstance]
    """With their nodes."""
    failed: dict[str, str]
    """Instances that fit nowhere, and why."""


_EXAMPLE: Final[dict[str, Any]] = {
    "mode": "create",
    "disk_template": "sharedfile",
    "disks": [{"size": 1024}],
    "nics": [{}],
    "os_type": "noop",
    "beparams": {"maxmem": 128, "minmem": 128, "vcpus": 1},
}


@operation(
    "OP_INSTANCE_MULTI_ALLOC",
    cli=Command(
        "gnt-instance batch-create",
        "create many instances, which a file in JSON describes",
        arguments=(Argument("file_name", "instances.json"),),
        parameters=("iallocator",),
        handler="instance.batch:create",
    ),
    rapi="POST /2/instances-multi-alloc",
    examples=(
        Example(
            "batch-create",
            {"instances": [_EXAMPLE | {"instance_name": "one.example.com", "pnode": "node2.example.com"}]},
        ),
    ),
)
class CreateInstances(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Create many instances; gives the jobs, and the names of those that fit and that do not."""

    opportunistic_locking: Annotated[bool, Parameter("use only nodes that are free now")] = False
    iallocator: Allocator | None = None
    instances: Annotated[
        list[dict[str, Any]], Parameter("creations, each with the parameters of OP_INSTANCE_CREATE", subject="text")
    ] = []

    def locks(self, view: ConfigView) -> LockPlan:
        if self._nodes_are_named() or allocation.allocator_named(view, self.iallocator) == BUILT_IN:
            return plan()
        nodes, room = locks_of(view, placeable(view))
        return plan(shared=nodes, exclusive=room)

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Placed:
        creations = self._creations()
        requests = []
        for creation in creations:
            try:
                wanted = creation.read(view, ctx)
                template, groups = wanted.template, groups_for_new(view, creation.group_name)
                requests.append(allocate_request(view, sketch(wanted), wanted.disks, template, groups))
            except PrerequisiteError as err:
                raise PrerequisiteError(f"Instance {creation.instance_name}: {err}", err.code) from err
        if self._nodes_are_named():
            if self.opportunistic_locking:
                refuse_opportunistic(None, BUILT_IN)
            return Placed(creations, {})
        allocator = allocation.allocator_named(view, self.iallocator)
        if not allocator:
            raise PrerequisiteError(
                "No nodes were named and the cluster has no default allocator: name a node for each instance, or add "
                "-I ALLOCATOR",
                WRONG_INPUT,
            )
        if self.opportunistic_locking:
            refuse_opportunistic(allocator, BUILT_IN)
        self._check_groups(creations)
        nodes, failed = await allocation.place_many(ctx, allocator, requests, requests[0].group_name)
        return Placed([_on(each, nodes[name]) for each in creations if (name := each.instance_name) in nodes], failed)

    def check(self, view: ConfigView, facts: Placed, ctx: OperationContext) -> Placed:
        return facts

    async def execute(self, checked: Placed, ctx: OperationContext) -> SubmitJobs:
        for name, reason in checked.failed.items():
            ctx.log.warning(f"Instance {name} fits nowhere: {reason}")
        allocatable = [creation.instance_name for creation in checked.creations]
        jobs = [[creation] for creation in checked.creations]
        return SubmitJobs(jobs, {"allocatable": allocatable, "failed": list(checked.failed)})

    def _creations(self) -> list[CreateInstance]:
        if not self.instances:
            raise PrerequisiteError("No instance is described: name at least one", WRONG_INPUT)
        found: dict[str, CreateInstance] = {}
        for index, values in enumerate(self.instances):
            creation = _decoded(index, values)
            if creation.instance_name in found:
                raise PrerequisiteError(f"Instance {creation.instance_name} is described twice", ALREADY_EXISTS)
            found[creation.instance_name] = creation
        named = [creation.names_node for creation in found.values()]
        if any(named) and (not all(named) or self.iallocator):
            raise PrerequisiteError(
                "Nodes are named for some instances: name one for each, without an allocator, or for none", WRONG_INPUT
            )
        return list(found.values())

    def _nodes_are_named(self) -> bool:
        return any(values.get("pnode") or values.get("pnode_uuid") for values in self.instances)

    def _check_groups(self, creations: list[CreateInstance]) -> None:
        if len({creation.group_name for creation in creations}) > 1:
            raise PrerequisiteError(
                "The instances are for different node groups, and are placed together: make one batch of each group",
                WRONG_INPUT,
            )


def _decoded(index: int, values: dict[str, Any]) -> CreateInstance:
    """One creation, without anything that the placement of all decides; raises `PrerequisiteError` naming it."""
    name = values.get("instance_name")
    what = f"Instance {names.shown(name)}" if isinstance(name, str) else f"Instance number {index + 1}"
    if values.get("OP_ID", CreateInstance.op_id) != CreateInstance.op_id:
        raise PrerequisiteError(f"{what} is described by another opcode than {CreateInstance.op_id}", WRONG_INPUT)
    try:
        creation = decode({**values, "OP_ID": CreateInstance.op_id})
        creation.refuse_unsupported()
    except PrerequisiteError as err:
        raise PrerequisiteError(f"{what}: {err}", err.code) from err
    assert isinstance(creation, CreateInstance)
    return replace(creation, instance_name=creation.instance_name.lower(), iallocator=None, opportunistic_locking=False)


def _on(creation: CreateInstance, nodes: list[str]) -> CreateInstance:
    secondary = nodes[1] if len(nodes) > 1 else None
    return replace(creation, pnode=nodes[0], snode=secondary, group_name=None)
