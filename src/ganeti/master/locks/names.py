# SPDX-License-Identifier: BSD-2-Clause
"""Locks as they are read from a request and as they are shown to people (spec: protocols 3 and 3.1)."""

import json
from collections.abc import Iterable, Mapping
from heapq import nlargest
from sys import intern
from typing import Any

from ganeti.base.errors import LockError, LockOrderError
from ganeti.model.locks import EXCLUSIVE, LEVELS, RELEASE, SHARED, Level, is_set_lock, lock_order, set_lock_of

_WORDS = {
    Level.CLUSTER: "Cluster",
    Level.INSTANCE: "Instance",
    Level.NODEGROUP: "NodeGroup",
    Level.NODE: "Node",
    Level.NODE_RES: "NodeRes",
    Level.NETWORK: "Network",
}


def describe(lock: str) -> str:
    """A lock in the words 3.1 uses in its messages: ``BGL``, ``Instance "web1"``, ``NodeLockSet``."""
    level, name = lock_order(lock)
    if level is Level.CONFIG:
        return "ConfigLock"
    if is_set_lock(lock):
        return f"{_WORDS[level]}LockSet"
    return name if level is Level.CLUSTER else f"{_WORDS[level]} {json.dumps(name, ensure_ascii=False)}"


def read_level(word: Any) -> Level:
    """Read ``node-res`` and the like, as `freeLocksLevel` and `downGradeLocksLevel` get it."""
    level = LEVELS.get(word) if isinstance(word, str) else None
    if level is None:
        raise LockError(f"'{word}' is not a lock level: use one of {', '.join(LEVELS)}")
    return level


def read_request(elements: Iterable[Any], *, release: bool = True) -> dict[str, str]:
    """Read ``[[lock, "shared" | "exclusive" | "release"]]`` into a mapping in lock order."""
    states = (SHARED, EXCLUSIVE, RELEASE) if release else (SHARED, EXCLUSIVE)
    request: dict[str, str] = {}
    for element in elements:
        if not (isinstance(element, list | tuple) and [type(part) for part in element] == [str, str]):
            raise LockError(f"{element!r} is not a lock request: write [lock, {' or '.join(states)}]")
        lock, state = element
        if state not in states:
            raise LockError(f"'{state}' is not a state of lock {lock}: use {' or '.join(states)}")
        lock, state = intern(lock), intern(state)  # a thousand requests name the same lock
        if request.setdefault(lock, state) != state:
            raise LockError(f"Lock {lock} is asked for both {request[lock]} and {state}: ask once")
    return {lock: request[lock] for lock in sorted(request, key=lock_order)}


def strengthens(held: Mapping[str, str], lock: str, state: str) -> bool:
    """True if the element asks for more than is held: a new lock, or shared to exclusive."""
    return state != RELEASE and held.get(lock) != EXCLUSIVE and held.get(lock) != state


class OrderRule:
    """Every lock asked for must be greater than all others held (S2.51, S2.55).

    What the same call releases still counts as held: while the call waits, it is.
    """

    def __init__(self, held: Mapping[str, str]) -> None:
        self.held = held
        self._highest = nlargest(2, held, key=lock_order)

    def check(self, request: Mapping[str, str]) -> None:
        """Raise `LockOrderError` if an element of the request breaks the rule."""
        for lock, state in request.items():
            if (error := self.violation(lock, state)) is not None:
                raise error

    def violation(self, lock: str, state: str) -> LockOrderError | None:
        if not strengthens(self.held, lock, state):
            return None
        other = next((name for name in self._highest if name != lock), None)
        if other is not None and lock_order(lock) < lock_order(other):
            return order_violation(lock, other)
        set_lock = set_lock_of(lock)
        if state == EXCLUSIVE and set_lock is not None and self.held.get(set_lock) == SHARED:
            return order_violation(lock, set_lock)
        return None


def order_violation(lock: str, held: str) -> LockOrderError:
    return LockOrderError(f"Order violation: requesting {describe(lock)} while holding {describe(held)}")
