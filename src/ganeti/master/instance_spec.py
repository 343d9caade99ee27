# SPDX-License-Identifier: BSD-2-Clause
"""From the configuration to what a node is told: instances with every parameter filled."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ganeti.model import inheritance
from ganeti.model.ipolicy import InstanceSize
from ganeti.model.node_requests import DiskSpec, InstanceSpec, NicSpec
from ganeti.model.objects import Disk, Instance, Nic
from ganeti.model.templates import traits_of
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView

FORMAT = "format"
"""Of a disk's image. It is what the disk was made with, whatever the default has become: a guest writes all of a raw
image, and read as qcow2 that could name files of the node. A disk that notes none has the first of its template."""
_BOOKKEEPING = ("reservations", "ext_reservations")
"""Of a network: which addresses are taken; a character for each address, which no node needs."""


def disk_spec(view: ConfigView, catalogue: Catalogue, instance: Instance, disk: Disk, index: int) -> DiskSpec:
    group = view.group(view.node(instance.primary_node).group)
    parameters = catalogue.template(disk.dev_type).parameters
    filled = inheritance.disk_params(view.cluster, group, disk.dev_type, parameters)
    traits = catalogue.template(disk.dev_type)
    if FORMAT in filled and traits.formats:
        filled[FORMAT] = traits.formats[0]
    paired = traits.has_secondary
    copies = [view.node(uuid) for uuid in disk.nodes] if paired else []
    return DiskSpec(
        uuid=disk.uuid,
        template=disk.dev_type,
        logical_id=disk.logical_id,
        size_mib=disk.size,
        index=index,
        mode=disk.mode,
        name=disk.name,
        params=filled | (disk.params or {}),
        exclusive=traits.uses_node_disk and uses_exclusively(view, instance.primary_node),
        spindles=disk.spindles,
        children=[disk_spec(view, catalogue, instance, child, index) for child in disk.children],
        copies={node.name: node.secondary_ip for node in copies},
        generation=disk.generation,
        snapshots=disk.snapshots or {},
        holders={node.uuid: node.name for node in copies},
        primary=view.node(instance.primary_node).name if paired else "",
    )


def uses_exclusively(view: ConfigView, node_uuid: str) -> bool:
    """Whether each physical volume of a node holds one disk only."""
    return bool(inheritance.node_nd(view, view.node(node_uuid))["exclusive_storage"])


def _nic_spec(view: ConfigView, instance: Instance, nic: Nic, index: int) -> NicSpec:
    group = view.group(view.node(instance.primary_node).group)
    filled = inheritance.nic_params(view.cluster, nic, group)
    network: dict[str, Any] | None = None
    if nic.network is not None:
        network = {key: value for key, value in view.network(nic.network).to_plain().items() if key not in _BOOKKEEPING}
    return NicSpec(
        index=index,
        uuid=nic.uuid,
        mac=nic.mac,
        mode=filled["mode"],
        link=filled["link"],
        vlan=filled["vlan"],
        ip=nic.ip,
        name=nic.name,
        network=network,
    )


def instance_spec(
    view: ConfigView,
    catalogue: Catalogue,
    instance: Instance,
    *,
    disks: list[Disk] | None = None,
) -> InstanceSpec:
    """Fill everything about *instance*; *disks* for one that is not stored yet."""
    cluster = view.cluster
    own_disks = view.instance_disks(instance) if disks is None else disks
    primary = view.node(instance.primary_node)
    others = [uuid for disk in own_disks for uuid in disk.nodes if uuid != instance.primary_node]
    parameters = catalogue.hypervisor(instance.hypervisor).parameters
    return InstanceSpec(
        name=instance.name,
        uuid=instance.uuid,
        hypervisor=instance.hypervisor,
        os=instance.os,
        primary_node=primary.name,
        primary_node_uuid=primary.uuid,
        secondary_nodes=[view.node(uuid).name for uuid in dict.fromkeys(others)],
        hvparams=inheritance.instance_hv(cluster, instance, parameters),
        beparams=inheritance.instance_be(cluster, instance),
        osparams=inheritance.os_params(cluster, instance),
        osparams_private=inheritance.private_os_params(cluster, instance),
        disks=[disk_spec(view, catalogue, instance, disk, index) for index, disk in enumerate(own_disks)],
        nics=[_nic_spec(view, instance, nic, index) for index, nic in enumerate(instance.nics)],
        tags=list(instance.tags),
        network_port=instance.network_port,
        ctime=instance.ctime,
        mtime=instance.mtime,
    )


def instance_size(
    view: ConfigView, instance: Instance, disks: list[Disk], template: str, *, node_uuid: str = ""
) -> InstanceSize:
    """What the instance policy looks at: of the instance where it is, or on another node.

    On exclusive storage the policy bounds the spindles of the disks in place of the backend parameter.
    """
    backend = inheritance.instance_be(view.cluster, instance)
    spindle_use: int | None = backend["spindle_use"]
    traits = traits_of(template)
    local = traits is not None and traits.uses_node_disk
    if local and uses_exclusively(view, node_uuid or instance.primary_node):
        named = [disk.spindles for disk in disks if disk.spindles is not None]
        spindle_use = sum(named) if len(named) == len(disks) else None
    return InstanceSize(
        memory_mib=backend["maxmem"],
        vcpus=backend["vcpus"],
        disk_sizes_mib=[disk.size for disk in disks],
        nic_count=len(instance.nics),
        spindle_use=spindle_use,
        disk_template=template,
    )


def bare(spec: InstanceSpec) -> InstanceSpec:
    """The spec without OS parameters: what is written into undo records holds no secret."""
    return replace(spec, osparams={}, osparams_private={})


def with_secrets(spec: InstanceSpec, secret: Mapping[str, Any] | None) -> InstanceSpec:
    """The spec with parameters for one run of scripts, which count before those that the instance keeps."""
    return replace(spec, osparams_private=spec.osparams_private | dict(secret or {}))
