# SPDX-License-Identifier: BSD-2-Clause
"""WConfD's calls about reserved room, as its clients make them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from ganeti.calls.wconfd_client import WConfdClient
from ganeti.master.locks.owners import Owner
from ganeti.model.reservations import Reservation, Reservations


async def reserve_room(
    client: WConfdClient, owner: Owner, reservations: Sequence[Reservation], seen: int
) -> str | None:
    """Reserve all, or give the uuid of a node where somebody reserved room after the serial number *seen*.

    Raises `LockError` for a dead owner. Asking again is harmless: it replaces what the owner had for these instances.
    """
    plain = [msgspec.to_builtins(reservation) for reservation in reservations]
    answer: dict[str, Any] = await client.call("reserveRoom", owner.to_wire(), plain, seen)
    taken: str | None = answer["taken"]
    return taken


async def list_reservations(client: WConfdClient) -> Reservations:
    """What is reserved for living owners, and the position at which the configuration does not show it yet."""
    return msgspec.convert(await client.call("listReservations"), Reservations)
