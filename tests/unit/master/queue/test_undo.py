# SPDX-License-Identifier: BSD-2-Clause
"""The undo log: what its lines add up to, wherever a crash cut it."""

import pytest

from ganeti.base.errors import ConfigurationError, JobFileCorrupted
from ganeti.master.queue.undo import UndoLog, decode_lines, encode_line, record_line
from ganeti.ports.context import UndoNodeCall


def record(number: int, opcode: int = 0, attempt: int = 1) -> dict[str, object]:
    return record_line(number, opcode, attempt, UndoNodeCall(f"undo {number}", "n1", "remove", {"x": number}))


def owed(log: UndoLog, settled: tuple[int, int] | None = None, ended: list[int] | None = None) -> list[int]:
    return [item.number for item in log.owed(settled, ended or [])]


def test_records_are_owed_last_first_and_read_back_as_they_were():
    log = UndoLog([record(1), record(2)])
    assert owed(log) == [2, 1]
    assert log.owed(None)[0].record == UndoNodeCall("undo 2", "n1", "remove", {"x": 2})
    assert (log.next_number, log.nodes(), log.has_records()) == (3, ["n1"], True)


@pytest.mark.parametrize(
    ("settled", "left"),
    [(None, [3, 2, 1]), ((1, 4), [3, 2, 1]), ((1, 5), [3, 2]), ((1, 9), [3]), ((2, 1), [3])],
)
def test_only_a_commit_that_happened_settles(settled, left):
    log = UndoLog(
        [record(1), {"settles": 5, "attempt": 1}, record(2), {"settles": 9, "attempt": 1}, record(3)],
    )
    assert owed(log, settled) == left


def test_undone_given_up_and_dropped_records_are_not_owed():
    log = UndoLog([record(1), record(2), record(3), record(4), {"undone": 4}, {"dropped": 3}])
    log.add({"given_up": 2, "reason": "stuck"})
    assert owed(log) == [1]
    assert [(item.number, item.sentence, item.reason) for item in log.given_up()] == [(2, "undo 2", "stuck")]
    log.add({"undone": 1})
    assert not log.has_records()


def test_a_record_that_was_complete_makes_all_before_it_moot_in_one_line():
    log = UndoLog([record(1), record(2), record(3), {"undone": 3}, {"completed": 2}])
    assert owed(log) == [] and not log.has_records()
    log.add(record(4))
    assert owed(log) == [4]


@pytest.mark.parametrize(
    ("lines", "settled", "words"),
    [
        ([], None, ""),
        ([{"undone": 3}], None, "its steps were undone, as its log says"),
        ([{"undone": 3}], (1, 5), "what it had committed stays, its later steps were undone, as its log says"),
        ([{"dropped": 3}], (1, 5), "what it had committed stays"),
        ([{"dropped": 3}], (1, 4), ""),
        ([{"completed": 3}], None, "what it had begun was completed, as its log says"),
        (
            [{"undone": 3}, {"completed": 2}],
            None,
            "what it had begun was completed, as its log says, its later steps were undone, as its log says",
        ),
        (
            [{"given_up": 3, "reason": "no node"}],
            None,
            "1 of its steps could not be undone, see `gnt-cluster verify`",
        ),
    ],
)
def test_what_has_become_of_the_records_is_told_in_words(lines, settled, words):
    log = UndoLog([record(1), {"settles": 5, "attempt": 1}, record(2), record(3), *lines])
    assert str(log.outcome(settled)) == words


def test_a_record_that_goes_forward_completes():
    ahead = UndoNodeCall("complete it", "n1", "remove", {}, forward=True)
    log = UndoLog([record_line(1, 0, 1, ahead)])
    assert log.owed(None)[0].record == ahead
    log.add({"undone": 1})
    assert str(log.outcome(None)) == "what it had begun was completed, as its log says"


def test_records_of_ended_opcodes_are_moot():
    assert owed(UndoLog([record(1, opcode=0), record(2, opcode=1)]), ended=[0]) == [2]


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_last_line_cut_short_never_began(cut):
    raw = encode_line(record(1))
    assert len(decode_lines(raw + encode_line(record(2))[:cut])) == 1


def test_other_damage_is_an_error():
    with pytest.raises(JobFileCorrupted, match="Line 1"):
        decode_lines(b"{]\n" + encode_line(record(1)))
    with pytest.raises(JobFileCorrupted, match="not a JSON object"):
        decode_lines(b"3\n")


def test_a_change_nobody_knows_is_an_error_that_names_it():
    log = UndoLog([{"record": 1, "opcode": 0, "attempt": 1, "sentence": "s", "change": {"name": "Gone", "fields": {}}}])
    with pytest.raises(ConfigurationError, match="Gone"):
        log.owed(None)
