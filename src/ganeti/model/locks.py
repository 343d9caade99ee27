# SPDX-License-Identifier: BSD-2-Clause
"""The names of locks, their one linear order, and the set of locks an operation plans to hold.

Locks are plain strings with the spelling of 3.1 (spec: protocols 3.1). The order runs by level, within a level the
lock that stands for the whole level (its set lock) comes first, then the names as strings (S2.49, S2.55).
"""

from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from typing import Final

import msgspec

from ganeti.base.errors import LockError

SHARED: Final = "shared"
EXCLUSIVE: Final = "exclusive"
RELEASE: Final = "release"

_SET: Final = "[lockset]"


class Level(IntEnum):
    """Levels in the order in which they are locked."""

    CLUSTER = 0
    INSTANCE = 1
    NODEGROUP = 2
    NODE = 3
    NODE_RES = 4
    NETWORK = 5
    CONFIG = 6

    @property
    def word(self) -> str:
        """The level as written in lock names and in calls, such as ``node-res``."""
        return self.name.lower().replace("_", "-")


LEVELS: Final = {level.word: level for level in Level}

CLUSTER_SET: Final = f"cluster/{_SET}"
BGL: Final = "cluster/BGL"
ALL_INSTANCES: Final = f"instance/{_SET}"
ALL_GROUPS: Final = f"nodegroup/{_SET}"
ALL_NODES: Final = f"node/{_SET}"
ALL_NODE_RES: Final = f"node-res/{_SET}"
ALL_NETWORKS: Final = f"network/{_SET}"
CONFIG: Final = "cluster/config"


def instance_lock(name: str) -> str:
    """Instances are locked by name, so that a name can be locked before its instance exists."""
    return f"instance/{name}"


def group_lock(uuid: str) -> str:
    return f"nodegroup/{uuid}"


def node_lock(uuid: str) -> str:
    return f"node/{uuid}"


def node_res_lock(uuid: str) -> str:
    """The lock of a node's memory and disk, apart from the node itself."""
    return f"node-res/{uuid}"


def network_lock(uuid: str) -> str:
    return f"network/{uuid}"


@lru_cache(maxsize=65536)
def lock_order(lock: str) -> tuple[Level, str]:
    """Sort key of a lock; raises `LockError` for a string that names no lock.

    The set lock of a level has the empty name here, which precedes every other.
    """
    if lock == CONFIG:
        return Level.CONFIG, lock
    word, _, name = lock.partition("/")
    level = LEVELS.get(word)
    if level is None or level is Level.CONFIG or not name or (level is Level.CLUSTER and name not in ("BGL", _SET)):
        raise LockError(
            f"'{lock}' is not a lock: write cluster/BGL, cluster/config or LEVEL/NAME with one of the levels "
            "instance, nodegroup, node, node-res, network"
        )
    return level, "" if name == _SET else name


def lock_level(lock: str) -> Level:
    return lock_order(lock)[0]


def is_set_lock(lock: str) -> bool:
    return lock.endswith(f"/{_SET}")


@lru_cache(maxsize=65536)
def set_lock_of(lock: str) -> str | None:
    """The set lock above a single lock; None for set locks and for the configuration lock, which belongs to no set."""
    level, name = lock_order(lock)
    return None if not name or level is Level.CONFIG else f"{level.word}/{_SET}"


class LockPlan(msgspec.Struct, frozen=True):
    """What an operation wants to hold; a lock planned both ways is exclusive."""

    shared: frozenset[str] = frozenset()
    exclusive: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "exclusive", frozenset(self.exclusive))
        msgspec.structs.force_setattr(self, "shared", frozenset(self.shared) - self.exclusive)
        for lock in sorted(self.shared | self.exclusive):
            lock_order(lock)

    @classmethod
    def of(cls, *, shared: Iterable[str] = (), exclusive: Iterable[str] = ()) -> "LockPlan":
        return cls(frozenset(shared), frozenset(exclusive))

    def request(self) -> list[tuple[str, str]]:
        """``[(lock, "shared" | "exclusive")]`` in lock order, as `tryUpdateLocks` and `updateLocksWaiting` take it."""
        locks = sorted(self.shared | self.exclusive, key=lock_order)
        return [(lock, EXCLUSIVE if lock in self.exclusive else SHARED) for lock in locks]

    def covers(self, other: "LockPlan") -> bool:
        """Whether a holder of this plan may do all that the other one allows; a set lock covers its members."""
        held = self.shared | self.exclusive
        return all(_within(lock, self.exclusive) for lock in other.exclusive) and all(
            _within(lock, held) for lock in other.shared
        )

    def union(self, other: "LockPlan") -> "LockPlan":
        return LockPlan(self.shared | other.shared, self.exclusive | other.exclusive)


def _within(lock: str, held: frozenset[str]) -> bool:
    return lock in held or set_lock_of(lock) in held
