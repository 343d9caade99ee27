# SPDX-License-Identifier: BSD-2-Clause
"""Bytes of NBD between a storage daemon and the other node, and when the other node counts as lost.

NBD answers every request. So a connection on which an answer is due, and nothing came back for `SILENCE_S`, is cut: the
storage daemon then sees an error instead of waiting for a node that hangs.

Each connection has a thread: a guest's write waits for each step here, and asyncio's streams and TLS take several times
as long as the system calls.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial

from ganeti.mirrord.replies import NotNbdError, Replies
from ganeti.mirrord.requests import Requests

SILENCE_S = 0.8
"""With the second that QEMU tries to connect again, a guest's write waits 1.8, and less than two on a busy machine."""
_BOTH_END_S = 0.2
_BLOCK_BYTES = 256 * 1024
_RECORD_BYTES = 16 * 1024
"""What TLS sends at once: a longer piece could be begun, and not be ended before something is read."""
_NOT_NOW = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL
_log = logging.getLogger(__name__)

Noting = concurrent.futures.Future[None]


class Watch:
    """Since when something is due from the other node, and nothing has come."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._since_s: float | None = None

    def sent(self, unanswered: int) -> None:
        if unanswered > 0 and self._since_s is None:
            self._since_s = self._now_s()

    def received(self, unanswered: int) -> None:
        self._since_s = self._now_s() if unanswered > 0 else None

    @property
    def is_silent(self) -> bool:
        return self._since_s is not None and self._now_s() - self._since_s > SILENCE_S

    @property
    def left_s(self) -> float | None:
        """Until the silence is too long; None while no answer is waited for."""
        return None if self._since_s is None else max(self._since_s + SILENCE_S - self._now_s(), 0.0)


async def carry(
    near: socket.socket,
    far: socket.socket,
    lost: Callable[[], Awaitable[None]] | None = None,
) -> bool:
    """Carry bytes both ways until one side ends; with *lost*, until the far side is silent: true then.

    *lost* is waited for before the near side can know that the far one has ended, is silent or has answered with an
    error: a guest's write that only its own node has is not acknowledged before that. At the end *far* is closed; the
    caller closes *near*, after it has noted the loss where this raises an error. Where it is cancelled, nothing is
    carried any more when it has ended.
    """
    loop = asyncio.get_running_loop()

    async def note(noted: Callable[[], Awaitable[None]]) -> None:
        await noted()

    def begin_note(noted: Callable[[], Awaitable[None]]) -> Noting:
        return asyncio.run_coroutine_threadsafe(note(noted), loop)

    with far, contextlib.closing(_Carrier(near, far, None if lost is None else partial(begin_note, lost))) as carrier:
        return await _in_thread(carrier)


async def _in_thread(carrier: "_Carrier") -> bool:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[bool] = loop.create_future()

    def work() -> None:
        try:
            silent = carrier.run()
        except BaseException as err:
            tell(ended.set_exception, err)
        else:
            tell(ended.set_result, silent)

    def tell(how: Callable[..., None], what: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(how, what)

    threading.Thread(target=work, name="relay", daemon=True).start()
    try:
        return await asyncio.shield(ended)
    finally:
        carrier.stop()
        while not ended.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([ended])
        if err := ended.exception():
            _log.error("a connection to another node is ended: %r", err, exc_info=err)


class _NearEnded(Exception):
    """The storage daemon has ended the connection, or is gone."""


class _FarEnded(Exception):
    """The other node has ended the connection, or it broke."""


class _Stopped(Exception):
    """Somebody wants the connection to end."""


class _Carrier:
    """One connection's two ways, in a thread of its own. A side is read only when all that came from it has gone on."""

    def __init__(self, near: socket.socket, far: socket.socket, lost: Callable[[], Noting] | None) -> None:
        self._near, self._far, self._lost = near, far, lost
        self._to_far = self._to_near = memoryview(b"")
        self._near_block = memoryview(bytearray(_BLOCK_BYTES))
        self._far_block = memoryview(bytearray(_BLOCK_BYTES if not isinstance(far, ssl.SSLSocket) else _RECORD_BYTES))
        self._watch = Watch(time.monotonic)
        self._requests, self._replies = Requests(), Replies()
        self._noting: Noting | None = None
        self._is_stopped = False
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def stop(self) -> None:
        """From another thread: end soon."""
        self._is_stopped = True
        os.eventfd_write(self._wake, 1)
        noting = self._noting
        if noting is not None:
            noting.cancel()

    def close(self) -> None:
        """After the end of the thread."""
        os.close(self._wake)

    def run(self) -> bool:
        """True where the far side was silent."""
        try:
            for each in (self._near, self._far):
                each.setblocking(False)
                without_delay(each)
            self._carry()
            self._note_loss()
            return True
        except (_NearEnded, _Stopped, concurrent.futures.CancelledError):
            return False
        except _FarEnded:
            if self._lost is not None and not self._near_ends_too():
                with contextlib.suppress(concurrent.futures.CancelledError):
                    self._note_loss()
            return False

    def _carry(self) -> None:
        """Until the far side is silent; raises `_NearEnded`, `_FarEnded`, `_Stopped`."""
        near, far = self._near.fileno(), self._far.fileno()
        events = select.poll()
        events.register(self._wake, select.POLLIN)
        asked: tuple[int, int] | None = None
        self._watch.sent(self._unanswered)
        if isinstance(self._far, ssl.SSLSocket) and self._far.pending():  # read already, so no event tells of it
            self._move_far(select.POLLIN, select.POLLIN)
        while True:
            wanted = self._wanted()
            if wanted != asked:
                asked = wanted
                events.register(near, wanted[0])
                events.register(far, wanted[1])
            for number, event in events.poll(self._patience_ms()):
                if number == far:
                    self._move_far(event, wanted[1])
                elif number == near:
                    self._move_near(event, wanted[0])
                else:
                    raise _Stopped
            if self._lost is not None and not self._to_near and self._watch.is_silent:
                return

    @property
    def _unanswered(self) -> int:
        """The server speaks first: its greeting is due without a request."""
        return 1 + self._requests.count - self._replies.count

    def _wanted(self) -> tuple[int, int]:
        """Events of the near and the far side."""
        near, far = (0 if self._to_far else select.POLLIN), (0 if self._to_near else select.POLLIN)
        return near | (select.POLLOUT if self._to_near else 0), far | (select.POLLOUT if self._to_far else 0)

    def _patience_ms(self) -> float | None:
        left_s = self._watch.left_s if self._lost is not None and not self._to_near else None
        return None if left_s is None else 1000 * left_s + 1

    def _move_near(self, event: int, wanted: int) -> None:
        if event & (select.POLLIN | _GONE) and not self._to_far:
            try:
                count = self._near.recv_into(self._near_block)
            except _NOT_NOW:
                return
            except OSError as err:
                raise _NearEnded from err
            if not count:
                raise _NearEnded
            self._to_far = self._near_block[:count]
            if self._lost is not None:
                self._ask(self._to_far)
            self._send_far()
        elif event & _GONE and not wanted & select.POLLIN:
            raise _NearEnded
        if self._to_near:
            self._send_near()
            if not self._to_near:  # the next answer may have come meanwhile: it is read from now on
                self._watch.received(self._unanswered)

    def _move_far(self, event: int, wanted: int) -> None:
        if event & (select.POLLIN | _GONE) and not self._to_near:
            try:
                count = self._far.recv_into(self._far_block)
            except _NOT_NOW:
                count = -1
            except OSError as err:
                raise _FarEnded from err
            if not count:
                raise _FarEnded
            if count > 0:
                self._take(self._far_block[:count])
        elif event & _GONE and not wanted & select.POLLIN:
            raise _FarEnded
        if self._to_far:
            self._send_far()

    def _ask(self, data: memoryview) -> None:
        try:
            self._requests.feed(data)
        except NotNbdError as err:
            _log.warning("a connection to another node is ended: %s", err)
            raise _FarEnded from err
        self._watch.sent(self._unanswered)

    def _take(self, data: memoryview) -> None:
        try:
            if self._lost is not None and self._replies.feed(data):
                self._note_loss()
        except NotNbdError as err:
            _log.warning("a connection to another node is ended: %s", err)
            raise _FarEnded from err
        self._watch.received(self._unanswered)
        self._to_near = data
        self._send_near()

    def _send_near(self) -> None:
        try:
            while self._to_near:
                self._to_near = self._to_near[self._near.send(self._to_near) :]
        except _NOT_NOW:
            return
        except OSError as err:
            raise _NearEnded from err

    def _send_far(self) -> None:
        try:
            while self._to_far:
                self._to_far = self._to_far[self._far.send(self._to_far[:_RECORD_BYTES]) :]
        except _NOT_NOW:
            return
        except OSError as err:
            raise _FarEnded from err

    def _near_ends_too(self) -> bool:
        """Of a connection that QEMU says good-bye on, both sides end at one moment."""
        end_s = time.monotonic() + _BOTH_END_S
        events = select.poll()
        events.register(self._near.fileno(), select.POLLIN)
        events.register(self._wake, select.POLLIN)
        while (left_s := end_s - time.monotonic()) > 0:
            found = [number for number, _ in events.poll(1000 * left_s)]
            if self._wake in found:
                return True
            if found:
                try:
                    return self._near.recv_into(self._near_block) == 0
                except _NOT_NOW:
                    continue
                except OSError:
                    return True
        return False

    def _note_loss(self) -> None:
        """Raises `CancelledError` where the carrying is stopped meanwhile."""
        if self._lost is None:
            return
        self._noting = self._lost()
        if self._is_stopped:
            self._noting.cancel()
        self._noting.result()
        self._noting = None


def without_delay(sock: socket.socket) -> None:
    """Small messages go at once."""
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
