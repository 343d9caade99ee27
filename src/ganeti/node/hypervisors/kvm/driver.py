# SPDX-License-Identifier: BSD-2-Clause
"""The hypervisor ``kvm``: life of a guest on one node. Migration is in `migration`.

Nothing is kept in memory: process, sockets and runtime record say what is there, so a restarted daemon goes on.
"""

import asyncio
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from ganeti.base.errors import HypervisorError
from ganeti.model.node_calls.instances import Console
from ganeti.model.node_calls.migration import MigrationStatus, MigrationTarget
from ganeti.model.node_calls.node import NodeCapacity
from ganeti.model.node_requests import AttachedDisk, InstanceSpec
from ganeti.model.traits import HypervisorTraits
from ganeti.model.uid_pool import Ranges
from ganeti.node.hypervisors import capacity, guest_files
from ganeti.node.hypervisors.interface import (
    ChecksProcessors,
    Hypervisor,
    RunningInstance,
    Sighting,
    check_name,
    refuse_another,
)
from ganeti.node.hypervisors.kvm import (
    acceleration,
    checks,
    console,
    devices,
    emulator,
    launch,
    named_files,
    process,
    record,
    released,
    removable,
    user_shutdown,
)
from ganeti.node.hypervisors.kvm.adoption import KvmAdoption
from ganeti.node.hypervisors.kvm.disks import start_places
from ganeti.node.hypervisors.kvm.migration import Migrations
from ganeti.node.hypervisors.kvm.parameters import PARAMETERS, helper_parameters
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.process import GuestProcess
from ganeti.node.hypervisors.kvm.qmp import Qmp, QmpGoneError
from ganeti.node.hypervisors.kvm.record import RuntimeRecord
from ganeti.node.hypervisors.kvm.running_devices import KvmDevices
from ganeti.node.hypervisors.kvm.snapshots import KvmSnapshots
from ganeti.node.hypervisors.kvm.status import INCOMING, PAUSED, RUNNING, SHUTDOWN, state_of
from ganeti.system.event_loop import Deadline

_STATUS_S = 5.0
_QUIT_S = 15.0
_POLL_S = 0.5
_PRESS_AGAIN_S = 5.0
_SERIAL_LOG_LIMIT_BYTES = 16 * 1024 * 1024
_MIB = 1024 * 1024


