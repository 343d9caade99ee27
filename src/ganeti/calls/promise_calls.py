# SPDX-License-Identifier: BSD-2-Clause
"""WConfD's calls about promised room, as its clients make them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from ganeti.calls.wconfd_client import WConfdClient
from ganeti.master.locks.owners import Owner
from ganeti.model.promises import Promise, Promises


async def promise_room(client: WConfdClient, owner: Owner, promises: Sequence[Promise], seen: int) -> str | None:
    """Promise all, or give the uuid of a node where somebody was promised room after the serial number *seen*.

    Raises `LockError` for a dead owner. Asking again is harmless: it replaces what the owner had for these instances.
    """
    plain = [msgspec.to_builtins(promise) for promise in promises]
    answer: dict[str, Any] = await client.call("promiseRoom", owner.to_wire(), plain, seen)
    taken: str | None = answer["taken"]
    return taken


async def list_promises(client: WConfdClient) -> Promises:
    """What living owners were promised, and the position at which the configuration does not show it yet."""
    return msgspec.convert(await client.call("listPromises"), Promises)
