# SPDX-License-Identifier: BSD-2-Clause
"""The HTTPS client of node calls: requests to machines by their names, over kept-alive connections.

Everything about HTTP and TLS is here, so that `node_client` is about calls; the simulator has another one in its place.
"""

import asyncio
import errno
import os
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

from ganeti.base.errors import NodeTimeoutError
from ganeti.system.http_answers import TooLong
from ganeti.system.http_connections import BrokeError, ConnectError, Place, Pool, Request

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

    def __init__(self, tls: Callable[[], Iterator[ssl.SSLContext]] | None, address_of: AddressOf) -> None:
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
        place = Place(host, self._address_of(host), port)
        request = Request("POST", path, {**_HEADERS, **(headers or {})}, body)
        try:
            async with asyncio.timeout(max(limit_s, 0.001)):
                status, answer = await session.pool(request).exchange(place, request, connect_s)
            if status == _FORBIDDEN and self._has_other_than(context, host):
                raise BrokenError(f"{host} refuses this node's certificate", has_other=True)
            if len(self._sessions) > 1:
                self._took.add(host)
            return status, answer
        except ConnectError as err:
            broken = _explain_connecting(place, err.cause, connect_s)
            broken.has_other = isinstance(err.cause, ssl.SSLError) and self._has_other_than(context, host)
            raise broken from err
        except BrokeError as err:
            broken = _explain_break(place, err.cause)
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
        place = Place(host, self._address_of(host), port)
        try:
            pool = self._session(self._context_for(host)).pool(request)
            async with asyncio.timeout(limit_s):
                return await pool.exchange(place, request, connect_s)
        except TooLong:
            raise BrokenError(f"{host} sends more than {limit_bytes} bytes") from None
        except ConnectError as err:
            raise _explain_connecting(place, err.cause, connect_s) from err
        except BrokeError as err:
            raise _explain_break(place, err.cause) from err
        except TimeoutError:
            raise BrokenError(f"{host} did not answer within {limit_s:g} seconds") from None

    async def close(self) -> None:
        sessions = list(self._sessions.values())
        self._sessions.clear()
        for session in sessions:
            session.close()
        await asyncio.sleep(0)  # what was aborted is closed in the next round of the loop

    def _contexts(self) -> Iterator[ssl.SSLContext | None]:
        return self._tls() if self._tls is not None else iter((None,))

    def _context_for(self, host: str) -> ssl.SSLContext | None:
        refused = self._refused.get(host, ())
        context = next((context for context in self._contexts() if context not in refused), None)
        return context if context is not None else next(self._contexts())

    def _has_other_than(self, refused: ssl.SSLContext | None, host: str) -> bool:
        """Note a refusal; whether there is a certificate that *host* has not refused since it last took one."""
        contexts = list(self._contexts())
        known = self._refused.setdefault(host, [])
        known.append(refused)
        if all(context in known for context in contexts):
            known[:] = [refused] if host in self._took else []
            self._took.discard(host)
        return bool(known) and any(context not in known for context in contexts)

    def _session(self, context: ssl.SSLContext | None) -> "_Session":
        if context not in self._sessions:
            self._sessions[context] = _Session(context)
        return self._sessions[context]

    def _close_superseded(self) -> None:
        """Sessions of certificates that have been renewed, once their requests are answered."""
        if len(self._sessions) > 1:
            contexts = list(self._contexts())
            for context in [context for context in self._sessions if context not in contexts]:
                if not self._sessions[context].requests:
                    self._sessions.pop(context).close()


class _Session:
    """What shows one certificate: connections for short requests, and others for all else.

    NodeD hands a connection with its first request that is not short to its general server, which has it from then on.
    """

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._short = Pool(context, most=_CONNECTIONS, kept_s=_KEPT_ALIVE_S)
        self._others = Pool(context, most=_CONNECTIONS, kept_s=_KEPT_ALIVE_S)
        self.requests = 0
        """Those that are not answered yet."""

    def pool(self, request: Request) -> Pool:
        return self._short if request.is_short else self._others

    def close(self) -> None:
        self._short.close()
        self._others.close()


def _explain_connecting(place: Place, err: OSError | None, within_s: float) -> BrokenError:
    """*err* is None where there was no time left."""
    if err is None:
        return BrokenError(f"no connection to {place.address} within {within_s:g} seconds")
    if isinstance(err, ssl.SSLCertVerificationError):
        return BrokenError(f"{_where(place)} shows a certificate that is not this node's: {err}")
    if isinstance(err, ssl.SSLError):
        return BrokenError(f"{_where(place)} refuses the TLS connection: {err}")
    return _explain_break(place, err)


def _explain_break(place: Place, err: OSError | None) -> BrokenError:
    """*err* is None where the other side has just ended it."""
    if err is None:
        return BrokenError(f"{_where(place)}: the connection broke", may_restart=True, stale=True)
    reason = os.strerror(err.errno) if err.errno else str(err)
    may_restart = err.errno in (errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE)
    daemon = ", is its node daemon running?" if err.errno == errno.ECONNREFUSED else ""
    stale = err.errno in (errno.ECONNRESET, errno.EPIPE)
    return BrokenError(f"{_where(place)}: {reason}{daemon}", may_restart=may_restart, stale=stale)


def _where(place: Place) -> str:
    return f"{place.address} port {place.port}"
