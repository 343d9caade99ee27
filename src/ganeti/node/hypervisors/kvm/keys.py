# SPDX-License-Identifier: BSD-2-Clause
"""One-time keys of migrations (TLS with a pre-shared key, D8): in a private directory, never in an argument list.

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

OBJECT = "migration-key"
SOURCE = "source"
TARGET = "target"
_KEY_BYTES = 32
_FILE = "keys.psk"
_USER = "qemu"
"""The name QEMU uses when none is given."""


def make() -> str:
    return secrets.token_hex(_KEY_BYTES)


async def install(qmp: Qmp, places: Places, guest: GuestProcess, known: RuntimeRecord, role: str, key: str) -> None:
    """Give QEMU the key for its end of a migration; raises `HypervisorError`."""
    await remove(qmp, places, guest.name, known)
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
            "id": OBJECT,
            "dir": seen,
            "endpoint": "server" if role == TARGET else "client",
        },
    )
    await qmp.execute("migrate-set-parameters", {"tls-creds": OBJECT, "tls-hostname": ""})
    if role == SOURCE:
        forget(places, guest.name, known)


async def remove(qmp: Qmp, places: Places, name: str, known: RuntimeRecord) -> None:
    """Take the key from QEMU and from the disk; nothing there is no error."""
    with contextlib.suppress(QmpError):
        await qmp.execute("migrate-set-parameters", {"tls-creds": ""})
    with contextlib.suppress(QmpError):
        await qmp.execute("object-del", {"id": OBJECT})
    forget(places, name, known)


def forget(places: Places, name: str, known: RuntimeRecord) -> None:
    for role in (SOURCE, TARGET):
        shutil.rmtree(_directory(places, name, known, role), ignore_errors=True)


def _directory(places: Places, name: str, known: RuntimeRecord, role: str) -> str:
    return f"{places.chroot(name)}/key-{role}" if known.hvparams["use_chroot"] else places.keys(name, role)
