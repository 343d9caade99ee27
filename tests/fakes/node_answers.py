# SPDX-License-Identifier: BSD-2-Clause
"""Answers of a node daemon, whole; a test names what it is about. The second of each pair is as it travels."""

from collections.abc import Sequence
from typing import Any

import msgspec

from ganeti.model.node_calls.disks import DiskStatus
from ganeti.model.node_calls.instances import FoundInstance
from ganeti.model.node_calls.node import NodeCapacity, NodeFacts, StorageSpace


def found_instance(name: str = "web1", *, state: str = "running", memory_mib: int = 128) -> FoundInstance:
    return FoundInstance(name=name, hypervisor="pretend", memory_mib=memory_mib, vcpus=1, state=state, cpu_time_s=1.0)


def guest(name: str = "web1", *, state: str = "running", memory_mib: int = 128) -> Any:
    """What `instance_info` says of a guest."""
    return msgspec.to_builtins(found_instance(name, state=state, memory_mib=memory_mib))


def facts(
    *,
    memory_total_mib: int = 8192,
    memory_free_mib: int = 4096,
    spaces: Sequence[tuple[int | None, int | None]] = (),
    boot_id: str = "boot",
    answered: bool = True,
    guests: Sequence[FoundInstance] | None = None,
    **capacity: Any,
) -> NodeFacts:
    """*spaces* are sizes and what is free of them, in MiB; not *answered*, its hypervisor says nothing."""
    told = NodeCapacity(
        memory_total=memory_total_mib,
        memory_free=memory_free_mib,
        **{"memory_dom0": 1, "cpu_total": 4, **capacity},
    )
    return NodeFacts(
        boot_id=boot_id,
        storage=[StorageSpace(type="file", name="/srv", storage_size=size, storage_free=free) for size, free in spaces],
        hypervisors={"pretend": told} if answered else {},
        guests=None if guests is None else list(guests),
    )


def node_facts(*, memory_free_mib: int = 4096, storage_free_mib: int | None = 5000, version: Any = None) -> Any:
    """What `node_info` says; without *storage_free_mib* no place of disks was asked for."""
    spaces = [] if storage_free_mib is None else [(9000, storage_free_mib)]
    return msgspec.to_builtins(facts(memory_free_mib=memory_free_mib, spaces=spaces, hv_version=version))


def disk_status(**values: Any) -> Any:
    """What `blockdev_find` says of a disk that is there."""
    return msgspec.to_builtins(DiskStatus(**{"dev_path": "/srv/disk0", **values}))
