# SPDX-License-Identifier: BSD-2-Clause
"""The addresses of a network: which are taken by instances, which are kept back, which are free. Pure.

`config.data` has them as two texts of one character an address, ``1`` for a taken one (protocols, section 14):
*reservations* are those of NICs, *ext_reservations* those that people, and the gateway, keep back.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from msgspec.structs import replace

from ganeti.base.errors import ParameterError
from ganeti.model.objects import Network

_FREE, _USED = "0", "1"
LARGEST_PREFIX, SMALLEST_PREFIX = 16, 30
"""Prefix lengths of the largest and of the smallest network that a pool can have."""


@dataclass(frozen=True)
class Pool:
    """One network's addresses. What changes it gives another pool; the methods raise `ParameterError`.

    They stay the texts that they are in `config.data`: to gather 65,536 positions takes a hundred times as long as any
    change, and each address that is given away would stop WConfD for so long.
    """

    network: IPv4Network
    taken: str
    """A sign for each address, ``1`` for those that instances have."""
    kept: str
    """The same of those that are kept back."""

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
        position = self.position(address)
        return _FREE == self.taken[position] == self.kept[position]

    def is_kept(self, address: str) -> bool:
        return self.kept[self.position(address)] == _USED

    def first_free(self) -> str:
        """The lowest address that nobody has and nobody keeps back."""
        position = self.taken.find(_FREE)
        while position >= 0:
            if self.kept[position] == _FREE:
                return self.address(position)
            position = self.taken.find(_FREE, position + 1)
        raise ParameterError(f"All addresses of the network {self.network} are taken")

    def take(self, address: str) -> "Pool":
        """For an instance; an address that is kept back is given to those who ask for it by name."""
        position = self.position(address)
        if self.taken[position] == _USED:
            raise ParameterError(f"Address {address} is in use by an instance already")
        return Pool(self.network, _with(self.taken, position, _USED), self.kept)

    def give_back(self, address: str) -> "Pool":
        return Pool(self.network, _with(self.taken, self.position(address), _FREE), self.kept)

    def keep(self, address: str) -> "Pool":
        position = self.position(address)
        if self.kept[position] == _USED:
            raise ParameterError(f"Address {address} is kept back already")
        return Pool(self.network, self.taken, _with(self.kept, position, _USED))

    def no_longer_keep(self, address: str) -> "Pool":
        position = self.position(address)
        if self.kept[position] != _USED:
            raise ParameterError(f"Address {address} is not kept back")
        return Pool(self.network, self.taken, _with(self.kept, position, _FREE))

    def is_end(self, address: str) -> bool:
        """Whether it is the first or the last address, which guests on a bridge cannot have."""
        return self.position(address) in (0, self.network.num_addresses - 1)

    def put_into(self, network: Network) -> Network:
        """Write it into the network that it is of."""
        return replace(network, reservations=self.taken, ext_reservations=self.kept)


def _with(bits: str, position: int, sign: str) -> str:
    return bits[:position] + sign + bits[position + 1 :]


def pool_of(network: Network) -> Pool:
    """Read a network's pool."""
    addresses = IPv4Network(network.network, strict=False)
    size = addresses.num_addresses
    return Pool(addresses, _whole(network.reservations, size), _whole(network.ext_reservations, size))


def _whole(bits: str | None, size: int) -> str:
    """There may be no text at all, or a shorter one."""
    return (bits or "")[:size].ljust(size, _FREE)


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
    between = network.num_addresses - 2
    return Pool(network, _FREE * network.num_addresses, f"{_USED}{_FREE * between}{_USED}")
