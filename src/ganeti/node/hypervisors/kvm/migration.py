# SPDX-License-Identifier: BSD-2-Clause
"""Live migration of a guest between two nodes, one half on each.

What must always hold: at most one of the two QEMU processes runs the guest.
- The source pauses before the switchover and goes on only when told; until then it can always return.
- The end of the stream is the last byte the source sends (no description after it), and the return path is off: a
  source that reports ``completed`` never runs again by itself, one that reports a failure has not sent all of it.
- In the short ``device`` phase the source is let through. Where it stays in it, it has bytes it could not send, so the
  target cannot have all of it, and cancelling is safe again.
- `finalize_source` without success takes the guest back even from ``completed``: the caller has ended the target.
- A guest that has run on the target is not taken back, since it may have written its disks there: QEMU stays as the
  guest ends, until the target has been told that it has arrived.
"""

import asyncio
import contextlib
import ipaddress
from collections.abc import Sequence
from typing import Any

import msgspec

from ganeti.base.errors import HypervisorError
from ganeti.model.node_calls.migration import MigrationStatus, MigrationTarget
from ganeti.model.node_requests import AttachedDisk, InstanceSpec
from ganeti.node.hypervisors import guest_files
from ganeti.node.hypervisors.kvm import (
    acceleration,
    checks,
    emulator,
    keys,
    launch,
    named_files,
    plugging,
    process,
    record,
    released,
)
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.ports import listen_on_free_port
from ganeti.node.hypervisors.kvm.process import GuestProcess
from ganeti.node.hypervisors.kvm.qmp import Qmp, QmpError, QmpGoneError
from ganeti.node.hypervisors.kvm.record import MigrationNote, RuntimeRecord
from ganeti.node.hypervisors.kvm.status import INCOMING, PAUSED, POSTMIGRATE, RUNNING, SHUTDOWN, state_of
from ganeti.ports.node_world import NodeWorld
from ganeti.system.event_loop import Deadline

NONE = "none"
ACTIVE = "active"
PRE_SWITCHOVER = "pre-switchover"
DEVICE = "device"
COMPLETED = "completed"
FAILED = "failed"
CANCELLED = "cancelled"
_STATUSES = {
    "none": NONE,
    "pre-switchover": PRE_SWITCHOVER,
    "device": DEVICE,
    "completed": COMPLETED,
    "failed": FAILED,
    "cancelled": CANCELLED,
}
"""QEMU's other states (setup, postcopy-active, cancelling, wait-unplug, …) are on the way: ``active``."""
_LAST_PHASE = "finish-migrate"
_AFTER_RUNNING = ("shutdown", "io-error", "guest-panicked", "watchdog", "suspended")
"""States of QEMU that only a guest which has run comes into."""
_POSTCOPY = "postcopy-ram"
_PASSES_BEFORE_POSTCOPY = 2
_MIB = 1024 * 1024
_NO_LIMIT_BYTES = 1 << 40
_CANCEL_S = 20.0
_DEVICE_S = 10.0
_ARRIVE_S = 30.0
_POLL_S = 0.02


