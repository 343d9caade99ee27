# SPDX-License-Identifier: BSD-2-Clause
"""What a capacity question may suppose: nodes that are added, nodes and groups that are lost. Reading it. Pure."""

from dataclasses import dataclass

from ganeti.base.errors import ParameterError
from ganeti.base.units import parse_size_mib

MOST_ADDED = 1000
_LIKE, _GROUP = "like", "group"
_SIZES = ("memory", "disk")
_NEEDED = (*_SIZES, "cpus")
_LARGEST = 2**53
FORM = "N:memory=SIZE,disk=SIZE,cpus=N[,group=GROUP] or N:like=NODE[,group=GROUP]"


@dataclass(frozen=True, slots=True)
class Added:
    """*count* new nodes of one kind: with sizes of their own, or *like* a node there is. Without *group*: that of
    *like*, or the only one."""

    count: int
    memory_mib: int = 0
    disk_mib: int = 0
    cpus: int = 0
    like: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """*lost* are names of nodes and of groups (UUIDs, too)."""

    added: tuple[Added, ...] = ()
    lost: tuple[str, ...] = ()


def read(added: list[str], lost: list[str]) -> WhatIf | None:
    """Read what options say; None where nothing is supposed. Raises `ParameterError` naming the form."""
    if not added and not lost:
        return None
    return WhatIf(tuple(map(read_added, added)), tuple(lost))


def read_added(text: str) -> Added:
    """Read `FORM`; raises `ParameterError`."""
    number, colon, rest = text.partition(":")
    values = dict(word.partition("=")[::2] for word in rest.split(",")) if rest else {}
    known = {_LIKE, _GROUP} if _LIKE in values else {*_NEEDED, _GROUP}
    needed = {_LIKE} if _LIKE in values else set(_NEEDED)
    if not colon or set(values) - known or needed - set(values) or not all(values.values()):
        raise ParameterError(f"New nodes cannot be '{text}': write {FORM}, such as 2:memory=64g,disk=1t,cpus=16")
    if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= MOST_ADDED:
        raise ParameterError(f"New nodes cannot be '{text}': their number is from 1 to {MOST_ADDED}")
    if _LIKE in values:
        return Added(int(number), like=values[_LIKE], group=values.get(_GROUP, ""))
    sizes = {name: parse_size_mib(values[name]) for name in _SIZES}
    cpus = values["cpus"]
    if not cpus.isascii() or not cpus.isdigit() or not 1 <= int(cpus) <= MOST_ADDED or max(sizes.values()) > _LARGEST:
        raise ParameterError(f"New nodes cannot be '{text}': a node has 1 to {MOST_ADDED} processors, and finite sizes")
    memory_mib, disk_mib = sizes["memory"], sizes["disk"]
    return Added(int(number), memory_mib, disk_mib, int(cpus), group=values.get(_GROUP, ""))
