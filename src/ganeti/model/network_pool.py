# SPDX-License-Identifier: BSD-2-Clause
"""The addresses of a network: which are taken by instances, which are kept back, which are free. Pure.

`config.data` has them as two texts of one character an address, ``1`` for a taken one (protocols, section 14):
*reservations* are those of NICs, *ext_reservations* those that people, and the gateway, keep back.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from msgspec.structs import replace

from ganeti.base.errors import ParameterError
from ganeti.model.objects import Network

LARGEST_PREFIX, SMALLEST_PREFIX = 16, 30
"""Prefix lengths of the largest and of the smallest network that a pool can have."""


@dataclass(frozen=True)
class Pool:
    """One network's addresses. What changes it gives another pool; the methods raise `ParameterError`."""

    network: IPv4Network
    taken: frozenset[int] = frozenset()
    """Positions of the addresses that instances have."""
    kept: frozenset[int] = frozenset()
    """Positions of the addresses that are kept back."""

    def position(self, address: str) -> int:
        found = IPv4Address(address)
        if found not in self.network:
            raise ParameterError(f"Address {address} is not in the network {self.network}")
        return int(found) - int(self.network.network_address)

    def address(self, position: int) -> str:
        return str(self.network.network_address + position)

    def contains(self, address: str) -> bool:
        try:
            return IPv4Address(address) in self.network
        except ValueError:
            return False

    def is_free(self, address: str) -> bool:
        return self.position(address) not in self.taken | self.kept

    def first_free(self) -> str:
        """The lowest address that nobody has and nobody keeps back."""
        used = self.taken | self.kept
        for position in range(self.network.num_addresses):
            if position not in used:
                return self.address(position)
        raise ParameterError(f"All addresses of the network {self.network} are taken")

    def take(self, address: str) -> "Pool":
        """For an instance; an address that is kept back is given to those who ask for it by name."""
        position = self.position(address)
        if position in self.taken:
            raise ParameterError(f"Address {address} is in use by an instance already")
        return Pool(self.network, self.taken | {position}, self.kept)

    def give_back(self, address: str) -> "Pool":
        return Pool(self.network, self.taken - {self.position(address)}, self.kept)

    def keep(self, address: str) -> "Pool":
        position = self.position(address)
        if position in self.kept:
            raise ParameterError(f"Address {address} is kept back already")
        return Pool(self.network, self.taken, self.kept | {position})

    def no_longer_keep(self, address: str) -> "Pool":
        position = self.position(address)
        if position not in self.kept:
            raise ParameterError(f"Address {address} is not kept back")
        return Pool(self.network, self.taken, self.kept - {position})

    def is_end(self, address: str) -> bool:
        """Whether it is the first or the last address, which guests on a bridge cannot have."""
        return self.position(address) in (0, self.network.num_addresses - 1)

    def put_into(self, network: Network) -> Network:
        """Write it into the network that it is of."""
        size = self.network.num_addresses
        return replace(network, reservations=_bits(self.taken, size), ext_reservations=_bits(self.kept, size))


def _bits(positions: Iterable[int], size: int) -> str:
    bits = ["0"] * size
    for position in positions:
        bits[position] = "1"
    return "".join(bits)


def pool_of(network: Network) -> Pool:
    """Read a network's pool."""
    return Pool(
        IPv4Network(network.network, strict=False), _ones(network.reservations), _ones(network.ext_reservations)
    )


def _ones(bits: str | None) -> frozenset[int]:
    return frozenset(position for position, bit in enumerate(bits or "") if bit == "1")


def new_pool(text: str) -> Pool:
    """The pool of a new network, which keeps back its first and its last address; raises `ParameterError`."""
    try:
        network = IPv4Network(text)
    except ValueError as err:
        raise ParameterError(
            f"'{text}' is not an IPv4 network: write its first address and a prefix length, such as 192.0.2.0/24"
        ) from err
    if not LARGEST_PREFIX <= network.prefixlen <= SMALLEST_PREFIX:
        raise ParameterError(
            f"The network {network} has {network.num_addresses} addresses: a pool needs a prefix length from "
            f"{LARGEST_PREFIX} to {SMALLEST_PREFIX}"
        )
    return Pool(network, kept=frozenset({0, network.num_addresses - 1}))
