# SPDX-License-Identifier: BSD-2-Clause
"""The kernel's searches for nodes, as calls over a `ClusterState`; ``kernel/kernel.h`` says what each one does.

All leave the state as it was. Numbers of nodes are ascending where a list of them is asked for.
"""

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, byref, c_double, c_int32, c_int64, c_uint8, c_void_p
from functools import cache
from typing import NamedTuple

from ganeti.base.errors import ExecutionError
from ganeti.placement.kernel import calls as kernel
from ganeti.placement.kernel.lost_policies import lost_policies, policy_codes
from ganeti.placement.kernel.state import NOWHERE, ClusterState

_MODES = 10
_IGNORE_SOFT_ERRORS, _EXHAUSTIVE = 16, 32
NOT_TRIED = 255
"""Stands among failures for a node that an instance is on already."""

_Wholes, _Bytes = POINTER(c_int64), POINTER(c_uint8)


class _Policies(ctypes.Structure):
    _fields_ = [("shape_of", POINTER(c_int32)), ("refusals", _Bytes), ("groups", c_int64)]


class _Question(ctypes.Structure):
    _fields_ = [
        ("candidates", _Wholes),
        ("members", _Wholes),
        ("checked", _Wholes),
        ("policy", _Bytes),
        ("lost", POINTER(_Policies)),
        ("redundancy", c_void_p),
        ("instance", c_int64),
        ("required", c_int64),
        ("primary", c_int64),
        ("candidate_count", c_int64),
        ("member_count", c_int64),
        ("checked_count", c_int64),
        ("ignore_soft_errors", c_int64),
        ("exhaustive", c_int64),
    ]


class _Placement(ctypes.Structure):
    _fields_ = [
        ("primary", c_int64),
        ("secondary", c_int64),
        ("successes", c_int64),
        ("score", c_double),
        ("failures", c_int64 * _MODES),
        ("hopeless", c_int64),
    ]


class _Hop(ctypes.Structure):
    _fields_ = [("target", c_int64), ("score", c_double)]


class _Exchange(ctypes.Structure):
    _fields_ = [
        ("first", c_int64),
        ("second", c_int64),
        ("score", c_double),
        ("failed_step", c_int64),
        ("failure", c_int64),
    ]


_TARGETS = [c_void_p, c_int64, _Wholes, c_int64, _Wholes, c_int64, c_int64]
_CALLS = {
    "kernel_allocate": [c_void_p, POINTER(_Question), POINTER(_Placement)],
    "kernel_fill": [c_void_p, POINTER(_Question), c_int64, POINTER(c_int32), POINTER(_Placement)],
    "kernel_allocate_dedicated": [c_void_p, POINTER(_Question), _Wholes, c_int64, POINTER(_Placement), _Wholes],
    "kernel_failing": [c_void_p, _Wholes, c_int64, _Wholes, c_int64, POINTER(_Policies), _Wholes],
    "kernel_redundancy": [c_void_p, _Wholes, c_int64, _Wholes, c_int64, POINTER(_Policies)],
    "kernel_redundancy_free": [c_void_p],
    "kernel_refuse_failover": [c_void_p, c_int64, c_int64],
    "kernel_best_target": [_TARGETS[0], c_int64, *_TARGETS[1:], _Bytes, POINTER(_Hop)],
    "kernel_exchange": [*_TARGETS, POINTER(_Exchange)],
}


@cache
def _library() -> ctypes.CDLL:
    library = kernel.library()
    for name, arguments in _CALLS.items():
        call = getattr(library, name)
        call.restype, call.argtypes = c_int64, arguments
    library.kernel_redundancy.restype = c_void_p
    return library


def _done(result: int) -> int:
    if result < 0:
        raise ExecutionError("There is no memory left to look for nodes: give the machine more, or ask again")
    return result


