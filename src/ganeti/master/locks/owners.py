# SPDX-License-Identifier: BSD-2-Clause
"""Who may own locks: a job, or a named piece of work, together with its lock file (S2.31)."""

from dataclasses import dataclass, field
from sys import intern
from typing import Any

from ganeti.base.errors import LockError


@dataclass(frozen=True, slots=True)
class Owner:
    """The ClientId of 3.1. The process id is carried for display; identity is the name and the lock file."""

    name: int | str
    lock_file: str
    pid: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"job {self.name}" if isinstance(self.name, int) else self.name

    def to_wire(self) -> list[Any]:
        return [self.name, self.lock_file, self.pid]

    @classmethod
    def from_wire(cls, data: Any) -> "Owner":
        """Read ``[job id or name, lock file, pid]``; raises `LockError`."""
        match data:
            case [int() | str() as name, str() as lock_file, int() as pid] if _can_be(name, lock_file):
                return cls(name, intern(lock_file), pid)  # all that LuxiD asks for is under one lock file
        raise LockError(f"{data!r} is not a client: write [job id or name, lock file, process id]")


def _can_be(name: int | str, lock_file: str) -> bool:
    return not isinstance(name, bool) and bool(lock_file) and "\0" not in lock_file
