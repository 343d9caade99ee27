# SPDX-License-Identifier: BSD-2-Clause
"""A client of QEMU's machine protocol (QMP): one connection, commands one after another, events beside them.

A QMP socket serves one client at a time: connections are kept short, and who finds it taken waits for its turn. A QEMU
that a guest has taken over may send anything: it is read with limits.
"""

import asyncio
import json
import os
import socket
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from ganeti.base.errors import UNREADABLE_JSON, HypervisorError
from ganeti.node.hypervisors.kvm import sockets

CONNECT_S = 10.0
COMMAND_S = 30.0
EVENTS_MAX = 1000
"""The newest that nobody waits for are kept: one that waits for days, or a guest that floods it, costs no more."""

_SENSELESS = (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError)
_SAID_CHARACTERS = 500


class QmpError(HypervisorError):
    """QEMU refused a command; *error_class* is QMP's."""

    def __init__(self, message: str, error_class: str = "GenericError") -> None:
        super().__init__(message)
        self.error_class = error_class


class QmpGoneError(HypervisorError):
    """The connection ended: QEMU has exited, or nobody listens."""


class QmpTimeoutError(HypervisorError):
    """No answer in time: QEMU hangs, or another client holds the socket."""


class Qmp:
    """Use as an asynchronous context: ``async with Qmp(path) as qmp: await qmp.execute("cont")``."""

    def __init__(self, path: str, *, timeout_s: float = CONNECT_S, first_s: float = COMMAND_S) -> None:
        """*timeout_s* is for the greeting, *first_s* for the answer to the first command."""
        self._path = path
        self._timeout_s = timeout_s
        self._first_s = first_s
        self._events: list[dict[str, Any]] = []
        self._next_id = 0
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Self:
        try:
            async with asyncio.timeout(self._timeout_s):
                self._reader, self._writer = await sockets.connect(self._path)
                await self._read_until(lambda message: "QMP" in message)
        except TimeoutError as err:
            self._drop()
            raise QmpTimeoutError(
                f"QEMU does not greet on {self._path} within {self._timeout_s:g} s: it hangs, or another client holds "
                "the socket"
            ) from err
        except OSError as err:
            self._drop()
            raise QmpGoneError(f"Nobody answers on {self._path}: {err.strerror or err}") from err
        except BaseException:
            self._drop()
            raise
        try:
            await self.execute("qmp_capabilities", timeout_s=self._first_s)
        except BaseException:
            self._drop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What is made of an answer fails where that is not of QEMU's form: then it is a fault of this guest alone."""
        self._drop()
        if isinstance(error, _SENSELESS):
            raise HypervisorError(
                f"QEMU on {self._path} answers without sense ({type(error).__name__}: {_cut(error)}): end the guest"
            ) from error

    async def execute(
        self,
        command: str,
        arguments: dict[str, Any] | None = None,
        *,
        timeout_s: float = COMMAND_S,
        descriptor: int | None = None,
    ) -> Any:
        """Run a command, with an open *descriptor* where it takes one, and give its answer.

        Raises `QmpError`, `QmpGoneError`, `QmpTimeoutError`.
        """
        self._next_id += 1
        wanted = self._next_id
        message: dict[str, Any] = {"execute": command, "id": wanted}
        if arguments is not None:
            message["arguments"] = arguments
        try:
            async with asyncio.timeout(timeout_s):
                await self._send(message, descriptor)
                answer = await self._read_until(lambda received: received.get("id") == wanted)
        except TimeoutError as err:
            raise QmpTimeoutError(f"QEMU does not answer '{command}' on {self._path} within {timeout_s:g} s") from err
        if "error" in answer:
            error = answer["error"] if isinstance(answer["error"], dict) else {"desc": answer["error"]}
            kind = error.get("class")
            raise QmpError(
                f"QEMU refused '{command}': {_cut(error.get('desc', error))}",
                kind if isinstance(kind, str) else "GenericError",
            )
        return answer.get("return")

    async def wait_event(self, *names: str, timeout_s: float | None) -> dict[str, Any]:
        """Wait for the next event of one of these names, also one that came during an earlier command.

        Without a timeout it waits as long as QEMU lives. Raises `QmpGoneError`, `QmpTimeoutError`.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    for index, event in enumerate(self._events):
                        if event["event"] in names:
                            return self._events.pop(index)
                    self._keep_event(await self._read())
        except TimeoutError as err:
            raise QmpTimeoutError(f"None of {', '.join(names)} came on {self._path} within {timeout_s:g} s") from err

    async def _send(self, message: dict[str, Any], descriptor: int | None) -> None:
        if self._writer is None:
            raise QmpGoneError(f"The connection to {self._path} is closed")
        try:
            data = json.dumps(message).encode() + b"\n"
            if descriptor is None:
                self._writer.write(data)
            else:
                with socket.socket(fileno=os.dup(self._writer.get_extra_info("socket").fileno())) as twin:
                    socket.send_fds(twin, [data], [descriptor])
            await self._writer.drain()
        except OSError as err:
            raise QmpGoneError(f"QEMU closed {self._path}: {err}") from err

    async def _read_until(self, matches: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            message = await self._read()
            if matches(message):
                return message
            self._keep_event(message)

    def _keep_event(self, message: dict[str, Any]) -> None:
        if isinstance(message.get("event"), str):
            self._events.append(message)
            del self._events[:-EVENTS_MAX]

    async def _read(self) -> dict[str, Any]:
        if self._reader is None:
            raise QmpGoneError(f"The connection to {self._path} is closed")
        try:
            line = await self._reader.readline()
        except ValueError as err:
            raise HypervisorError(f"QEMU sent a line without end on {self._path}") from err
        except OSError as err:
            raise QmpGoneError(f"QEMU closed {self._path}: {err}") from err
        if not line:
            raise QmpGoneError(f"QEMU closed {self._path}")
        try:
            message = json.loads(line)
        except UNREADABLE_JSON as err:
            raise HypervisorError(f"QEMU sent what is no JSON on {self._path}") from err
        if not isinstance(message, dict):
            raise HypervisorError(f"QEMU sent what is no message on {self._path}")
        return message

    def close(self) -> None:
        """For a connection that is kept longer than a context."""
        self._drop()

    def _drop(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


def _cut(said: object) -> str:
    text = str(said)
    return text if len(text) <= _SAID_CHARACTERS else f"{text[:_SAID_CHARACTERS]}…"
