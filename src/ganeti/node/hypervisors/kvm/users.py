# SPDX-License-Identifier: BSD-2-Clause
"""Which user a guest's QEMU becomes once it has opened its disks: of ``security_domain``, or of the cluster's pool.

``uid/NAME`` says which id of the pool a guest has on this node; it goes with the guest's other files.
"""

import os
import pwd
from collections.abc import Sequence
from contextlib import suppress

from ganeti.base.errors import HypervisorError
from ganeti.base.paths import Paths
from ganeti.model import uid_pool
from ganeti.model.node_requests import AttachedDisk
from ganeti.node.hypervisors.kvm import process
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.record import RuntimeRecord
from ganeti.system.files import write_atomically
from ganeti.system.ssconf import ssconf_words

USER, POOL = "user", "pool"


def user_of(places: Places, record: RuntimeRecord) -> str:
    """As QEMU's ``-runas`` takes it; empty for one that stays root.

    Raises `HypervisorError` for a pool that is used up. An id is taken before the guest's process exists.
    """
    model = record.hvparams["security_model"]
    if model == USER:
        return str(record.hvparams["security_domain"])
    if model != POOL:
        return ""
    pool = pool_of(places.paths)
    uid = uid_pool.choose(pool, _taken(places, record.name) | _running(), record.uuid)
    if uid is None:
        raise HypervisorError(
            f"The cluster's pool of user ids ({uid_pool.shown(pool) or 'empty'}) has none left for {record.name} on "
            "this node: give it more (gnt-cluster modify --add-uids)"
        )
    write_atomically(places.uid(record.name), f"{uid}\n".encode(), mode=0o600, durable=False)
    return f"{uid}:{uid}"


def let_in(user: str, disks: Sequence[AttachedDisk]) -> None:
    """Give the sockets of disks to *user*, as `user_of` gives it: QEMU connects to them again when it is that user."""
    if not user:
        return
    name, _, group = user.partition(":")
    if group:
        _give(disks, int(name), int(group))
    else:
        found = pwd.getpwnam(name)
        _give(disks, found.pw_uid, found.pw_gid)


def let_guest_in(places: Places, record: RuntimeRecord, disk: AttachedDisk) -> None:
    """The same for a running guest."""
    model, user = record.hvparams["security_model"], ""
    if model == USER:
        user = str(record.hvparams["security_domain"])
    elif model == POOL:
        with open(places.uid(record.name), encoding="ascii") as file:
            uid = file.read().strip()
        user = f"{uid}:{uid}"
    let_in(user, [disk])


def _give(disks: Sequence[AttachedDisk], uid: int, gid: int) -> None:
    for disk in disks:
        server = (disk.blockdev or {}).get("server") or {}
        if server.get("type") == "unix":
            os.chown(server["path"], uid, gid)


def pool_of(paths: Paths) -> list[list[int]]:
    return uid_pool.read(ssconf_words(paths, "uid_pool"))


def _taken(places: Places, name: str) -> set[int]:
    """By other guests of this node."""
    taken = set()
    for other in os.listdir(places.uid_dir):
        if other != name:
            with suppress(OSError, ValueError), open(places.uid(other), encoding="ascii") as file:
                taken.add(int(file.read()))
    return taken


def _running() -> set[int]:
    """Users of all processes that have memory, which ended ones have not: a guest whose files are lost keeps its id."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            user = os.stat(f"/proc/{pid}").st_uid
            if user and process.resident_bytes(int(pid)):
                found.add(user)
    return found
