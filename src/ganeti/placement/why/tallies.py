# SPDX-License-Identifier: BSD-2-Clause
"""What every node and pair of nodes lacks for a new instance, in numbers and all at once (``kernel/lack.c``).

The meaning is `Question.alone` and `Question.pair`, which also have the words; a property test holds both together.
For a thousand nodes there are a million pairs: words are for the few that are shown.
"""

import ctypes
from collections.abc import Iterator, Sequence
from ctypes import POINTER, Structure, byref, c_double, c_int64, c_uint8, c_void_p
from functools import cache

from ganeti.base.errors import ExecutionError
from ganeti.placement.cluster.lack import (
    DISK,
    DISK_SPINDLES,
    EXCLUSION_TAG,
    MEMORY,
    REDUNDANCY,
    SPINDLE_USES,
    SPINDLES,
    TEMPLATE,
    VCPUS,
)
from ganeti.placement.kernel import calls as kernel
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.placement.why.absorption import Failure
from ganeti.placement.why.prices import SCALES, Price
from ganeti.placement.why.room import PRIMARY, SECONDARY

BITS = (*SCALES, EXCLUSION_TAG, REDUNDANCY, DISK_SPINDLES, TEMPLATE)
"""The constraint of each bit of what is exceeded."""
COUNTED = (*SCALES, REDUNDANCY)
"""What `Tally.missing` has a number of."""
ROLES = (PRIMARY, SECONDARY)
STORAGES = ((False, False), (False, True), (True, False), (True, True))
"""Whether the primary has exclusive storage, and whether it or its secondary has: the order of prices in a group."""
SHARE_OF_MOVE = 0.5
assert SCALES == (MEMORY, DISK, VCPUS, SPINDLES, SPINDLE_USES)


class _Window(Structure):
    _fields_ = [
        ("asked", c_int64 * 5),
        ("base", c_int64 * 5),
        ("least", c_int64 * 5),
        ("weight", c_double * 5),
        ("less", c_double),
        ("room", c_double),
    ]


class _Failure(Structure):
    _fields_ = [
        ("needed", c_int64),
        ("failing", c_int64),
        ("mirrored", c_int64),
        ("quick", c_int64),
        ("free_memory", c_int64),
        ("free_disk", c_int64),
    ]


class _Request(Structure):
    _fields_ = [
        ("windows", POINTER(_Window)),
        ("first", POINTER(c_int64)),
        ("fixed", POINTER(c_double)),
        ("group_fixed", POINTER(c_double)),
        ("present", POINTER(c_double)),
        ("present_of", POINTER(c_double)),
        ("known", POINTER(c_uint8)),
        ("redundant", POINTER(c_uint8)),
        ("lost", POINTER(c_int64)),
        ("failures", POINTER(_Failure)),
        ("instance", c_int64),
        ("disks", c_int64),
        ("paired", c_int64),
        ("forced", c_int64),
        ("primary", c_int64),
        ("memory_share", c_double),
        ("move_share", c_double),
    ]


class _Lacks(Structure):
    _fields_ = [
        ("alone", c_double * 2),
        ("distance", c_double * 2),
        ("partner", c_int64 * 2),
        ("exceeded", c_int64 * 2),
        ("other_exceeded", c_int64 * 2),
        ("alone_exceeded", c_int64 * 2),
        ("missing", (c_int64 * 6) * 2),
        ("present_cap", (c_int64 * 5) * 2),
    ]


@cache
def _library() -> ctypes.CDLL:
    library = kernel.library()
    library.kernel_failures.restype = library.kernel_lacks.restype = c_int64
    library.kernel_failures.argtypes = [c_void_p, POINTER(_Failure)]
    library.kernel_lacks.argtypes = [c_void_p, POINTER(_Request), c_int64, POINTER(_Lacks)]
    return library


def _done(result: int) -> None:
    if result < 0:
        raise ExecutionError("There is no memory left to say why nothing fits: give the machine more, or ask again")


def failures_of(state: ClusterState) -> list[Failure]:
    """What the failure of another node asks of each node."""
    found = (_Failure * max(1, len(state.nodes)))()
    _done(_library().kernel_failures(state.handle, found))
    return [
        Failure(one.needed, one.failing, bool(one.mirrored), bool(one.quick), one.free_memory, one.free_disk)
        for one in found[: len(state.nodes)]
    ]


