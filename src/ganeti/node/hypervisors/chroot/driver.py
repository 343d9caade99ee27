# SPDX-License-Identifier: BSD-2-Clause
"""The hypervisor ``chroot``: life of a guest on one node."""

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import msgspec

from ganeti.base import names
from ganeti.base.errors import CommandError, HypervisorError
from ganeti.model.hypervisors import PARAMETERS_OF_3_1
from ganeti.model.node_calls.instances import Console
from ganeti.model.node_calls.node import NodeCapacity
from ganeti.model.node_requests import AttachedDisk, InstanceSpec
from ganeti.model.parameters import Parameter
from ganeti.model.traits import HypervisorTraits
from ganeti.model.uid_pool import Ranges
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
from ganeti.node.hypervisors.root_filesystem import BLKID, MOUNT, UMOUNT, RootFilesystem, root_disk
from ganeti.node.hypervisors.started_guests import StartedGuest, StartedGuests, started
from ganeti.node.hypervisors.stopped_adoption import StoppedAdoption
from ganeti.system.event_loop import Deadline

CHROOT, SETSID = "/usr/sbin/chroot", "/usr/bin/setsid"
_SCRIPT_S = 60.0
_STATUS_S = 30.0
_POLL_S = 0.1
_DEFAULTS = PARAMETERS_OF_3_1["chroot"]


class ChrootHypervisor(Hypervisor):
    traits = HypervisorTraits(
        name="chroot",
        parameters=(
            Parameter(
                *("init_script", "string", _DEFAULTS["init_script"], "script in the guest: start, stop, status"),
                required=True,
                check=names.absolute_path_fault,
            ),
        ),
    )

    @property
    def directory(self) -> str:
        return f"{self.world.paths.run_dir}/chroot-hypervisor"

    @property
    def guests(self) -> StartedGuests:
        return StartedGuests(self.directory)

    def root(self, name: str) -> RootFilesystem:
        check_name(name)
        return RootFilesystem(self.world, f"{self.directory}/{name}", has_devices=True)

    async def start(self, spec: InstanceSpec, disks: Sequence[AttachedDisk], *, paused: bool = False) -> None:
        check_name(spec.name)
        script = str(filled_parameters(self, spec.hvparams)["init_script"])
        if paused:
            raise HypervisorError(f"{spec.name} cannot be started paused: the hypervisor chroot has no such state")
        if await self.info(spec.name) is not None:
            there = self.guests.read(spec.name)
            refuse_another(spec, there.uuid if there is not None else "")
            return
        disk = root_disk(spec, disks)
        if spec.nics:
            self.world.log(f"instance {spec.name}: a chroot uses the network of its node, its NICs are left out")
        await self._end(spec.name)
        await self.root(spec.name).mount(disk)
        guest = msgspec.structs.replace(started(spec, self.world.now_s()), init_script=script)
        try:
            self.guests.write(guest)
            await self._call(guest, "start", _SCRIPT_S)
            if not await self._runs(guest):
                raise HypervisorError(
                    f"{spec.name} does not run after '{script} start': '{script} status' must exit with 0 then"
                )
        except BaseException:
            await asyncio.shield(self._end(spec.name))
            raise

    async def stop(self, name: str, *, timeout_s: float, force: bool = False, may_write: bool = True) -> None:
        if not may_write:
            self.root(name).abandon()
        guest = self.guests.read(name)
        if guest is not None and may_write and not force and timeout_s > 0:
            await self._ask_to_stop(guest, timeout_s)
        await self._end(name)

    async def reboot(self, spec: InstanceSpec, disks: Sequence[AttachedDisk], *, hard: bool) -> None:
        await self.stop(spec.name, timeout_s=0.0 if hard else _SCRIPT_S)
        await self.start(spec, disks)

    async def list_instances(self) -> list[RunningInstance]:
        found = await asyncio.gather(*(self._running(guest) for guest in self.guests.all()))
        return [running for running in found if running is not None]

    async def info(self, name: str) -> RunningInstance | None:
        guest = self.guests.read(name)
        return await self._running(guest) if guest is not None else None

    async def _running(self, guest: StartedGuest) -> RunningInstance | None:
        if not await self._runs(guest):
            return None
        return RunningInstance(name=guest.name, memory_mib=guest.memory_mib, vcpus=guest.vcpus, state="running")

    def seen(self) -> list[Sighting]:
        return [
            Sighting(name=guest.name, started_s=guest.started_s)
            for guest in self.guests.all()
            if self.root(guest.name).is_mounted
        ]

    async def capacity(self) -> NodeCapacity:
        return capacity_of((), None)

    async def verify(self, hvparams: dict[str, Any]) -> list[str]:
        missing = [tool for tool in (CHROOT, SETSID, MOUNT, UMOUNT, BLKID) if not os.access(tool, os.X_OK)]
        return [f"{tool} is missing: install coreutils, mount and util-linux" for tool in missing]

    async def check_parameters(self, hvparams: dict[str, Any], *, user_ids: Ranges | None = None) -> None:
        filled_parameters(self, hvparams)

    def console(self, spec: InstanceSpec) -> Console:
        return shell_console(spec, [CHROOT, self.root(spec.name).place, "/bin/sh"])

    def adoption(self) -> StoppedAdoption:
        return StoppedAdoption(self.traits.name, lambda name: self.root(name).is_mounted)

    async def _runs(self, guest: StartedGuest) -> bool:
        """As its script says; a script that does not answer is no guest that has ended: its processes count then."""
        root = self.root(guest.name)
        if not root.is_mounted:
            return False
        try:
            answer = await self.world.run(
                self._argv(guest, "status"), timeout_s=_STATUS_S, log_path=self._log(), check=False
            )
        except CommandError as err:
            self.world.log(f"instance {guest.name}: its processes are counted, since its script does not answer: {err}")
            return bool(root.processes())
        return answer.status == 0

    async def _ask_to_stop(self, guest: StartedGuest, timeout_s: float) -> None:
        """Have the script stop the guest, and wait until it says so or the time is over."""
        deadline = Deadline(timeout_s)
        if not self.root(guest.name).is_mounted:
            return
        try:
            await self._call(guest, "stop", timeout_s)
        except HypervisorError as err:
            self.world.log(f"instance {guest.name}: it does not stop by itself and is ended: {err}")
            return
        while not deadline.is_over and await self._runs(guest):
            await self.world.sleep(_POLL_S)

    async def _end(self, name: str) -> None:
        """End what is left of a guest, its directory and its record."""
        root = self.root(name)
        await root.end_processes()
        await root.unmount()
        self.guests.remove(name)

    async def _call(self, guest: StartedGuest, word: str, timeout_s: float) -> None:
        """Call the script in its directory, in a session that outlives this call; raises `HypervisorError`.

        What it starts must not hold an output of this process open.
        """
        try:
            await self.world.run(self._argv(guest, word), timeout_s=timeout_s, log_path=self._log())
        except CommandError as err:
            raise HypervisorError(f"'{guest.init_script} {word}' failed in {guest.name}: {err}") from err

    def _argv(self, guest: StartedGuest, word: str) -> list[str]:
        return [SETSID, "--wait", CHROOT, self.root(guest.name).place, guest.init_script, word]

    def _log(self) -> str:
        os.makedirs(self.world.paths.log_dir, exist_ok=True)
        return f"{self.world.paths.log_dir}/chroot.log"