class NodeSearch(NamedTuple):
    """Where a new instance may go: the *candidates*, the *members* whose score decides, the nodes *checked* for N+1.

    *required* is 1 or 2. With a *primary*, only the secondary for it is looked for.
    """

    instance: int
    required: int
    candidates: Sequence[int]
    members: Sequence[int]
    checked: Sequence[int] = ()
    ignore_soft_errors: bool = False
    primary: int = NOWHERE
    exhaustive: bool = False
    """Score every candidate, which finds the same."""
    redundancy: int | None = None
    """What `shared_redundancy` gave for *checked* and *members*."""


class Found(NamedTuple):
    """*nodes* is empty if nothing fits. *key* orders solutions: the score, or losses and the disk that is left."""

    nodes: tuple[int, ...] = ()
    key: tuple[float, ...] = ()
    successes: int = 0
    failures: Sequence[int] = ()
    """Count of each failure mode, by its number."""
    hopeless: bool = False
    """Global N+1 was asked for, and an instance of no size whatever would have it."""


def find_nodes(state: ClusterState, asked: NodeSearch) -> Found:
    """Give the best nodes by score for an instance that is at no node yet."""
    question, kept = _question(state, asked)
    out = _Placement()
    _done(_library().kernel_allocate(state.handle, byref(question), byref(out)))
    del kept
    return _found(out, asked.required, (out.score,))


@contextmanager
def shared_redundancy(state: ClusterState, checked: Sequence[int], members: Sequence[int]) -> Iterator[int]:
    """What losing each of *checked* asks of *members*, read once for searches over this very state."""
    lost, failing, numbers = _lost(state), kernel.wholes(checked), kernel.wholes(members)
    policies = ctypes.pointer(lost[0]) if lost else None
    found = _library().kernel_redundancy(state.handle, failing, len(checked), numbers, len(members), policies)
    if not found:
        _done(-1)
    try:
        yield found
    finally:
        _library().kernel_redundancy_free(found)


def fill_nodes(state: ClusterState, asked: NodeSearch, limit: int) -> tuple[list[tuple[int, ...]], Found]:
    """Give the nodes of up to *limit* instances like the one asked about, each placed on the result of the former.

    Also what was found for the last one that was looked at: one that found no nodes, unless the limit was reached.
    """
    question, kept = _question(state, asked)
    out, room = _Placement(), (c_int32 * max(1, limit * asked.required))()
    count = _done(_library().kernel_fill(state.handle, byref(question), limit, room, byref(out)))
    del kept
    places = zip(*[iter(room[: count * asked.required])] * asked.required, strict=True)
    return list(places), _found(out, asked.required, (out.score,))


def find_dedicated_nodes(state: ClusterState, asked: NodeSearch, sizes: Sequence[tuple[int, int, int, int]]) -> Found:
    """Give the nodes that lose least for instances of *sizes* (memory, disk, vcpus, spindle use)."""
    question, kept = _question(state, asked)
    out, loss = _Placement(), (c_int64 * (len(sizes) + 1))()
    flat = kernel.wholes([number for size in sizes for number in size])
    call = _library().kernel_allocate_dedicated
    _done(call(state.handle, byref(question), flat, len(sizes), byref(out), loss))
    del kept
    return _found(out, asked.required, tuple(loss))


def _found(out: _Placement, required: int, key: tuple[float, ...]) -> Found:
    fits = out.primary != NOWHERE
    nodes = (out.primary, out.secondary)[:required] if fits else ()
    return Found(nodes, key if fits else (), out.successes, list(out.failures), bool(out.hopeless))


def _question(state: ClusterState, asked: NodeSearch) -> tuple[_Question, list[object]]:
    """The structure, and what must live as long as it."""
    lost = _lost(state) if asked.checked else None
    arrays = [kernel.wholes(asked.candidates), kernel.wholes(asked.members)]
    arrays.append(arrays[1] if asked.checked is asked.members else kernel.wholes(asked.checked))
    codes = kernel.flags(policy_codes(state, state.instances[asked.instance]))
    question = _Question(
        *(ctypes.cast(values, _Wholes) for values in arrays),
        ctypes.cast(codes, _Bytes),
        ctypes.pointer(lost[0]) if lost else None,
        asked.redundancy,
        asked.instance,
        asked.required,
        asked.primary,
        len(asked.candidates),
        len(asked.members),
        len(asked.checked),
        asked.ignore_soft_errors,
        asked.exhaustive,
    )
    return question, [arrays, codes, lost]


