# SPDX-License-Identifier: BSD-2-Clause
"""Serving a daemon's socket from a table: requests and answers in order; whatever comes in, the daemon goes on.

Name, types of the arguments and handler of a call stand together, at the handler. ``@serves("listLocks")`` marks the
method of that call: the `Annotated` type of each parameter `Reads` it, and a parameter with a default may be left out.
``@serves(RenewGroupState)`` marks the one that gets a job's question (`ports/luxid.py`).
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from ganeti.base.errors import INTERNAL_ERROR, WRONG_INPUT, GanetiError, PrerequisiteError, TransportError
from ganeti.ports.luxid import Question
from ganeti.wire.framing import Connection, MessageTooLong, MessageTooSlow, Pieces, decode, encode
from ganeti.wire.framing_sync import END
from ganeti.wire.luxi import MalformedRequest, read_request

_log = logging.getLogger(__name__)

Handler = Callable[[list[Any]], Awaitable[Any]]
"""Takes the arguments as they came."""
Stream = Callable[[Connection, list[Any]], Awaitable[None]]
"""Answers its call itself and then sends for as long as it likes; raises `GanetiError` before it has sent anything."""
Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])
_MARK = "served_call"


@dataclass(frozen=True)
class Reads:
    """In the type of a parameter: gives its value for what came as JSON, or raises `GanetiError`."""

    read: Callable[[Any], Any]


def serves(call: str | type[Question[Any]]) -> Callable[[Method], Method]:
    """Mark the method that serves *call*; `handlers_of` finds it."""

    def mark(method: Method) -> Method:
        setattr(method, _MARK, call)
        return method

    return mark


def handlers_of(*parts: object) -> dict[str, Handler]:
    """The handlers of all calls that methods of *parts* serve, by name."""
    table: dict[str, Handler] = {}
    for part in parts:
        for name, method in vars(type(part)).items():
            if isinstance(call := getattr(method, _MARK, None), str):
                table[call] = handler_of(call, getattr(part, name))
            elif call is not None:
                table[call.__name__] = _with_question(call, getattr(part, name))
    return table


def reader_of(call: str, method: Callable[..., Any]) -> Callable[[list[Any]], list[Any]]:
    """What reads the arguments of *call* as the types of the parameters of *method* say; raises `GanetiError`."""
    types = get_type_hints(method, include_extras=True)
    given = [each for each in inspect.signature(method).parameters.values() if types[each.name] is not Connection]
    readers = [
        next((part.read for part in get_args(types[each.name]) if isinstance(part, Reads)), _as_it_came)
        for each in given
    ]
    least, most = sum(each.default is inspect.Parameter.empty for each in given), len(given)
    number = str(most) if least == most else f"{least} to {most}"
    names = f": {', '.join(each.name for each in given)}".replace("_", " ") if given else ""

    def read(arguments: list[Any]) -> list[Any]:
        if not least <= len(arguments) <= most:
            raise GanetiError(f"{call} takes {number} arguments, not {len(arguments)}{names}")
        return [reader(argument) for reader, argument in zip(readers, arguments, strict=False)]

    return read


def _as_it_came(value: Any) -> Any:
    return value


def handler_of(call: str, method: Callable[..., Awaitable[Any]]) -> Handler:
    """What answers *call* by *method*, for a call that is not known before the daemon runs."""
    read = reader_of(call, method)

    async def handle(arguments: list[Any]) -> Any:
        return await method(*read(arguments))

    return handle


def stream_of(call: str, method: Callable[..., Awaitable[None]]) -> Stream:
    """What serves *call* by *method*, which gets the connection before the arguments."""
    read = reader_of(call, method)

    async def stream(connection: Connection, arguments: list[Any]) -> None:
        await method(connection, *read(arguments))

    return stream


def _with_question(question: type[Question[Any]], method: Callable[[Any], Awaitable[Any]]) -> Handler:
    async def handle(arguments: list[Any]) -> Any:
        try:
            asked = msgspec.convert(arguments, question)
        except msgspec.ValidationError as err:
            raise PrerequisiteError(f"{question.__name__} cannot be answered: {err}", WRONG_INPUT) from err
        return await method(asked)

    return handle


class CallServer:
    """Answers the calls of *calls*; one of *streams* turns its connection into a stream.

    A kind of socket says how a request is read, and what it tells of one that cannot be.
    """

    message_s = 180.0
    """How long a client may take for one request, from its first byte to its last."""
    send_s = 180.0
    takes_turns = True
    """Others come next after each answer: a client that reads quickly would otherwise have us to itself."""

    def __init__(self, calls: Mapping[str, Handler], streams: Mapping[str, Stream] | None = None) -> None:
        self._calls = calls
        self._streams = streams or {}

    def read(self, data: bytes) -> tuple[str, list[Any]]:
        """Give method and arguments; raises `GanetiError`, or `MalformedRequest`, with which the connection ends."""
        raise NotImplementedError

    def unknown(self, method: str) -> Exception:
        """What is raised for a call that is not served."""
        raise NotImplementedError

    def unreadable(self, error: TransportError) -> Any:
        """What is told to a client whose request is too long or too slow, before its connection ends."""
        raise NotImplementedError

    async def serve(self, connection: Connection) -> None:
        while True:
            try:
                data = await connection.receive_bytes(self.message_s)
                if data is None:
                    return
                answer = await self._answer(connection, data)
            except (MessageTooLong, MessageTooSlow) as err:
                await self._send(connection, {"success": False, "result": self.unreadable(err)})
                return
            except MalformedRequest as err:
                await self._send(connection, {"success": False, "result": str(err)})
                return
            if answer is None:
                return
            await self._send(connection, answer)

    async def _answer(self, connection: Connection, data: bytes) -> dict[str, Any] | None:
        """Carry out one request; None where it was a stream, which is over."""
        method = ""
        try:
            method, arguments = self.read(data)
            if (stream := self._streams.get(method)) is not None:
                await _stream(stream, connection, arguments)
                return None
            if (call := self._calls.get(method)) is None:
                raise self.unknown(method)
            return {"success": True, "result": await call(arguments)}
        except (MalformedRequest, _ConnectionLost):
            raise
        except Exception as err:
            return _failure(method, err)

    async def _send(self, connection: Connection, answer: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(self.send_s):
                for part in _framed(answer):
                    await connection.send_bytes(part)
                    if self.takes_turns:
                        await asyncio.sleep(0)
        except TimeoutError as err:
            raise TransportError("The client does not take its answer") from err


class RequestServer(CallServer):
    """Requests look as on LUXI's socket (protocols, section 2); one that cannot be understood ends its connection."""

    def read(self, data: bytes) -> tuple[str, list[Any]]:
        try:
            return read_request(decode(data))
        except TransportError as err:
            raise MalformedRequest(self.unreadable(err)) from err

    def unknown(self, method: str) -> Exception:
        return GanetiError(f"There is no call '{method}': there are {', '.join(sorted(self._calls))}")

    def unreadable(self, error: TransportError) -> str:
        return f"Failed to parse request: {error}"