class Terms:
    """What is to be tallied: everything about a request that does not follow from what nodes have free.

    By node number: *fixed* and *present_of*, shares of changes, and whether what it has is *known*. By group number:
    *group_fixed*, *present*, *redundant*. *prices* are those of [group][primary exclusive][one of both exclusive].
    """

    def __init__(
        self,
        *,
        prices: Sequence[Sequence[Price]],
        fixed: Sequence[float],
        group_fixed: Sequence[float],
        present: Sequence[float],
        present_of: Sequence[float],
        known: Sequence[bool],
        redundant: Sequence[bool],
        paired: bool,
        forced: bool,
        primary: int = NOWHERE,
    ) -> None:
        self.prices = prices
        self.shares = (fixed, group_fixed, present, present_of)
        self.flags = (known, redundant)
        self.paired = paired
        self.forced = forced
        self.primary = primary


class Tally:
    """One node in one role, with the partner that takes the least change (NOWHERE for none).

    *distance* is that of both, infinite where nothing helps; *alone* that of the node by itself. *caps* are the most
    memory, disk and vcpus it leaves as things are, none of which is regarded where a template has no use for it.
    """

    __slots__ = ("_at", "_lacks")

    def __init__(self, told: _Lacks, role: str) -> None:
        self._lacks = told
        self._at = ROLES.index(role)

    @property
    def role(self) -> str:
        return ROLES[self._at]

    @property
    def alone(self) -> float:
        return float(self._lacks.alone[self._at])

    @property
    def distance(self) -> float:
        return float(self._lacks.distance[self._at])

    @property
    def partner(self) -> int:
        return int(self._lacks.partner[self._at])

    @property
    def exceeded(self) -> int:
        """Bits of the constraints that the node itself does not meet; see `BITS`."""
        return int(self._lacks.exceeded[self._at])

    @property
    def other_exceeded(self) -> int:
        return int(self._lacks.other_exceeded[self._at])

    @property
    def alone_exceeded(self) -> int:
        return int(self._lacks.alone_exceeded[self._at])

    @property
    def caps(self) -> tuple[int, int, int]:
        memory, disk, vcpus = self._lacks.present_cap[self._at][:3]
        return memory, disk, vcpus

    def missing(self) -> Iterator[tuple[str, int]]:
        """How much of what is exceeded the node lacks as things are."""
        for name, amount in zip(COUNTED, self._lacks.missing[self._at], strict=True):
            if amount > 0:
                yield name, amount


class Tallies:
    """All nodes of a state, for the instance with this *number* of the kernel, which is at no node."""

    def __init__(self, state: ClusterState, number: int, terms: Terms, disks: int, memory_mib: int) -> None:
        count, groups = len(state.nodes), len(state.groups)
        windows = [_window(price) for prices in terms.prices for price in prices]
        first = [0]
        for prices in terms.prices:
            first.append(first[-1] + len(prices))
        rows = (_Window * max(1, len(windows)))(*windows)
        shares = [kernel.numbers(list(numbers)) for numbers in terms.shares]
        flags = [kernel.flags(list(values)) for values in terms.flags]
        failures = (_Failure * max(1, count))()
        lost, firsts = kernel.wholes(state.extra_memory), kernel.wholes(first)
        _done(_library().kernel_failures(state.handle, failures))
        request = _Request(
            ctypes.cast(rows, POINTER(_Window)),
            ctypes.cast(firsts, POINTER(c_int64)),
            *(ctypes.cast(numbers, POINTER(c_double)) for numbers in shares),
            *(ctypes.cast(values, POINTER(c_uint8)) for values in flags),
            ctypes.cast(lost, POINTER(c_int64)),
            ctypes.cast(failures, POINTER(_Failure)),
            number,
            disks,
            terms.paired,
            terms.forced,
            terms.primary,
            float(max(1, memory_mib)),
            SHARE_OF_MOVE,
        )
        self._lacks = (_Lacks * max(1, count))()
        _done(_library().kernel_lacks(state.handle, byref(request), groups, self._lacks))

    def of(self, number: int, role: str) -> Tally:
        return Tally(self._lacks[number], role)


def _window(price: Price) -> _Window:
    return _Window(
        *((c_int64 * 5)(*column) for column in (price.asked, price.base, price.least)),
        (c_double * 5)(*price.weight),
        price.less,
        price.room,
    )


def constraints_of(exceeded: int) -> tuple[str, ...]:
    """Names of the bits."""
    return tuple(name for bit, name in enumerate(BITS) if exceeded >> bit & 1)
