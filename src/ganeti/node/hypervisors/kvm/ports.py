# SPDX-License-Identifier: BSD-2-Clause
"""A free port for a guest that is about to arrive: memory and disks come over ports from ``migration_port`` on."""

import errno
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from ganeti.base.errors import HypervisorError
from ganeti.node.hypervisors.kvm.qmp import QmpError
from ganeti.node.hypervisors.kvm.record import RuntimeRecord
from ganeti.system.ip_socket import family_of

_PORT_TRIES = 200
_HIGHEST_PORT = 65535


async def listen_on_free_port(known: RuntimeRecord, address: str, listen: Callable[[int], Awaitable[Any]]) -> int:
    """Have QEMU *listen* on the first free port; gives its number. Raises `HypervisorError`."""
    first = int(known.hvparams["migration_port"])
    refusal = ""
    for port in range(first, min(first + _PORT_TRIES, _HIGHEST_PORT + 1)):
        place = address, port
        if place in _being_taken or _is_taken(address, port):
            refusal = refusal or "they are in use"
            continue
        _being_taken.add(place)
        try:
            await listen(port)
        except QmpError as err:
            refusal = str(err)
            if "in use" not in refusal:
                break
            continue
        finally:
            _being_taken.discard(place)
        return port
    raise HypervisorError(
        f"{known.name} cannot be received on {address}, ports from {first} (migration_port): {refusal}"
    )


_being_taken: set[tuple[str, int]] = set()
"""Where a QEMU is to listen at this moment: many guests may come at once."""


def _is_taken(address: str, port: int) -> bool:
    """Whether somebody listens there. From release 10 on, a QEMU that has met a port in use listens on no other."""
    with socket.socket(family_of(address), socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen()
        except OSError as err:
            return err.errno == errno.EADDRINUSE
    return False
