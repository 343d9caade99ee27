# SPDX-License-Identifier: BSD-2-Clause
"""An address beside a port, in one text: one of IPv6 stands in brackets there (RFC 3986). Standard library only."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

NO_ROUTER = "none"
"""What takes the router or the IPv6 side of a network away."""


def bracketed(host: str) -> str:
    """Give a host's name or address as it stands in a URL, or before the colon of a port."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def host_and_port(host: str, port: int | str) -> str:
    """Join them: ``node1:5080``, ``[fd77::1]:5080``."""
    return f"{bracketed(host)}:{port}"


def split_host_and_port(text: str, port: int) -> tuple[str, int]:
    """Take ``HOST``, ``HOST:PORT``, ``ADDRESS`` or ``[ADDRESS]:PORT`` apart; *port* is the one where none is named.

    Raises `ValueError` where the port is none, or the host has colons and is no address.
    """
    host, colon, number = text.rpartition(":")
    if not colon or text.endswith("]") or is_ipv6(text):
        return text.strip("[]"), port
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError("it is no address of IPv6: one before a port stands in brackets, such as [fd77::1]:5080")
    if not (number.isascii() and number.isdigit() and 0 < int(number) < 65536):
        raise ValueError(f"'{number}' is no port: give a number from 1 to 65535")
    return host.strip("[]"), int(number)


def is_ipv6(text: str) -> bool:
    """Whether this is an address of IPv6, without brackets; of a link-local one, with or without its zone."""
    try:
        return isinstance(ip_address(text), IPv6Address)
    except ValueError:
        return False


def ipv4_fault(text: str) -> str | None:
    """Why *text* cannot be an address of IPv4."""
    try:
        IPv4Address(text)
    except ValueError:
        return "it is not an IPv4 address: write one such as 192.0.2.1"
    return None


def ipv4_network_fault(text: str) -> str | None:
    """Why *text* cannot be a network of IPv4."""
    try:
        IPv4Network(text)
    except ValueError:
        return "it is not an IPv4 network: write its first address and a prefix length, such as 192.0.2.0/24"
    return None


def ipv4_router_fault(text: str) -> str | None:
    """The same for a router that may be `NO_ROUTER`."""
    return None if text == NO_ROUTER else ipv4_fault(text)


def ipv6_network_fault(text: str) -> str | None:
    """Why *text* cannot be a network of IPv6, or none."""
    try:
        IPv6Network("::/0" if text == NO_ROUTER else text)
    except ValueError:
        return "it is not an IPv6 network: write its first address and a prefix length, such as 2001:db8::/64"
    return None


def ipv6_router_fault(text: str) -> str | None:
    """Why *text* cannot be an address of IPv6, or none."""
    return None if text == NO_ROUTER or is_ipv6(text) else "it is not an IPv6 address: write one such as 2001:db8::1"