def _lost(state: ClusterState) -> tuple[_Policies, list[object]] | None:
    """The structure, and what must live as long as it."""
    found = lost_policies(state)
    if found is None:
        return None
    shapes, refusals = kernel.shorts(found.shape_of[:]), kernel.flags(bytes(found.refusals))
    structure = _Policies(ctypes.cast(shapes, POINTER(c_int32)), ctypes.cast(refusals, _Bytes), len(state.groups))
    return structure, [shapes, refusals]


def failing_nodes(state: ClusterState, checked: Sequence[int], members: Sequence[int]) -> list[int]:
    """Those of *checked* whose instances would not all find a place; the score of *members* chooses the places."""
    lost = _lost(state)
    room = (c_int64 * max(1, len(checked)))()
    policies = ctypes.pointer(lost[0]) if lost else None
    arguments = (kernel.wholes(checked), len(checked), kernel.wholes(members), len(members), policies, room)
    return room[: _done(_library().kernel_failing(state.handle, *arguments))]


def refuse_failover(state: ClusterState, number: int, *, forced: bool) -> int:
    """The failure mode that forbids to exchange the nodes of an instance, 0 for none."""
    return int(_library().kernel_refuse_failover(state.handle, number, forced))


class Hop(NamedTuple):
    """The best *target*, NOWHERE for none; *failures* has what is against each target tried, 0 where it would do."""

    target: int
    score: float
    failures: dict[int, int]


def best_target(
    state: ClusterState, number: int, role: str, targets: Sequence[int], members: Sequence[int], *, forced: bool
) -> Hop:
    """Give the best new ``"primary"`` or ``"secondary"`` of an instance, by the score of *members*."""
    out, failures = _Hop(), (c_uint8 * max(1, len(targets)))()
    arguments = (kernel.wholes(targets), len(targets), kernel.wholes(members), len(members), forced)
    call = _library().kernel_best_target
    _done(call(state.handle, number, role == "secondary", *arguments, failures, byref(out)))
    tried = {node: mode for node, mode in zip(targets, failures, strict=False) if mode != NOT_TRIED}
    return Hop(out.target, out.score, tried)


class Exchange(NamedTuple):
    """The best new *primary* and *secondary*; or NOWHERE for both, and what the last attempt failed at."""

    primary: int
    secondary: int
    failed_step: int
    failure: int


def best_exchange(
    state: ClusterState,
    number: int,
    targets: Sequence[int],
    members: Sequence[int],
    *,
    forced: bool,
    exhaustive: bool = False,
) -> Exchange:
    """Give two of *targets* for both nodes of a mirrored instance, by the score of *members*.

    An *exhaustive* search tries every pair, and finds the same.
    """
    out = _Exchange()
    flags = forced * _IGNORE_SOFT_ERRORS | exhaustive * _EXHAUSTIVE
    arguments = (kernel.wholes(targets), len(targets), kernel.wholes(members), len(members), flags)
    _done(_library().kernel_exchange(state.handle, number, *arguments, byref(out)))
    return Exchange(out.first, out.second, out.failed_step, out.failure)


def checked_nodes(state: ClusterState, members: Sequence[int], lost_nodes_fail: bool) -> Sequence[int]:
    """Those of *members* whose failure must be absorbed: without *lost_nodes_fail*, those that are online."""
    return members if lost_nodes_fail else [node for node in members if state.online[node]]


def nodes_failing(state: ClusterState, members: Sequence[int]) -> list[int]:
    """Those of *members* (ascending) whose failure the others could not absorb; offline nodes are asked too."""
    return failing_nodes(state, members, members)


def redundant(state: ClusterState, members: Sequence[int]) -> bool:
    """Whether the failure of any one of *members* can be absorbed."""
    return not nodes_failing(state, members)