class _ConnectionLost(TransportError):
    """A stream met its end."""


async def _stream(stream: Stream, connection: Connection, arguments: list[Any]) -> None:
    try:
        await stream(connection, arguments)
    except TransportError as err:
        raise _ConnectionLost(str(err)) from err


def _failure(method: str, error: Exception) -> dict[str, Any]:
    if isinstance(error, OSError) and not isinstance(error, TimeoutError):
        where = f" ({error.filename})" if error.filename else ""
        error = GanetiError(f"The call {method} could not be carried out: {error.strerror or error}{where}")
        _log.error("%s", error)
    if not isinstance(error, GanetiError):
        _log.error("the call %s failed with %s", method, INTERNAL_ERROR, exc_info=error)
        error = GanetiError(f"The call {method} failed with {INTERNAL_ERROR}: {type(error).__name__}: {error}")
    return {"success": False, "result": error.to_wire()}


def _framed(answer: dict[str, Any]) -> list[bytes]:
    result = answer["result"]
    if isinstance(result, Pieces):
        return result.within(b'{"success":true,"result":', b"}" + END).parts
    try:
        return [encode(answer)]
    except (TypeError, ValueError) as err:
        _log.error("an answer cannot be written as JSON: %s", err)
        return [encode({"success": False, "result": GanetiError(f"The answer cannot be written: {err}").to_wire()})]
