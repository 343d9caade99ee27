# SPDX-License-Identifier: BSD-2-Clause
"""The remote API on a node that is not the master: requests go to the master's, and its answers come back.

The master hears from the node who has asked. It believes what is signed with what the remote API alone can read on all
nodes: other programs of a node, and guests behind it, have its address, too.
"""

import hashlib
import hmac
import logging
import os
import time
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

import msgspec
from multidict import CIMultiDict

from ganeti.base.clocks import CLOCK_SKEW_S
from ganeti.base.errors import TransportError
from ganeti.base.paths import Paths
from ganeti.rapi.answers import RequestRefused, refused
from ganeti.rapi.api_request import refuse_other_sites
from ganeti.system.files import plain_file
from ganeti.system.http_relay import HttpRelay
from ganeti.system.http_server import Door, HttpReply, HttpRequest
from ganeti.system.ssconf import ssconf

_PASSED: Final = "X-Ganeti-Forwarded-By"
_CLIENT: Final = "X-Ganeti-Forwarded-For"
"""The address of the client: believed from nodes alone, with their signature."""
_SIGNED: Final = "X-Ganeti-Forwarded-Signature"
_log = logging.getLogger(__name__)
Answer = Callable[[HttpRequest], Awaitable[HttpReply]]


class Forwarder:
    """Answers requests on the master, and passes them on elsewhere; looks each time which of the two this is.

    A request is passed on once only: of two nodes that name each other as master, the second refuses.
    """

    def __init__(
        self,
        answer: Answer,
        paths: Paths,
        hostname: str,
        relay: HttpRelay,
        port: int,
        door: Door,
        secret_file: Callable[[], str],
    ) -> None:
        self._answer = answer
        self._secret_file = secret_file
        self._paths = paths
        self._hostname = hostname
        self._relay = relay
        self._port = port
        self._door = door
        self._seen: tuple[int, int] | None = None
        self._elsewhere = False

    def door(self, request: HttpRequest) -> HttpReply | None:
        """Look at a request before its body is read: only the master knows all who may ask."""
        return self._door(self._with_client(request)) if self._is_here() else None

    async def answer(self, request: HttpRequest) -> HttpReply:
        if self._is_here():
            return await self._answer(self._with_client(request))
        if _PASSED in request.headers:
            return refused(RequestRefused(502, "This node is not the master: a failover may be under way"))
        try:
            refuse_other_sites(request)
            address = ssconf(self._paths, "master_ip")
            added = {_PASSED: self._hostname, _CLIENT: request.peer, _SIGNED: self._signature(request, request.peer)}
            master = ssconf(self._paths, "master_node")
            return await self._relay.send(
                *(request, address, self._port, added), lambda: ssconf(self._paths, "master_node") == master
            )
        except RequestRefused as refusal:
            return refused(refusal)
        except TransportError as err:
            return refused(RequestRefused(502, str(err)))

    def _with_client(self, request: HttpRequest) -> HttpRequest:
        """Give a request that a node passed on the address of its sender; what others say of theirs is left out."""
        headers = request.headers
        if not any(name in headers for name in (_CLIENT, _PASSED)):
            return request
        client = headers.get(_CLIENT, "")
        if _address(client) is not None and self._is_node(request.peer) and self._is_signed(request, client):
            return msgspec.structs.replace(request, peer=client)
        said = {name.lower() for name in (_CLIENT, _PASSED, _SIGNED)}
        kept = CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in said)
        return msgspec.structs.replace(request, headers=kept)

    def _is_signed(self, request: HttpRequest, client: str) -> bool:
        given = request.headers.get(_SIGNED, "")
        seconds, _, _ = given.partition(":")
        if not seconds.isdecimal() or len(seconds) > 12 or abs(time.time() - int(seconds)) > CLOCK_SKEW_S:
            return False
        wanted = self._signature(request, client, int(seconds))
        return bool(wanted) and hmac.compare_digest(wanted.encode(), given.encode())

    def _signature(self, request: HttpRequest, client: str, at_s: int | None = None) -> str:
        """Nothing where the secret cannot be read: then the request seems to come from this node."""
        try:
            with open(self._secret_file(), "rb", opener=plain_file) as file:
                secret = file.read()
        except OSError as err:
            _log.warning("the master does not get the name of the caller: %s", err)
            return ""
        seconds = int(time.time()) if at_s is None else at_s
        said = "\n".join((_SIGNED, str(seconds), client, request.method, request.raw_path, request.query))
        return f"{seconds}:{hmac.new(secret, said.encode(), hashlib.sha256).hexdigest()}"

    def _is_node(self, peer: str) -> bool:
        address = _address(peer)
        try:
            lines = ssconf(self._paths, "node_primary_ips").splitlines()
        except OSError:
            return False
        return address is not None and any(_address(line.rpartition(" ")[2]) == address for line in lines)

    def _is_here(self) -> bool:
        return not self._is_elsewhere() or os.path.exists(self._paths.luxi_socket)

    def _is_elsewhere(self) -> bool:
        try:
            state = os.stat(self._paths.ssconf_file("master_node"))
        except OSError:
            return False
        seen = (state.st_ino, state.st_mtime_ns)
        if seen != self._seen:
            master = ssconf(self._paths, "master_node")
            self._seen = seen
            self._elsewhere = bool(master) and master.partition(".")[0] != self._hostname.partition(".")[0]
        return self._elsewhere


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Read an address; one of IPv4 that came over a socket of IPv6 is one of IPv4."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found
