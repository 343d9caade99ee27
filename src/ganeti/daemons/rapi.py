# SPDX-License-Identifier: BSD-2-Clause
"""ganeti-rapi: the remote API over HTTPS; on another node than the master it passes requests on to there (rapi)."""

import argparse
import os
import sys
from collections.abc import Sequence

from ganeti.base.errors import ParameterError
from ganeti.base.paths import Paths
from ganeti.calls.luxi_pool import LuxiPool
from ganeti.rapi.audit import AuditLog
from ganeti.rapi.callers import Callers, TokensFile
from ganeti.rapi.forwarding import Forwarder
from ganeti.rapi.issued import Issued
from ganeti.rapi.server import Api, refusal
from ganeti.rapi.users import UsersFile
from ganeti.rapi.v3.event_fan import EventFan
from ganeti.system.daemonize import Daemon, DaemonRefused, Options, daemon_parser, parse_options, run_daemon
from ganeti.system.environment import any_address
from ganeti.system.http_relay import HttpRelay
from ganeti.system.http_server import HttpServer
from ganeti.system.interface_address import interface_address
from ganeti.system.shown_certificate import ShownCertificate
from ganeti.system.tracing import Tracing
from ganeti.system.unix_socket import allow_many_connections

NAME = "ganeti-rapi"
PORT = 5080
BODY_LIMIT_BYTES = 4 * 1024 * 1024
BODIES_LIMIT_BYTES = 64 * 1024 * 1024
CLIENTS_MAX = 4096
WAITING_S = 60.0
BUFFER_BYTES = 17 * 1024
"""One record of TLS: requests are short, listeners many."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_options(NAME, sys.argv[1:] if arguments is None else arguments, make_parser())
    if options.port is not None and not 0 <= options.port <= 65535:
        print(f"{NAME}: Port {options.port} is not between 0 and 65535", file=sys.stderr)
        return 1
    if options.max_clients < 1:
        print(f"{NAME}: --max-clients must be 1 or more, not {options.max_clients}", file=sys.stderr)
        return 1
    return run_daemon(NAME, options, serve)


def make_parser() -> argparse.ArgumentParser:
    parser = daemon_parser(NAME)
    parser.add_argument("-i", "--interface", default=None, metavar="NAME", help="listen on this interface's address")
    parser.add_argument("--no-ssl", dest="ssl", action="store_false", help="answer over plain HTTP")
    parser.add_argument("-K", "--ssl-key", default=None, metavar="FILE", help="key of the certificate")
    parser.add_argument("-C", "--ssl-cert", default=None, metavar="FILE", help="certificate that is shown")
    parser.add_argument(
        "--ssl-chain", default=None, metavar="FILE", help="certificates that are sent with it, up to a known authority"
    )
    parser.add_argument("--require-authentication", action="store_true", help="let nobody read without a log-in")
    parser.add_argument(
        "--max-clients", type=int, default=CLIENTS_MAX, metavar="NUMBER", help="requests that are answered at once"
    )
    parser.set_defaults(port=PORT)
    return parser


async def serve(daemon: Daemon) -> None:
    environment, options = daemon.environment, daemon.options
    paths = environment.paths
    shown = _shown(paths, options)
    luxi = LuxiPool(paths)
    users = UsersFile(f"{paths.data_dir}/rapi/users")
    fan = EventFan(luxi)
    tracing = Tracing(NAME, paths)
    api = Api(
        luxi,
        Callers(users, TokensFile(paths.api_tokens), Issued(paths.api_issuers)),
        needs_login=options.require_authentication,
        clients_max=options.max_clients,
        audit=AuditLog(paths.audit_log),
        fan=fan,
        tracing=tracing,
    )
    relay = _relay(paths, shown)
    forwarder = Forwarder(
        api.answer,
        paths,
        environment.hostname,
        relay,
        options.port,
        api.door,
        lambda: shared_secret(paths, shown, options.ssl_key),
    )
    server = HttpServer(
        forwarder.answer,
        address=address_of(paths, options),
        port=options.port,
        tls=shown.context if shown is not None else None,
        door=forwarder.door,
        refusal=refusal,
        body_limit_bytes=BODY_LIMIT_BYTES,
        bodies_limit_bytes=BODIES_LIMIT_BYTES,
        waiting_max=options.max_clients,
        waiting_s=WAITING_S,
        buffer_bytes=BUFFER_BYTES,
    )
    allow_many_connections()
    await server.start()
    daemon.log.info("answers on port %d", server.port)
    daemon.ready()
    await daemon.stopping.wait()
    await fan.close()
    await server.close()
    await relay.close()
    luxi.close()
    await tracing.close()


def address_of(paths: Paths, options: Options) -> str:
    """Give the address to listen on; raises `DaemonRefused`."""
    if options.interface is None:
        return str(options.bind or any_address(paths))
    try:
        return interface_address(options.interface, any_address(paths))
    except ParameterError as err:
        raise DaemonRefused(str(err)) from err


def _relay(paths: Paths, shown: ShownCertificate | None) -> HttpRelay:
    """Nodes have certificates of their own, of the cluster's authority; `rapi.pem` is the same on all of them."""
    if shown is None:
        return HttpRelay(None)
    return HttpRelay(lambda: (shown.path, paths.authority_cert if shown.path == paths.server_cert else None))


def shared_secret(paths: Paths, shown: ShownCertificate | None, key: str | None) -> str:
    """The file, the same on all nodes, with what strangers cannot read: the key of the certificate that all show."""
    if shown is not None and shown.path != paths.server_cert:
        return key or shown.path
    own = f"{paths.data_dir}/rapi.pem"
    return own if os.path.exists(own) else paths.hmac_key


def _shown(paths: Paths, options: Options) -> ShownCertificate | None:
    """With the certificate of the options, else `rapi.pem`, else the one of this node."""
    if not options.ssl:
        return None
    own = f"{paths.data_dir}/rapi.pem"
    return ShownCertificate(
        [options.ssl_cert] if options.ssl_cert else [own, paths.server_cert], options.ssl_key, options.ssl_chain
    )


if __name__ == "__main__":
    sys.exit(main())
