# SPDX-License-Identifier: BSD-2-Clause
"""The HTTPS client of node calls: requests to machines by their names, over kept-alive connections.

Everything about HTTP and TLS is here, so that `node_client` is about calls; the simulator has another one in its place.
"""

import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from ganeti.base.errors import NodeTimeoutError

_KEPT_ALIVE_S = 60.0
_CONNECTIONS = 200

AddressOf = Callable[[str], str]
"""Gives the address of a machine's name: the name itself is for the certificate."""


class BrokenError(Exception):
    """A connection that did not come about, or broke. *may_restart*: as it looks while a daemon restarts; *stale*: it
    may be one that was kept from before the daemon's last start."""

    def __init__(self, reason: str, *, may_restart: bool = False, stale: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.may_restart = may_restart
        self.stale = stale


class HttpClient:
    """One session; opened with the first request."""

    def __init__(self, tls: Callable[[], ssl.SSLContext] | None, address_of: AddressOf) -> None:
        """*tls* gives the context when it is needed; None for plain HTTP."""
        self._tls = tls
        self._address_of = address_of
        self._session: aiohttp.ClientSession | None = None

    async def post(
        self,
        host: str,
        port: int,
        path: str,
        body: bytes | AsyncIterator[bytes],
        *,
        limit_s: float,
        connect_s: float,
    ) -> tuple[int, bytes]:
        """Give status and body of the answer. Raises `BrokenError`, or `NodeTimeoutError` after *limit_s*."""
        url = URL.build(scheme="https" if self._tls is not None else "http", host=host, port=port, path=path)
        timeout = aiohttp.ClientTimeout(total=max(limit_s, 0.001), connect=connect_s)
        try:
            async with self._open().post(url, data=body, timeout=timeout) as response:
                return response.status, await response.read()
        except aiohttp.ConnectionTimeoutError:
            raise BrokenError(f"no connection to {self._address_of(host)} within {connect_s:g} seconds") from None
        except TimeoutError:
            raise NodeTimeoutError(
                f"Node {host} did not answer the call {path.strip('/')} within {limit_s:.0f} seconds"
            ) from None
        except aiohttp.ClientError as err:
            raise _explain(f"{self._address_of(host)} port {port}", err) from err

    async def get(
        self, host: str, port: int, path: str, *, limit_s: float, connect_s: float, limit_bytes: int
    ) -> tuple[int, bytes]:
        """Give status and body of the answer. Raises `BrokenError`, also for a body that is too long or too late."""
        url = URL.build(scheme="https" if self._tls is not None else "http", host=host, port=port, path=path)
        timeout = aiohttp.ClientTimeout(total=limit_s, connect=connect_s)
        try:
            async with self._open().get(url, timeout=timeout, allow_redirects=False) as response:
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
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                ssl=self._tls() if self._tls is not None else False,
                resolver=_Resolver(self._address_of),
                use_dns_cache=False,
                keepalive_timeout=_KEPT_ALIVE_S,
                limit=_CONNECTIONS,
            )
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), headers={"Content-Type": "application/json"}
            )
        return self._session


class _Resolver(AbstractResolver):
    def __init__(self, address_of: AddressOf) -> None:
        self._address_of = address_of

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        address = self._address_of(host)
        return [
            ResolveResult(
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


def _explain(where: str, err: aiohttp.ClientError) -> BrokenError:
    if isinstance(err, aiohttp.ClientConnectorCertificateError):
        return BrokenError(f"{where} shows a certificate that is not this node's: {err.certificate_error}")
    if isinstance(err, aiohttp.ClientConnectorSSLError):
        return BrokenError(f"{where} refuses the TLS connection: {err.os_error}")
    if isinstance(err, aiohttp.ClientOSError):
        reason = os.strerror(err.errno) if err.errno else str(err)
        may_restart = err.errno in (errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE)
        daemon = ", is its node daemon running?" if err.errno == errno.ECONNREFUSED else ""
        stale = err.errno in (errno.ECONNRESET, errno.EPIPE)
        return BrokenError(f"{where}: {reason}{daemon}", may_restart=may_restart, stale=stale)
    return BrokenError(f"{where}: the connection broke", may_restart=True, stale=True)
