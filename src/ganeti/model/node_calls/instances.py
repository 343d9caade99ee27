# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about the guests of a node."""

from typing import Any

import msgspec

from ganeti.model.node_calls import NodeRequest
from ganeti.model.node_requests import InstanceSpec


class FoundInstance(msgspec.Struct, frozen=True, kw_only=True):
    """A guest found on a node."""

    name: str
    hypervisor: str
    memory_mib: int
    vcpus: int
    state: str
    """``running``, ``paused``, ``shutdown`` (ended by itself, process still there), ``incoming``, ``postmigrate``."""
    cpu_time_s: float


class Console(msgspec.Struct, frozen=True, kw_only=True):
    """Console object (protocols, section 20)."""

    instance: str
    kind: str
    message: str | None = None
    host: str | None = None
    port: int | None = None
    user: str | None = None
    command: list[str] | None = None
    display: str | None = None


class InstanceInfo(NodeRequest[FoundInstance | None], frozen=True, kw_only=True):
    """What is known of one guest; null when it is not here."""

    instance: InstanceSpec


class AllInstancesInfo(NodeRequest[list[FoundInstance]], frozen=True, kw_only=True):
    """All guests of these hypervisors (name to filled parameters)."""

    hypervisors: dict[str, dict[str, Any]]


class InstanceConsoleInfo(NodeRequest[Console], frozen=True, kw_only=True):
    """How a person reaches the console of a guest that runs here."""

    instance: InstanceSpec
