# SPDX-License-Identifier: BSD-2-Clause
"""`locks.data`: appended to, cut anywhere, damaged, of other products."""

import os
from pathlib import Path

import msgspec
import pytest
from tests.fakes.wconfd import fast_directory

from ganeti.base.errors import LockError
from ganeti.master.locks.owners import Owner
from ganeti.master.locks.snapshot import Saved, to_plain
from ganeti.master.locks.table import LockTable
from ganeti.master.locks.times import Times
from ganeti.stores import lock_journal
from ganeti.stores.lock_journal import LockJournal, load_locks

NODE = {"node/a": "exclusive"}
PARKED = "/run/livelocks/luxid_1"


@pytest.fixture
def path():
    with fast_directory() as root:
        yield str(root / "locks.data")


class Kept:
    """A table that is written after every call, as the daemon does."""

    def __init__(self, path):
        self.saved = Saved(LockTable(), Times())
        self.journal = LockJournal(path, self.saved)
        self.time_s = 0.0
        self.write()

    def write(self):
        self.time_s += 1.0
        effects = self.saved.table.take_effects()
        self.saved.times.note(effects, self.time_s)
        self.journal.write(self.time_s, effects)

    def act(self, call, *arguments):
        getattr(self.saved.table, call)(*arguments)
        self.write()

    def do(self, call, *arguments):
        self.act(call, *arguments)
        return to_plain(*self.saved)


def job(number):
    return Owner(number, PARKED)


def test_what_is_read_is_what_was_written(path):
    kept = Kept(path)
    kept.do("update", job(1), NODE)
    kept.do("update_waiting", job(2), 0, NODE)
    kept.do("update_waiting", job(3), 0, {"node/a": "shared"})
    kept.do("change_priority", job(3), -5)
    kept.do("downgrade_level", job(1), 3)
    kept.do("hand_over", job(1), Owner(1, "/run/livelocks/job_000001_1", 77))
    last = kept.do("cancel", job(2))
    assert last["held"][0][2] == {"node/a": 2.0}
    assert to_plain(*load_locks(path)) == last
    assert Path(path).read_bytes().count(b"\n") == 8


def test_cut_at_any_byte_it_tells_what_was_finished(path):
    kept = Kept(path)
    states, sizes = [to_plain(*kept.saved)], [os.path.getsize(path)]
    for number in range(1, 6):
        states.append(kept.do("update_waiting", job(number), 0, NODE))
        sizes.append(os.path.getsize(path))
    data = Path(path).read_bytes()
    for size in range(sizes[0], len(data) + 1):
        with open(path, "wb") as file:
            file.write(data[:size])
        finished = max(place for place, until in enumerate(sizes) if until <= size)
        assert to_plain(*load_locks(path)) == states[finished]


def test_it_costs_what_it_changes_and_does_not_grow_for_ever(path, monkeypatch):
    kept = Kept(path)
    kept.do("update", job(0), NODE)
    for number in range(1, 501):
        kept.act("update_waiting", job(number), 0, NODE)
    written = []
    write = lock_journal.write_atomically
    monkeypatch.setattr(
        lock_journal, "write_atomically", lambda *args, **named: written.append(args) or write(*args, **named)
    )
    before = os.path.getsize(path)
    kept.do("change_priority", job(250), 3)
    assert os.path.getsize(path) - before < 200
    for turn in range(6000):
        kept.act("change_priority", job(1 + turn % 500), turn % 7)
    assert 1 <= len(written) <= 4
    assert os.path.getsize(path) < 600_000
    assert to_plain(*load_locks(path)) == to_plain(*kept.saved)


@pytest.mark.parametrize("take_away", [os.unlink, lambda path: os.replace(path, path + ".old")])
def test_a_file_that_somebody_took_away_is_written_again(path, take_away):
    kept = Kept(path)
    kept.do("update", job(1), NODE)
    take_away(path)
    last = kept.do("update_waiting", job(2), 0, NODE)
    assert to_plain(*load_locks(path)) == last


def test_after_a_failed_write_everything_is_written(path, monkeypatch):
    kept = Kept(path)
    kept.do("update", job(1), NODE)
    real = kept.journal._file

    class Full:
        """A disk that takes half a line."""

        def fileno(self):
            return real.fileno()

        def write(self, line):
            real.write(line[: len(line) // 2])
            return len(line) // 2

        def close(self):
            real.close()

    kept.journal._file = Full()
    with pytest.raises(OSError, match="No space left"):
        kept.do("update_waiting", job(2), 0, NODE)
    assert load_locks(path).table.waiting() == [], "the half line does not count"
    kept.write()
    assert to_plain(*load_locks(path)) == to_plain(*kept.saved)
    last = kept.do("update_waiting", job(3), 0, NODE)
    assert to_plain(*load_locks(path)) == last


HEAD = b'{"version":2,"arrivals":0,"held":[[[1,"/a",1],{"node/a":"exclusive"},{"node/a":5.0}]],"waiting":[]}\n'
DAMAGES = {
    "empty": (b"", "is not JSON"),
    "half": (HEAD[:50], "is cut off within its first line"),
    "noise": (bytes(range(256)), "is not JSON"),
    "nested": (b"[" * 200_000, "is cut off"),
    "number": (b"5\n", "is damaged"),
    "version": (b'{"version": 7}', r"is damaged \(.*version 7 instead of 2"),
    "middle": (HEAD + b'[1.0,[["ends\n[1.0,[]]\n', r"is damaged \(line 2"),
    "zeros": (HEAD + b"\0" * 100 + b"\n", r"is damaged \(line 2"),
    "no change": (HEAD + b"[1.0]\n", r"is damaged \(line 2"),
    "unknown change": (HEAD + b'[1.0,[["gone",1]]]\n', r"is damaged \(.*is no change of locks"),
    "impossible": (HEAD + b'[1.0,[["ends",[2,"/b",1],true]]]\n', r"is damaged \(.*does not wait"),
    "freed twice": (HEAD + b'[1.0,[["holds",[1,"/a",1],{},["node/b"]]]]\n', "is damaged"),
    "two owners": (
        HEAD + b'[1.0,[["holds",[2,"/b",1],{"node/a":"exclusive"},[]]]]\n',
        r"is damaged \(.*node/a is held twice",
    ),
    "handed to a holder": (HEAD + b'[1.0,[["hands",[3,"/c",1],[1,"/a",1]]]]\n', "is damaged"),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_file_is_refused_with_the_reason_and_the_remedy(path, case):
    data, reason = DAMAGES[case]
    with open(path, "wb") as file:
        file.write(data)
    with pytest.raises(LockError, match=f"^{path} {reason}.*: remove the file once no job runs$".replace("$", r"\Z")):
        load_locks(path)


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_file_from_before_the_power_on_is_passed_over(path, case, caplog):
    with open(path, "wb") as file:
        file.write(DAMAGES[case][0])
    os.utime(path, (0, 0))
    assert load_locks(path).table.owners() == []
    assert "before the machine was powered on" in caplog.text


@pytest.mark.parametrize("data", [[[], []], {"lockAllocation": {}}])
def test_the_file_of_another_product_is_passed_over(path, data, caplog):
    with open(path, "wb") as file:
        file.write(msgspec.json.encode(data))
    assert load_locks(path).table.owners() == []
    assert "not written by this daemon" in caplog.text


def test_no_file_is_no_locks(path):
    assert load_locks(path).table.owners() == []
