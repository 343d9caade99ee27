# SPDX-License-Identifier: BSD-2-Clause
"""What of another cluster's configuration this program could not manage, or only with care. Pure."""

from collections.abc import Iterator
from typing import Any

from ganeti.base.errors import GanetiError
from ganeti.master.config import versions
from ganeti.model import inheritance
from ganeti.model.configuration import Configuration
from ganeti.model.objects import Disk
from ganeti.model.templates import IN_BUILT_IN_POLICY
from ganeti.model.traits import Catalogue


def obstacles(config: Configuration, catalogue: Catalogue) -> list[str]:
    """What there is no driver for, or a driver does not take: a take-over is refused with these."""
    found = []
    for instance in config.instances():
        if instance.hypervisor not in catalogue.hypervisors:
            found.append(f"instance {instance.name}: there is no driver of the hypervisor {instance.hypervisor} yet")
        if instance.forthcoming:
            found.append(f"instance {instance.name} is forthcoming: create it whole or remove it first")
        for disk in config.instance_disks(instance):
            if disk.dev_type not in catalogue.templates:
                found.append(f"instance {instance.name}: there is no driver of the disk template {disk.dev_type} yet")
    for hypervisor in config.cluster.enabled_hypervisors:
        if hypervisor not in catalogue.hypervisors:
            found.append(
                f"the hypervisor {hypervisor} is enabled, and there is no driver of it: disable it with "
                "gnt-cluster modify --enabled-hypervisors"
            )
    return list(dict.fromkeys([*found, *_parameter_problems(config, catalogue)]))


def _parameter_problems(config: Configuration, catalogue: Catalogue) -> Iterator[str]:
    """Hypervisor parameters that this program would not take: their guests could be neither started nor migrated."""
    for instance in config.instances():
        if instance.hypervisor not in catalogue.hypervisors:
            continue
        known = {parameter.name: parameter for parameter in catalogue.hypervisor(instance.hypervisor).parameters}
        filled = inheritance.instance_hv(config.cluster, instance, tuple(known.values()))
        for name, value in filled.items():
            if name not in known:
                yield f"instance {instance.name}: the hypervisor parameter {name} is not known here"
                continue
            try:
                known[name].accept(value)
            except GanetiError as err:
                yield f"instance {instance.name}: {err}"


def cares(plain: dict[str, Any], config: Configuration, catalogue: Catalogue) -> list[str]:
    """What works otherwise than before, or is kept without being understood."""
    cluster = config.cluster
    found = [f"{what} is kept, and not understood" for what in versions.unknown_fields(plain)]
    found += [
        f"the disk template {name} is enabled, and there is no driver of it: instances cannot be made with it"
        for name in cluster.enabled_disk_templates
        if name not in catalogue.templates
    ]
    if cluster.maintain_node_health:
        found.append("maintain_node_health is on: guests that the configuration does not know are ended by it")
    found += list(_offline_nodes(config))
    return found


def _offline_nodes(config: Configuration) -> Iterator[str]:
    for node in config.nodes():
        if node.offline:
            yield (
                f"node {node.name} is offline: it is left out, and comes back with gnt-node add --readd once this "
                "program is installed there"
            )


def not_for_3_0(config: Configuration) -> list[str]:
    """What Ganeti 3.0 does not know: the way back is refused with these."""
    found = []
    for instance in config.instances():
        unknown = {disk.dev_type for disk in config.instance_disks(instance)} - set(IN_BUILT_IN_POLICY)
        found += [
            f"instance {instance.name} has disks of the template {name}, which Ganeti 3.0 does not know: convert or "
            "remove it first"
            for name in sorted(unknown)
        ]
    unknown = set(config.cluster.enabled_disk_templates) - set(IN_BUILT_IN_POLICY)
    found += [
        f"the disk template {name} is enabled, which Ganeti 3.0 does not know: disable it with gnt-cluster modify "
        "--enabled-disk-templates"
        for name in sorted(unknown)
    ]
    found += [
        f"disk {disk.iv_name} ({disk.uuid}) has the format {shown}: Ganeti 3.0 reads raw images only"
        for disk in _disks(config)
        if (shown := (disk.params or {}).get("format", "raw")) != "raw"
    ]
    found += [
        versions.between_two_states(instance.name, instance.reverting)
        for instance in config.instances()
        if instance.reverting is not None
    ]
    return found


def _disks(config: Configuration) -> Iterator[Disk]:
    for instance in config.instances():
        yield from config.instance_disks(instance)
