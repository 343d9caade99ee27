# SPDX-License-Identifier: BSD-2-Clause
"""The hypervisor ``lxc``: life of a container on one node.

A container runs as long as its monitor does, a process of LXC's; its processes have their root on the instance's disk.
"""

import asyncio
import math
import os
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ganeti.base.errors import CommandError, HypervisorError
from ganeti.model.node_calls.instances import Console
from ganeti.model.node_calls.node import NodeCapacity
from ganeti.model.node_requests import AttachedDisk, InstanceSpec
from ganeti.model.traits import HypervisorTraits
from ganeti.model.uid_pool import Ranges
from ganeti.node.hypervisors import affinity, connections, switch
from ganeti.node.hypervisors.capacity import capacity_of
from ganeti.node.hypervisors.consoles import shell_console
from ganeti.node.hypervisors.interface import (
    Hypervisor,
    RunningInstance,
    Sighting,
    check_name,
    filled_parameters,
    refuse_another,
)
from ganeti.node.hypervisors.lxc import control_groups
from ganeti.node.hypervisors.lxc.configuration import configuration, device_of, roots_own
from ganeti.node.hypervisors.lxc.parameters import PARAMETERS, words_of
from ganeti.node.hypervisors.lxc.places import Places
from ganeti.node.hypervisors.root_filesystem import BLKID, MOUNT, UMOUNT, RootFilesystem, root_disk
from ganeti.node.hypervisors.started_guests import StartedGuest, StartedGuests, started
from ganeti.node.hypervisors.stopped_adoption import StoppedAdoption
from ganeti.system.boot import process_lives, process_start
from ganeti.system.files import read_if_there, write_atomically

START, STOP, WAIT, CONSOLE = "/usr/bin/lxc-start", "/usr/bin/lxc-stop", "/usr/bin/lxc-wait", "/usr/bin/lxc-console"
APPARMOR = "/sys/module/apparmor/parameters/enabled"
_OWN_COPY = {"LXC_MEMFD_REXEC": "1"}
"""LXC runs a copy of its program, which a container that runs ``/proc/self/exe`` cannot overwrite."""
_LAST_CAPABILITY = "/proc/sys/kernel/cap_last_cap"
_SOFT_REBOOT_S = 30.0
_GRACE_S = 30.0
_MIB = 1024 * 1024


