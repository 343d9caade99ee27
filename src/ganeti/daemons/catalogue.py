# SPDX-License-Identifier: BSD-2-Clause
"""What all drivers can do, gathered from their own files for those who must not know them by name."""

import ganeti.node.hypervisors
import ganeti.node.storage
from ganeti.base.registry import import_all
from ganeti.model.traits import Catalogue
from ganeti.node.hypervisors.interface import Hypervisor
from ganeti.node.storage.interface import DiskTemplate


def build_catalogue() -> Catalogue:
    """Give the traits of every disk template and hypervisor there is."""
    import_all(ganeti.node.hypervisors)
    import_all(ganeti.node.storage)
    return Catalogue(
        templates={name: DiskTemplate.registry[name].traits for name in sorted(DiskTemplate.registry)},
        hypervisors={name: Hypervisor.registry[name].traits for name in sorted(Hypervisor.registry)},
    )
