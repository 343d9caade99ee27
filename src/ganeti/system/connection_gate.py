# SPDX-License-Identifier: BSD-2-Clause
"""Letting clients of a TLS port in, so that those who want nothing, or never finish, cost next to nothing.

A connection is a plain socket until its client says something; then come the handshake and the certificate; only one
whose certificate is trusted may wait here for its next request. Each state has its own bounds in number and time:
strangers of any number take no room from those who are trusted, and these none that somebody uses.
"""

import asyncio
import errno
import logging
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Hashable

from ganeti.system.connection_pool import Pool
from ganeti.system.crowd import Crowd
from ganeti.system.event_loop import Background
from ganeti.system.ip_socket import listen_at

_log = logging.getLogger(__name__)
SILENT_MAX, SILENT_S = 256, 5.0
"""Of those who have said nothing yet: a socket each."""
STRANGERS_MAX, STRANGER_S = 32, 5.0
"""Of those who shake hands, or have no certificate that is trusted: that is time for one request and its refusal."""
WAITING_MAX = 96
"""Trusted connections without a request that is being worked on. A client whose connection is closed connects again."""
_CROWD = 64
CONNECTION_BUFFER_BYTES = 32 * 1024
"""Two records of TLS. The loop would give each connection 256 KiB, and write zeros to all of it."""
_GOODBYE_S = 1.0
_BACKLOG = 1024
_AT_ONCE = 64
_PAUSE_S = 0.5
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)

Trust = Callable[[bytes | None], bool]
"""Tells by its certificate (DER) whether a client may stay."""


class ConnectionGate:
    """Listens from `open` to `close`, and hands the connections to protocols."""

    def __init__(
        self,
        protocol: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
        trusts: Trust,
        waiting_max: int = WAITING_MAX,
        waiting_s: float | None = None,
        buffer_bytes: int = CONNECTION_BUFFER_BYTES,
    ) -> None:
        self._buffer_bytes = buffer_bytes
        self._protocol = protocol
        self._tls = tls
        self._trusts = trusts
        self._background = Background()
        self._listener: socket.socket | None = None
        self._resume: asyncio.TimerHandle | None = None
        self._silent = Pool("connections that have said nothing", SILENT_MAX, SILENT_S)
        self._strangers = Pool("connections without a trusted certificate", STRANGERS_MAX, STRANGER_S)
        self._waiting = Pool("connections that wait", waiting_max, waiting_s)
        self._crowd = Crowd(_CROWD)

    def open(self, address: str, port: int, *, early: bool = False) -> None:
        """Raises `OSError` when the address cannot be had. `::` stands for all addresses, those of IPv4, too.

        With *early* the machine need not have the address yet.
        """
        if self._tls is not None:
            SSLProtocol.max_size = self._buffer_bytes
        self._listener = listen_at(address, port, _BACKLOG, early=early)
        self._listener.setblocking(False)
        self._listen()

    @property
    def port(self) -> int:
        assert self._listener is not None
        return int(self._listener.getsockname()[1])

    async def close(self) -> None:
        """Take no more, and let go strangers; those who are trusted may wait for the end of an answer."""
        self._crowd.forget()
        if self._resume is not None:
            self._resume.cancel()
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
        self._silent.drop_all()
        self._strangers.drop_all()
        await self._background.cancel()

    # What the protocols tell

    def came(self, key: Hashable, transport: asyncio.Transport) -> None:
        """A connection stands; *key* is how it is called from now on."""
        self._crowd.came()
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        trusted = self._tls is None or self._trusts(certificate)
        self._pool(trusted).add(key, _address(transport), lambda: self._drop(transport))

    def stirs(self, key: Hashable) -> None:
        """More of its request has come."""
        self._waiting.stir(key)

    def works(self, key: Hashable) -> None:
        """Its request is whole and let in: it stays until that is done."""
        self._waiting.remove(key)
        self._strangers.remove(key)

    def waits(self, key: Hashable, transport: asyncio.Transport | None) -> None:
        """Its request is done."""
        if transport is not None and not transport.is_closing():
            self._waiting.add(key, _address(transport), lambda: self._drop(transport))

    def went(self, key: Hashable) -> None:
        self._crowd.went()
        self._waiting.remove(key)
        self._strangers.remove(key)

    def _drop(self, transport: asyncio.Transport) -> None:
        transport.abort()
        self._crowd.dropped()

    def _pool(self, trusted: bool) -> Pool:
        return self._waiting if trusted else self._strangers

    # Letting in

    def _listen(self) -> None:
        self._resume = None
        assert self._listener is not None
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        assert self._listener is not None
        for _ in range(_AT_ONCE):  # then those who are in get their turn, however many stand in line
            try:
                client, peer = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as err:
                if err.errno not in _NO_DESCRIPTOR or not self._silent.drop_one():
                    self._pause(err)
                return
            client.setblocking(False)
            self._crowd.came()
            address = str(peer[0])
            self._silent.add(client, address, lambda client=client: self._hang_up(client))  # type: ignore[misc]
            asyncio.get_running_loop().add_reader(client, self._spoke, client, address)

    def _pause(self, err: OSError) -> None:
        _log.warning("no connection can be taken for the moment: %s", err.strerror or err)
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)  # type: ignore[arg-type]
        self._resume = loop.call_later(_PAUSE_S, self._listen)

    def _hang_up(self, client: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(client)
        client.close()
        self._crowd.went()

    def _spoke(self, client: socket.socket, address: str) -> None:
        """The first byte, or the end."""
        asyncio.get_running_loop().remove_reader(client)
        self._silent.remove(client)
        work = self._background.start(self._shake_hands(client), f"handshake with {address}")
        self._strangers.add(work, address, lambda: self._give_up(work))
        work.add_done_callback(lambda _: self._shaken(work, client))

    async def _shake_hands(self, client: socket.socket) -> None:
        try:
            if not client.recv(1, socket.MSG_PEEK):
                client.close()
                return
            loop = asyncio.get_running_loop()
            if self._tls is None:
                await loop.connect_accepted_socket(self._protocol, client)
            else:
                await loop.connect_accepted_socket(
                    self._protocol,
                    client,
                    ssl=self._tls,
                    ssl_handshake_timeout=STRANGER_S,
                    ssl_shutdown_timeout=_GOODBYE_S,
                )
        except OSError as err:  # of TLS, too
            _log.debug("no connection came about: %s", err)
            client.close()

    def _give_up(self, work: "asyncio.Task[None]") -> None:
        work.cancel()
        self._crowd.dropped()

    def _shaken(self, work: "asyncio.Task[None]", client: socket.socket) -> None:
        self._strangers.remove(work)
        self._crowd.went()
        if work.cancelled():
            client.close()


def _address(transport: asyncio.Transport) -> str:
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if peer else ""
