# SPDX-License-Identifier: BSD-2-Clause
"""The HTTPS client of node calls: requests to machines by their names, over kept-alive connections.

Everything about HTTP and TLS is here, so that `node_client` is about calls; the simulator has another one in its place.
"""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from http import HTTPStatus

from yarl import URL

from ganeti.base.errors import NodeTimeoutError
from ganeti.system.lean_aiohttp import abc, aiohttp
from ganeti.system.short_requests import LONGEST_BYTES, BrokeError, ConnectError, Connections

_KEPT_ALIVE_S = 60.0
_CONNECTIONS = 200
_HEADERS = {"Content-Type": "application/json"}

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
                url = URL.build(scheme="https" if self._tls is not None else "http", host=host, port=port, path=path)
                timeout = aiohttp.ClientTimeout(total=max(limit_s, 0.001), connect=connect_s)
                async with session.http.post(url, data=body, timeout=timeout, headers=headers) as response:
                    status, answer = response.status, await response.read()
            if status == HTTPStatus.FORBIDDEN and self._has_other_than(context, host):
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
        except aiohttp.ConnectionTimeoutError:
            raise BrokenError(f"no connection to {self._address_of(host)} within {connect_s:g} seconds") from None
        except TimeoutError:
            raise NodeTimeoutError(
                f"Node {host} did not answer the call {path.strip('/')} within {limit_s:.0f} seconds"
            ) from None
        except aiohttp.ClientError as err:
            broken = _explain(f"{self._address_of(host)} port {port}", err)
            broken.has_other = _is_refusal(err) and self._has_other_than(context, host)
            raise broken from err
        finally:
            session.requests -= 1
            await self._close_superseded()

    async def get(
        self, host: str, port: int, path: str, *, limit_s: float, connect_s: float, limit_bytes: int
    ) -> tuple[int, bytes]:
        """Give status and body of the answer. Raises `BrokenError`, also for a body that is too long or too late."""
        url = URL.build(scheme="https" if self._tls is not None else "http", host=host, port=port, path=path)
        timeout = aiohttp.ClientTimeout(total=limit_s, connect=connect_s)
        session = self._session(self._context_for(host)).http
        try:
            async with session.get(url, timeout=timeout, allow_redirects=False) as response:
                body = bytearray()
                async for chunk in response.content.iter_any():
                    body += chunk
                    if len(body) > limit_bytes:
                        raise BrokenError(f"{host} sends more than {limit_bytes} bytes")
                return response.status, bytes(body)
        except TimeoutError:
            raise BrokenError(f"{host} did not answer within {limit_s:g} seconds") from None
        except aiohttp.ClientError as err:
            raise BrokenError(f"{self._address_of(host)} port {port}: {err}") from err

    async def close(self) -> None:
        sessions = list(self._sessions.values())
        self._sessions.clear()
        for session in sessions:
            await session.close()
        await asyncio.sleep(0)  # what was aborted is closed in the next round of the loop

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
            self._sessions[context] = _Session(context, self._address_of)
        return self._sessions[context]

    async def _close_superseded(self) -> None:
        """Sessions of certificates that have been renewed, once their requests are answered."""
        if len(self._sessions) > 1:
            contexts = self._contexts()
            for context in [context for context in self._sessions if context not in contexts]:
                if not self._sessions[context].requests:
                    await self._sessions.pop(context).close()


class _Session:
    """What shows one certificate: connections for short requests, and for others a general client."""

    def __init__(self, context: ssl.SSLContext | None, address_of: AddressOf) -> None:
        self.short = Connections(context, _KEPT_ALIVE_S, _CONNECTIONS)
        self.requests = 0
        """Those that are not answered yet."""
        self._context = context
        self._address_of = address_of
        self._http: aiohttp.ClientSession | None = None

    @property
    def http(self) -> aiohttp.ClientSession:
        if self._http is None:
            connector = aiohttp.TCPConnector(
                ssl=self._context if self._context is not None else False,
                resolver=_Resolver(self._address_of),
                use_dns_cache=False,
                keepalive_timeout=_KEPT_ALIVE_S,
                limit=_CONNECTIONS,
            )
            self._http = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), headers=_HEADERS
            )
        return self._http

    async def close(self) -> None:
        self.short.close()
        if self._http is not None:
            await self._http.close()


class _Resolver(abc.AbstractResolver):
    def __init__(self, address_of: AddressOf) -> None:
        self._address_of = address_of

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[abc.ResolveResult]:
        address = self._address_of(host)
        return [
            abc.ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
        ]

    async def close(self) -> None:
        """Nothing is open."""


def _is_refusal(err: aiohttp.ClientError) -> bool:
    """One of the two sides may not take the other's certificate: a server ends the connection after the handshake."""
    if isinstance(err, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return True
    return not isinstance(err, aiohttp.ClientConnectorError)


def _explain(where: str, err: aiohttp.ClientError) -> BrokenError:
    if isinstance(err, aiohttp.ClientConnectorCertificateError):
        return BrokenError(f"{where} shows a certificate that is not this node's: {err.certificate_error}")
    if isinstance(err, aiohttp.ClientConnectorSSLError):
        return BrokenError(f"{where} refuses the TLS connection: {err.os_error}")
    return _explain_break(where, err if isinstance(err, aiohttp.ClientOSError) else None)


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
