# SPDX-License-Identifier: BSD-2-Clause
"""Questions to a Ceph cluster that may not answer: each has a time limit, and only one at a time waits for it.

A question that runs into its limit marks its pool as silent. For `ASKED_AGAIN_S` seconds every other question about
that pool fails at once, with the same sentence, so that an operation ends soon, whatever the number of its disks. Then
one question waits for an answer again, while the others go on to fail.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from ganeti.base.errors import BlockDeviceError, CommandError

LIMIT_S = 30.0
"""How long a cluster may take to answer. It needs 20 seconds to notice that a store is lost."""
ASKED_AGAIN_S = 30.0
_NO_ANSWER = ("did not end within", "Connection timed out")
_REMEDY = ": the Ceph cluster does not answer this node; see what it lacks (ceph -s there), then try again"


class Question(Protocol):
    """Asks; raises `CommandError`."""

    def __call__(self, *, limit_s: float) -> Awaitable[str]: ...


@dataclass(frozen=True)
class _Silence:
    sentence: str
    asked_again_s: float
    """By the clock of `CephSilence`."""


class CephSilence:
    """What one node knows of the pools that do not answer it."""

    def __init__(self, limit_s: float = LIMIT_S, now_s: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = limit_s
        self._now_s = now_s
        self._silent: dict[str, _Silence] = {}

    def is_silent(self, pool: str) -> bool:
        return pool in self._silent

    async def ask(self, pool: str, question: Question, *, patient: bool = False) -> str:
        """Give the answer; raises `BlockDeviceError`, at once for a pool that is silent unless *patient*."""
        silence = self._silent.get(pool)
        if silence is not None and not patient:
            if self._now_s() < silence.asked_again_s:
                raise BlockDeviceError(silence.sentence)
            self._silent[pool] = _Silence(silence.sentence, self._now_s() + self._limit_s + ASKED_AGAIN_S)
        try:
            return await self._ask(pool, question, self._limit_s)
        except asyncio.CancelledError:
            if silence is not None:  # the next one may find out
                self._silent[pool] = silence
            raise

    async def ask_long(self, pool: str, question: Question, probe: Question, limit_s: float) -> str:
        """The same of a question that may take long; it ends when *probe*, a short one, has no answer meanwhile."""
        if self.is_silent(pool):
            await self._probe(pool, probe)
        asked = asyncio.ensure_future(self._ask(pool, question, limit_s))
        try:
            while not (await asyncio.wait([asked], timeout=self._limit_s))[0]:
                await self._probe(pool, probe)
            return asked.result()
        finally:
            asked.cancel()
            with suppress(asyncio.CancelledError, BlockDeviceError):
                await asked

    async def _ask(self, pool: str, question: Question, limit_s: float) -> str:
        try:
            answer = await question(limit_s=limit_s)
        except CommandError as err:
            if not any(words in str(err) for words in _NO_ANSWER):
                self._silent.pop(pool, None)
                raise BlockDeviceError(str(err)) from err
            sentence = f"{err}{_REMEDY}"
            self._silent[pool] = _Silence(sentence, self._now_s() + ASKED_AGAIN_S)
            raise BlockDeviceError(sentence) from err
        self._silent.pop(pool, None)
        return answer

    async def _probe(self, pool: str, probe: Question) -> None:
        """Raise `BlockDeviceError` for a pool that is silent; any answer will do, an error message too."""
        try:
            await self.ask(pool, probe)
        except BlockDeviceError:
            if self.is_silent(pool):
                raise
