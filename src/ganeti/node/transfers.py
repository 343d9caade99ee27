# SPDX-License-Identifier: BSD-2-Clause
"""Disks on their way to or from another cluster, on this node: keys, and a directory for each transfer.

A transfer is carried out by `import-export`, which outlives this daemon. What must hold: a name is checked before it is
part of a path; a transfer that is ended leaves neither process nor file.
"""

import os
import re
import shutil
import signal
from contextlib import suppress
from glob import glob

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, BlockDeviceError
from ganeti.base.names import shown
from ganeti.base.paths import Paths
from ganeti.model.node_calls.transfers import TransferKey, TransferState
from ganeti.node.certificates import transfer_certificate
from ganeti.ports.node_world import NodeWorld
from ganeti.system.files import write_atomically
from ganeti.system.livelock import is_alive
from ganeti.wire.transfer_files import CONFIRMED, LOCK, RECEIVE, STATUS, TASK, Status, Task, read_status

COMMON_NAME = "ganeti.example.com"
"""What the socat of 3.1 asks for in the certificate of the other side."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_START_WITHIN_S, _END_WITHIN_S, _POLL_S = 60.0, 20.0, 0.05
_KEY, _CERTIFICATE, _AUTHORITY, _OWNER = "key", "cert", "ca", "owner"


class Transfers:
    """All methods raise `BlockDeviceError`; `end` and `remove_key` may be repeated."""

    def __init__(self, world: NodeWorld) -> None:
        self._world = world
        self._paths: Paths = world.paths

    def make_key(self, name: str, owner: str, validity_s: float) -> TransferKey:
        """Older keys of the same owner go, and those whose time is over: nobody says that a prepared move is off."""
        directory = self.key_directory(name)
        for other in self._unneeded_keys(owner, validity_s):
            shutil.rmtree(other, ignore_errors=True)
        key, certificate = transfer_certificate(COMMON_NAME, validity_s)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        write_atomically(f"{directory}/{_OWNER}", owner.encode(), mode=0o400)
        write_atomically(f"{directory}/{_KEY}", key.encode(), mode=0o400)
        write_atomically(f"{directory}/{_CERTIFICATE}", certificate.encode(), mode=0o400)
        return TransferKey(name, certificate)

    def _unneeded_keys(self, owner: str, validity_s: float) -> list[str]:
        found = []
        for path in glob(f"{self._paths.transfer_keys_dir}/x509-*"):
            with suppress(OSError):
                with open(f"{path}/{_OWNER}", encoding="utf-8") as file:
                    same = file.read() == owner
                if same or self._world.now_s() - os.stat(path).st_mtime > validity_s:
                    found.append(path)
        return found

    def remove_key(self, name: str) -> None:
        shutil.rmtree(self.key_directory(name), ignore_errors=True)

    def key_directory(self, name: str) -> str:
        if not name.startswith("x509-"):
            raise BlockDeviceError(f"'{shown(name)}' is no name of a key for a transfer")
        return f"{self._paths.transfer_keys_dir}/{_checked(name)}"

    async def start(self, name: str, key: str, authority: str, task: Task) -> Status:
        """Start it, and wait until it has begun (to listen, if it receives)."""
        keys, directory = self.key_directory(key), self._directory(name)
        if not os.path.isfile(f"{keys}/{_KEY}"):
            raise BlockDeviceError(f"The key {key} is not on this node any more: prepare the export again")
        os.makedirs(self._paths.transfers_dir, mode=0o755, exist_ok=True)
        os.mkdir(directory, mode=0o700)
        write_atomically(f"{directory}/{_AUTHORITY}", authority.encode(), mode=0o600, durable=False)
        whole = msgspec.structs.replace(
            task, key=f"{keys}/{_KEY}", certificate=f"{keys}/{_CERTIFICATE}", authority=f"{directory}/{_AUTHORITY}"
        )
        write_atomically(f"{directory}/{TASK}", msgspec.json.encode(whole), mode=0o600, durable=False)
        words = [self._paths.import_export, f"{directory}/{STATUS}", task.mode, "--task"]
        await self._world.spawn(words, log_path=f"{directory}/log")
        return await self._begun(name, listens=task.mode == RECEIVE)

    async def _begun(self, name: str, *, listens: bool) -> Status:
        waited_s = 0.0
        while waited_s < _START_WITHIN_S:
            status = self._status(name)
            if status.exit_status is not None:
                raise BlockDeviceError(status.error_message or f"Transfer {name} ended at once")
            if status.listen_port or (status.pid and not listens):
                return status
            await self._world.sleep(_POLL_S)
            waited_s += _POLL_S
        raise BlockDeviceError(
            f"Transfer {name} has not begun within {_START_WITHIN_S:.0f} s: {self._last_words(name)}"
        )

    def states(self, names: list[str]) -> list[TransferState]:
        return [self._state(name) for name in names]

    def _state(self, name: str) -> TransferState:
        status = self._status(name)
        running = is_alive(f"{self._directory(name)}/{LOCK}")
        if not running:
            status = self._status(name)  # it may have ended between the two
        error = status.error_message
        if not running and status.exit_status is None:
            error = f"The transfer has been stopped: {self._last_words(name)}"
        return TransferState(
            name=name,
            running=running,
            connected=bool(status.connected),
            received=status.received,
            sha256=status.sha256,
            done_mib=status.progress_mbytes or 0,
            rate_mib=status.progress_throughput,
            left_s=status.progress_eta,
            percent=status.progress_percent,
            exit_status=status.exit_status,
            error=error,
        )

    def confirm(self, name: str) -> None:
        directory = self._directory(name)
        if os.path.isdir(directory):
            write_atomically(f"{directory}/{CONFIRMED}", b"", mode=0o600, durable=False)

    async def end(self, name: str) -> None:
        directory = self._directory(name)
        lock, waited_s = f"{directory}/{LOCK}", 0.0
        while is_alive(lock):
            with suppress(ProcessLookupError):
                if pid := self._status(name).pid:
                    os.killpg(pid, signal.SIGKILL)  # it leads its group as long as it holds the lock
            if waited_s > _END_WITHIN_S:
                raise BlockDeviceError(f"Transfer {name} does not end: see its process on this node")
            await self._world.sleep(_POLL_S)
            waited_s += _POLL_S
        shutil.rmtree(directory, ignore_errors=True)

    def _status(self, name: str) -> Status:
        try:
            with open(f"{self._directory(name)}/{STATUS}", "rb") as file:
                return read_status(file.read())
        except FileNotFoundError:
            return Status()
        except UNREADABLE_JSON as err:
            raise BlockDeviceError(f"The status of transfer {name} cannot be read: {err}") from err

    def _last_words(self, name: str) -> str:
        try:
            with open(f"{self._directory(name)}/log", encoding="utf-8", errors="replace") as file:
                return file.read()[-400:].strip() or "it has said nothing"
        except OSError:
            return "it has said nothing"

    def _directory(self, name: str) -> str:
        return f"{self._paths.transfers_dir}/{_checked(name)}"


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise BlockDeviceError(f"'{shown(name)}' cannot be the name of a transfer")
    return name
