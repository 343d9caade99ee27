# SPDX-License-Identifier: BSD-2-Clause
"""Asks every node's MonD how the node is, and believes what is signed, of now and of that node (S4.14, S4.38)."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ganeti.base.clocks import CLOCK_SKEW_S
from ganeti.model.objects import Node, Plain
from ganeti.system.http_client import BrokenError, HttpClient
from ganeti.wire.diagnose_report import PATH, RefusedReport, read_report

MOND_PORT = 1815
SILENT = "silent"
LOAD_PATH = "/1/report/default/inst-cpu-load"
_AT_ONCE = 64
_ANSWER_S, _CONNECT_S = 15.0, 5.0
_REPORT_BYTES = 256 * 1024
_LOAD_BYTES = 4 * 1024 * 1024
_NOT_FOUND = 404
_log = logging.getLogger(__name__)


class ReportPoller:
    """Remembers of each node only the time of its last report, and what was wrong with it."""

    def __init__(self, client: HttpClient, key: Callable[[], bytes], now_s: Callable[[], float]) -> None:
        self._client = client
        self._key = key
        self._now_s = now_s
        self._last_s: dict[str, float] = {}
        self._faults: dict[str, str] = {}
        self.refused: Counter[str] = Counter()
        """How many reports were refused since the daemon began, by the reason."""

    async def poll(self, nodes: Iterable[Node], interval_s: float) -> dict[str, Plain]:
        """The object of each node (uuid) with a report that is believed and newer than the last one."""
        turn = asyncio.Semaphore(_AT_ONCE)
        nodes = list(nodes)
        told = await asyncio.gather(*(self._look(node, interval_s, turn) for node in nodes))
        return {node.uuid: original for node, original in zip(nodes, told, strict=True) if original is not None}

    async def loads(self, nodes: Iterable[Node]) -> dict[str, float]:
        """What the processors of nodes do for each instance, by name; what cannot be had is missing."""
        turn = asyncio.Semaphore(_AT_ONCE)
        found: dict[str, float] = {}
        for loads in await asyncio.gather(*(self._load(node, turn) for node in nodes)):
            found |= loads
        return found

    async def _look(self, node: Node, interval_s: float, turn: asyncio.Semaphore) -> Plain | None:
        try:
            async with turn:
                body = await self._get(node, PATH, _REPORT_BYTES)
            oldest_s = CLOCK_SKEW_S + 2 * interval_s
            told = read_report(body, node.name, self._key(), self._now_s(), oldest_s=oldest_s)
        except BrokenError as err:
            self._note(node, SILENT, str(err))
            return None
        except RefusedReport as refusal:
            self.refused[refusal.kind] += 1
            self._note(node, refusal.kind, f"its report is refused: it {refusal}")
            return None
        self._note(node, "", "")
        if told.time_s <= self._last_s.get(node.uuid, 0.0) <= self._now_s() + CLOCK_SKEW_S:
            return None
        self._last_s[node.uuid] = told.time_s
        return told.original

    async def _load(self, node: Node, turn: asyncio.Semaphore) -> dict[str, float]:
        try:
            async with turn:
                data = json.loads(await self._get(node, LOAD_PATH, _LOAD_BYTES))["data"]
            return {str(name): max(0.0, float(value)) for name, value in data.items()}
        except (BrokenError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return {}

    async def _get(self, node: Node, path: str, limit_bytes: int) -> bytes:
        status, body = await self._client.get(
            node.name, MOND_PORT, path, limit_s=_ANSWER_S, connect_s=_CONNECT_S, limit_bytes=limit_bytes
        )
        if status == _NOT_FOUND:
            raise BrokenError("the collector is switched off there")
        return body

    def _note(self, node: Node, kind: str, words: str) -> None:
        """Once when it changes, and of nodes that are offline nothing."""
        before, self._faults[node.uuid] = self._faults.get(node.uuid, ""), kind
        if kind != before and kind and not (kind == SILENT and node.offline):
            _log.warning("%s: %s", node.name, words)
        elif kind != before and not kind:
            _log.info("%s: reports again", node.name)

    def metrics(self) -> dict[str, Any]:
        return dict(self.refused)
