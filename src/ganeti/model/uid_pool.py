# SPDX-License-Identifier: BSD-2-Clause
"""The user ids that guests run as, one a guest: `Cluster.uid_pool`, ranges with both ends counted. Pure."""

import hashlib
from collections.abc import Collection, Iterable, Sequence

from ganeti.base.errors import ParameterError

Ranges = Sequence[Sequence[int]]
LARGEST = 2**32 - 2
"""The one above stands for "no user" in system calls."""


def checked(ranges: Ranges) -> list[list[int]]:
    """Give the ranges in order, those that touch as one; raises `ParameterError` for what is no range of user ids."""
    for low, high in ranges:
        if not 0 < low <= high <= LARGEST:
            raise ParameterError(
                f"The user ids {shown([[low, high]])} cannot be used: give ranges from 1 to {LARGEST}, lower end first"
            )
    joined: list[list[int]] = []
    for low, high in sorted((low, high) for low, high in ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1][1] = max(joined[-1][1], high)
        else:
            joined.append([low, high])
    return joined


def added(pool: Ranges, more: Ranges) -> list[list[int]]:
    """Raises `ParameterError`."""
    return checked([*pool, *more])


def removed(pool: Ranges, gone: Ranges) -> list[list[int]]:
    """Raises `ParameterError` for ids that are not in the pool."""
    left = checked(pool)
    for low, high in checked(gone):
        holder = next((pair for pair in left if pair[0] <= low and high <= pair[1]), None)
        if holder is None:
            raise ParameterError(
                f"The user ids {shown([[low, high]])} are not in the pool, which is {shown(left) or 'empty'}"
            )
        parts = [[holder[0], low - 1], [high + 1, holder[1]]]
        at = left.index(holder)
        left[at : at + 1] = [part for part in parts if part[0] <= part[1]]
    return left


def shown(ranges: Ranges) -> str:
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def read(words: Iterable[str]) -> list[list[int]]:
    """What `ssconf_uid_pool` says, a word for each range; words that are none are left out."""
    found = []
    for word in words:
        low, _, high = word.partition("-")
        if low.isdigit() and (high.isdigit() or not high):
            found.append([int(low), int(high or low)])
    return found


def choose(pool: Ranges, used: Collection[int], guest: str) -> int | None:
    """A free id; the same one for the same *guest* (its uuid) on every node where it is free. None if there is none."""
    size = sum(high - low + 1 for low, high in pool)
    if not size:
        return None
    first = int.from_bytes(hashlib.sha256(guest.encode()).digest()[:8], "big") % size
    for step in range(min(size, len(used) + 1)):
        uid = _at(pool, (first + step) % size)
        if uid not in used:
            return uid
    return None


def _at(pool: Ranges, index: int) -> int:
    for low, high in pool:
        if index <= high - low:
            return low + index
        index -= high - low + 1
    raise AssertionError("the index is within the pool")
