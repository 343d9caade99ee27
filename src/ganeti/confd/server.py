# SPDX-License-Identifier: BSD-2-Clause
"""ConfD's port: one datagram is a question, another the answer; what is not signed gets none (protocols, section 4)."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from ganeti.base.clocks import CLOCK_SKEW_S, clock_fault
from ganeti.base.errors import TransportError
from ganeti.confd.answers import Answer, answer
from ganeti.confd.copy import Copy, NoCopyError
from ganeti.wire.confd import LARGEST_REQUEST_BYTES, Fault, Question, Status, clock_of, read_request, reply

_QUIET_S = 60.0
_log = logging.getLogger(__name__)


class Server(asyncio.DatagramProtocol):
    """Answers as fast as it reads: nothing is kept of a question, but for the first after a moment without any."""

    def __init__(self, copy: Copy, keys: Callable[[], Sequence[bytes]]) -> None:
        self._copy = copy
        self._keys = keys
        self._transport: asyncio.DatagramTransport | None = None
        self._quiet_until_s = 0.0

    async def listen(self, address: str, port: int) -> None:
        """Raises `TransportError`."""
        loop = asyncio.get_running_loop()
        try:
            await loop.create_datagram_endpoint(lambda: self, local_addr=(address, port))
        except OSError as err:
            raise TransportError(f"UDP port {port} of {address} cannot be used: {err.strerror}") from err

    @property
    def port(self) -> int:
        assert self._transport is not None
        number: int = self._transport.get_extra_info("sockname")[1]
        return number

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if len(data) > LARGEST_REQUEST_BYTES or self._transport is None:
            return
        asked = read_request(data, time.time(), self._keys())
        if asked is None:
            self._note_clock(data, addr)
            return
        question, key = asked
        reading = self._copy.asked()
        if reading is None:
            self._send(question, key, addr)
        else:
            reading.add_done_callback(lambda _: self._send(question, key, addr))

    def _send(self, question: Question, key: bytes, addr: Any) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        found = self._answer(question)
        self._transport.sendto(reply(question, found.value, found.serial, key, found.status), addr)

    def _note_clock(self, data: bytes, addr: Any) -> None:
        """Say why somebody of the cluster gets no answer; strangers could send many, so seldom."""
        if time.monotonic() < self._quiet_until_s:
            return
        sent_s = clock_of(data, self._keys())
        if sent_s is not None and (fault := clock_fault(str(addr[0]), sent_s - time.time(), "this node")) is not None:
            self._quiet_until_s = time.monotonic() + _QUIET_S
            _log.warning("a question is not answered: %s", fault)

    def _answer(self, question: Question) -> Answer:
        try:
            return answer(self._copy.picture, question)
        except NoCopyError as err:
            return Answer(str(err), status=Status.ERROR)
        except Exception:
            _log.exception("a question of kind %s could not be answered", question.kind)
            return Answer(Fault.INTERNAL, status=Status.ERROR)


class Keys:
    """The keys that questions may be signed with: a former one as long as a question signed with it may be on its way,
    and the client may not have the new one yet."""

    def __init__(self, content: Callable[[], bytes], clock: Callable[[], float] = time.monotonic) -> None:
        """*content* gives that of `hmac.key` as it is now."""
        self._read = content
        self._clock = clock
        self._content = content()
        self._keys = keys_of(self._content)
        self._former: list[bytes] = []
        self._until_s = 0.0

    def __call__(self) -> Sequence[bytes]:
        content = self._read()
        if content != self._content:
            self._former, self._until_s = self._keys, self._clock() + CLOCK_SKEW_S
            self._content, self._keys = content, keys_of(content)
        if self._former and self._clock() > self._until_s:
            self._former = []
        return [*self._keys, *self._former] if self._former else self._keys


def keys_of(content: bytes) -> list[bytes]:
    """What `hmac.key` may mean: clients differ in whether the end of its line is part of the key."""
    return list(dict.fromkeys((content.strip(), content)))