class Migrations:
    """Both halves; the process and the files say how far a migration is."""

    def __init__(self, world: NodeWorld, places: Places) -> None:
        self.world = world
        self.places = places

    async def info(self, name: str) -> dict[str, Any]:
        """What the target must copy: the runtime record."""
        async with self._qmp(name) as qmp:
            state = await _state(qmp)
            known = await released.put_back(self.world, self.places, qmp, name) or self._known(name)
            there = await plugging.there(qmp)
        # A guest may have let go of a disk by itself.
        known = msgspec.structs.replace(known, disks=[place for place in known.disks if place.identity in there])
        if state not in (RUNNING, PAUSED):
            raise HypervisorError(f"{name} cannot be migrated now: its state is {state}")
        data: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(known, was_running=state == RUNNING))
        return data

    async def accept(
        self, spec: InstanceSpec, disks: Sequence[AttachedDisk], info: dict[str, Any], address: str
    ) -> MigrationTarget:
        arriving = msgspec.structs.replace(record.from_wire(info), started=False)
        if arriving.name != spec.name or arriving.uuid != spec.uuid:
            raise HypervisorError(f"The runtime record is of {arriving.name}, not of {spec.name}")
        found = {disk.spec.uuid for disk in disks}
        if not found.issuperset(place.uuid for place in arriving.disks):
            raise HypervisorError(
                f"{spec.name} runs with {len(arriving.disks)} disks, of which some are not activated on the target"
            )
        await self._refuse_if_there(spec.name)
        await launch.destroy(self.world, self.places, spec.name)
        qemu = await self._fitting_emulator(arriving)
        guest = await launch.Launch(self.world, self.places, qemu, arriving, disks, incoming=True).run()
        try:
            return await self._listen(guest, arriving, address)
        except BaseException:
            await asyncio.shield(launch.destroy(self.world, self.places, spec.name))
            raise

    async def begin(self, name: str, target: MigrationTarget, *, live: bool) -> None:
        """Start sending; on failure the guest runs on as before."""
        known = self._known(name)
        if live and known.live_obstacle:
            raise HypervisorError(f"{name} cannot be migrated live: {known.live_obstacle}")
        guest = self._guest(name)
        async with self._qmp(name) as qmp:
            status = (await self._query(qmp, name)).status
            if status in (ACTIVE, PRE_SWITCHOVER, DEVICE, COMPLETED):
                raise HypervisorError(f"{name} is in a migration already ({status}): end or cancel it first")
            was_running = await _state(qmp) == RUNNING
            record.write_note(self.places, name, MigrationNote(was_running=was_running, live=live))
            try:
                await _set_capabilities(qmp, known)
                await qmp.execute("migrate-set-parameters", _limits(known))
                await keys.install(qmp, self.places, guest, known, keys.SOURCE, target.key)
                if not live:
                    await qmp.execute("stop")
                await qmp.execute("migrate", {"uri": uri_of(target.address, target.port)})
            except BaseException:
                await asyncio.shield(self._return(qmp, name, known))
                raise

    async def status(self, name: str) -> MigrationStatus:
        """Where a migration is; a source whose process has ended has failed."""
        if process.find(self.places, name) is None:
            words = launch.last_words(self.places, name)
            return MigrationStatus(status=FAILED, error=f"The process of {name} on the source has ended: {words}")
        try:
            async with self._qmp(name) as qmp:
                answer = await qmp.execute("query-migrate")
                await self._start_postcopy(qmp, name, answer)
                return await self._understood(qmp, name, answer)
        except QmpGoneError as err:
            return MigrationStatus(status=FAILED, error=str(err))

    async def continue_switchover(self, name: str) -> None:
        async with self._qmp(name) as qmp:
            status = (await self._query(qmp, name)).status
            if status == PRE_SWITCHOVER:
                await qmp.execute("migrate-continue", {"state": PRE_SWITCHOVER})
            elif status not in (DEVICE, COMPLETED):
                raise HypervisorError(f"The migration of {name} is not at its switchover but {status}")

    async def cancel(self, name: str) -> MigrationStatus:
        if process.find(self.places, name) is None:
            return MigrationStatus(status=NONE)
        known = self._known(name)
        async with self._qmp(name) as qmp:
            found = await self._stop_sending(qmp, name)
            if found.status in (NONE, FAILED, CANCELLED) and record.read_note(self.places, name) is not None:
                await self._return(qmp, name, known)
        return found

    async def finalize_target(self, name: str, *, success: bool) -> None:
        """With success the guest runs here for good (waits for it to arrive); without, nothing of it is left here."""
        guest = process.find(self.places, name)
        known = record.read(self.places, name)
        if not success:
            if known is not None and known.started and guest is not None:
                await self._refuse_if_it_lives(name)
            await launch.destroy(self.world, self.places, name)
            return
        if guest is None or known is None:
            words = launch.last_words(self.places, name)
            raise HypervisorError(f"{name} did not arrive: its process on the target has ended: {words}")
        if not known.started:
            try:
                async with self._qmp(name) as qmp:
                    await self._arrive(qmp, known)
                    await keys.remove(qmp, self.places, name, known)
            except QmpGoneError as err:
                words = launch.last_words(self.places, name)
                raise HypervisorError(f"{name} did not arrive: {words or err}") from err
            launch.mark_started(self.places, known)
        if not known.hvparams["user_shutdown"]:
            await self._let_end(name)

    async def finalize_source(self, name: str, *, success: bool) -> None:
        """With success nothing of the guest is left here; without, it runs on here as before the migration."""
        guest = process.find(self.places, name)
        if guest is None:
            await launch.destroy(self.world, self.places, name)
            if success:
                return
            raise HypervisorError(f"{name} cannot run on here: its process on this node has ended; start it again")
        known = self._known(name)
        if success:
            await self._refuse_if_it_stays(name)
            await launch.destroy(self.world, self.places, name)
            return
        async with self._qmp(name) as qmp:
            await self._stop_sending(qmp, name)
            if record.read_note(self.places, name) is not None:
                await self._return(qmp, name, known)

    async def _refuse_if_there(self, name: str) -> None:
        guest = process.find(self.places, name)
        if guest is None:
            return
        try:
            async with self._qmp(name) as qmp:
                state = await _state(qmp)
        except QmpGoneError:
            return
        known = record.read(self.places, name)
        if known is not None and known.started and state in (RUNNING, PAUSED):
            raise HypervisorError(f"{name} is on the target already ({state}): stop it there first")

    async def _refuse_if_it_lives(self, name: str) -> None:
        """What a guest that has left or ended leaves behind may go; the guest itself is not ended by a late failure."""
        try:
            async with self._qmp(name) as qmp:
                state = await _state(qmp)
        except QmpGoneError:
            return
        if state not in (POSTMIGRATE, SHUTDOWN):
            raise HypervisorError(f"{name} has been taken over on this node and is {state}: it is not removed")

    async def _refuse_if_it_stays(self, name: str) -> None:
        """A guest that has not left is not ended, even if the job says that it has."""
        async with self._qmp(name) as qmp:
            status = (await self._query(qmp, name)).status
            state = await _state(qmp)
        if status != COMPLETED or state == RUNNING:
            raise HypervisorError(f"{name} has not left this node: its migration is {status}, its state {state}")

    async def _fitting_emulator(self, arriving: RuntimeRecord) -> emulator.Emulator:
        """This node's QEMU, if it can be the same machine; raises `HypervisorError` saying what does not fit."""
        checks.check_values(arriving.hvparams)
        qemu = await emulator.describe(self.world, self.places, arriving.hvparams)
        if arriving.machine not in qemu.machines:
            came = ".".join(str(part) for part in arriving.qemu_version)
            raise HypervisorError(
                f"QEMU {qemu.version_text} on the target has no machine {arriving.machine}, which {arriving.name} "
                f"runs as under QEMU {came}: bring the target to that version"
            )
        opened = {**arriving.hvparams, "kernel_path": "", "initrd_path": ""}
        checks.check_files(opened)
        guest_files.check_places(self.places.paths, opened)
        named_files.check(self.places.paths, opened)
        await checks.check_node(arriving.hvparams | {"machine_version": arriving.machine}, qemu, self.places)
        wanted = arriving.accelerator
        found = await acceleration.choose(self.world, self.places, qemu, arriving.hvparams)
        if found != wanted:
            raise HypervisorError(
                f"{arriving.name} runs with acceleration '{wanted}', the target would use '{found}': migration between "
                "hardware virtualisation and emulation is impossible, use failover"
            )
        return qemu

    async def _listen(self, guest: GuestProcess, arriving: RuntimeRecord, address: str) -> MigrationTarget:
        key = keys.make()
        async with self._qmp(guest.name) as qmp:
            await _set_capabilities(qmp, arriving)
            await keys.install(qmp, self.places, guest, arriving, keys.TARGET, key)
            port = await listen_on_free_port(
                arriving, address, lambda number: qmp.execute("migrate-incoming", {"uri": uri_of(address, number)})
            )
        return MigrationTarget(address=address, port=port, key=key)

    async def _arrive(self, qmp: Qmp, known: RuntimeRecord) -> None:
        deadline = Deadline(_ARRIVE_S)
        while (state := await _state(qmp)) == INCOMING:
            if deadline.is_over:
                raise HypervisorError(f"{known.name} has not arrived on the target after {_ARRIVE_S:g} s")
            await self.world.sleep(_POLL_S)
        if state == PAUSED and known.was_running:
            await qmp.execute("cont")
        found = (await qmp.execute("query-status"))["status"]
        if not known.was_running or state_of(found) == RUNNING:
            return
        if found in _AFTER_RUNNING:
            self.world.log(f"instance {known.name} has arrived and run on this node, its state is {found} by now")
        else:
            raise HypervisorError(f"{known.name} arrived on the target but does not run there: its state is {found}")

    async def _let_end(self, name: str) -> None:
        """From now on QEMU ends with the guest, as everywhere; at once where that is off already."""
        with contextlib.suppress(QmpGoneError):
            async with self._qmp(name) as qmp:
                await qmp.execute("set-action", {"shutdown": "poweroff"})
                if await _state(qmp) == SHUTDOWN:
                    self.world.log(f"instance {name} was shut down as it arrived on this node")
                    await qmp.execute("quit")

    async def _return(self, qmp: Qmp, name: str, known: RuntimeRecord) -> None:
        """The guest goes on here as it did before, without a trace of the migration."""
        note = record.read_note(self.places, name)
        with contextlib.suppress(QmpError):
            await keys.remove(qmp, self.places, name, known)
        state = await _state(qmp)
        if note is not None and note.was_running and state in (PAUSED, POSTMIGRATE):
            await qmp.execute("cont")
        record.remove_note(self.places, name)

    async def _query(self, qmp: Qmp, name: str) -> MigrationStatus:
        return await self._understood(qmp, name, await qmp.execute("query-migrate"))

    async def _understood(self, qmp: Qmp, name: str, answer: dict[str, Any]) -> MigrationStatus:
        """What QEMU completed without a note was the guest's arrival here.

        It says so a moment before the process has left its last phase and the figures are right.
        """
        found = _read_status(answer)
        if found.status != COMPLETED:
            return found
        if record.read_note(self.places, name) is None:
            return MigrationStatus(status=NONE)
        if (await qmp.execute("query-status"))["status"] == _LAST_PHASE:
            return msgspec.structs.replace(found, status=DEVICE)
        return _read_status(await qmp.execute("query-migrate"))

    async def _stop_sending(self, qmp: Qmp, name: str) -> MigrationStatus:
        """End a migration under way, and give what came of it; one in its last moments is let through."""
        found = await self._query(qmp, name)
        if found.status == DEVICE:
            found = await self._settle(qmp, name, (DEVICE,), _DEVICE_S)
        if found.status in (ACTIVE, PRE_SWITCHOVER, DEVICE):
            await qmp.execute("migrate_cancel")
            found = await self._settle(qmp, name, (ACTIVE, PRE_SWITCHOVER, DEVICE), _CANCEL_S)
        if found.status in (ACTIVE, PRE_SWITCHOVER, DEVICE):
            raise HypervisorError(f"The migration of {name} does not end ({found.status}): QEMU hangs on this node")
        return found

    async def _settle(self, qmp: Qmp, name: str, passing: Sequence[str], limit_s: float) -> MigrationStatus:
        """Wait until the migration is in none of the *passing* states, or the time is over."""
        deadline = Deadline(limit_s)
        while (found := await self._query(qmp, name)).status in passing and not deadline.is_over:
            await self.world.sleep(_POLL_S)
        return found

    async def _start_postcopy(self, qmp: Qmp, name: str, answer: dict[str, Any]) -> None:
        """With postcopy switched on, the guest moves over after the first pass and fetches the rest."""
        if answer.get("status") != "active" or _POSTCOPY not in checks.capabilities_of(self._known(name).hvparams):
            return
        if answer.get("ram", {}).get("dirty-sync-count", 0) >= _PASSES_BEFORE_POSTCOPY:
            with contextlib.suppress(QmpError):
                await qmp.execute("migrate-start-postcopy")

    def _qmp(self, name: str) -> Qmp:
        return Qmp(self.places.socket(name, "qmp"))

    def _guest(self, name: str) -> GuestProcess:
        guest = process.find(self.places, name)
        if guest is None:
            raise HypervisorError(f"The instance {name} does not run on this node")
        return guest

    def _known(self, name: str) -> RuntimeRecord:
        known = record.read(self.places, name)
        if known is None:
            raise HypervisorError(f"The instance {name} does not run on this node")
        return known


