# SPDX-License-Identifier: BSD-2-Clause
"""One-time keys of migrations and of disks on their way (TLS with a pre-shared key, D8).

They lie in a private directory, and are never in an argument list.

The target's QEMU reads the file at the handshake, so it stays until the migration is finalized; the source's reads it
at once. A guest in a chroot finds its key inside.
"""

import contextlib
import os
import secrets
import shutil

from ganeti.base.errors import HypervisorError
from ganeti.node.hypervisors.kvm import process
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.process import GuestProcess
from ganeti.node.hypervisors.kvm.qmp import Qmp, QmpError
from ganeti.node.hypervisors.kvm.record import RuntimeRecord

SOURCE = "source"
TARGET = "target"
SENDER = "sender"
RECEIVER = "receiver"
"""The last two are of a guest's disks."""
_OBJECTS = {SOURCE: "migration-key", TARGET: "migration-key", SENDER: "disks-key", RECEIVER: "disks-key"}
_SERVERS = (TARGET, RECEIVER)
_KEY_BYTES = 32
_FILE = "keys.psk"
_USER = "qemu"
"""The name QEMU uses when none is given."""


def make() -> str:
    return secrets.token_hex(_KEY_BYTES)


async def install(qmp: Qmp, places: Places, guest: GuestProcess, known: RuntimeRecord, role: str, key: str) -> None:
    """Give QEMU the key for its end of a migration; raises `HypervisorError`."""
    await remove(qmp, places, guest.name, known)
    made = await place(qmp, places, guest, known, role, key)
    await qmp.execute("migrate-set-parameters", {"tls-creds": made, "tls-hostname": ""})
    if role == SOURCE:
        forget(places, guest.name, known, SOURCE)


async def place(qmp: Qmp, places: Places, guest: GuestProcess, known: RuntimeRecord, role: str, key: str) -> str:
    """Give QEMU a key, which it must not have yet; gives the name of the object. Raises `HypervisorError`."""
    inside = known.hvparams["use_chroot"]
    real = _directory(places, guest.name, known, role)
    try:
        os.makedirs(real, mode=0o700)
        descriptor = os.open(f"{real}/{_FILE}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as target:
            target.write(f"{_USER}:{key}\n")
        user, group = process.owner(guest.pid)
        if user != os.geteuid():
            os.chown(f"{real}/{_FILE}", user, group)
            os.chown(real, user, group)
    except OSError as err:
        raise HypervisorError(f"Cannot write the migration key below {real}: {err.strerror}") from err
    seen = f"/key-{role}" if inside else real
    await qmp.execute(
        "object-add",
        {
            "qom-type": "tls-creds-psk",
            "id": _OBJECTS[role],
            "dir": seen,
            "endpoint": "server" if role in _SERVERS else "client",
        },
    )
    return _OBJECTS[role]


async def remove(qmp: Qmp, places: Places, name: str, known: RuntimeRecord) -> None:
    """Take the key of a migration from QEMU and from the disk; nothing there is no error."""
    with contextlib.suppress(QmpError):
        await qmp.execute("migrate-set-parameters", {"tls-creds": ""})
    await take(qmp, places, name, known, SOURCE, TARGET)


async def take(qmp: Qmp, places: Places, name: str, known: RuntimeRecord, *roles: str) -> None:
    """Take the keys for *roles* from QEMU and from the disk; nothing there is no error."""
    for made in {_OBJECTS[role] for role in roles}:
        with contextlib.suppress(QmpError):
            await qmp.execute("object-del", {"id": made})
    forget(places, name, known, *roles)


def forget(places: Places, name: str, known: RuntimeRecord, *roles: str) -> None:
    for role in roles:
        shutil.rmtree(_directory(places, name, known, role), ignore_errors=True)


def _directory(places: Places, name: str, known: RuntimeRecord, role: str) -> str:
    return f"{places.chroot(name)}/key-{role}" if known.hvparams["use_chroot"] else places.keys(name, role)
