# SPDX-License-Identifier: BSD-2-Clause
"""State of hypervisors and storage that an administrator records, for cluster, node groups and nodes."""

from collections.abc import Collection, Mapping
from typing import Any

from ganeti.base.errors import ParameterError
from ganeti.model.parameters import Parameter, accept_all
from ganeti.model.templates import TEMPLATES, UNSHARED

_MOST = 2**31 - 1

HYPERVISOR_STATE = (
    Parameter("mem_total", "size", 0, "memory of the machine (MiB)", minimum=0, maximum=_MOST),
    Parameter("mem_node", "size", 0, "memory that the node itself uses (MiB)", minimum=0, maximum=_MOST),
    Parameter("mem_hv", "size", 0, "memory that the hypervisor uses (MiB)", minimum=0, maximum=_MOST),
    Parameter("cpu_total", "int", 1, "processors of the machine", minimum=0, maximum=_MOST),
    Parameter("cpu_node", "int", 1, "processors that the node itself uses", minimum=0, maximum=_MOST),
)

DISK_STATE = (
    Parameter("disk_total", "size", 0, "size of the place (MiB)", minimum=0, maximum=_MOST),
    Parameter("disk_reserved", "size", 0, "what is kept free (MiB)", minimum=0, maximum=_MOST),
    Parameter("disk_overhead", "size", 0, "what the place itself uses (MiB)", minimum=0, maximum=_MOST),
)


def hypervisor_state(given: Mapping[str, Mapping[str, Any]], known: Collection[str]) -> dict[str, Any]:
    """Type what is recorded by hypervisor; raises `ParameterError`."""
    for name in given:
        if name not in known:
            raise ParameterError(f"Unknown hypervisor '{name}': there are {', '.join(sorted(known))}")
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
