# SPDX-License-Identifier: BSD-2-Clause
"""The HTTPS client of node calls: requests to machines by their names, over kept-alive connections.

Everything about HTTP and TLS is here, so that `node_client` is about calls; the simulator has another one in its place.
"""

import asyncio
import errno
import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from ganeti.base.errors import NodeTimeoutError
from ganeti.system.http_connections import NotHttp, Place, Pool, Request, TooLong
from ganeti.system.short_requests import LONGEST_BYTES, BrokeError, ConnectError, Connections

_KEPT_ALIVE_S = 60.0
_CONNECTIONS = 200
_HEADERS = {"Content-Type": "application/json"}
_FORBIDDEN = 403

AddressOf = Callable[[str], str]
"""Gives the address of a machine's name: the name itself is for the certificate."""


class BrokenError(Exception):
    """A connection that did not come about, or broke. *may_restart*: as it looks while a daemon restarts; *stale*: it
    may be one that was kept from before the daemon's last start; *has_other*: this node has another certificate, which
    the next request shows."""

    def __init__(self, reason: str, *, may_restart: bool = False, stale: bool = False, has_other: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.may_restart = may_restart
        self.stale = stale
        self.has_other = has_other


class HttpClient:
    """One session for each certificate that is shown; opened with the first request."""

    def __init__(self, tls: Callable[[], Sequence[ssl.SSLContext]] | None, address_of: AddressOf) -> None:
        """*tls* gives the contexts as they are now, what refuses one is shown the next; None for plain HTTP."""
        self._tls = tls
        self._address_of = address_of
        self._sessions: dict[ssl.SSLContext | None, _Session] = {}
        self._refused: dict[str, list[ssl.SSLContext | None]] = {}
        """What a host has refused."""
        self._took: set[str] = set()
        """Hosts that have taken one since all were tried."""

    async def post(
        self,
        host: str,
        port: int,
        path: str,
        body: bytes | AsyncIterator[bytes],
        *,
        limit_s: float,
        connect_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Give status and body of the answer. Raises `BrokenError`, or `NodeTimeoutError` after *limit_s*."""
        context = self._context_for(host)
        session = self._session(context)
        session.requests += 1
        try:
            if isinstance(body, bytes) and len(body) <= LONGEST_BYTES:
                status, answer = await session.short.post(
                    *(host, self._address_of, port, path, body),
                    limit_s=limit_s,
                    connect_s=connect_s,
                    headers={**_HEADERS, **(headers or {})},
                )
            else:
                request = Request("POST", path, {**_HEADERS, **(headers or {})}, body)
                async with asyncio.timeout(max(limit_s, 0.001)):
                    status, answer = await _exchange(session.long, self._place(host, port), request, connect_s)
            if status == _FORBIDDEN and self._has_other_than(context, host):
                raise BrokenError(f"{host} refuses this node's certificate", has_other=True)
            if len(self._sessions) > 1:
                self._took.add(host)
            return status, answer
        except ConnectError as err:
            if err.cause is None:
                raise BrokenError(f"no connection to {self._address_of(host)} within {connect_s:g} seconds") from None
            broken = _explain_connecting(f"{self._address_of(host)} port {port}", err.cause)
            broken.has_other = isinstance(err.cause, ssl.SSLError) and self._has_other_than(context, host)
            raise broken from err
        except BrokeError as err:
            broken = _explain_break(f"{self._address_of(host)} port {port}", err.cause)
            broken.has_other = self._has_other_than(context, host)
            raise broken from err
        except TimeoutError:
            raise NodeTimeoutError(
                f"Node {host} did not answer the call {path.strip('/')} within {limit_s:.0f} seconds"
            ) from None
        finally:
            session.requests -= 1
            self._close_superseded()

    async def get(
        self, host: str, port: int, path: str, *, limit_s: float, connect_s: float, limit_bytes: int
    ) -> tuple[int, bytes]:
        """Give status and body of the answer. Raises `BrokenError`, also for a body that is too long or too late."""
        request = Request("GET", path, {}, limit_bytes=limit_bytes)
        place = self._place(host, port)
        session = self._session(self._context_for(host))
        try:
            async with asyncio.timeout(limit_s):
                return await _exchange(session.long, place, request, connect_s)
        except TooLong:
            raise BrokenError(f"{host} sends more than {limit_bytes} bytes") from None
        except ConnectError as err:
            if err.cause is None:
                raise BrokenError(f"no connection to {place.address} within {connect_s:g} seconds") from None
            raise _explain_connecting(f"{place.address} port {port}", err.cause) from err
        except BrokeError as err:
            raise _explain_break(f"{place.address} port {port}", err.cause) from err
        except TimeoutError:
            raise BrokenError(f"{host} did not answer within {limit_s:g} seconds") from None

    async def close(self) -> None:
        sessions = list(self._sessions.values())
        self._sessions.clear()
        for session in sessions:
            session.close()
        await asyncio.sleep(0)  # what was aborted is closed in the next round of the loop

    def _place(self, host: str, port: int) -> Place:
        return Place(host, self._address_of(host), port)

    def _contexts(self) -> Sequence[ssl.SSLContext | None]:
        return self._tls() if self._tls is not None else (None,)

    def _context_for(self, host: str) -> ssl.SSLContext | None:
        contexts, refused = self._contexts(), self._refused.get(host, [])
        return next((context for context in contexts if context not in refused), contexts[0])

    def _has_other_than(self, refused: ssl.SSLContext | None, host: str) -> bool:
        """Note a refusal; whether there is a certificate that *host* has not refused since it last took one."""
        known = self._refused.setdefault(host, [])
        known.append(refused)
        if all(context in known for context in self._contexts()):
            known[:] = [refused] if host in self._took else []
            self._took.discard(host)
        return bool(known) and any(context not in known for context in self._contexts())

    def _session(self, context: ssl.SSLContext | None) -> "_Session":
        if context not in self._sessions:
            self._sessions[context] = _Session(context)
        return self._sessions[context]

    def _close_superseded(self) -> None:
        """Sessions of certificates that have been renewed, once their requests are answered."""
        if len(self._sessions) > 1:
            contexts = self._contexts()
            for context in [context for context in self._sessions if context not in contexts]:
                if not self._sessions[context].requests:
                    self._sessions.pop(context).close()


class _Session:
    """What shows one certificate: connections for short requests, and others for what is long or read in pieces."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.short = Connections(context, _KEPT_ALIVE_S, _CONNECTIONS)
        self.long = Pool(context, most=_CONNECTIONS, kept_s=_KEPT_ALIVE_S)
        self.requests = 0
        """Those that are not answered yet."""

    def close(self) -> None:
        self.short.close()
        self.long.close()


async def _exchange(pool: Pool, place: Place, request: Request, connect_s: float) -> tuple[int, bytes]:
    """Raises `ConnectError`, `BrokeError`, `TooLong`."""
    try:
        async with asyncio.timeout(connect_s) as patience:
            connection = await pool.take(place)
    except OSError as err:  # a `TimeoutError` is one, also where the kernel has given up
        raise ConnectError(None if patience.expired() else err) from err
    is_over = False
    try:
        answer = await connection.exchange(request)
        is_over = True
        return answer
    except (OSError, EOFError, NotHttp) as err:
        known = isinstance(err, OSError) and not isinstance(err, ssl.SSLError)
        raise BrokeError(err if known else None) from err  # type: ignore[arg-type]
    finally:
        if not is_over:
            connection.abort()
        pool.give_back(connection)


def _explain_connecting(where: str, err: OSError) -> BrokenError:
    if isinstance(err, ssl.SSLCertVerificationError):
        return BrokenError(f"{where} shows a certificate that is not this node's: {err}")
    if isinstance(err, ssl.SSLError):
        return BrokenError(f"{where} refuses the TLS connection: {err}")
    return _explain_break(where, err)


def _explain_break(where: str, err: OSError | None) -> BrokenError:
    """*err* is None where the other side has just ended it."""
    if err is None:
        return BrokenError(f"{where}: the connection broke", may_restart=True, stale=True)
    reason = os.strerror(err.errno) if err.errno else str(err)
    may_restart = err.errno in (errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE)
    daemon = ", is its node daemon running?" if err.errno == errno.ECONNREFUSED else ""
    stale = err.errno in (errno.ECONNRESET, errno.EPIPE)
    return BrokenError(f"{where}: {reason}{daemon}", may_restart=may_restart, stale=stale)