def uri_of(address: str, port: int) -> str:
    """Raises `HypervisorError` for what is no address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError as err:
        raise HypervisorError(f"'{address}' is no IP address to migrate over") from err
    return f"tcp:[{parsed}]:{port}" if parsed.version == 6 else f"tcp:{parsed}:{port}"


async def _state(qmp: Qmp) -> str:
    return state_of((await qmp.execute("query-status"))["status"])


def _read_status(answer: dict[str, Any]) -> MigrationStatus:
    ram = answer.get("ram", {})
    return MigrationStatus(
        status=_STATUSES.get(answer.get("status", NONE), ACTIVE),
        transferred_ram=ram.get("transferred", 0),
        total_ram=ram.get("total", 0),
        downtime_ms=answer.get("downtime"),
        error=answer.get("error-desc", ""),
    )


async def _set_capabilities(qmp: Qmp, known: RuntimeRecord) -> None:
    """Switch on what is wanted and off what an earlier migration left on."""
    wanted = {"events", "pause-before-switchover", "dirty-bitmaps", *checks.capabilities_of(known.hvparams)}
    there = await qmp.execute("query-migrate-capabilities")
    changes = [
        {"capability": entry["capability"], "state": entry["capability"] in wanted}
        for entry in there
        if entry["state"] != (entry["capability"] in wanted)
    ]
    await qmp.execute("migrate-set-capabilities", {"capabilities": changes})


def _limits(known: RuntimeRecord) -> dict[str, Any]:
    bandwidth = int(known.hvparams["migration_bandwidth"]) * _MIB or _NO_LIMIT_BYTES
    return {"max-bandwidth": bandwidth, "downtime-limit": int(known.hvparams["migration_downtime"])}
