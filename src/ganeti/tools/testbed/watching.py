# SPDX-License-Identifier: BSD-2-Clause
"""What the observer at the hub has seen, and what follows from it: gaps between replies, lost and held beats."""

import contextlib
import itertools
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ganeti.base.addresses import host_and_port
from ganeti.base.errors import CommandError
from ganeti.tools.testbed import guest, network, observer
from ganeti.tools.testbed.layout import Layout

PORT = 4077


def ack(bed: Layout) -> str:
    """Give where guests send their beats, as the heartbeat OS takes it (``10.78.0.254:4077``, ``[fd78::254]:4077``)."""
    return host_and_port(bed.hub_guest_address, PORT)


class Watch:
    """Beats and ping replies as they come in; a thread reads them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._beats: dict[str, list[tuple[float, int]]] = {}
        self._replies: dict[str, list[float]] = {}

    def take(self, line: str) -> None:
        """Note one line of the observer."""
        words = line.split()
        with self._changed:
            if words[0] == "beat" and len(words) == 4 and words[3].isdigit():
                self._beats.setdefault(words[2], []).append((float(words[1]), int(words[3])))
            elif words[0] == "ping":
                self._replies.setdefault(words[2], []).append(float(words[1]))
            self._changed.notify_all()

    def last_beat(self, name: str) -> int:
        """Give the last beat the guest acknowledged, 0 if none was seen."""
        with self._changed:
            return self._beats.get(name, [(0.0, 0)])[-1][1]

    def wait_for_beat(self, name: str, after_s: float, within_s: float) -> tuple[float, int]:
        """Give time and number of the first beat seen after the moment *after_s*, waiting for it if need be."""
        deadline = time.monotonic() + within_s
        with self._changed:
            while True:
                for seen, number in self._beats.get(name, []):
                    if seen > after_s:
                        return seen, number
                if not self._changed.wait(deadline - time.monotonic()):
                    raise CommandError(f"{name} sent no beat within {within_s:.0f} s")

    def lost_beats(self, name: str, since_s: float) -> int:
        """Count the numbers missing among the beats seen since that moment."""
        with self._changed:
            numbers = [number for seen, number in self._beats.get(name, []) if seen >= since_s]
        return sum(max(0, later - earlier - 1) for earlier, later in itertools.pairwise(numbers))

    def longest_gap_s(self, address: str, since_s: float, until_s: float) -> float:
        """Give the longest time without a reply between the two moments."""
        with self._changed:
            times = [seen for seen in self._replies.get(address, []) if since_s <= seen <= until_s]
        edges = [since_s, *times, until_s]
        return max(later - earlier for earlier, later in itertools.pairwise(edges))


@contextlib.contextmanager
def watching(bed: Layout, addresses: Sequence[str], ping_every_s: float = 0.02) -> Iterator[Watch]:
    """Run the observer at the hub while the block lasts."""
    words = [*network.in_hub(bed), "/usr/bin/python3", "-IS", observer.__file__]
    words += [str(PORT), str(ping_every_s), *addresses]
    watch = Watch()
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise CommandError("the observer at the hub did not start")
        output = process.stdout

        def read() -> None:
            for line in output:
                watch.take(line)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            yield watch
        finally:
            process.stdin.close()
            process.wait()
            reader.join()


def held_beat(bed: Layout, name: str) -> int:
    """Give the beat that the guest's disk holds, read from outside: on the shared storage, or of a mirrored disk the
    newest copy.

    Raises `CommandError` when no disk there says it belongs to the guest.
    """
    mark = f"{guest.MAGIC}\nhostname={name}\n".encode()
    places = [bed.shared, *(bed.directory / "nodes" / node.name / "disks" for node in bed.nodes)]
    found = [
        int(_read(path, 0, 8) or b"0")
        for place in places
        for path in place.rglob("*")
        if path.is_file() and _read(path, guest.CONFIG_SECTOR * guest.SECTOR_BYTES, len(mark)) == mark
    ]
    if not found:
        raise CommandError(f"no disk below {bed.directory} belongs to {name}")
    return max(found)


def _read(path: Path, offset: int, count: int) -> bytes:
    with path.open("rb") as stream:
        return os.pread(stream.fileno(), count, offset)
