# SPDX-License-Identifier: BSD-2-Clause
"""Makes the reports: each collector by itself, so that one that hangs or fails spoils no other."""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

import ganeti.node.collectors
from ganeti.base.errors import GanetiError
from ganeti.base.registry import import_all
from ganeti.mond.node import Node
from ganeti.node.collectors import cpu_load, instances
from ganeti.node.collectors.interface import REGISTRY, Collector
from ganeti.node.collectors.report import failed, report
from ganeti.system.event_loop import Background

PATIENCE_S = 10.0
"""How long a client waits for one collector; the work goes on, and later clients get its result."""
FRESH_S = 1.0
"""Clients that ask within this time get the same report."""
STEP_S = 1.0
"""How soon a changed interval or command counts, once the settings have it: the interval of before may be a day."""
_log = logging.getLogger(__name__)


def collectors(hypervisors: Sequence[str]) -> list[Collector]:
    """All of a node with these hypervisors, by name."""
    import_all(ganeti.node.collectors)
    own = [*REGISTRY.values(), *map(instances.of_hypervisor, hypervisors)]
    return sorted(own, key=lambda each: each.name)


class Monitor:
    """Call `start`, then ask for reports."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._lines = {(each.category, each.name): _Line(node, each) for each in collectors(node.hypervisors)}
        self._background = Background()

    def start(self) -> None:
        self._background.start(self._sample(), "the samples of loads")
        for line in self._lines.values():
            if line.collector.paced:
                self._background.start(self._pace(line), line.collector.name)

    async def close(self) -> None:
        await self._background.cancel()
        await asyncio.gather(*(line.close() for line in self._lines.values()))

    def collectors(self) -> list[Collector]:
        return [line.collector for line in self._lines.values()]

    def active(self) -> list[Collector]:
        return [line.collector for line in self._active()]

    async def report(self, category: str | None, name: str) -> dict[str, Any] | None:
        """None where there is no such collector, or it is switched off."""
        line = self._lines.get((category, name))
        return await line.report() if line is not None and self.node.is_active(line.collector) else None

    async def all_reports(self) -> list[dict[str, Any]]:
        return await asyncio.gather(*(line.report() for line in self._active()))

    def failures(self) -> dict[str, int]:
        """How often each collector could not do its work since MonD began."""
        return {line.collector.name: line.failures for line in self._lines.values()}

    def _active(self) -> list["_Line"]:
        return [line for line in self._lines.values() if self.node.is_active(line.collector)]

    async def _sample(self) -> None:
        missing = False
        while True:
            try:
                await self.node.sample()
                missing = False
            except GanetiError as err:
                if not missing:
                    _log.warning("samples of loads are missing: %s", err)
                missing = True
            except Exception:
                _log.exception("a sample of loads is missing")
            await asyncio.sleep(cpu_load.SAMPLE_S)

    async def _pace(self, line: "_Line") -> None:
        while True:
            command = self.node.cluster.settings.diagnose_command
            if self.node.is_active(line.collector):
                await line.work()
            ended_s = time.monotonic()
            while (settings := self.node.cluster.settings).diagnose_command == command:
                left_s = ended_s + settings.of(line.collector.name).interval_us / 1e6 - time.monotonic()
                if left_s <= 0:
                    break
                await asyncio.sleep(min(left_s, STEP_S))


class _Line:
    """One collector with its last report."""

    def __init__(self, node: Node, collector: Collector) -> None:
        self.collector = collector
        self.failures = 0
        self._node = node
        self._last: dict[str, Any] | None = None
        self._made_s = 0.0
        self._work: asyncio.Task[None] | None = None
        self._last_fault = ""

    async def close(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    async def report(self) -> dict[str, Any]:
        if self._last is None or not (self.collector.paced or time.monotonic() < self._made_s + FRESH_S):
            try:
                await asyncio.wait_for(self.work(), PATIENCE_S)
            except TimeoutError:
                return self._framed(failed(self.collector.kind, f"it takes longer than {PATIENCE_S:g} seconds"))
        assert self._last is not None
        return self._last

    async def work(self) -> None:
        """Collect, or wait for the collecting that is under way."""
        if self._work is None or self._work.done():
            self._work = asyncio.get_running_loop().create_task(self._collect())
        await asyncio.shield(self._work)

    async def _collect(self) -> None:
        try:
            data, fault = await self.collector.collect(self._node), ""
        except Exception as err:
            fault = f"{type(err).__name__}: {err}" if not str(err) else str(err)
            data = failed(self.collector.kind, fault)
            self.failures += 1
        if fault != self._last_fault:
            _log.warning("%s: %s", self.collector.name, fault or "works again")
            self._last_fault = fault
        self._last, self._made_s = self._framed(data), time.monotonic()

    def _framed(self, data: Any) -> dict[str, Any]:
        own = self.collector
        beside = own.beside(self._node, data)
        return {**report(own.name, own.category, own.kind, data, time.time_ns()), **beside}
