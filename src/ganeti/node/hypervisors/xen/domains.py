# SPDX-License-Identifier: BSD-2-Clause
"""What ``xl`` prints: its list of domains, and what it knows of the node."""

import re
from dataclasses import dataclass

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, HypervisorError
from ganeti.model.node_calls.node import NodeCapacity
from ganeti.node.hypervisors.interface import RunningInstance

NODE_DOMAIN = "Domain-0"
INCOMING, LEFT = "--incoming", "--migratedaway"
"""What xl adds to the name of a domain that arrives, and of one that has left."""
_LINE = re.compile(r"(\S+)\s+([0-9]+)\s+([0-9]+)\s+([0-9]+)\s+([rbpscd-]{6})\s+([0-9.]+)")


class _Creation(msgspec.Struct):
    type: str = "pv"
    name: str = ""


class _Config(msgspec.Struct):
    c_info: _Creation


class _Listed(msgspec.Struct):
    config: _Config | None = None


@dataclass(frozen=True)
class Domain:
    name: str
    """With what xl has added."""
    number: int
    memory_mib: int
    vcpus: int
    flags: str
    cpu_time_s: float

    @property
    def instance(self) -> str:
        return self.name.removesuffix(INCOMING).removesuffix(LEFT)

    @property
    def state(self) -> str:
        """In the words of the interface."""
        if self.name.endswith(INCOMING):
            return "incoming"
        if self.name.endswith(LEFT):
            return "postmigrate"
        if set(self.flags) & set("scd"):
            return "shutdown"
        return "paused" if "p" in self.flags else "running"

    def described(self) -> RunningInstance:
        return RunningInstance(
            name=self.instance,
            memory_mib=self.memory_mib,
            vcpus=self.vcpus,
            state=self.state,
            cpu_time_s=self.cpu_time_s,
        )


def read_domains(text: str) -> list[Domain]:
    """Read ``xl list``, the node's own domain among them; raises `HypervisorError`."""
    heading, *lines = text.strip().splitlines() or [""]
    if not heading.startswith("Name"):
        raise HypervisorError(f"'xl list' said what cannot be read: {heading[:80]!r}")
    found = []
    for line in lines:
        words = _LINE.fullmatch(line.strip())
        if words is None:
            raise HypervisorError(f"'xl list' said what cannot be read: {line[:80]!r}")
        name, number, memory, vcpus, flags, time = words.groups()
        found.append(Domain(name, int(number), int(memory), int(vcpus), flags, float(time)))
    return found


def read_kinds(text: str) -> dict[str, str]:
    """Read from ``xl list -l`` which domain is ``pv`` or ``hvm``; raises `HypervisorError`."""
    try:
        found = msgspec.json.decode(text.encode(), type=list[_Listed])
    except UNREADABLE_JSON as err:
        raise HypervisorError(f"'xl list -l' said what cannot be read: {err}") from err
    return {each.config.c_info.name: each.config.c_info.type for each in found if each.config is not None}


def read_capacity(text: str, domains: list[Domain]) -> NodeCapacity:
    """Read ``xl info``; raises `HypervisorError`."""
    values = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    own = next((domain for domain in domains if domain.name == NODE_DOMAIN), None)
    try:
        total, free = int(values["total_memory"]), int(values["free_memory"])
        processors = int(values["nr_cpus"])
        per_socket = max(1, int(values["cores_per_socket"]) * int(values["threads_per_core"]))
        version: list[int] = [int(values["xen_major"]), int(values["xen_minor"])]
        nodes = int(values["nr_nodes"])
    except (KeyError, ValueError) as err:
        raise HypervisorError(f"'xl info' said what cannot be read: {err}") from err
    used = sum(domain.memory_mib for domain in domains if domain.name != NODE_DOMAIN)
    own_mib = own.memory_mib if own is not None else 0
    return NodeCapacity(
        memory_total=total,
        memory_free=free,
        memory_dom0=own_mib,
        memory_hv=max(0, total - free - used - own_mib),
        cpu_total=processors,
        cpu_nodes=nodes,
        cpu_sockets=max(1, processors // per_socket),
        cpu_dom0=own.vcpus if own is not None else 1,
        hv_version=version,
    )
