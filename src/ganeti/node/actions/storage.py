# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about the places where disks are kept."""

from msgspec.structs import replace

from ganeti.base.errors import BlockDeviceError, CommandError, ExecutionError
from ganeti.base.names import line_fault, shown
from ganeti.model.node_calls import FAST_S
from ganeti.model.node_calls.node import StorageSpace
from ganeti.model.node_calls.storage import (
    ExtstorageDiagnose,
    NodeVolumes,
    PhysicalVolumes,
    ProviderStatus,
    StorageList,
    StorageModify,
    StorageRepair,
    StorageUnit,
    StorageUnitState,
    VolumeSegment,
)
from ganeti.node.actions.registry import answers
from ganeti.node.collectors import lv
from ganeti.node.collectors.report import UnreadableError
from ganeti.node.state import NodeState
from ganeti.node.storage import providers
from ganeti.node.storage.interface import CountsSpindles
from ganeti.node.storage.lvm.volumes import MIB, Volumes


@answers(StorageList)
async def storage_list(node: NodeState, asked: StorageList) -> list[StorageUnitState]:
    """Size and free space of places where disks are kept."""
    found = []
    for unit in asked.units:
        space = await space_of(node, unit)
        found.append(
            StorageUnitState(
                template=unit.template, name=unit.setting, size_mib=space.storage_size, free_mib=space.storage_free
            )
        )
    return found


async def space_of(node: NodeState, unit: StorageUnit) -> StorageSpace:
    """Of one place; sizes are null where it cannot be read."""
    try:
        template = node.template(unit.template)
        space = await template.space(unit.setting)
        if not unit.spindles or not isinstance(template, CountsSpindles):
            return space
        found, free = await template.spindles(unit.setting)
        return replace(space, spindles=found, free_spindles=free)
    except BlockDeviceError:
        return StorageSpace(type=unit.template, name=unit.setting, storage_size=None, storage_free=None)


@answers(PhysicalVolumes)
async def physical_volumes(node: NodeState, asked: PhysicalVolumes) -> list[StorageUnitState]:
    """The physical volumes of a volume group; raises `BlockDeviceError`."""
    return [
        StorageUnitState(
            template=asked.unit.template,
            name=each.name,
            size_mib=each.size // MIB,
            free_mib=each.free // MIB,
            allocatable=each.allocatable,
        )
        for each in await Volumes(node.world).physical(asked.unit.setting)
    ]


@answers(NodeVolumes)
async def node_volumes(node: NodeState, asked: NodeVolumes) -> list[VolumeSegment]:
    """The logical volumes here, a line for each device that a segment lies on; raises `ExecutionError`."""
    text = await _run(node, *lv.COMMAND)
    try:
        segments = lv.read(text, {})
    except UnreadableError as err:
        raise ExecutionError(f"What lvs prints cannot be read: {err}") from err
    return [
        VolumeSegment(
            device=device.partition("(")[0],
            group=str(segment["vg_name"]),
            name=str(segment["name"]),
            size_mib=int(segment["size"]) // 2**20,
        )
        for segment in segments
        for device in str(segment["devices"]).split(",")
    ]


@answers(StorageModify)
async def storage_modify(node: NodeState, asked: StorageModify) -> None:
    """Say of a physical volume whether new volumes are put there; raises `ExecutionError`."""
    await _run(node, "pvchange", "--allocatable", "y" if asked.allocatable else "n", _name(asked.name))


@answers(StorageRepair)
async def storage_repair(node: NodeState, asked: StorageRepair) -> None:
    """Make a volume group whole again, without what is missing; raises `ExecutionError`."""
    await _run(node, "vgreduce", "--removemissing", _name(asked.name))


@answers(ExtstorageDiagnose)
async def extstorage_diagnose(node: NodeState, asked: ExtstorageDiagnose) -> list[ProviderStatus]:
    """All providers of external storage found here, those that are shadowed or broken too."""
    return providers.find_all(node.paths)


def _name(name: str) -> str:
    """What begins with a dash would be an option."""
    fault = "it begins as an option does" if name.startswith("-") else line_fault(name)
    if fault is not None:
        raise ExecutionError(f"'{shown(name)}' cannot be the name of a volume: {fault}")
    return name


async def _run(node: NodeState, *words: str) -> str:
    try:
        return (await node.world.run(words, timeout_s=FAST_S)).stdout
    except CommandError as err:
        raise ExecutionError(str(err)) from err
