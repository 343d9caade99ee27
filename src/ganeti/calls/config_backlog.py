# SPDX-License-Identifier: BSD-2-Clause
"""Commits that a follower of the configuration missed while LuxiD kept no events: WConfD has them still."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from ganeti.base.errors import GanetiError
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.master.events.log import CONFIG, encode_event
from ganeti.master.events.positions import EventPosition

_PATIENCE_S = 10.0


async def missed_commits(wconfd: WConfdClient, position: EventPosition, goal: tuple[int, int]) -> bytes | None:
    """The events of the commits after *position* up to *goal*; None if WConfD has not all of them.

    They keep life and number of *position*: who continues from one of them is served from here again.
    """
    if position.commit == goal:
        return b""
    if position.commit > goal:
        return None
    found: list[bytes] = []
    stream = cast(AsyncGenerator[dict[str, Any], None], wconfd.events(lambda: position.commit))
    try:
        async with asyncio.timeout(_PATIENCE_S), aclosing(stream) as events:
            async for event in events:
                if event["event"] != "commit":
                    return None
                commit = (event["position"][0], event["position"][1])
                found.append(encode_event(CONFIG, position._replace(commit=commit), time.time(), commit_fields(event)))
                if commit >= goal:
                    return b"".join(found)
    except (GanetiError, TimeoutError):
        return None
    return None


def commit_fields(event: dict[str, Any]) -> dict[str, Any]:
    """Our fields of a commit by WConfD's message alone: what was removed has lost its name."""
    put = [
        [kind, uuid, plain.get("cluster_name" if kind == "cluster" else "name"), plain.get("serial_no")]
        for kind, uuid, plain in event["put"]
    ]
    return {
        "commit": list(event["position"]),
        "put": put,
        "remove": [[kind, uuid, None, None] for kind, uuid in event["remove"]],
    }
