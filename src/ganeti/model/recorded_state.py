# SPDX-License-Identifier: BSD-2-Clause
"""State of hypervisors and storage that an administrator records, for cluster, node groups and nodes."""

from collections.abc import Collection, Mapping
from typing import Any

from ganeti.base.errors import ParameterError
from ganeti.model.parameters import Parameter, accept_all
from ganeti.model.templates import TEMPLATES, UNSHARED

HYPERVISOR_STATE = (
    Parameter("mem_total", "size", 0, "memory of the node", minimum=0),
    Parameter("mem_node", "size", 0, "what the node itself uses", minimum=0),
    Parameter("mem_hv", "size", 0, "what the hypervisor uses", minimum=0),
    Parameter("cpu_total", "int", 1, "processors of the node", minimum=0),
    Parameter("cpu_node", "int", 1, "processors that the node itself uses", minimum=0),
)
DISK_STATE = (
    Parameter("disk_total", "size", 0, "space", minimum=0),
    Parameter("disk_reserved", "size", 0, "space that is not for instances", minimum=0),
    Parameter("disk_overhead", "size", 0, "space that each disk takes beside its size", minimum=0),
)


def hypervisor_state(given: Mapping[str, Mapping[str, Any]], known: Collection[str]) -> dict[str, Any]:
    """Type what is recorded by hypervisor; raises `ParameterError`."""
    for name in given:
        if name not in known:
            raise ParameterError(f"State of an unknown hypervisor '{name}': there are {', '.join(sorted(known))}")
    return {name: accept_all(HYPERVISOR_STATE, values, f"{name} state") for name, values in given.items()}


def disk_state(given: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Type what is recorded by disk template and name of the storage; raises `ParameterError`."""
    for template in given:
        if template != UNSHARED:
            wrong = "is of another template" if template in TEMPLATES else "is of no disk template"
            raise ParameterError(f"Disk state '{template}' {wrong}: it can be recorded for {UNSHARED} alone")
    return {
        template: {name: accept_all(DISK_STATE, values, "disk state") for name, values in units.items()}
        for template, units in given.items()
    }
