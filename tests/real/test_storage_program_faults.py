# SPDX-License-Identifier: BSD-2-Clause
"""Two storage daemons of a mirrored disk at random: overlapping changes leave equal copies, none acknowledged is lost.

`GANETI_SEEDS=7` or `1-500` plays those seeds.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.thoroughness import examples
from tests.real.nbd_client import FLUSH, FUA, NO_HOLE, READ, TRIM, WRITE, WRITE_ZEROES, Answer, NbdClient, finish, pump
from tests.real.storage_program import BLOCK, MIB, Pair, wait_until

pytestmark = pytest.mark.real
SIZE = 2 * MIB
BLOCKS = SIZE // BLOCK


def seeds(gate: int, campaign: int) -> range:
    text = os.environ.get("GANETI_SEEDS", "")
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1) if text else range(examples(gate, campaign=campaign))


class Change:
    """One that was asked for: *number* fills its blocks."""

    def __init__(self, number: int, answer: Answer | None = None) -> None:
        self.number = number
        self._answer = answer

    @property
    def is_done(self) -> bool:
        return self._answer is None or self._answer.done


class Guest:
    """It changes what it wants, also the same blocks by several requests at once, and knows what each block may hold.

    That is the number of any change after whose end no other one began that is done. No block may hold parts of two.
    """

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._number = 0
        self._blocks = [[(Change(0), list[Change]())] for _ in range(BLOCKS)]
        """Changes, each with those that began after its end."""

    def begin(self, clients: list[NbdClient]) -> None:
        draw = self._draw
        client, first = draw.choice(clients), draw.randrange(BLOCKS)
        blocks = range(first, min(first + draw.choice([1, 1, 1, 2, 3, 8, 40, 120]), BLOCKS))
        place, length = first * BLOCK, len(blocks) * BLOCK
        kind = draw.choice([WRITE, WRITE, WRITE, WRITE, WRITE_ZEROES, TRIM, READ, FLUSH])
        if kind == FLUSH:
            client.begin(FLUSH)
        elif kind == READ:
            client.begin(READ, place, length)
        elif kind == WRITE:
            self._number += 1
            data = filled(self._number) * len(blocks)
            self._note(blocks, Change(self._number, client.begin(WRITE, place, data=data, flags=draw.choice([0, FUA]))))
        else:
            flags = draw.choice([0, FUA, NO_HOLE]) if kind == WRITE_ZEROES else 0
            self._note(blocks, Change(0, client.begin(kind, place, length, flags=flags)))

    def _note(self, blocks: range, change: Change) -> None:
        for block in blocks:
            left = [each for each in self._blocks[block] if possible(each)]
            for before, later in left:
                if before.is_done:
                    later.append(change)
            self._blocks[block] = [*left, (change, [])]

    def check(self, image: bytes) -> None:
        for block, changes in enumerate(self._blocks):
            numbers = {each[0].number for each in changes if possible(each)}
            held = image[block * BLOCK : (block + 1) * BLOCK]
            assert held in map(filled, numbers), f"block {block} holds {held[:8].hex()}, may hold {sorted(numbers)}"


def possible(change: tuple[Change, list[Change]]) -> bool:
    return not any(later.is_done for later in change[1])


def filled(number: int) -> bytes:
    return number.to_bytes(8, "big") * (BLOCK // 8)


def work(guest: Guest, clients: list[NbdClient], draw: random.Random, count: int, depth: int) -> None:
    """Begin *count* requests, of which so many are not answered at once."""
    for _ in range(count):
        guest.begin(clients)
        if draw.random() < 0.3:
            pump(clients, lambda: True)
        pump(clients, lambda: sum(len(client.pending) for client in clients) < depth)


def forget(image: Path, draw: random.Random) -> None:
    """What is not attached has other data."""
    with image.open("r+b") as file:
        file.write(draw.randbytes(SIZE))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path, SIZE)
    yield made
    made.close()
    assert made.one.process.returncode == 0


def test_overlapping_changes_leave_equal_copies(pair: Pair) -> None:
    """Two guests write the same blocks at once, while the other copy is made equal, or is equal."""
    for seed in seeds(40, 2000):
        draw = random.Random(seed)
        clients = [pair.one.client() for _ in range(draw.choice([1, 2, 2, 3]))]
        clients[0].change(TRIM, 0, SIZE)
        guest, depth = Guest(draw), draw.choice([1, 4, 16, 64])
        if draw.random() < 0.5:
            forget(pair.two.image, draw)
            work(guest, clients, draw, 20, depth)
            pair.attach("whole", draw.choice([0, 0, 4 * MIB, 16 * MIB]))
        else:
            finish(*clients)
            pair.attach("whole")
            pair.wait_equal()
        work(guest, clients, draw, draw.choice([20, 150]), depth)
        pair.one.ask("rate", 0)
        finish(*clients)
        pair.wait_equal()
        first, second = pair.images()
        assert first == second, f"seed {seed}: blocks {unequal(first, second)}"
        guest.check(first)
        assert pair.one.ask("detach") == ["equal"], f"seed {seed}"
        for client in clients:
            client.leave()
    assert pair.one.commands.losses.empty()


def unequal(first: bytes, second: bytes) -> list[int]:
    return [block for block in range(BLOCKS) if first[block * BLOCK :][:BLOCK] != second[block * BLOCK :][:BLOCK]]


class Faults:
    """The other node goes away and comes back, at any moment; ganeti-mirrord notes it, sometimes late."""

    def __init__(self, pair: Pair, draw: random.Random) -> None:
        self._pair, self._draw = pair, draw
        self._how = ""

    def strike(self) -> None:
        self._how = self._draw.choice(["kill", "stop", "cut"])
        if self._how == "kill":
            self._pair.two.kill()
        elif self._how == "stop":
            self._pair.two.signal(signal.SIGSTOP)
        else:
            self._pair.door.cut()

    def note(self, clients: list[NbdClient]) -> None:
        """Meanwhile the guest goes on."""
        losses = self._pair.one.commands.losses
        assert pump(clients, lambda: not losses.empty(), 3), f"after {self._how} no loss is told"
        losses.get()
        pump(clients, lambda: False, 0.02)  # answers of before may be on their way
        changes = [each for client in clients for each in client.pending.values() if each.kind != READ]
        if self._draw.random() < 0.3:
            assert not pump(clients, lambda: any(each.done for each in changes), 0.05)
        self._pair.one.ask("noted")

    def mend(self) -> None:
        if self._how == "kill":
            self._pair.restart_second()
        elif self._how == "stop":
            self._pair.two.signal(signal.SIGCONT)
        wait_until(lambda: self._pair.door.connections() == 0, "the other node has seen the end")


def test_what_is_acknowledged_outlives_the_other_node(pair: Pair) -> None:
    draw = random.Random(int(os.environ.get("GANETI_SEEDS", "1").partition("-")[0]))
    clients = [pair.one.client() for _ in range(2)]
    guest, faults = Guest(draw), Faults(pair, draw)
    pair.attach("whole")
    for _ in range(examples(20, quick=12, campaign=2000)):
        depth = draw.choice([2, 16, 64])
        work(guest, clients, draw, draw.randrange(60), depth)
        faults.strike()
        for _ in range(draw.randrange(depth)):
            guest.begin(clients)
        clients[0].begin(FLUSH)  # an answer is due from the other node
        faults.note(clients)
        work(guest, clients, draw, draw.randrange(60), depth)
        faults.mend()
        attaching = pair.begin_attach("kept", draw.choice([0, 0, 2 * MIB]))
        while not attaching.done():
            work(guest, clients, draw, 1, depth)
        attaching.result()
        work(guest, clients, draw, draw.randrange(60), depth)
        if draw.random() < 0.5:  # else the next loss comes in the midst of the copying
            pair.one.ask("rate", 0)
            finish(*clients)
            pair.wait_equal()
            first, second = pair.images()
            assert first == second, f"blocks {unequal(first, second)}"
            guest.check(first)
    pair.one.ask("rate", 0)
    finish(*clients)
    pair.wait_equal()
    first, second = pair.images()
    assert first == second
    guest.check(second)
    for client in clients:
        client.leave()


def test_what_is_acknowledged_outlives_the_own_node(tmp_path: Path) -> None:
    """Both copies have it, when the primary's program is killed."""
    pair = Pair(tmp_path, SIZE)
    for seed in seeds(16, 1000):
        draw = random.Random(seed)
        clients = [pair.one.client() for _ in range(2)]
        clients[0].change(TRIM, 0, SIZE)
        guest = Guest(draw)
        pair.attach("whole")
        pair.wait_equal()
        work(guest, clients, draw, draw.randrange(100), draw.choice([2, 16, 64]))
        pair.one.kill()
        pump(clients, lambda: all(client.has_ended for client in clients))  # noqa: B023
        wait_until(lambda: pair.door.connections() == 0, "the other node has seen the end")
        for image in pair.images():
            guest.check(image)
        for client in clients:
            client.close()
        pair.restart_first()
    pair.close()
