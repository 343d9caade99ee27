# SPDX-License-Identifier: BSD-2-Clause
"""A guest's way to another node: ``xl migrate`` on its source, over ssh as root, as in 3.1.

xl tells no figures and has no moment between the last page and the switch: the guest is here until xl has ended, and
then either here or there. A source that is asked to give up ends xl's connection, upon which xl resumes the guest.
"""

import contextlib
import ipaddress
import os
import signal

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, HypervisorError
from ganeti.model.node_calls.migration import MigrationTarget
from ganeti.ports.node_world import NodeWorld
from ganeti.system.boot import process_lives, process_start
from ganeti.system.files import read_if_there, write_atomically

XL = "/usr/sbin/xl"
_SSH = "/usr/bin/ssh"
_ENDING_POLLS, _ENDING_POLL_S = 300, 0.1
_SHOWN_LINES = 3


class Sending(msgspec.Struct, frozen=True, kw_only=True):
    """A migration under way, or ended and not yet settled."""

    pid: int
    """0 while xl has not been started."""
    pid_start: str
    began_s: float
    paused: bool
    """Whether the guest was paused for it."""

    @property
    def lives(self) -> bool:
        return self.pid != 0 and process_lives(self.pid, self.pid_start)


class Sendings:
    """The notes of migrations away from here."""

    def __init__(self, world: NodeWorld) -> None:
        self._world = world

    def read(self, name: str) -> Sending | None:
        path = self._path(name)
        try:
            data = read_if_there(path)
            return None if data is None else msgspec.json.decode(data, type=Sending)
        except UNREADABLE_JSON as err:
            raise HypervisorError(f"The file {path} cannot be read: {err}") from err

    def announce(self, name: str, *, paused: bool) -> None:
        """Note what is about to be done to the guest, before it is done; raises `HypervisorError`."""
        self._write(name, Sending(pid=0, pid_start="", began_s=self._world.now_s(), paused=paused))

    async def begin(self, name: str, target: MigrationTarget, *, cluster: str, paused: bool) -> None:
        """Start xl; raises `HypervisorError`."""
        log = self.log(name)
        try:
            os.makedirs(os.path.dirname(log), mode=0o750, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(log)
            pid = await self._world.spawn(self._command(name, target, cluster), log_path=log)
        except OSError as err:
            raise HypervisorError(
                f"xl cannot be started to migrate {name}, with its log {log}: {err.strerror}"
            ) from err
        note = Sending(pid=pid, pid_start=process_start(pid) or "", began_s=self._world.now_s(), paused=paused)
        try:
            self._write(name, note)
        except HypervisorError:
            await self.end(note, name)  # nobody could end it later
            raise

    def _write(self, name: str, note: Sending) -> None:
        path = self._path(name)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_atomically(path, msgspec.json.encode(note), mode=0o600, durable=False)
        except OSError as err:
            raise HypervisorError(f"Cannot write {path}: {err.strerror}") from err

    async def end(self, note: Sending, name: str) -> None:
        """Cut xl's connection and wait until it has ended; raises `HypervisorError`."""
        for _ in range(_ENDING_POLLS):
            if not note.lives:
                return
            for pid in _children(note.pid) or [note.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            await self._world.sleep(_ENDING_POLL_S)
        raise HypervisorError(f"xl (process {note.pid}) does not end: look after the migration of {name} by hand")

    def forget(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(name))

    def log(self, name: str) -> str:
        return f"{self._world.paths.log_dir}/xen/{name}-migration.log"

    def last_words(self, name: str) -> str:
        try:
            text = (read_if_there(self.log(name)) or b"").decode("utf-8", "replace")
        except OSError as err:
            return f"its log {self.log(name)} cannot be read: {err.strerror}"
        return "; ".join(line.strip() for line in text.splitlines()[-_SHOWN_LINES:])

    def _path(self, name: str) -> str:
        return f"{self._world.paths.run_dir}/xen/{name}.migration"

    def _command(self, name: str, target: MigrationTarget, cluster: str) -> list[str]:
        """xl hands the text after ``-s`` to a shell: nothing in it comes from a user."""
        address = str(ipaddress.ip_address(target.address))
        ssh = " ".join(
            (
                *(_SSH, "-oBatchMode=yes", "-oStrictHostKeyChecking=yes", f"-oHostKeyAlias={cluster}"),
                *(f"-oUserKnownHostsFile={self._world.paths.data_dir}/known_hosts", "-oGlobalKnownHostsFile=none"),
                *("-oServerAliveInterval=15", "-oServerAliveCountMax=4", f"-p{int(target.data.get('ssh_port', 22))}"),
                "-lroot",
            )
        )
        return [XL, "migrate", "-s", ssh, name, address]


def _children(pid: int) -> list[int]:
    return [int(word) for word in (read_if_there(f"/proc/{pid}/task/{pid}/children") or b"").split()]
