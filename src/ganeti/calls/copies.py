# SPDX-License-Identifier: BSD-2-Clause
"""Asking WConfD who has copies of the configuration: briefly, for people wait for the answer."""

import asyncio

from ganeti.base.errors import TransportError
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.model.copies import Copies, read_copies

ANSWER_S = 5.0


async def ask_copies(wconfd: WConfdClient) -> Copies:
    """Raises `GanetiError`: `TransportError` where WConfD does not answer in time."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return read_copies(await wconfd.call("replicationState"))
    except TimeoutError as err:
        raise TransportError(
            f"The configuration daemon does not say who has copies within {ANSWER_S:g} s: is ganeti-wconfd running?"
        ) from err
