# SPDX-License-Identifier: BSD-2-Clause
"""Who was promised room on which nodes. Pure; WConfD holds it (D13).

A promise ends when the configuration shows what it was for, when its owner gives it up, or when its owner is dead:
whatever a dead job has left stands in the configuration or runs on a node by then.

Invariant: an owner has at most one promise for an instance.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from ganeti.base.errors import LockError
from ganeti.master.locks.owners import Owner
from ganeti.model.promises import Promise


class PromiseTable:
    """*serial* counts the promises ever made."""

    def __init__(self) -> None:
        self.serial = 0
        self._held: dict[Owner, dict[str, Promise]] = {}
        self._made_last: dict[str, int] = {}
        """By node: the number of the last promise there."""
        self._read_at = 0
        """Promises up to this number may have been made anywhere: the table was read from a file then."""

    def all(self) -> Iterator[tuple[Owner, Promise]]:
        for owner, promises in self._held.items():
            for promise in promises.values():
                yield owner, promise

    def make(self, owner: Owner, promises: Iterable[Promise], seen: int) -> str | None:
        """Promise all, in place of what the owner had for the same instances.

        Nothing is promised where somebody got a promise on one of the nodes after the asker had *seen* the table:
        gives that node's uuid then.
        """
        wanted = list(promises)
        for promise in wanted:
            for node in promise.nodes:
                if self._made_last.get(node, self._read_at) > seen:
                    return node
        for promise in wanted:
            self.serial += 1
            self._held.setdefault(owner, {})[promise.instance] = promise
            for node in promise.nodes:
                self._made_last[node] = self.serial
        return None

    def drop(self, owner: Owner) -> bool:
        """Give up all of an owner's; False if there was nothing."""
        return self._held.pop(owner, None) is not None

    def drop_dead(self, is_alive: Callable[[str], bool]) -> list[Owner]:
        """Give up those of owners whose lock file nobody holds; gives these owners."""
        dead = [owner for owner in self._held if not is_alive(owner.lock_file)]
        for owner in dead:
            self.drop(owner)
        return dead

    def fulfil(self, instance: str, primary: str) -> bool:
        """The configuration has the instance on this node from now on; False if that was promised to nobody."""
        kept = [owner for owner, promises in self._held.items() if _is_for(promises.get(instance), primary)]
        for owner in kept:
            del self._held[owner][instance]
            if not self._held[owner]:
                del self._held[owner]
        return bool(kept)

    def to_plain(self) -> dict[str, Any]:
        held = [[owner.to_wire(), msgspec.to_builtins(promise)] for owner, promise in self.all()]
        return {"version": 1, "serial": self.serial, "held": held}

    @classmethod
    def from_plain(cls, plain: Any) -> "PromiseTable":
        """Read what `to_plain` gave; raises `LockError`."""
        table = cls()
        try:
            if plain["version"] != 1:
                raise LockError(f"has version {plain['version']!r}, known is 1")
            for owner, promise in plain["held"]:
                table.make(Owner.from_wire(owner), [msgspec.convert(promise, Promise)], table.serial)
            table.serial = table._read_at = max(table.serial, int(plain["serial"]))
            table._made_last.clear()
        except (KeyError, TypeError, ValueError) as err:
            raise LockError(f"cannot be understood ({type(err).__name__}: {err})") from err
        return table


def _is_for(promise: Promise | None, primary: str) -> bool:
    return promise is not None and promise.nodes[:1] == [primary]
