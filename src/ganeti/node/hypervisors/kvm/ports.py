# SPDX-License-Identifier: BSD-2-Clause
"""A free port for a guest that is about to arrive: memory and disks come over ports from ``migration_port`` on."""

from collections.abc import Awaitable, Callable
from typing import Any

from ganeti.base.errors import HypervisorError
from ganeti.node.hypervisors.kvm.qmp import QmpError
from ganeti.node.hypervisors.kvm.record import RuntimeRecord

_PORT_TRIES = 200
_HIGHEST_PORT = 65535


async def listen_on_free_port(known: RuntimeRecord, address: str, listen: Callable[[int], Awaitable[Any]]) -> int:
    """Have QEMU *listen* on the first free port; gives its number. Raises `HypervisorError`."""
    first = int(known.hvparams["migration_port"])
    refusal = ""
    for port in range(first, min(first + _PORT_TRIES, _HIGHEST_PORT + 1)):
        try:
            await listen(port)
        except QmpError as err:
            refusal = str(err)
            if "in use" not in refusal:
                break
            continue
        return port
    raise HypervisorError(
        f"{known.name} cannot be received on {address}, ports from {first} (migration_port): {refusal}"
    )
