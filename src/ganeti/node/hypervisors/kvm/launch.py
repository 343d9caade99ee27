# SPDX-License-Identifier: BSD-2-Clause
"""Starting QEMU for a runtime record, for a new guest or an incoming one: whole, or nothing of it is left.

The record is written before the process exists and marked ``started`` last: a process whose record says otherwise
is a half-made guest. QEMU starts paused, so a failure on the way shows before the guest has run.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ganeti.base.errors import HypervisorError
from ganeti.model.node_requests import AttachedDisk
from ganeti.node.hypervisors import affinity
from ganeti.node.hypervisors.kvm import command_line, display, process, record, sockets, taps, throttle, users
from ganeti.node.hypervisors.kvm.command_line import Handed
from ganeti.node.hypervisors.kvm.emulator import Emulator
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.process import GuestProcess
from ganeti.node.hypervisors.kvm.qmp import Qmp, QmpGoneError, QmpTimeoutError
from ganeti.node.hypervisors.kvm.record import RuntimeRecord
from ganeti.ports.node_world import NodeWorld

_ANSWER_S = 60.0
"""For QEMU's greeting: it allocates memory and opens disks before."""
_END_S = 5.0
_LOG_LINES = 3
_LOG_TAIL_BYTES = 4096


@dataclass
class Launch:
    """One start of QEMU; `run` gives the process, or leaves nothing."""

    world: NodeWorld
    places: Places
    qemu: Emulator
    record: RuntimeRecord
    disks: Sequence[AttachedDisk]
    incoming: bool = False

    async def run(self) -> GuestProcess:
        """Start QEMU and configure it; raises `HypervisorError`."""
        name = self.record.name
        guest: GuestProcess | None = None
        self.places.prepare()
        record.write(self.places, self.record)
        if self.record.hvparams["use_chroot"]:
            os.makedirs(self.places.chroot(name), mode=0o711, exist_ok=True)
        try:
            guest = await self._spawn()
            process.note(self.places, guest)
            await self._configure(guest)
            return guest
        except BaseException:
            await asyncio.shield(self._undo(guest))
            raise

    async def _undo(self, guest: GuestProcess | None) -> None:
        """QEMU may not have written its pid file yet: the process just started is ended by its id."""
        if guest is not None:
            await guest.kill()
        await destroy(self.world, self.places, self.record.name)

    async def _spawn(self) -> GuestProcess:
        name = self.record.name
        listening: dict[str, socket.socket] = {}
        opened: list[taps.Tap] = []
        try:
            for kind in command_line.socket_kinds(self.record):
                listening[kind] = sockets.listen(self.places.socket(name, kind))
            for nic in self.record.nics:
                opened.append(await taps.make(self.world, self.places, self.record, nic))
            handed = Handed(
                sockets={kind: made.fileno() for kind, made in listening.items()},
                taps=[tap.descriptors for tap in opened],
                display=await display.display_of(self.record, self.places.paths),
                user=users.user_of(self.places, self.record),
            )
            users.let_in(handed.user, self.disks)
            remarks: list[str] = []
            argv = command_line.build(
                *(self.record, self.qemu, self.places, self.disks, handed), incoming=self.incoming, remarks=remarks
            )
            for remark in remarks:
                self.world.log(f"instance {name}: {remark}")
            inherited = [*handed.sockets.values(), *(one for queues in handed.taps for one in queues)]
            self._start_log()
            pid = await self.world.spawn(argv, pass_fds=inherited, log_path=self.places.log(name))
        finally:
            for made in listening.values():
                made.close()
            for tap in opened:
                tap.close()
        return GuestProcess(name, pid, self.places.pid(name))

    async def _configure(self, guest: GuestProcess) -> None:
        """Passwords and processors; then the guest may run."""
        shown = await display.display_of(self.record, self.places.paths)
        try:
            async with Qmp(self.places.socket(guest.name, "qmp"), timeout_s=_ANSWER_S) as qmp:
                for command, arguments in shown.commands:
                    await qmp.execute(command, arguments)
                await throttle.begin(qmp, self.record, self.record.disks)
                threads = await qmp.execute("query-cpus-fast")
                await self._await_pid_file(guest)
                affinity.apply(
                    self.record.hvparams["cpu_mask"],
                    guest.pid,
                    {entry["cpu-index"]: entry["thread-id"] for entry in threads},
                )
        except QmpGoneError as err:
            await guest.wait_end(_END_S)
            raise HypervisorError(f"QEMU ended while starting {guest.name}: {self._last_words() or err}") from err
        except QmpTimeoutError as err:
            raise HypervisorError(f"QEMU does not get ready for {guest.name}: {err}") from err

    async def _await_pid_file(self, guest: GuestProcess) -> None:
        """QEMU writes its pid file before it greets; one that names another process is somebody else's guest."""
        found = process.find(self.places, guest.name)
        if found is None or found.pid != guest.pid:
            raise HypervisorError(f"The process of {guest.name} is not the one in {guest.pid_file}: start it again")

    def _start_log(self) -> None:
        """QEMU's log tells of one run; the one before stays beside it."""
        path = self.places.log(self.record.name)
        with contextlib.suppress(FileNotFoundError):
            os.replace(path, f"{path}.1")
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        serial = self.places.serial_log(self.record.name)
        os.close(os.open(serial, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def _last_words(self) -> str:
        return last_words(self.places, self.record.name)


def last_words(places: Places, name: str) -> str:
    """What QEMU wrote last, without its name before it."""
    try:
        with open(places.log(name), "rb") as source:
            source.seek(max(0, os.fstat(source.fileno()).st_size - _LOG_TAIL_BYTES))
            lines = source.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    said = [line.partition(": ")[2] or line for line in lines if line.strip() and "warning:" not in line]
    return "; ".join(said[-_LOG_LINES:])


async def destroy(world: NodeWorld, places: Places, name: str) -> None:
    """End a guest at once and remove everything of it; nothing there is no error."""
    guest = process.find(places, name)
    if guest is not None:
        await guest.kill()
    await process.end_last(places, name)
    _remove_display_socket(places, name)
    await taps.forget(world, places, name)
    places.forget(name)


def _remove_display_socket(places: Places, name: str) -> None:
    """The VNC socket lies in a directory of the administrator's; QEMU removes it unless it was killed."""
    try:
        known = record.read(places, name)
    except HypervisorError:
        return
    directory = known.hvparams.get("vnc_bind_address", "") if known is not None else ""
    if directory.startswith("/"):
        with contextlib.suppress(OSError):
            os.unlink(display.vnc_socket(directory, name))


def mark_started(places: Places, made: RuntimeRecord) -> None:
    record.write(places, msgspec.structs.replace(made, started=True))
