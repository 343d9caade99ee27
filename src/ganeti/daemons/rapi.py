# SPDX-License-Identifier: BSD-2-Clause
"""ganeti-rapi: the remote API on the master, over HTTPS (rapi)."""

import argparse
import os
import ssl
import sys
from collections.abc import Sequence

from ganeti.base.errors import PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.calls.luxi_client import LuxiClient
from ganeti.rapi.server import Api
from ganeti.rapi.users import UsersFile
from ganeti.system.daemonize import Daemon, daemon_parser, parse_options, run_daemon
from ganeti.system.environment import any_address
from ganeti.system.http_server import HttpServer

NAME = "ganeti-rapi"
PORT = 5080
BODY_LIMIT_BYTES = 4 * 1024 * 1024


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_options(NAME, sys.argv[1:] if arguments is None else arguments, make_parser())
    if options.port is not None and not 0 <= options.port <= 65535:
        print(f"{NAME}: Port {options.port} is not between 0 and 65535", file=sys.stderr)
        return 1
    return run_daemon(NAME, options, serve)


def make_parser() -> argparse.ArgumentParser:
    parser = daemon_parser(NAME)
    parser.add_argument("--no-ssl", dest="ssl", action="store_false", help="answer over plain HTTP")
    parser.add_argument("-K", "--ssl-key", default=None, metavar="FILE", help="key of the certificate")
    parser.add_argument("-C", "--ssl-cert", default=None, metavar="FILE", help="certificate that is shown")
    parser.add_argument("--require-authentication", action="store_true", help="let nobody read without a log-in")
    parser.set_defaults(port=PORT)
    return parser


async def serve(daemon: Daemon) -> None:
    paths, options = daemon.environment.paths, daemon.options
    users = UsersFile(f"{paths.data_dir}/rapi/users")
    api = Api(LuxiClient(paths), users, needs_login=options.require_authentication)
    server = HttpServer(
        api.answer,
        address=options.bind or any_address(paths),
        port=options.port,
        tls=_tls(paths, options.ssl_cert, options.ssl_key) if options.ssl else None,
        body_limit_bytes=BODY_LIMIT_BYTES,
    )
    await server.start()
    daemon.log.info("answers on port %d", server.port)
    daemon.ready()
    await daemon.stopping.wait()
    await server.close()


def _tls(paths: Paths, certificate: str | None, key: str | None) -> ssl.SSLContext:
    """With the certificate of the options, else `rapi.pem`, else the one of this node."""
    own = f"{paths.data_dir}/rapi.pem"
    shown = certificate or (own if os.path.exists(own) else paths.server_cert)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(shown, key)
    except OSError as err:
        raise PrerequisiteError(f"The certificate {shown} cannot be used: {err.strerror}; name one with -C") from err
    return context


if __name__ == "__main__":
    sys.exit(main())
