# SPDX-License-Identifier: BSD-2-Clause
"""Plays many crashes of one operation in one go: the way to all of them once, and from each point on a fork of it.

At a point where somebody is to be struck, this real process is forked: the fork strikes, plays to the end and tells
what it has come to; then the way goes on as if nothing had been. What forks share are the files of the databases in
memory, and the locks SQLite has on them. So there is one fork at a time, the files are put back after it as they were,
the very same ones, and whoever waits for a fork has no locks: closing a file that was opened for anything gives up all
locks of a process on it, and there is nobody else to keep away.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ganeti_simulation.apart import WorkFailedError, limit_computing, result_of, told
from ganeti_simulation.crashes.cases import Case
from ganeti_simulation.crashes.points import Crash, Ending, Point, Stage
from ganeti_simulation.system.machine import Machine

_KEPT = "kept"
_NOT_PASSED = "the play is another one: it did not pass this point"


@dataclass
class Branched:
    """What crashes have come to, by their places among those that were to be played."""

    endings: dict[int, Ending] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    whole: Ending | None = None
    """Of the way itself, on which nothing was struck."""
    drawn: list[Crash] = field(default_factory=list)
    """What was to be played, where that was drawn on the way."""

    def ending(self, index: int) -> Ending | WorkFailedError:
        found = self.endings.get(index)
        return found if found is not None else WorkFailedError(self.failures.get(index, _NOT_PASSED))


def play_branches(case: Case, crashes: Sequence[Crash]) -> Branched:
    """Play *case* with each of *crashes*."""
    there: dict[int, list[tuple[int, Crash]]] = {}
    for index, crash in enumerate(crashes):
        there.setdefault(crash.point.number, []).append((index, crash))
    return _play(case, Branched(), lambda point: there.pop(point.number, ()))


def play_drawn(case: Case, draw: Callable[[Point], Iterable[Crash]]) -> Branched:
    """Play *case* with what *draw* gives of each point; the way to them is its undisturbed play."""
    branched = Branched()

    def at(point: Point) -> Iterable[tuple[int, Crash]]:
        for crash in draw(point):
            branched.drawn.append(crash)
            yield len(branched.drawn) - 1, crash

    return _play(case, branched, at)


def _play(case: Case, branched: Branched, at: Callable[[Point], Iterable[tuple[int, Crash]]]) -> Branched:
    """*at* gives what is to be played from a point."""
    stage = Stage(case)
    machines = stage.world.machines
    branch: list[_Branch] = []

    def strikes(point: Point) -> Crash | None:
        for index, crash in at(point):
            begun = _Branch.begin(machines)
            if isinstance(begun, _Branch):
                branch.append(begun)
                return crash
            if isinstance(begun, WorkFailedError):
                branched.failures[index] = str(begun)
            else:
                branched.endings[index] = begun
        return None

    whole = told(lambda: stage.play(strikes))
    if branch:
        branch[0].end(whole)
    ending = result_of(0, whole, Ending)
    for machine in machines:
        machine.databases.close(keep=False)
    if isinstance(ending, WorkFailedError):
        raise ending
    branched.whole = ending
    return branched


class _Branch:
    """A fork, seen from itself."""

    def __init__(self, machines: Sequence[Machine], places: Sequence[str], write_end: int) -> None:
        self._machines = machines
        self._places = places
        self._write_end = write_end

    @classmethod
    def begin(cls, machines: Sequence[Machine]) -> "_Branch | Ending | WorkFailedError":
        """Fork; gives the fork itself, or, to whoever goes on, what it has come to."""
        places = [machine.databases.place for machine in machines if machine.databases.place is not None]
        kept = [_Files(place) for place in places]
        read_end, write_end = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(read_end)
            limit_computing()
            return cls(machines, places, write_end)
        os.close(write_end)
        with os.fdopen(read_end, "rb") as stream:
            data = stream.read()
        _, status = os.waitpid(pid, 0)
        for files in kept:
            files.put_back()
        return result_of(status, data, Ending)

    def end(self, data: bytes) -> None:
        """Tell *data* and end, without a trace: nothing is closed, for it is the other's."""
        status = 1
        try:
            for machine in self._machines:
                if machine.databases.place not in self._places:
                    machine.databases.close(keep=False)
            with os.fdopen(self._write_end, "wb") as stream:
                stream.write(data)
            status = 0
        finally:
            os._exit(status)


class _Files:
    """The files of a machine's databases as they are now."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._content: dict[str, bytes] = {}
        os.makedirs(f"{place}/{_KEPT}", exist_ok=True)
        for name in os.listdir(place):
            if name != _KEPT:
                os.link(f"{place}/{name}", f"{place}/{_KEPT}/{name}")
                with open(f"{place}/{name}", "rb") as stream:
                    self._content[name] = stream.read()

    def put_back(self) -> None:
        for name in os.listdir(self._place):
            if name != _KEPT and name not in self._content:
                os.unlink(f"{self._place}/{name}")
        for name, content in self._content.items():
            path, kept = f"{self._place}/{name}", f"{self._place}/{_KEPT}/{name}"
            if not os.path.exists(path) or not os.path.samefile(path, kept):
                with suppress(FileNotFoundError):
                    os.unlink(path)
                os.link(kept, path)
            os.unlink(kept)
            with open(path, "r+b") as stream:
                if stream.read() != content:
                    stream.seek(0)
                    stream.write(content)
                    stream.truncate()
