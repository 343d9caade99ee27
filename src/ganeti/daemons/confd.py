# SPDX-License-Identifier: BSD-2-Clause
"""ganeti-confd: says of the configuration what this master candidate's own copy says (S2.14, S2.15)."""

import argparse
import sys
from collections.abc import Sequence

from ganeti.base.errors import PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.confd.copy import Copy
from ganeti.confd.server import Server, keys_of
from ganeti.noded.access import own_name
from ganeti.system.daemonize import Daemon, daemon_parser, parse_options, run_daemon
from ganeti.wire.confd import PORT

NAME = "ganeti-confd"
_ANY = {"2": "0.0.0.0", "10": "::"}
"""By the address family of the cluster, as ssconf has it."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_options(NAME, sys.argv[1:] if arguments is None else arguments, make_parser())
    if options.port is not None and not 0 <= options.port <= 65535:
        print(f"{NAME}: Port {options.port} is not between 0 and 65535", file=sys.stderr)
        return 1
    return run_daemon(NAME, options, serve)


def make_parser() -> argparse.ArgumentParser:
    parser = daemon_parser(NAME)
    parser.set_defaults(port=PORT)
    return parser


async def serve(daemon: Daemon) -> None:
    paths = daemon.environment.paths
    copy = Copy(paths, own_name(paths))
    server = Server(copy, _keys(paths))
    await copy.start()
    await server.listen(daemon.options.bind or _any_address(paths), daemon.options.port)
    daemon.log.info("answers on UDP port %d", server.port)
    daemon.ready()
    await daemon.stopping.wait()
    server.close()
    await copy.close()


def _keys(paths: Paths) -> list[bytes]:
    try:
        with open(paths.hmac_key, "rb") as file:
            content = file.read()
    except OSError as err:
        raise PrerequisiteError(f"{paths.hmac_key} cannot be read: {err.strerror}; it comes with the cluster") from err
    if not content.strip():
        raise PrerequisiteError(f"{paths.hmac_key} is empty: have it sent by 'gnt-cluster redist-conf' on the master")
    return keys_of(content)


def _any_address(paths: Paths) -> str:
    try:
        with open(paths.ssconf_file("primary_ip_family"), encoding="ascii") as file:
            return _ANY.get(file.read().strip(), _ANY["2"])
    except OSError:
        return _ANY["2"]


if __name__ == "__main__":
    sys.exit(main())
