# SPDX-License-Identifier: BSD-2-Clause
"""Ask an allocator as an operation would, and show what it is told or what it answers; nothing is reserved or done."""

import json
from typing import Annotated, Any

import msgspec

from ganeti.base.command import DRY_RUN, PRIORITY, Argument, Command, Option
from ganeti.base.errors import ALREADY_EXISTS, WRONG_INPUT, PrerequisiteError
from ganeti.master.allocation import allocator_named
from ganeti.master.allocator_input import relocate_request
from ganeti.master.allocators import BUILT_IN, ask_allocator, describe, run_allocator
from ganeti.master.operation import Operation, operation
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model.placement_requests import (
    Allocate,
    ChangeGroup,
    MultiAllocate,
    NodeEvacuate,
    PlacementRequest,
    Relocate,
    WantedDisk,
)
from ganeti.model.templates import disk_space_mib, traits_of
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.wire.iallocator import Response, encode_message, encode_response

IN, OUT = "in", "out"
ALLOCATE, MULTI_ALLOCATE, RELOCATE = "allocate", "multi-allocate", "relocate"
EVACUATE, CHANGE_GROUP = "node-evacuate", "change-group"
MODES = (ALLOCATE, MULTI_ALLOCATE, RELOCATE, EVACUATE, CHANGE_GROUP)
EVACUATION_MODES = ("primary-only", "secondary-only", "all")
_OPTIONS = (
    Option(("--dir",), "direction", help="its input, or its answer", choices=(IN, OUT), default=IN),
    Option(
        ("-m", "--mode"),
        "mode",
        help="kind of request",
        choices=(RELOCATE, CHANGE_GROUP, ALLOCATE, EVACUATE, MULTI_ALLOCATE),
        default=RELOCATE,
    ),
    Option(("--memory",), "memory", "size", "of the new instance", default=128),
    Option(("--disks",), "disk_sizes", "list", "its disks", default=("4096", "4096"), metavar="SIZE,…"),
    Option(("-t", "--disk-template"), "disk_template", help="how they are made", default="drbd"),
    Option(("--nics",), "nic_list", "list", "its NICs", default=("00:11:22:33:44:55",), metavar="MAC/IP/BRIDGE,…"),
    Option(("-o", "--os-type"), "os_type", help="its OS", default="", metavar="OS"),
    Option(("-p", "--vcpus"), "vcpus", "int", "its virtual processors", default=1),
    Option(("--tags",), "tags", "list", "its tags"),
    Option(("--spindle-use",), "spindle_use", "int", "how much it uses the disks", default=1),
    Option(("--count",), "count", "int", "how many, with multi-allocate", default=2),
    Option(
        ("--evac-mode",),
        "evac_mode",
        help="which side is moved, with node-evacuate",
        choices=EVACUATION_MODES,
        default="all",
    ),
    Option(("--target-groups",), "target_groups", "list", "where to, with change-group"),
    DRY_RUN,
    PRIORITY,
)
"""The command makes a whole instance of a few values."""
_Positive = Annotated[int, msgspec.Meta(ge=0)]
_Plain = dict[str, Any]


