# SPDX-License-Identifier: BSD-2-Clause
"""What stands for `import-export`: a disk is with the receiver in one step, when both sides have begun.

Names, keys, order and files are those of production; TLS, compression and programs are not played. A side outlives the
node daemon, as the program does, and ends with its machine: its directory is in memory.
"""

import hashlib
import importlib
import os
from typing import Any

from ganeti_simulation.disk.preparing import put_file
from ganeti_simulation.system.kernel import Running
from ganeti_simulation.system.machine import Machine, here

_FIRST_PORT = 40000
_SIDE = "side.json"


class Transfers:
    """In place of `ganeti.node.transfers.Transfers`."""

    def __init__(self, world: Any) -> None:
        self._paths = world.paths
        self._calls = importlib.import_module("ganeti.model.node_calls.transfers")
        self._files = importlib.import_module("ganeti.wire.transfer_files")
        self._json = importlib.import_module("msgspec").json

    def make_key(self, name: str, owner: str, validity_s: float) -> Any:
        del owner, validity_s
        put_file(here().disk, f"{self._paths.transfer_keys_dir}/{name}/key", b"", 0o400)
        return self._calls.TransferKey(name, f"certificate of {name}")

    def remove_key(self, name: str) -> None:
        _remove(here(), f"{self._paths.transfer_keys_dir}/{name}")

    async def start(self, name: str, key: str, authority: str, task: Any) -> Any:
        Running.kernel.system_call()
        port = 0
        machine, refused = here(), importlib.import_module("ganeti.base.errors").BlockDeviceError
        if not machine.disk.exists(f"{self._paths.transfer_keys_dir}/{key}/key"):
            raise refused(f"The key {key} is not on this node any more: prepare the export again")
        directory = f"{self._paths.transfers_dir}/{name}"
        if machine.disk.isdir(directory):
            raise FileExistsError(directory)
        if task.mode == self._files.RECEIVE:
            port = _FIRST_PORT + Running.kernel.local.setdefault("transfers", 0)
            Running.kernel.local["transfers"] += 1
            self._keep(
                machine, directory, {"port": port, "file": task.file, "magic": task.magic, "authority": authority}
            )
        else:
            self._keep(machine, directory, self._sent(machine, key, task))
        Running.kernel.system_call()
        return self._files.Status(listen_port=port or None, pid=1)

    def _sent(self, machine: Machine, key: str, task: Any) -> dict[str, Any]:
        """Put everything where the receiver waits for it; gives what the sender knows."""
        there = machine.network.machines.get(task.host)
        reached = isinstance(there, Machine) and there.powered and machine.network.passes(machine.address, task.host)
        found = self._waiting(there, task, key) if reached and isinstance(there, Machine) else None
        if not isinstance(there, Machine) or found is None:
            return {"port": 0, "error": f"{task.host} port {task.port} cannot be reached"}
        directory, side = found
        content = machine.disk.content(task.file) if task.file else b""
        if side["file"]:
            put_file(there.disk, side["file"], content, 0o600)
        self._keep(there, directory, side | {"received": True, "sha256": hashlib.sha256(content).hexdigest()})
        return {"port": 0, "host": task.host, "there": directory}

    def _waiting(self, there: Machine, task: Any, key: str) -> tuple[str, dict[str, Any]] | None:
        top = self._paths.transfers_dir
        for name in sorted(there.disk.listdir(top)) if there.disk.isdir(top) else []:
            side = self._side(there, f"{top}/{name}")
            if side and side["port"] == task.port and side["magic"] == task.magic:
                assert side["authority"] == f"certificate of {key}", "the receiver was told of another sender"
                return f"{top}/{name}", side
        return None

    def states(self, names: list[str]) -> list[Any]:
        Running.kernel.system_call()
        return [self._state(name) for name in names]

    def _state(self, name: str) -> Any:
        machine = here()
        side = self._side(machine, f"{self._paths.transfers_dir}/{name}")
        if side is None:
            return self._calls.TransferState(name=name, running=False, error="The transfer has been stopped")
        status = 0 if side.get("confirmed") else None
        if "error" in side:
            status = 1
        elif "there" in side:
            there = machine.network.machines[side["host"]]
            other = self._side(there, side["there"])
            status = 1 if other is None else 0 if other.get("confirmed") else None
        return self._calls.TransferState(
            name=name,
            running=status is None,
            connected=True,
            received=bool(side.get("received")),
            sha256=side.get("sha256", ""),
            exit_status=status,
            error=side.get("error") or ("The connection is broken" if status else None),
        )

    def confirm(self, name: str) -> None:
        directory = f"{self._paths.transfers_dir}/{name}"
        if (side := self._side(here(), directory)) is not None:
            self._keep(here(), directory, side | {"confirmed": True})

    async def end(self, name: str) -> None:
        _remove(here(), f"{self._paths.transfers_dir}/{name}")

    def _side(self, machine: Any, directory: str) -> dict[str, Any] | None:
        path = f"{directory}/{_SIDE}"
        if not machine.disk.exists(path):
            return None
        side: dict[str, Any] = self._json.decode(machine.disk.content(path))
        return side

    def _keep(self, machine: Machine, directory: str, side: dict[str, Any]) -> None:
        put_file(machine.disk, f"{directory}/{_SIDE}", self._json.encode(side), 0o600)


def _remove(machine: Machine, directory: str) -> None:
    if not machine.disk.isdir(directory):
        return
    for entry in sorted(machine.disk.listdir(directory)):
        machine.disk.unlink(os.path.join(directory, entry))
    machine.disk.rmdir(directory)


def transfers(module: Any) -> None:
    module.Transfers = Transfers
