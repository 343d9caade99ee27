# SPDX-License-Identifier: BSD-2-Clause
"""The network between simulated machines, at the level of requests and answers.

Each message has a delay, may be lost, or come twice; machines may be cut off from each other, in one direction or both.
A machine without power or behind a cut is silent: only time tells.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ganeti_simulation.system.kernel import Kernel
from ganeti_simulation.system.process import Host, Process

Answer = tuple[int, bytes]
Serve = Callable[[str, bytes, Host], Awaitable[Answer]]
"""(path, body, who asks) -> (status, body)."""


@dataclass
class Weather:
    """What the network does to messages."""

    delay_least_s: float = 0.0002
    delay_most_s: float = 0.002
    loss: float = 0.0
    duplication: float = 0.0


@dataclass
class Server:
    process: Process
    loop: asyncio.AbstractEventLoop
    serve: Serve


@dataclass(eq=False)
class Waiting:
    """A request under way that a thread waits for."""

    caller: Process
    wake: Callable[[], None]
    outcome: Answer | str | None = None

    @property
    def settled(self) -> bool:
        return self.outcome is not None

    def settle(self, outcome: Answer | str) -> None:
        if self.outcome is None:
            self.outcome = outcome
            self.wake()


class Exchange:
    """A request under way; settled once, by an answer or by what is known of its failure."""

    __slots__ = ("caller", "future", "loop")

    def __init__(self, caller: Process, loop: asyncio.AbstractEventLoop) -> None:
        self.caller = caller
        self.loop = loop
        self.future: asyncio.Future[Answer | str] = loop.create_future()

    @property
    def settled(self) -> bool:
        return self.future.done()

    def settle(self, outcome: Answer | str) -> None:
        if self.caller.alive:
            self.loop.call_soon_threadsafe(self.end, outcome)

    def end(self, outcome: Answer | str) -> None:
        """As `settle`, from the loop itself."""
        if not self.future.done():
            self.future.set_result(outcome)


REFUSED = "refused"
BROKEN = "broken"
UNREACHABLE = "unreachable"
SILENT = "silent"


class Network:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.weather = Weather()
        self.machines: dict[str, Host] = {}
        """By address."""
        self.names: dict[str, str] = {}
        self.also: dict[str, None] = {}
        """Addresses that move between machines."""
        self.cuts: dict[tuple[str, str], None] = {}
        """(from, to) addresses between which nothing passes."""
        self.messages = 0
        self._servers: dict[tuple[str, int], Server] = {}

    def add(self, machine: Host) -> None:
        self.machines[machine.address] = machine
        self.names[machine.name] = machine.address

    def address_of(self, host: Any) -> str | None:
        text = host.decode() if isinstance(host, bytes) else str(host)
        if text.replace(".", "").isdigit():
            return text
        return self.names.get(text)

    # Faults

    def cut(self, one: str, other: str, *, both_ways: bool = True) -> None:
        self.cuts[one, other] = None
        if both_ways:
            self.cuts[other, one] = None

    def isolate(self, address: str) -> None:
        for other in self.machines:
            if other != address:
                self.cut(address, other)

    def heal(self) -> None:
        self.cuts.clear()

    def home_of(self, address: str) -> str:
        """The address of the machine that has *address* now."""
        if address in self.also:
            for machine in self.machines.values():
                if machine.powered and address in machine.addresses:
                    return machine.address
        return address

    def passes(self, source: str, target: str) -> bool:
        machine = self.machines.get(target)
        return machine is not None and machine.powered and (source, target) not in self.cuts

    # Requests

    def listen(self, address: str, port: int, server: Server) -> bool:
        """False if somebody listens there already."""
        known = self._servers.get((address, port))
        if known is not None and known.process.alive:
            return False
        self._servers[address, port] = server
        return True

    def stop_listening(self, address: str, port: int, process: Process) -> None:
        known = self._servers.get((address, port))
        if known is not None and known.process is process:
            del self._servers[address, port]

    def delay_s(self) -> float:
        weather = self.weather
        return weather.delay_least_s + (weather.delay_most_s - weather.delay_least_s) * self.kernel.random.random()

    def _lost(self) -> bool:
        return self.weather.loss > 0 and self.kernel.random.random() < self.weather.loss

    def answers_at(self, source: str, target: str, port: int) -> bool:
        """Whether a connection would come about."""
        server = self._servers.get((target, port))
        return self.passes(source, target) and server is not None and server.process.alive

    async def request(
        self, caller: Process, target: str, port: int, path: str, body: bytes, timeout_s: float
    ) -> Answer | str:
        """Send a request and wait for what becomes of it; that is `SILENT` after *timeout_s*."""
        loop = asyncio.get_running_loop()
        exchange = Exchange(caller, loop)
        timer = loop.call_later(timeout_s, exchange.end, SILENT)
        self.messages += 1
        copies = 1
        if self.weather.duplication > 0 and self.kernel.random.random() < self.weather.duplication:
            copies = 2
        if not self._lost():
            for _ in range(copies):
                self.kernel.after(self.delay_s(), lambda: self._arrive(exchange, target, port, path, body))
        try:
            return await exchange.future
        finally:
            timer.cancel()

    def request_blocking(
        self, caller: Process, target: str, port: int, path: str, body: bytes, timeout_s: float
    ) -> Answer | str:
        """As `request`, for a thread without a loop; silence is `unreachable` after *timeout_s*."""
        kernel, thread = self.kernel, self.kernel.current
        assert thread is not None
        kernel.system_call()
        waiting = Waiting(caller, lambda: kernel.wake(thread))
        if not self._lost():
            kernel.after(self.delay_s(), lambda: self._arrive(waiting, target, port, f"/{path}", body))
        until_s = kernel.now_s + timeout_s
        while waiting.outcome is None and kernel.now_s < until_s:
            kernel.block(until_s - kernel.now_s)
        return UNREACHABLE if waiting.outcome is None else waiting.outcome

    def _arrive(self, exchange: Exchange | Waiting, target: str, port: int, path: str, body: bytes) -> None:
        source = exchange.caller.machine.address
        if not self.passes(source, target):
            return
        server = self._servers.get((target, port))
        if server is None or not server.process.alive:
            self._send_back(exchange, target, REFUSED)
            return
        process = server.process

        def broken() -> None:
            self._send_back(exchange, target, BROKEN)

        async def serve() -> None:
            try:
                answer = await server.serve(path, body, exchange.caller.machine)
            finally:
                process.ended.pop(broken, None)
            self._send_back(exchange, target, answer)

        server.loop.call_soon_threadsafe(lambda: server.loop.create_task(serve()))
        process.ended[broken] = None

    def _send_back(self, exchange: Exchange | Waiting, target: str, outcome: Answer | str) -> None:
        if exchange.settled or self._lost():
            return
        source = exchange.caller.machine.address

        def arrive() -> None:
            if self.passes(target, source):
                exchange.settle(outcome)

        if self.machines[target].powered:
            self.kernel.after(self.delay_s(), arrive)
