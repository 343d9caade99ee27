# SPDX-License-Identifier: BSD-2-Clause
"""The command line of ganeti-noded, as in 3.1."""

import argparse
import ipaddress

from ganeti.base.errors import ParameterError
from ganeti.base.paths import NODED_PORT
from ganeti.noded.calls import DEFAULT_MAX_RUNNING
from ganeti.system.daemonize import daemon_parser
from ganeti.system.interface_address import interface_address

NAME = "ganeti-noded"


def make_parser() -> argparse.ArgumentParser:
    parser = daemon_parser(NAME)
    parser.set_defaults(port=NODED_PORT)
    parser.add_argument("-i", "--interface", default="", help="listen on the address of this interface")
    parser.add_argument("--no-ssl", action="store_true", help="serve without TLS, on a loopback address only")
    parser.add_argument("-K", "--ssl-key", default="", help="file with the key, instead of server.pem")
    parser.add_argument("-C", "--ssl-cert", default="", help="file with the certificate, instead of server.pem")
    parser.add_argument("--no-mlock", action="store_true", help="let memory be swapped out")
    parser.add_argument("--max-clients", type=int, default=DEFAULT_MAX_RUNNING, help="calls carried out at once")
    return parser


def check(options: argparse.Namespace, any_address: str) -> str:
    """Give the address to listen on, *any_address* if none is named; raises `ParameterError`."""
    if not 0 <= options.port <= 65535:
        raise ParameterError(f"Port {options.port} is not between 0 and 65535")
    if options.max_clients < 1:
        raise ParameterError(f"--max-clients {options.max_clients} is too few: give 1 or more")
    if bool(options.ssl_key) != bool(options.ssl_cert):
        raise ParameterError("Key and certificate belong together: give both -K and -C, or neither")
    address: str = options.bind or (
        interface_address(options.interface, any_address) if options.interface else any_address
    )
    loopback = _is_loopback(address)
    if options.no_ssl and not loopback:
        raise ParameterError(f"Without TLS anybody could command this node: add -b 127.0.0.1 (it is {address})")
    return address


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError as err:
        raise ParameterError(f"'{address}' is not an IP address") from err
