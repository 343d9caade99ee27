# SPDX-License-Identifier: BSD-2-Clause
"""The command line of ganeti-noded, as in 3.1."""

import argparse
import fcntl
import ipaddress
import socket
import struct

from ganeti.base.errors import ParameterError
from ganeti.base.paths import NODED_PORT
from ganeti.noded.calls import DEFAULT_MAX_RUNNING
from ganeti.system.daemonize import daemon_parser

NAME = "ganeti-noded"
_SIOCGIFADDR = 0x8915
_IPV6_TABLE = "/proc/net/if_inet6"
_GLOBAL_SCOPE, _HOST_SCOPE = 0x00, 0x10


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


def interface_address(name: str, any_address: str) -> str:
    """Give an interface's address of the kind of *any_address*; raises `ParameterError` when there is none."""
    if ":" in any_address:
        return _ipv6_address(name)
    request = struct.pack("256s", name.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
        except OSError as err:
            raise ParameterError(f"Interface {name} has no address to listen on: {err.strerror}") from err
    return socket.inet_ntoa(answer[20:24])


def _ipv6_address(name: str) -> str:
    try:
        with open(_IPV6_TABLE, encoding="ascii") as file:
            rows = [line.split() for line in file]
    except OSError:
        rows = []  # a kernel without IPv6
    found = next((row[0] for row in rows if row[5] == name and int(row[3], 16) in (_GLOBAL_SCOPE, _HOST_SCOPE)), None)
    if found is None:
        raise ParameterError(f"Interface {name} has no IPv6 address to listen on: give it one, or name another with -i")
    return str(ipaddress.IPv6Address(int(found, 16)))


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError as err:
        raise ParameterError(f"'{address}' is not an IP address") from err
