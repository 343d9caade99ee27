# SPDX-License-Identifier: BSD-2-Clause
"""What the disk of a simulated machine holds, read past its daemons: copy, queue, locks, guests, disk images."""

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ganeti.base.errors import LockError
from ganeti.master.locks.snapshot import from_plain, redo
from ganeti.master.locks.table import LockTable
from ganeti_simulation.cluster.world import LOCAL, SHARED, World
from ganeti_simulation.disk.disk import Disk
from ganeti_simulation.system.machine import Machine

DATABASE = "/var/lib/ganeti/config.sqlite"
QUEUE = "/var/lib/ganeti/queue"
LOCKS = "/var/lib/ganeti/locks.data"
GUESTS = "/run/ganeti/fake-hypervisor"

Position = tuple[int, int]


@dataclass(frozen=True)
class Copy:
    """What a machine's database holds."""

    position: Position
    start: Position
    digests: dict[Position, str]
    objects: dict[tuple[str, str], bytes]
    members: tuple[str, ...]
    candidates: tuple[str, ...]
    """Nodes that are to have copies, by UUID as the members."""


def file_number(machine: Machine) -> int:
    found = machine.disk.find(DATABASE)[2]
    assert found is not None
    return int(found.number)


def lock_owners(master: Machine) -> list[str]:
    """Who holds locks by the file, or waits for some, although no job is there; the file may lag a little."""
    table = read_locks(master.disk.content(LOCKS)) if master.disk.exists(LOCKS) else None
    if table is None:
        return []
    holding = [f"{owner.name} of {owner.lock_file} holds {', '.join(locks)}" for owner, locks in table.all_held()]
    waiting = [pending.owner for pending in table.waiting()]
    return holding + [f"{owner.name} of {owner.lock_file} waits for locks" for owner in waiting]


def same(one: Copy, other: Copy) -> bool:
    return one.position == other.position and one.objects == other.objects and one.members == other.members


def read_copy(machine: Machine) -> Copy | None:
    """The configuration database of a machine; None where there is none that can be read."""
    if not machine.disk.exists(DATABASE):
        return None
    database = sqlite3.connect(":memory:")
    try:
        database.deserialize(_without_log(machine.disk.content(DATABASE)))
        meta = dict(database.execute("SELECT key, value FROM meta"))
        objects = {(kind, uuid): data for kind, uuid, data in database.execute("SELECT kind, uuid, data FROM objects")}
        digests = {
            (epoch, serial): digest
            for epoch, serial, digest in database.execute("SELECT epoch, serial, digest FROM commits")
        }
        membership = json.loads(meta.get("membership", '{"members": []}'))
        return Copy(
            (int(meta["epoch"]), int(meta["serial"])),
            tuple(json.loads(meta["stream_start"])),
            digests,
            objects,
            tuple(sorted(membership["members"])),
            tuple(sorted(uuid for (kind, uuid), data in objects.items() if kind == "nodes" and _takes_copies(data))),
        )
    except (sqlite3.Error, KeyError, ValueError):
        return None
    finally:
        database.close()


def _takes_copies(node: bytes) -> bool:
    plain = json.loads(node)
    return bool(plain.get("master_candidate")) and not plain.get("offline")


def _without_log(content: bytes) -> bytes:
    """The file says that it has a write-ahead log: what we look at in memory has none."""
    return content[:18] + b"\x01\x01" + content[20:]


def guests_on(machine: Machine) -> list[str]:
    if not machine.powered:
        return []
    found = []
    try:
        names = machine.disk.listdir(GUESTS)
    except OSError:
        return []
    for name in names:
        if not name.startswith("."):
            guest: dict[str, Any] = json.loads(machine.disk.content(f"{GUESTS}/{name}"))
            if guest.get("state") in ("running", "paused") and guest.get("boot") == machine.boot_id:
                found.append(name)
    return found


def job_files(machine: Machine) -> dict[int, bytes]:
    found = {}
    try:
        names = machine.disk.listdir(QUEUE)
    except OSError:
        return {}
    for name in names:
        if name.startswith("job-") and name[4:].isdigit():
            found[int(name[4:])] = machine.disk.content(f"{QUEUE}/{name}")
    return found


def status_of(raw: bytes) -> str:
    """The status of a whole job, from its file."""
    try:
        statuses = [entry["status"] for entry in json.loads(raw)["ops"]]
    except (ValueError, KeyError, TypeError):
        return "damaged"
    for status in ("error", "canceled", "canceling", "running", "waiting", "queued"):
        if status in statuses:
            return str(status)
    return "success"


def results_of(raw: bytes) -> list[Any]:
    return [entry.get("result") for entry in json.loads(raw)["ops"]]


def read_locks(data: bytes) -> LockTable | None:
    """The table that a file of saved locks tells; None for one that was lost with the power."""
    first, *changes = data.split(b"\n")
    try:
        saved = from_plain(json.loads(first))
        for line in changes[:-1]:
            redo(saved, *json.loads(line))
    except (ValueError, LockError):
        return None
    return saved.table


def images(world: World) -> list[tuple[str, str]]:
    """Each disk image: the machine that has it, empty where all have, and its path."""
    found = [("", f"{SHARED}{path}") for path in _images_below(world.shared, "")]
    return found + [(machine.name, path) for machine in world.machines for path in _images_below(machine.disk, LOCAL)]


def _images_below(disk: Disk, top: str) -> Iterator[str]:
    for directory in disk.listdir(top or "/"):
        if disk.isdir(f"{top}/{directory}"):
            for name in disk.listdir(f"{top}/{directory}"):
                if not name.startswith(".") and ".lock" not in name and not name.endswith((".owner", ".draft")):
                    yield f"{top}/{directory}/{name}"
