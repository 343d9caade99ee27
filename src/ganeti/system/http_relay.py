# SPDX-License-Identifier: BSD-2-Clause
"""Passing HTTP requests on to another machine that shows the certificate we show ourselves."""

import hashlib
import ssl
from collections.abc import AsyncIterator, Mapping

import aiohttp
from yarl import URL

from ganeti.base.errors import TransportError
from ganeti.system.http_server import HttpReply, HttpRequest

_CONNECT_S = 5.0
_ANSWER_S = 600.0
_PASSED_ON = ("Authorization", "Content-Type", "Accept", "Last-Event-ID", "Idempotency-Key")
_PASSED_BACK = ("WWW-Authenticate", "Retry-After", "Location")


class HttpRelay:
    """One session; opened with the first request."""

    def __init__(self, certificate_pem: str | None, authority_pem: str | None = None) -> None:
        """None for plain HTTP; otherwise the other side must show this certificate, or one of the authority.

        Names in certificates do not count: the cluster's address moves from node to node.
        """
        self._certificate_pem = certificate_pem
        self._authority_pem = authority_pem
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: HttpRequest, address: str, port: int, headers: Mapping[str, str]) -> HttpReply:
        """Give the other side's reply, whose body comes as it is sent; raises `TransportError`."""
        passed = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        scheme = "http" if self._certificate_pem is None else "https"
        host = f"[{address}]" if ":" in address else address
        query = f"?{request.query}" if request.query else ""
        url = URL(f"{scheme}://{host}:{port}{request.path}{query}", encoded=True)
        try:
            response = await self._open().request(
                request.method, url, data=request.body or None, headers={**passed, **headers}, allow_redirects=False
            )
        except (aiohttp.ClientError, TimeoutError) as err:
            raise TransportError(f"The remote API of the master at {address} does not answer: {err}") from err
        back = {name: response.headers[name] for name in _PASSED_BACK if name in response.headers}
        return HttpReply(response.status, b"", response.content_type, back, _body(response))

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_ANSWER_S)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._trusted(), limit=0), timeout=timeout, auto_decompress=False
            )
        return self._session

    def _trusted(self) -> aiohttp.Fingerprint | ssl.SSLContext | bool:
        if self._certificate_pem is None:
            return False
        if self._authority_pem is not None:
            context = ssl.create_default_context(cafile=self._authority_pem)
            context.check_hostname = False
            return context
        with open(self._certificate_pem, encoding="ascii", errors="replace") as file:
            return aiohttp.Fingerprint(hashlib.sha256(first_certificate(file.read())).digest())


def first_certificate(text: str) -> bytes:
    """Give the first certificate of a PEM file in DER; raises `TransportError` where there is none."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    _, found, rest = text.partition(begin)
    body, ended, _ = rest.partition(end)
    if not found or not ended:
        raise TransportError("The certificate of the remote API cannot be read")
    return ssl.PEM_cert_to_DER_cert(f"{begin}{body}{end}\n")


async def _body(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except aiohttp.ClientError as err:
        raise ConnectionResetError(str(err)) from err
    finally:
        response.close()
