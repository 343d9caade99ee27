# SPDX-License-Identifier: BSD-2-Clause
"""Sockets of addresses that may be of IPv4 or of IPv6."""

import socket

_IP_FREEBIND = 15


def family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def listen_at(address: str, port: int, backlog: int = 128, *, early: bool = False) -> socket.socket:
    """Listen there; `::` stands for all addresses, those of IPv4, too (S1.100).

    With *early* the machine need not have the address yet. Raises `OSError` where it cannot be had.

    Connections inherit that small messages go at once. `asyncio` has that of those it opens only: without it the first
    answer over TLS waits 40 ms where the other side has not acknowledged the handshake's last message.
    """
    family = family_of(address)
    if early:
        made = _listen_early(family, address, port, backlog)
    else:
        made = socket.create_server((address, port), family=family, backlog=backlog, dualstack_ipv6=address == "::")
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _listen_early(family: socket.AddressFamily, address: str, port: int, backlog: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
        made.bind((address, port))
        made.listen(backlog)
    except OSError:
        made.close()
        raise
    return made
