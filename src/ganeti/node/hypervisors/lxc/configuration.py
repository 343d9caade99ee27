# SPDX-License-Identifier: BSD-2-Clause
"""The configuration of a container, a pure function of its instance and its node; and what root of the node adds."""

import os
import stat
from collections.abc import Iterator
from typing import Any

from ganeti.base.errors import HypervisorError
from ganeti.model.node_requests import InstanceSpec, NicSpec
from ganeti.node.hypervisors import affinity
from ganeti.node.hypervisors.lxc.control_groups import Hierarchies
from ganeti.node.hypervisors.lxc.parameters import ALWAYS_DROPPED, CAPABILITIES, config_lines, words_of
from ganeti.node.hypervisors.lxc.places import Places

SECCOMP_POLICY = "/usr/share/lxc/config/common.seccomp"
"""Debian's: no kernel modules, no other kernel, no files by their handles."""
HIDDEN = ("acpi", "asound", "bus", "irq", "kcore", "keys", "scsi", "sysrq-trigger", "timer_list")
"""Below /proc: what changes or shows the hardware and the kernel of the node to root inside."""
_PERIOD_US = 100_000
_MIB = 1024 * 1024


def device_of(nic: NicSpec) -> str:
    """The node's end of a NIC: a name of at most 15 characters that no other NIC has."""
    return f"lx{nic.uuid.replace('-', '')[-10:]}{nic.index % 1000}"


def configuration(
    spec: InstanceSpec, hvparams: dict[str, Any], places: Places, groups: Hierarchies, *, last_capability: int
) -> str:
    """Give the text of a container's configuration; *hvparams* are checked and filled."""
    lines = [
        ("lxc.uts.name", spec.name),
        ("lxc.rootfs.path", f"dir:{places.root(spec.name)}"),
        ("lxc.autodev", "1"),
        ("lxc.mount.auto", "proc:mixed sys:ro"),
        ("lxc.tty.max", str(hvparams["num_ttys"])),
        ("lxc.pty.max", "1024"),
        ("lxc.console.logfile", places.console_log(spec.name)),
        ("lxc.console.size", "1MB"),
        *_capabilities(hvparams, last_capability),
        *_limits(spec, hvparams, groups),
        *_hidden_places(),
        *(line for nic in spec.nics for line in _nic(nic)),
        *config_lines(hvparams["extra_config"]),
    ]
    return "".join(f"{key} = {value}\n" for key, value in lines)


def _capabilities(hvparams: dict[str, Any], last: int) -> Iterator[tuple[str, str]]:
    dropped = ALWAYS_DROPPED | set(words_of(hvparams["drop_capabilities"]))
    yield "lxc.cap.drop", " ".join(name for name in CAPABILITIES[: last + 1] if name in dropped)
    if os.path.exists(SECCOMP_POLICY):
        yield "lxc.seccomp.profile", SECCOMP_POLICY


def _hidden_places() -> Iterator[tuple[str, str]]:
    """Without AppArmor only file modes guard them, which root passes."""
    for name in HIDDEN:
        if os.path.isdir(f"/proc/{name}"):
            yield "lxc.mount.entry", f"tmpfs proc/{name} tmpfs ro,nosuid,nodev,noexec,size=4k,mode=555 0 0"
        elif os.path.exists(f"/proc/{name}"):
            yield "lxc.mount.entry", f"/dev/null proc/{name} none bind,ro 0 0"


def _limits(spec: InstanceSpec, hvparams: dict[str, Any], groups: Hierarchies) -> Iterator[tuple[str, str]]:
    memory, vcpus = int(spec.beparams["maxmem"]) * _MIB, int(spec.beparams["vcpus"])
    if groups.version("memory") == 1:
        yield "lxc.cgroup.memory.limit_in_bytes", str(memory)
    else:
        yield "lxc.cgroup2.memory.max", str(memory)
    if groups.version("cpu") == 1:
        yield "lxc.cgroup.cpu.cfs_period_us", str(_PERIOD_US)
        yield "lxc.cgroup.cpu.cfs_quota_us", str(vcpus * _PERIOD_US)
    else:
        yield "lxc.cgroup2.cpu.max", f"{vcpus * _PERIOD_US} {_PERIOD_US}"
    (processors,) = affinity.parse(hvparams["cpu_mask"])
    if processors is not None:
        old = "" if groups.version("cpuset") == 1 else "2"
        yield f"lxc.cgroup{old}.cpuset.cpus", ",".join(map(str, sorted(processors)))
    devices = "lxc.cgroup.devices" if groups.version("devices") == 1 else "lxc.cgroup2.devices"
    yield f"{devices}.deny", "a"
    for device in words_of(hvparams["devices"]):
        yield f"{devices}.allow", device


def _nic(nic: NicSpec) -> Iterator[tuple[str, str]]:
    """A pair of devices; the node's end is connected by the driver, as that of any guest."""
    yield f"lxc.net.{nic.index}.type", "veth"
    yield f"lxc.net.{nic.index}.veth.pair", device_of(nic)
    yield f"lxc.net.{nic.index}.name", f"eth{nic.index}"
    yield f"lxc.net.{nic.index}.hwaddr", nic.mac
    yield f"lxc.net.{nic.index}.flags", "up"


def roots_own(places: Places, spec: InstanceSpec) -> str:
    """What root of the node has written for a container; empty for nothing.

    A name says nothing: somebody else may give it to an instance of theirs once the first one is removed. Raises
    `HypervisorError` where the file is for no instance or another one, or not written by root alone.
    """
    path = places.roots_own(spec.name)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError as err:
        raise HypervisorError(f"Cannot read {path}: {err.strerror}") from err
    with open(descriptor, encoding="utf-8") as source:
        for status in (os.fstat(descriptor), os.stat(os.path.dirname(path))):
            if status.st_uid != 0 or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise HypervisorError(
                    f"{path} is not used: the file and its directory must belong to root and be writable by root alone"
                )
        text = source.read()
    if f"# instance {spec.uuid}" not in (line.strip() for line in text.splitlines()):
        raise HypervisorError(
            f"{path} does not say that it is for this instance of the name {spec.name}: root of this node adds the "
            f"line '# instance {spec.uuid}' to it, or removes the file"
        )
    return text.rstrip("\n") + "\n"
