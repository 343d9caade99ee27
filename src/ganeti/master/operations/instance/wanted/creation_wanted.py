# SPDX-License-Identifier: BSD-2-Clause
"""A new instance as it is asked for, read and typed, before it has a node."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from ganeti.master.operations.instance.wanted.creation_checks import without_inherited
from ganeti.model import inheritance
from ganeti.model.objects import Disk, Nic
from ganeti.model.traits import HypervisorTraits, TemplateTraits
from ganeti.model.view import ConfigView


@dataclass(frozen=True)
class InstanceRequest:
    """The request, read and typed, before it has a node."""

    name: str
    template: TemplateTraits
    hypervisor: HypervisorTraits
    disks: list[Disk]
    asked: Sequence[Mapping[str, Any]]
    """What is said of each disk."""
    nics: list[Nic]
    beparams: dict[str, Any]
    hvparams: dict[str, Any]
    osparams: dict[str, Any]
    os: str
    osparams_private: dict[str, Any]
    tags: list[str]


def identify_defaults(view: ConfigView, wanted: InstanceRequest) -> InstanceRequest:
    """Keep only the parameters that differ from what the instance inherits: it follows later changes of the rest."""
    cluster, os_type = view.cluster, wanted.os
    hypervisor = inheritance.cluster_hv(cluster, wanted.hypervisor.name, os_type, wanted.hypervisor.parameters)
    of_os = {**cluster.osparams.get(inheritance.os_name(os_type), {}), **cluster.osparams.get(os_type, {})}
    nic = inheritance.cluster_nic(cluster)
    return dataclasses.replace(
        wanted,
        nics=[replace(each, nicparams=without_inherited(each.nicparams, nic)) for each in wanted.nics],
        beparams=without_inherited(wanted.beparams, inheritance.cluster_be(cluster)),
        hvparams=without_inherited(wanted.hvparams, hypervisor),
        osparams=without_inherited(wanted.osparams, of_os),
    )
