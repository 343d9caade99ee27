# SPDX-License-Identifier: BSD-2-Clause
"""What the drivers and collectors of this release can do, gathered from their own files for code that names none."""

import ganeti.node.collectors
import ganeti.node.hypervisors
import ganeti.node.storage
from ganeti.base.registry import import_all
from ganeti.model.traits import Catalogue
from ganeti.node.collectors.instances import name_of
from ganeti.node.collectors.interface import REGISTRY
from ganeti.node.hypervisors.interface import Hypervisor
from ganeti.node.storage.interface import DiskTemplate


def build_catalogue() -> Catalogue:
    """Give the traits of every disk template and hypervisor, and the names of collectors."""
    for package in (ganeti.node.hypervisors, ganeti.node.storage, ganeti.node.collectors):
        import_all(package)
    hypervisors = {name: Hypervisor.registry[name].traits for name in sorted(Hypervisor.registry)}
    return Catalogue(
        templates={name: DiskTemplate.registry[name].traits for name in sorted(DiskTemplate.registry)},
        hypervisors=hypervisors,
        collectors=tuple(sorted([*REGISTRY, *map(name_of, hypervisors)])),
    )
