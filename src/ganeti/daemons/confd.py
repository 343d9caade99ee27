# SPDX-License-Identifier: BSD-2-Clause
"""ganeti-confd: says of the configuration what this master candidate's own copy says (S2.14, S2.15)."""

import sys
from collections.abc import Sequence

from ganeti.confd.copy import Copy
from ganeti.confd.server import Keys, Server
from ganeti.daemons.node_daemon import ClusterKey, options_of
from ganeti.noded.access import own_name
from ganeti.system.daemonize import Daemon, run_daemon
from ganeti.system.environment import any_address
from ganeti.wire.confd import PORT

NAME = "ganeti-confd"


def main(arguments: Sequence[str] | None = None) -> int:
    options = options_of(NAME, PORT, arguments)
    return 1 if options is None else run_daemon(NAME, options, serve)


async def serve(daemon: Daemon) -> None:
    paths = daemon.environment.paths
    copy = Copy(paths, own_name(paths))
    server = Server(copy, Keys(ClusterKey(paths)))
    await copy.start()
    await server.listen(daemon.options.bind or any_address(paths), daemon.options.port)
    daemon.log.info("answers on UDP port %d", server.port)
    daemon.ready()
    await daemon.stopping.wait()
    server.close()
    await copy.close()


if __name__ == "__main__":
    sys.exit(main())
