# SPDX-License-Identifier: BSD-2-Clause
"""The standard hook environment of an instance (protocols, section 10)."""

from collections.abc import Mapping, Sequence
from typing import Any

from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Hooks
from ganeti.model.network_variables import network_variables
from ganeti.model.node_requests import DiskSpec, InstanceSpec
from ganeti.model.objects import Instance
from ganeti.model.templates import traits_of
from ganeti.model.traits import Catalogue, TemplateTraits
from ganeti.model.view import ConfigView


def instance_environment(spec: InstanceSpec, instance: Instance, template: str) -> dict[str, str]:
    """Variables without the ``GANETI_`` prefix, which the engine adds."""
    env = {
        "INSTANCE_NAME": spec.name,
        "INSTANCE_PRIMARY": spec.primary_node,
        "INSTANCE_SECONDARIES": " ".join(spec.secondary_nodes),
        "INSTANCE_OS_TYPE": spec.os,
        "INSTANCE_DISK_TEMPLATE": template,
        "INSTANCE_STATUS": instance.admin_state,
        "INSTANCE_HYPERVISOR": spec.hypervisor,
        "INSTANCE_TAGS": " ".join(spec.tags),
        "INSTANCE_DISK_COUNT": str(len(spec.disks)),
        "INSTANCE_NIC_COUNT": str(len(spec.nics)),
    } | sizes_told(spec.beparams)
    for disk in spec.disks:
        prefix = f"INSTANCE_DISK{disk.index}"
        env[f"{prefix}_SIZE"] = str(disk.size_mib)
        env[f"{prefix}_MODE"] = disk.mode
        env[f"{prefix}_UUID"] = disk.uuid
        env[f"{prefix}_DEV_TYPE"] = disk.template
        if disk.name:
            env[f"{prefix}_NAME"] = disk.name
        env.update({f"{prefix}_{key}": value for key, value in _place(spec, disk).items()})
    for nic in spec.nics:
        prefix = f"INSTANCE_NIC{nic.index}"
        values = {
            "IP": nic.ip or "",
            "MAC": nic.mac,
            "MODE": nic.mode,
            "LINK": nic.link,
            "VLAN": nic.vlan,
            "UUID": nic.uuid,
        }
        if nic.mode in ("bridged", "openvswitch"):
            values["BRIDGE"] = nic.link
        if nic.name:
            values["NAME"] = nic.name
        if nic.network:
            values |= {"NETWORK": str(nic.network["uuid"])} | network_variables(nic.network)
        env.update({f"{prefix}_{key}": value for key, value in values.items()})
    env.update({f"INSTANCE_BE_{key}": str(value) for key, value in spec.beparams.items()})
    env.update({f"INSTANCE_HV_{key}": str(value) for key, value in spec.hvparams.items()})
    return env


def sizes_told(beparams: Mapping[str, Any]) -> dict[str, str]:
    """Memory and processors under the names that scripts had before there were backend parameters."""
    return {
        "INSTANCE_MEMORY": str(beparams["maxmem"]),
        "INSTANCE_MINMEM": str(beparams["minmem"]),
        "INSTANCE_MAXMEM": str(beparams["maxmem"]),
        "INSTANCE_VCPUS": str(beparams["vcpus"]),
    }


def _place(spec: InstanceSpec, disk: DiskSpec) -> dict[str, str]:
    """Where a disk is; of a replicated one that is being made, nothing yet."""
    traits = traits_of(disk.template) or TemplateTraits(disk.template, "")
    match disk.logical_id, disk.children:
        case [first, second], _:
            return dict(zip(traits.id_words, (str(first), str(second)), strict=True))
        case [one, other, int(port), int(minor), int(other_minor), _], [data, meta]:
            nodes = [(disk.holders.get(uuid, uuid), str(each)) for uuid, each in ((one, minor), (other, other_minor))]
            primary, secondary = nodes if nodes[0][0] == spec.primary_node else reversed(nodes)
            found = {"PORT": str(port), "PNODE": primary[0], "PMINOR": primary[1]}
            found |= {"SNODE": secondary[0], "SMINOR": secondary[1]}
            for word, part in (("DATA", data), ("META", meta)):
                found[f"{word}_VG"], found[f"{word}_ID"] = (str(each) for each in part.logical_id)
            return found
    return {}


def instance_hooks(
    view: ConfigView,
    path: str,
    spec: InstanceSpec,
    instance: Instance,
    pre_nodes: Sequence[str],
    post_nodes: Sequence[str],
    env: Mapping[str, str],
) -> Hooks:
    """Hooks of an instance operation; *env* holds what the operation adds."""
    templates = {disk.template for disk in spec.disks}
    template = templates.pop() if len(templates) == 1 else view.disk_template(instance)
    before = instance_environment(spec, instance, template) | dict(env)

    def after(view: ConfigView, catalogue: Catalogue) -> Mapping[str, str]:
        found = view.get("instances", instance.uuid)
        if not isinstance(found, Instance):
            return before  # what has been removed is told as it was
        now = instance_spec(view, catalogue, found)
        return instance_environment(now, found, view.disk_template(found)) | dict(env)

    return Hooks(
        path=path,
        object_type="INSTANCE",
        target=spec.name,
        env=before,
        pre_nodes=pre_nodes,
        post_nodes=post_nodes,
        env_after=after,
    )