class KvmHypervisor(Hypervisor, ChecksProcessors):
    traits = HypervisorTraits(
        name="kvm",
        parameters=PARAMETERS,
        can_migrate=True,
        can_balloon=True,
        can_hotplug=True,
        can_change_parameters=True,
        can_copy_disks=True,
        boots_backups=True,
        can_exchange_disks=True,
        can_move_disks=True,
        needs_network_port=True,
        serves_metadata=True,
        user_shutdown_daemon="ganeti-kvmd",
    )

    @property
    def places(self) -> Places:
        return Places(self.world.paths)

    @property
    def migrations(self) -> Migrations:
        return Migrations(self.world, self.places)

    async def start(self, spec: InstanceSpec, disks: Sequence[AttachedDisk], *, paused: bool = False) -> None:
        check_name(spec.name)
        places = self.places
        if await self._runs_already(spec):
            return
        await launch.destroy(self.world, places, spec.name)
        made, qemu = await self._prepare(spec)
        if len(disks) != len(spec.disks):
            raise HypervisorError(
                f"{len(disks)} of the {len(spec.disks)} disks of {spec.name} are activated on this node"
            )
        checks.check_chroot(made.name, made.hvparams, disks)
        guest = await launch.Launch(self.world, places, qemu, made, disks).run()
        try:
            if not paused:
                await self._continue(guest)
            launch.mark_started(places, made)
        except BaseException:
            await asyncio.shield(launch.destroy(self.world, places, spec.name))
            raise

    async def stop(self, name: str, *, timeout_s: float, force: bool = False, may_write: bool = True) -> None:
        check_name(name)
        guest = process.find(self.places, name) if may_write else None
        if guest is not None:
            known = record.read(self.places, name)
            whole = known is not None and known.started and known.hvparams["acpi"]
            if whole and not force and timeout_s > 0:
                await self._power_down(guest, timeout_s)
            await self._quit(guest)
        await launch.destroy(self.world, self.places, name)

    async def reboot(self, spec: InstanceSpec, disks: Sequence[AttachedDisk], *, hard: bool) -> None:
        check_name(spec.name)
        guest = process.find(self.places, spec.name)
        known = record.read(self.places, spec.name)
        if guest is None or known is None or hard or known.hvparams["reboot_behavior"] == "exit":
            await self.stop(spec.name, timeout_s=0, force=True)
            await self.start(spec, disks)
            return
        async with Qmp(self.places.socket(spec.name, "qmp")) as qmp:
            await qmp.execute("system_reset")
            if state_of((await qmp.execute("query-status"))["status"]) != RUNNING:
                await qmp.execute("cont")

    async def list_instances(self) -> list[RunningInstance]:
        found = process.find_all(self.places)
        living = {guest.name for guest in found}
        ended = [name for name in user_shutdown.noted(self.places) if name not in living]
        return [*await asyncio.gather(*(self._describe(guest) for guest in found)), *map(_ended, ended)]

    def seen(self) -> list[Sighting]:
        return [
            Sighting(
                name=guest.name,
                started_s=process.started_s(guest.pid),
                cpu_time_s=process.cpu_time_s(guest.pid),
                resident_bytes=process.resident_bytes(guest.pid),
                pid=guest.pid,
            )
            for guest in process.find_all(self.places)
        ]

    async def info(self, name: str) -> RunningInstance | None:
        check_name(name)
        guest = process.find(self.places, name)
        if guest is not None:
            return await self._describe(guest)
        return _ended(name) if os.path.exists(self.places.user_shutdown(name)) else None

    async def capacity(self) -> NodeCapacity:
        guests = process.find_all(self.places)
        try:
            version: list[int] | None = (await emulator.describe(self.world, self.places, {})).version
        except HypervisorError:
            version = None
        return capacity.capacity_of((process.resident_mib(guest.pid) for guest in guests), version)

    async def verify(self, hvparams: dict[str, Any]) -> list[str]:
        filled = checks.filled(hvparams)
        try:
            qemu = await emulator.describe(self.world, self.places, filled)
        except HypervisorError as err:
            return [str(err)]
        problems = []
        try:
            await acceleration.choose(self.world, self.places, qemu, filled)
        except HypervisorError as err:
            problems.append(str(err))
        if not os.path.exists("/dev/net/tun"):
            problems.append("There is no /dev/net/tun, so NICs cannot be made: load the module tun")
        return problems

    async def check_parameters(self, hvparams: dict[str, Any], *, user_ids: Ranges | None = None) -> None:
        filled = checks.filled(hvparams)
        checks.check_values(filled)
        qemu = await emulator.describe(self.world, self.places, filled)
        checks.check_files(filled)
        guest_files.check_places(self.places.paths, filled)
        named_files.check(self.places.paths, filled)
        await checks.check_node(filled, qemu, self.places, user_ids)

    async def check_vcpus(self, hvparams: dict[str, Any], vcpus: int, *, starts: bool) -> None:
        filled, accelerator = checks.filled(hvparams), ""
        if starts:
            qemu = await emulator.describe(self.world, self.places, filled)
            accelerator = await acceleration.choose(self.world, self.places, qemu, filled)
        checks.check_instance(vcpus, filled, accelerator)

    def as_helper(self, hvparams: dict[str, Any], *, address: str | None) -> dict[str, Any]:
        return helper_parameters(hvparams, address)

    def console(self, spec: InstanceSpec) -> Console:
        return console.console_of(spec, checks.filled(spec.hvparams), self.places)

    async def balloon(self, name: str, memory_mib: int) -> None:
        guest, known = self._running(name)
        most_mib = known.most_memory_mib
        if not 0 < memory_mib <= most_mib:
            raise HypervisorError(
                f"The memory of {name} can be set to 1..{most_mib} MiB while it runs, not to {memory_mib}"
            )
        async with Qmp(self.places.socket(guest.name, "qmp")) as qmp:
            size = memory_mib * _MIB
            if memory_mib == most_mib:  # with what emulation needs beyond whole MiB
                size += known.ram_kib % 1024 * 1024
            await qmp.execute("balloon", {"value": size})
        record.write(self.places, msgspec.structs.replace(known, memory_mib=memory_mib))

    async def resize_disk(self, name: str, disk: AttachedDisk, size_mib: int) -> None:
        """A disk that the guest only reads, or does not have yet, has its new size when the guest is started again."""
        guest, known = self._running(name)
        identity = next((place.node_name for place in known.disks if place.uuid == disk.spec.uuid), None)
        async with Qmp(self.places.socket(guest.name, "qmp")) as qmp:
            found = None
            if known.is_adopted:  # the node has no name, and the drive has the device's
                blocks = await qmp.execute("query-block")
                found = next((one["inserted"] for one in blocks if one["device"] == identity), None)
            elif identity is not None:
                nodes = await qmp.execute("query-named-block-nodes", {"flat": True})
                found = next(node for node in nodes if node.get("node-name") == identity)
            if found is None or found["ro"]:
                _require_grown(name, disk)
            elif found["image"]["virtual-size"] < size_mib * _MIB:
                if disk.blockdev is not None:  # a read connects it again, and its server tells the new size
                    await qmp.execute("human-monitor-command", {"command-line": f'qemu-io {identity} "read 0 512"'})
                named = {"device" if known.is_adopted else "node-name": identity}
                await qmp.execute("block_resize", named | {"size": size_mib * _MIB})

    @property
    def devices(self) -> KvmDevices:
        return KvmDevices(self.world, self.places)

    def snapshots(self) -> KvmSnapshots:
        return KvmSnapshots(self.places, self._running)

    def adoption(self) -> KvmAdoption:
        return KvmAdoption(self.places)

    async def migration_info(self, name: str) -> dict[str, Any]:
        self._running(name)
        return await self.migrations.info(name)

    async def accept(
        self, spec: InstanceSpec, disks: Sequence[AttachedDisk], info: dict[str, Any], address: str
    ) -> MigrationTarget:
        check_name(spec.name)
        return await self.migrations.accept(spec, disks, info, address)

    async def migrate(self, name: str, target: MigrationTarget, *, live: bool) -> None:
        self._running(name)
        await self.migrations.begin(name, target, live=live)

    async def migration_status(self, name: str) -> MigrationStatus:
        return await self.migrations.status(name)

    async def continue_switchover(self, name: str) -> None:
        await self.migrations.continue_switchover(name)

    async def cancel_migration(self, name: str) -> MigrationStatus:
        return await self.migrations.cancel(name)

    async def finalize_target(self, name: str, *, success: bool) -> None:
        await self.migrations.finalize_target(name, success=success)

    async def finalize_source(self, name: str, *, success: bool) -> None:
        await self.migrations.finalize_source(name, success=success)

    async def _runs_already(self, spec: InstanceSpec) -> bool:
        """Whether the guest is there as a start would leave it; refuses to disturb one that arrives or leaves."""
        name = spec.name
        guest = process.find(self.places, name)
        known = record.read(self.places, name) if guest is not None else None
        if guest is None or known is None:
            return False
        refuse_another(spec, known.uuid)
        state = (await self._describe(guest)).state
        if state == INCOMING or record.read_note(self.places, name) is not None:
            raise HypervisorError(f"{name} is in a migration: end or cancel it first")
        return known.started and state in (RUNNING, PAUSED)

    async def _prepare(self, spec: InstanceSpec) -> tuple[RuntimeRecord, emulator.Emulator]:
        """Check everything and fix what the guest will be."""
        hvparams = checks.filled(spec.hvparams)
        await self.check_parameters(hvparams)
        qemu = await emulator.describe(self.world, self.places, hvparams)
        accelerator = await acceleration.choose(self.world, self.places, qemu, hvparams)
        checks.check_instance(int(spec.beparams["vcpus"]), hvparams, accelerator)
        memory_mib = int(spec.beparams["maxmem"])
        ram_kib = emulator.ram_kib(memory_mib, accelerator, qemu.version)
        if hvparams["mem_path"]:
            ram_kib = memory_mib * 1024  # whole pages only
        obstacle = ""
        if emulator.emulation_bug(accelerator, qemu.version, ram_kib):
            obstacle = (
                f"QEMU {qemu.version_text} corrupts memory in live migration under emulation with mem_path: "
                "migrate non-live, or empty mem_path"
            )
        machine = qemu.machine(hvparams["machine_version"])
        is_q35 = devices.Machine(machine).is_q35
        made = RuntimeRecord(
            name=spec.name,
            uuid=spec.uuid,
            hvparams=hvparams,
            vcpus=int(spec.beparams["vcpus"]),
            memory_mib=memory_mib,
            ram_kib=ram_kib,
            machine=machine,
            root_ports=devices.ROOT_PORTS if is_q35 else 0,
            disk_ports=devices.DISK_PORTS if is_q35 and hvparams["disk_type"] == "paravirtual" else 0,
            accelerator=accelerator,
            qemu_version=qemu.version,
            has_rng="virtio-rng-pci" in qemu.devices,
            nics=record.nics_of(spec),
            network_port=spec.network_port,
            tags=spec.tags,
            live_obstacle=obstacle,
        )
        made = msgspec.structs.replace(made, disks=start_places(made, spec.disks))
        return removable.with_drives(made), qemu

    async def _continue(self, guest: GuestProcess) -> None:
        try:
            async with Qmp(self.places.socket(guest.name, "qmp")) as qmp:
                await qmp.execute("cont")
        except QmpGoneError as err:
            words = launch.last_words(self.places, guest.name)
            raise HypervisorError(f"QEMU ended as {guest.name} began to run: {words or err}") from err

    async def _power_down(self, guest: GuestProcess, timeout_s: float) -> None:
        """Press the power button until the guest is off, or the time is over: one that still boots misses a press."""
        deadline, again = Deadline(timeout_s), Deadline(_PRESS_AGAIN_S)
        try:
            if not await self._press(guest):
                return
        except HypervisorError as err:
            self.world.log(f"instance {guest.name}: the power button does not work, it is ended: {err}")
            return
        known = record.read(self.places, guest.name)
        stays = known is not None and known.hvparams["user_shutdown"]
        while left_s := deadline.left_s:
            if await guest.wait_end(min(left_s, _POLL_S if stays else _PRESS_AGAIN_S)):
                return
            if stays and (await self._describe(guest)).state == SHUTDOWN:
                return
            if again.is_over:
                with suppress(HypervisorError):
                    await self._press(guest)
                again = Deadline(_PRESS_AGAIN_S)
        self.world.log(f"instance {guest.name} did not power off within {timeout_s:g} s, it is ended")

    async def _press(self, guest: GuestProcess) -> bool:
        """Press the power button; gives False where nothing runs that could feel it. Raises `HypervisorError`."""
        async with Qmp(self.places.socket(guest.name, "qmp")) as qmp:
            state = state_of((await qmp.execute("query-status"))["status"])
            if state not in (RUNNING, PAUSED):
                return False
            if state == PAUSED:
                await qmp.execute("cont")
            await qmp.execute("system_powerdown")
        return True

    async def _quit(self, guest: GuestProcess) -> None:
        """Let QEMU end in good order, so that its last writes are on the disk."""
        try:
            async with Qmp(self.places.socket(guest.name, "qmp"), timeout_s=_STATUS_S) as qmp:
                await qmp.execute("quit", timeout_s=_STATUS_S)
        except QmpGoneError:
            pass
        except HypervisorError as err:
            self.world.log(f"instance {guest.name}: QEMU does not quit, it is killed: {err}")
            return
        await guest.wait_end(_QUIT_S)

    async def _describe(self, guest: GuestProcess) -> RunningInstance:
        try:
            async with Qmp(self.places.socket(guest.name, "qmp"), timeout_s=_STATUS_S) as qmp:
                state = state_of((await qmp.execute("query-status", timeout_s=_STATUS_S))["status"])
                if state in (RUNNING, PAUSED):
                    await self._put_back(qmp, guest.name)
        except HypervisorError as err:
            self.world.log(f"instance {guest.name}: its process lives, but {err}")
            state = RUNNING
        self._bound_serial_log(guest.name)
        try:
            known = record.read(self.places, guest.name)
        except HypervisorError as err:
            self.world.log(str(err))
            known = None
        return RunningInstance(
            name=guest.name,
            memory_mib=known.memory_mib if known is not None else process.resident_mib(guest.pid),
            vcpus=known.vcpus if known is not None else 1,
            state=state,
            cpu_time_s=process.cpu_time_s(guest.pid),
        )

    async def _put_back(self, qmp: Qmp, name: str) -> None:
        try:
            await released.put_back(self.world, self.places, qmp, name)
        except HypervisorError as err:
            self.world.log(f"instance {name} lacks a device that it let go of too late: {err}")

    def _bound_serial_log(self, name: str) -> None:
        """A guest decides how much it prints: what is too much goes to ``.1``, which the next replaces."""
        path = self.places.serial_log(name)
        try:
            if os.path.getsize(path) <= _SERIAL_LOG_LIMIT_BYTES:
                return
            shutil.copyfile(path, f"{path}.1")
            os.truncate(path, 0)
        except FileNotFoundError:  # a guest that Ganeti 3.0 has started has none
            return
        except OSError as err:
            self.world.log(f"The log {path} cannot be cut: {err.strerror}")

    def _running(self, name: str) -> tuple[GuestProcess, RuntimeRecord]:
        check_name(name)
        guest = process.find(self.places, name)
        known = record.read(self.places, name)
        if guest is None or known is None:
            raise HypervisorError(f"The instance {name} does not run on this node")
        return guest, known


def _ended(name: str) -> RunningInstance:
    """A guest that was shut down from inside, and whose process has ended."""
    return RunningInstance(name=name, memory_mib=0, vcpus=0, state=SHUTDOWN)


def _require_grown(name: str, disk: AttachedDisk) -> None:
    """Raise `HypervisorError` for an image that only QEMU could have made larger."""
    if disk.image_format != "raw":
        raise HypervisorError(
            f"Disk {disk.spec.index} of {name} has the format {disk.image_format} and its guest cannot write it: shut "
            f"the instance down to let it grow (gnt-instance shutdown {name})"
        )
