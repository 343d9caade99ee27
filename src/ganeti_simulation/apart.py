# SPDX-License-Identifier: BSD-2-Clause
"""Work in real processes of their own, several at a time: what one of them breaks harms no other, nor its order."""

import os
import resource
import selectors
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

CPU_LIMIT_S = 300
"""One schedule takes less than a second; one that turns in circles is ended and named."""
_TOLD_AT_MOST = 1500

Item = TypeVar("Item")
Result = TypeVar("Result")


class WorkFailedError(Exception):
    """A process has ended without a result; the sentence says how."""


@dataclass
class _Child(Generic[Item]):
    item: Item
    pid: int
    read_end: int
    data: bytearray


def each_apart(
    work: Callable[[Item], Result], items: Sequence[Item], kind: type[Result], at_once: int
) -> Iterator[tuple[Item, Result | WorkFailedError]]:
    """Give each item with its result of type *kind*, as they come; *at_once* at a time."""
    waiting = list(reversed(items))
    children: dict[int, _Child[Item]] = {}
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or children:
                while waiting and len(children) < max(1, at_once):
                    child = _begin(work, waiting.pop())
                    children[child.read_end] = child
                    selector.register(child.read_end, selectors.EVENT_READ)
                for key, _ in selector.select():
                    child = children[key.fd]
                    piece = os.read(key.fd, 1 << 16)
                    child.data += piece
                    if not piece:
                        selector.unregister(key.fd)
                        del children[key.fd]
                        yield child.item, _ended(child, kind)
        finally:
            for child in children.values():
                os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)
                os.close(child.read_end)


def _begin(work: Callable[[Item], Result], item: Item) -> _Child[Item]:
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write_end)
        return _Child(item, pid, read_end, bytearray())
    status = 1
    try:
        os.close(read_end)
        limit_computing()
        data = told(lambda: work(item))
        with os.fdopen(write_end, "wb") as stream:
            stream.write(data)
        status = 0
    finally:
        os._exit(status)


def _ended(child: _Child[Item], kind: type[Result]) -> Result | WorkFailedError:
    os.close(child.read_end)
    _, status = os.waitpid(child.pid, 0)
    return result_of(status, bytes(child.data), kind)


def result_of(status: int, data: bytes, kind: type[Result]) -> Result | WorkFailedError:
    """What a process has come to that ended with this *status* and had told *data* (`told`)."""
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        return WorkFailedError(f"the simulation itself did not end within {CPU_LIMIT_S} seconds of computing")
    if status or not data:
        return WorkFailedError(f"the simulation itself ended with {os.waitstatus_to_exitcode(status)}")
    if data[:1] == b"!":
        return WorkFailedError(f"the simulation itself failed: {data[1:].decode(errors='replace')}")
    return msgspec.json.decode(data[1:], type=kind)


def told(work: Callable[[], object]) -> bytes:
    """Do *work*; gives what tells its result, or how it failed."""
    try:
        return b"=" + msgspec.json.encode(work())
    except BaseException as err:
        return b"!" + "".join(traceback.format_exception(err))[-_TOLD_AT_MOST:].encode()


def limit_computing() -> None:
    """Of this process, to what one play may take."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S + 1))
