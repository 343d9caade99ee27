# SPDX-License-Identifier: BSD-2-Clause
"""Node calls that write a disk image onto a disk, and those that run a helper guest from one."""

import os

from msgspec.structs import replace

from ganeti.base.errors import BlockDeviceError, CommandError
from ganeti.model.communication import nic_of
from ganeti.model.node_calls import SLOW_S
from ganeti.model.node_calls.images import DiskImage, HelperEnd, HelperStart
from ganeti.model.node_requests import AttachedDisk, DiskSpec, InstanceSpec
from ganeti.node import images, metadata
from ganeti.node.actions.instances import attach_disks, attach_files
from ganeti.node.actions.migration import tell_metadata
from ganeti.node.actions.registry import answers
from ganeti.node.state import NodeState
from ganeti.node.storage.image_io import MIB, RAW, in_thread, unlink

_OWN_DISK = "helper"
"""Begins the UUID of the disk with the copy of the image."""


@answers(DiskImage)
async def disk_image(node: NodeState, asked: DiskImage) -> int:
    target = (await attach_files(node, asked.instance))[asked.index]
    if target.image_format == RAW:
        size = await in_thread(images.copy_onto, node.paths, asked.image, target.path)
    else:
        size = await _converted(node, asked, target)
    node.world.log(f"disk {asked.index} of instance {asked.instance.name} filled from image {asked.image}")
    return size


async def _converted(node: NodeState, asked: DiskImage, target: AttachedDisk) -> int:
    copy = _copy_path(node, asked.instance)
    try:
        size = await in_thread(images.copy_into, node.paths, asked.image, copy)
        if size > target.spec.size_mib * MIB:
            raise BlockDeviceError(f"The image {asked.image} is larger than the disk of {target.spec.size_mib} MiB")
        argv = ["qemu-img", "convert", "-q", "-n", "-f", RAW, "-O", target.image_format, copy, target.path]
        await node.world.run(argv, timeout_s=SLOW_S)
    except CommandError as err:
        raise BlockDeviceError(f"The image {asked.image} cannot be written onto disk {asked.index}: {err}") from err
    finally:
        await in_thread(unlink, copy)
    return size


@answers(HelperStart)
async def helper_start(node: NodeState, asked: HelperStart) -> None:
    """The disks are assembled if they were not."""
    instance, path = asked.instance, _copy_path(node, asked.instance)
    disks = await attach_disks(node, instance)
    if not disks:
        raise BlockDeviceError(f"Instance {instance.name} has no disks that a helper guest could work on")
    size = await in_thread(images.copy_into, node.paths, asked.image, path)
    own = DiskSpec(
        uuid=f"{_OWN_DISK}-{instance.uuid}",
        template=disks[0].spec.template,
        logical_id=["loop", path],
        size_mib=size // MIB,
        index=0,
    )
    behind = [replace(disk, spec=replace(disk.spec, index=disk.spec.index + 1)) for disk in disks]
    attached = [AttachedDisk(spec=own, path=path), *behind]
    hypervisor = node.hypervisor_of(instance)
    nic = nic_of(instance.nics) if asked.communicates else None
    if nic is not None:
        await tell_metadata(node, instance)
    helper = replace(
        instance,
        disks=[disk.spec for disk in attached],
        nics=[] if nic is None else [nic],
        hvparams=hypervisor.as_helper(instance.hvparams, address=nic.ip if nic is not None else None),
    )
    await hypervisor.start(helper, attached)
    node.world.log(f"helper guest of instance {instance.name} started from image {asked.image}")


@answers(HelperEnd)
async def helper_end(node: NodeState, asked: HelperEnd) -> None:
    """Without the copy of an image, no helper was started or it has ended: the guest of that name is the instance's."""
    path = _copy_path(node, asked.instance)
    await in_thread(unlink, f"{path}.new")
    if not await in_thread(os.path.exists, path):
        return
    await node.hypervisor_of(asked.instance).stop(asked.instance.name, timeout_s=0, force=True)
    await metadata.forget(node.world, asked.instance.name)
    await in_thread(unlink, path)
    node.world.log(f"helper guest of instance {asked.instance.name} ended")


def _copy_path(node: NodeState, instance: InstanceSpec) -> str:
    return f"{node.paths.data_dir}/helper-images/{instance.name}.img"
