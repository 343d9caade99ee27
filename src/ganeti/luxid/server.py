# SPDX-License-Identifier: BSD-2-Clause
"""LUXI sockets: a request that cannot be understood is answered by a plain sentence, and its connection ends.

Protocols, section 2.
"""

from collections.abc import Mapping

from ganeti.calls.serving import Handler, RequestServer, Stream
from ganeti.system.accounts import ADMINISTRATORS
from ganeti.system.unix_socket import UnixServer, serve
from ganeti.wire.luxi import MAX_MESSAGE_BYTES, MalformedRequest


class LuxiServer(RequestServer):
    """Listens on one or more sockets."""

    def __init__(self, calls: Mapping[str, Handler], streams: Mapping[str, Stream] | None = None) -> None:
        super().__init__(calls, streams)
        self._servers: list[UnixServer] = []

    async def listen(self, path: str) -> None:
        self._servers.append(await serve(path, self.serve, limit_bytes=MAX_MESSAGE_BYTES, group=ADMINISTRATORS))

    async def close(self) -> None:
        for server in self._servers:
            await server.close()

    def unknown(self, method: str) -> Exception:
        return MalformedRequest(f"Failed to parse request: there is no call '{method}'")
