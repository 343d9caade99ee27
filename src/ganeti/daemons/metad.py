# SPDX-License-Identifier: BSD-2-Clause
"""ganeti-metad: answers guests about themselves. It starts with the first guest that has a NIC for communication."""

import asyncio
import os
import sys
from collections.abc import Sequence

from ganeti.daemons.node_daemon import options_of
from ganeti.metad.answers import answer
from ganeti.metad.downloads import Downloads
from ganeti.metad.guests import Control, Guests
from ganeti.model.communication import METADATA_ADDRESS, METADATA_PORT
from ganeti.node.metadata import DAEMON, kept_file, socket_path
from ganeti.system.accounts import SOCKET_DIR_MODE
from ganeti.system.daemonize import Daemon, run_daemon
from ganeti.system.http_server import HttpReply, HttpRequest, HttpServer
from ganeti.system.unix_socket import serve as serve_socket

_IDLE_S = 60.0
_BODY_BYTES = 64 * 1024


def main(arguments: Sequence[str] | None = None) -> int:
    options = options_of(DAEMON, METADATA_PORT, arguments)
    return 1 if options is None else run_daemon(DAEMON, options, serve)


async def serve(daemon: Daemon) -> None:
    paths = daemon.environment.paths
    guests, downloads = Guests(kept_file(paths)), Downloads()

    async def handle(request: HttpRequest) -> HttpReply:
        return await asyncio.to_thread(answer, guests, paths, downloads, request)

    address = daemon.options.bind or METADATA_ADDRESS
    # The address comes with the first tap: it is taken before it is there.
    server = HttpServer(
        handle, address=address, port=daemon.options.port, tls=None, body_limit_bytes=_BODY_BYTES, early=True
    )
    await server.start()
    os.makedirs(paths.socket_dir, mode=SOCKET_DIR_MODE, exist_ok=True)
    control = await serve_socket(socket_path(paths), Control(guests).serve, mode=0o600)
    daemon.log.info("answers guests on %s port %d", address, server.port)
    daemon.ready()
    while not daemon.stopping.is_set():
        try:
            await asyncio.wait_for(daemon.stopping.wait(), _IDLE_S)
        except TimeoutError:
            if guests.is_empty:
                daemon.log.info("no guest communicates here any more")
                break
    await control.close()
    await server.close()


if __name__ == "__main__":
    sys.exit(main())
