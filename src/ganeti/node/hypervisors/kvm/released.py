# SPDX-License-Identifier: BSD-2-Clause
"""Devices that a guest lets go of when nobody waits for it any more: it gets them back.

A guest that is stopped or boots answers the removal of a device late. Its job has failed by then, and the instance has
the device still. What puts the device back is in the runtime record from before the guest was asked.
"""

from collections.abc import Collection
from typing import Any

import msgspec

from ganeti.node.hypervisors.kvm import plugging, record, throttle
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.qmp import Qmp
from ganeti.node.hypervisors.kvm.record import RuntimeRecord
from ganeti.ports.node_world import NodeWorld


def expect(places: Places, known: RuntimeRecord, device: dict[str, Any]) -> RuntimeRecord:
    """Write down that the guest is asked to let go of a device; *device* has the options that plug it."""
    known = msgspec.structs.replace(known, leaving=known.leaving | {device["id"]: device})
    record.write(places, known)
    return known


def without(known: RuntimeRecord, identities: Collection[str]) -> RuntimeRecord:
    """Give the record in which nobody waits for these devices."""
    left = {name: device for name, device in known.leaving.items() if name not in identities}
    return msgspec.structs.replace(known, leaving=left)


async def put_back(world: NodeWorld, places: Places, qmp: Qmp, name: str) -> RuntimeRecord | None:
    """Give a guest the devices again that it let go of too late; gives its record, or None where it has none.

    The connection is open before the record is read: a change of devices holds it until the record says so.
    Raises `HypervisorError`.
    """
    known = record.read(places, name)
    if known is None or not known.leaving:
        return known
    for identity in sorted(set(known.leaving) - await plugging.there(qmp)):
        await qmp.execute("device_add", known.leaving[identity])
        await throttle.begin(qmp, known, [place for place in known.disks if place.identity == identity])
        world.log(f"instance {name}: {identity} was let go of after its removal had failed, and is plugged again")
        known = without(known, [identity])
        record.write(places, known)
    return known
