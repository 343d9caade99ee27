# SPDX-License-Identifier: BSD-2-Clause
"""The address of an interface that a daemon is told to listen on, with ``-i``."""

import fcntl
import ipaddress
import socket
import struct

from ganeti.base.errors import ParameterError

_SIOCGIFADDR = 0x8915
"""Of linux/sockios.h."""
_INTERFACE_NAME_BYTES = 15
_IPV6_TABLE = "/proc/net/if_inet6"
_GLOBAL_SCOPE, _HOST_SCOPE = 0x00, 0x10
_DEPRECATED = 0x20
"""The flag of an address that is no source of connections, such as the cluster's, which goes to the next master."""


def interface_address(name: str, any_address: str) -> str:
    """Give an interface's address of the kind of *any_address*; raises `ParameterError` when there is none."""
    if ":" in any_address:
        return _ipv6_address(name)
    request = struct.pack("256s", name.encode()[:_INTERFACE_NAME_BYTES])
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
    usable = [row for row in rows if row[5] == name and int(row[3], 16) in (_GLOBAL_SCOPE, _HOST_SCOPE)]
    if not usable:
        raise ParameterError(f"Interface {name} has no IPv6 address to listen on: give it one, or name another with -i")
    lasting = [row for row in usable if not int(row[4], 16) & _DEPRECATED]
    return str(ipaddress.IPv6Address(int((lasting or usable)[0][0], 16)))
