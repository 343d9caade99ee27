# SPDX-License-Identifier: BSD-2-Clause
"""LUXI sockets: a request that cannot be understood is answered by a plain sentence, and its connection ends.

Protocols, section 2.
"""

from collections.abc import Mapping
from typing import Any

from ganeti.base.errors import TransportError
from ganeti.calls.serving import CallServer, Handler, Stream
from ganeti.system.accounts import ADMINISTRATORS, give_group
from ganeti.system.unix_socket import UnixServer, serve
from ganeti.wire.framing import decode
from ganeti.wire.luxi import MAX_MESSAGE_BYTES, MalformedRequest, read_request


class LuxiServer(CallServer):
    """Listens on one or more sockets."""

    def __init__(self, calls: Mapping[str, Handler], streams: Mapping[str, Stream] | None = None) -> None:
        super().__init__(calls, streams)
        self._servers: list[UnixServer] = []

    async def listen(self, path: str) -> None:
        self._servers.append(await serve(path, self.serve, limit_bytes=MAX_MESSAGE_BYTES))
        give_group(path, ADMINISTRATORS)

    async def close(self) -> None:
        for server in self._servers:
            await server.close()

    def read(self, data: bytes) -> tuple[str, list[Any]]:
        try:
            message = decode(data)
        except TransportError as err:
            raise MalformedRequest(self.unreadable(err)) from err
        return read_request(message)

    def unknown(self, method: str) -> Exception:
        return MalformedRequest(f"Failed to parse request: there is no call '{method}'")

    def unreadable(self, error: TransportError) -> str:
        return f"Failed to parse request: {error}"