class LxcHypervisor(Hypervisor):
    traits = HypervisorTraits(name="lxc", parameters=PARAMETERS)

    @property
    def places(self) -> Places:
        return Places(self.world.paths)

    @property
    def guests(self) -> StartedGuests:
        return StartedGuests(self.places.base)

    def root(self, name: str) -> RootFilesystem:
        return RootFilesystem(self.world, self.places.root(name))

    async def start(self, spec: InstanceSpec, disks: Sequence[AttachedDisk], *, paused: bool = False) -> None:
        check_name(spec.name)
        hvparams = self._checked(spec.hvparams)
        if paused:
            raise HypervisorError(f"{spec.name} cannot be started paused: the hypervisor lxc has no such state")
        if await self.info(spec.name) is not None:
            there = self.guests.read(spec.name)
            refuse_another(spec, there.uuid if there is not None else "")
            return
        disk = root_disk(spec, disks)
        text = self._configuration(spec, hvparams)
        await self._end(spec.name)
        try:
            await self._begin(spec, disk, text, float(hvparams["startup_timeout"]))
        except BaseException:
            await asyncio.shield(self._end(spec.name))
            raise

    async def stop(self, name: str, *, timeout_s: float, force: bool = False, may_write: bool = True) -> None:
        check_name(name)
        if not may_write:
            self.root(name).abandon()
        guest = self.guests.read(name)
        if guest is not None and self._monitor_lives(guest):
            at_once = force or timeout_s <= 0 or not may_write
            how = ["--kill"] if at_once else ["--timeout", str(math.ceil(timeout_s))]
            try:
                argv = [STOP, "-P", self.places.base, "-n", name, *how]
                await self.world.run(argv, timeout_s=timeout_s + _GRACE_S)
            except CommandError as err:
                self.world.log(f"instance {name}: LXC does not stop it, its processes are killed: {err}")
        await self._end(name)

    async def reboot(self, spec: InstanceSpec, disks: Sequence[AttachedDisk], *, hard: bool) -> None:
        await self.stop(spec.name, timeout_s=0.0 if hard else _SOFT_REBOOT_S)
        await self.start(spec, disks)

    async def list_instances(self) -> list[RunningInstance]:
        return [
            RunningInstance(
                name=guest.name,
                memory_mib=guest.memory_mib,
                vcpus=guest.vcpus,
                state="running",
                cpu_time_s=groups.cpu_time_s(),
            )
            for guest, groups in self._running()
        ]

    async def info(self, name: str) -> RunningInstance | None:
        check_name(name)
        return await super().info(name)

    def seen(self) -> list[Sighting]:
        return [
            Sighting(
                name=guest.name,
                started_s=guest.started_s,
                cpu_time_s=groups.cpu_time_s(),
                resident_bytes=groups.resident_bytes(),
                pid=guest.pid,
            )
            for guest, groups in self._running()
        ]

    def _running(self) -> Iterator[tuple[StartedGuest, control_groups.ContainerGroups]]:
        places = control_groups.hierarchies()
        for guest in self.guests.all():
            if (pid := self._process(guest)) is not None:
                yield guest, control_groups.groups_of(pid, places)

    async def capacity(self) -> NodeCapacity:
        return capacity_of((guest.resident_bytes // _MIB for guest in self.seen()), None)

    async def verify(self, hvparams: dict[str, Any]) -> list[str]:
        problems = [
            f"{tool} is missing: install the package lxc"
            for tool in (START, STOP, WAIT, CONSOLE)
            if not os.access(tool, os.X_OK)
        ]
        problems += [f"{tool} is missing" for tool in (BLKID, MOUNT, UMOUNT) if not os.access(tool, os.X_OK)]
        try:
            places = control_groups.hierarchies()
        except HypervisorError as err:
            return [*problems, str(err)]
        for controller in control_groups.NEEDED:
            version = places.version(controller)
            mount = places.old[controller] if version == 1 else places.unified
            if version == 0:
                problems.append(f"The kernel has no cgroup controller {controller}, so containers have no limits")
            elif not os.access(mount, os.W_OK):
                problems.append(f"No control groups can be made in {mount}: it is mounted read-only")
        return problems

    def cautions(self) -> list[str]:
        if (read_if_there(APPARMOR) or b"").strip() == b"Y":
            return []
        return ["AppArmor is off on this node, so containers have one guard less: boot it with apparmor=1"]

    async def check_parameters(self, hvparams: dict[str, Any], *, user_ids: Ranges | None = None) -> None:
        self._checked(hvparams)

    def console(self, spec: InstanceSpec) -> Console:
        command = [CONSOLE, "-P", self.places.base, "-n", spec.name, "-t", "0"]
        return shell_console(spec, command, "Press Enter for a prompt; Ctrl-a q leaves the console")

    def adoption(self) -> StoppedAdoption:
        return StoppedAdoption(self.traits.name, control_groups.container_runs)

    def _checked(self, hvparams: dict[str, Any]) -> dict[str, Any]:
        filled = filled_parameters(self, hvparams)
        affinity.check(filled["cpu_mask"], 1)
        places = control_groups.hierarchies()
        for controller in words_of(filled["extra_cgroups"]):
            if places.version(controller) == 0:
                raise HypervisorError(
                    f"extra_cgroups names '{controller}', a cgroup controller this node does not have"
                )
        return filled

    def _configuration(self, spec: InstanceSpec, hvparams: dict[str, Any]) -> str:
        with open(_LAST_CAPABILITY, encoding="ascii") as source:
            last = int(source.read())
        text = configuration(spec, hvparams, self.places, control_groups.hierarchies(), last_capability=last)
        return text + roots_own(self.places, spec)

    async def _begin(self, spec: InstanceSpec, disk: AttachedDisk, text: str, timeout_s: float) -> None:
        places, name = self.places, spec.name
        try:
            os.makedirs(places.directory(name), mode=0o700, exist_ok=True)
            os.makedirs(places.log_dir, mode=0o750, exist_ok=True)
            write_atomically(places.config(name), text.encode(), mode=0o600, durable=False)
        except OSError as err:
            raise HypervisorError(f"Cannot write the configuration of {name}: {err.filename}: {err.strerror}") from err
        await self.root(name).mount(disk)
        at = ["-P", places.base, "-n", name]
        argv = [START, *at, "--daemon", "--pidfile", places.monitor_pid(name), "-o", places.log(name), "-l", "WARN"]
        try:
            await self.world.run(argv, timeout_s=timeout_s + _GRACE_S, env=_OWN_COPY)
            if timeout_s:
                await self.world.run([WAIT, *at, "-s", "RUNNING", "-t", str(int(timeout_s))], timeout_s=timeout_s + 5)
        except CommandError as err:
            raise HypervisorError(f"LXC cannot start {name}: {self._last_words(name) or err}") from err
        monitor = self._read_monitor(name)
        guest = msgspec.structs.replace(
            started(spec, self.world.now_s()),
            pid=monitor,
            pid_start=process_start(monitor) or "",
            switch_ports=[device_of(nic) for nic in spec.nics if nic.mode == "openvswitch"],
        )
        self.guests.write(guest)
        for nic in spec.nics:
            script = f"{self.world.paths.sysconf_dir}/lxc-vif-bridge"
            await connections.connect(self.world, script, name, spec.tags, nic, device_of(nic))
        if self._process(guest) is None:
            raise HypervisorError(f"{name} has ended as it began to run: {self._last_words(name)}")

    def _read_monitor(self, name: str) -> int:
        try:
            with open(self.places.monitor_pid(name), encoding="ascii") as source:
                return int(source.read())
        except (OSError, ValueError) as err:
            raise HypervisorError(f"LXC does not say which process runs {name}: {err}") from err

    def _monitor_lives(self, guest: StartedGuest) -> bool:
        return guest.pid > 0 and process_lives(guest.pid, guest.pid_start)

    def _process(self, guest: StartedGuest) -> int | None:
        """A process inside of a container that runs; its monitor may be lost."""
        if self._monitor_lives(guest):
            children = read_if_there(f"/proc/{guest.pid}/task/{guest.pid}/children") or b""
            if children.split():
                return int(children.split()[0])
        return next(iter(self.root(guest.name).processes()), None)

    def _last_words(self, name: str) -> str:
        """The errors that LXC wrote last, without what stands before each: container, time, place in its source."""
        text = (read_if_there(self.places.log(name)) or b"").decode("utf-8", "replace")
        errors = [line.rpartition(" - ")[2].strip() for line in text.splitlines() if " ERROR " in line]
        return "; ".join(errors[-4:])

    async def _end(self, name: str) -> None:
        """End what is left of a container; its disk is free then."""
        guest, root = self.guests.read(name), self.root(name)
        left = root.processes()
        await root.end_processes()
        await root.unmount()
        if guest is not None:
            for device in guest.switch_ports:
                await switch.leave(self.world, device)
        if left:
            control_groups.sweep(name, control_groups.hierarchies())
        shutil.rmtree(self.places.directory(name), ignore_errors=True)
        self.guests.remove(name)
