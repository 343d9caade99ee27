# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about the places where disks are kept."""

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.node import StorageSpace
from ganeti.model.node_calls.storage import StorageList, StorageUnit, StorageUnitState
from ganeti.node.actions.registry import URGENT_S, answers
from ganeti.node.state import NodeState


@answers(StorageList, timeout_s=URGENT_S, changes=False)
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
        return await node.template(unit.template).space(unit.setting)
    except BlockDeviceError:
        return StorageSpace(type=unit.template, name=unit.setting, storage_size=None, storage_free=None)