@operation(
    "OP_TEST_ALLOCATOR",
    summary_field="iallocator",
    cli=Command(
        "gnt-debug iallocator",
        "show what an allocator would get, or would answer",
        aliases=("allocator",),
        arguments=(Argument("names", "instance-name", 1, None),),
        options=_OPTIONS,
        parameters=("iallocator",),
        handler="debug.allocator:ask_allocator",
        is_job=False,
    ),
    not_played="it asks where instances would go, and changes nothing",
)
class TestAllocator(Operation[str], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Build a request of *mode*; *direction* says whether its input is wanted or the allocator's answer."""

    direction: Annotated[str, Parameter("in: show what it gets; out: what it answers")]
    mode: Annotated[str, Parameter("kind of request")]
    name: Annotated[Text, Parameter("name of the instance, new or existing", subject="object")]
    nics: Annotated[list[_Plain] | None, Parameter("NICs of the new instance")] = None
    disks: Annotated[list[Any] | None, Parameter("disks of the new instance")] = None
    hypervisor: Annotated[str | None, Parameter("its hypervisor", subject="hypervisor")] = None
    iallocator: Annotated[
        str | None,
        Parameter("allocator that picks the nodes", "-I", "--iallocator", subject="allocator", metavar="NAME"),
    ] = None
    tags: Annotated[list[str], Parameter("its tags", subject="text")] = []
    memory: Annotated[_Positive | None, Parameter("its memory in MiB")] = None
    vcpus: Annotated[_Positive | None, Parameter("its virtual processors")] = None
    os: Annotated[str | None, Parameter("its OS")] = None
    disk_template: Annotated[str | None, Parameter("how its disks are made", subject="disk template")] = None
    instances: Annotated[list[str] | None, Parameter("what is to be moved", subject="instance")] = None
    evac_mode: Annotated[str | None, Parameter("which side is moved")] = None
    target_groups: Annotated[list[str] | None, Parameter("where to", subject="group")] = None
    spindle_use: Annotated[_Positive, Parameter("how much the new instance uses the disks")] = 1
    count: Annotated[_Positive, Parameter("how many new instances")] = 1
    group_name: Annotated[str | None, Parameter("group that new instances go to", subject="group")] = None

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> PlacementRequest:
        if self.direction not in (IN, OUT):
            raise PrerequisiteError(f"Wrong test direction '{self.direction}': use {IN} or {OUT}", WRONG_INPUT)
        if self.mode not in MODES:
            raise PrerequisiteError(f"Wrong test mode '{self.mode}': use one of {', '.join(MODES)}", WRONG_INPUT)
        if self.direction == OUT and not allocator_named(view, self.iallocator):
            raise PrerequisiteError("Missing allocator name: add -I ALLOCATOR", WRONG_INPUT)
        if self.mode == RELOCATE:
            return self._relocate(view)
        if self.mode in (EVACUATE, CHANGE_GROUP):
            return self._move_many(view)
        if self.mode == ALLOCATE:
            return self._allocate(view, self.name)
        return MultiAllocate(
            instances=[self._allocate(view, f"{self.name}{number}") for number in range(self.count)],
            group_name=view.find_group(self.group_name).name if self.group_name else msgspec.UNSET,
        )

    async def execute(self, checked: PlacementRequest, ctx: OperationContext) -> str:
        if self.direction == IN:
            _, message = await describe(ctx, checked)
            return encode_message(message).decode()
        allocator = allocator_named(ctx.config.view(), self.iallocator)
        if allocator == BUILT_IN:
            answer, _ = await ask_allocator(ctx, allocator, checked, reserve=False)
            return encode_response(Response(answer.success, answer.info, answer.result)).decode()
        _, message = await describe(ctx, checked)
        return await run_allocator(ctx, allocator, message)

    def _allocate(self, view: ConfigView, name: str) -> Allocate:
        for field in ("memory", "disks", "disk_template", "os", "tags", "nics", "vcpus"):
            if getattr(self, field) is None:
                raise PrerequisiteError(f"Missing attribute '{field}' on opcode input", WRONG_INPUT)
        if view.uuid_by_name("instances", name) is not None:
            raise PrerequisiteError(f"Instance '{name}' already in the cluster: choose another name", ALREADY_EXISTS)
        traits = traits_of(self.disk_template or "")
        if traits is None:
            raise PrerequisiteError(f"Disk template '{self.disk_template}' is not known", WRONG_INPUT)
        disks = [_read_disk(disk) for disk in self.disks or []]
        return Allocate(
            name=name,
            memory=self.memory or 0,
            vcpus=self.vcpus or 0,
            spindle_use=self.spindle_use,
            disks=disks,
            disk_template=traits.name,
            os=self.os,
            tags=list(self.tags),
            nics=[dict(nic) for nic in self.nics or []],
            hypervisor=self.hypervisor or view.cluster.enabled_hypervisors[0],
            required_nodes=2 if traits.has_secondary else 1,
            disk_space_total=disk_space_mib(traits.name, [disk.size for disk in disks]),
            group_name=view.find_group(self.group_name).name if self.group_name else None,
        )

    def _relocate(self, view: ConfigView) -> Relocate:
        """What is left is what a relocation of this instance would leave: its secondary, or else its primary."""
        instance = view.find_instance(self.name)
        uuids = view.secondary_nodes(instance) or [instance.primary_node]
        return relocate_request(view, instance, [view.node(uuid).name for uuid in uuids])

    def _move_many(self, view: ConfigView) -> NodeEvacuate | ChangeGroup:
        names = [view.find_instance(name).name for name in self.instances or [self.name]]
        if self.mode == CHANGE_GROUP:
            groups = [view.find_group(name).uuid for name in self.target_groups or []]
            return ChangeGroup(instances=names, target_groups=groups)
        if self.evac_mode not in EVACUATION_MODES:
            raise PrerequisiteError(
                f"Evacuation mode '{self.evac_mode}' is not known: use one of {', '.join(EVACUATION_MODES)}",
                WRONG_INPUT,
            )
        return NodeEvacuate(instances=names, evac_mode=self.evac_mode)


def _read_disk(disk: Any) -> WantedDisk:
    """A disk by its size in MiB, or with size, mode and spindles; raises `PrerequisiteError`."""
    given = {"size": disk} if isinstance(disk, int) and not isinstance(disk, bool) else disk
    if not isinstance(given, dict) or not isinstance(given.get("size"), int) or given["size"] < 0:
        raise PrerequisiteError(
            f"A disk must have a size in MiB, such as {json.dumps({'size': 1024})}, not {json.dumps(disk)}", WRONG_INPUT
        )
    return WantedDisk(size=given["size"], mode=given.get("mode", "rw"), spindles=given.get("spindles"))
