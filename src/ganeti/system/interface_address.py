# SPDX-License-Identifier: BSD-2-Clause
"""The IPv4 address of an interface of this machine, for daemons that are told to listen on an interface."""

import fcntl
import socket
import struct

_SIOCGIFADDR = 0x8915
"""Of linux/sockios.h."""
_NAME_BYTES = 15


def address_of(interface: str) -> str:
    """Give the first address; raises `OSError` where there is no such interface, or it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("256s", interface.encode()[:_NAME_BYTES])
        answer = fcntl.ioctl(sock.fileno(), _SIOCGIFADDR, request)
    return socket.inet_ntoa(answer[20:24])
