# SPDX-License-Identifier: BSD-2-Clause
"""Which calls run, which are refused, which are answered from memory."""

import pytest

from ganeti.base.errors import NodeCallError, ParameterError
from ganeti.node.ledger import KEPT_ANSWERS, Answer, CallLedger


def test_a_lower_epoch_is_refused_and_a_higher_one_remembered() -> None:
    ledger = CallLedger()
    assert ledger.admit(3, (1, 1, 1))
    assert not ledger.admit(3, (1, 1, 2))
    with pytest.raises(NodeCallError, match="epoch 2, which is over"):
        ledger.admit(2, (9, 1, 1))
    again = CallLedger(ledger.fences)
    with pytest.raises(NodeCallError):
        again.admit(2, (9, 1, 1))


def test_a_superseded_attempt_is_refused_also_by_the_next_daemon() -> None:
    ledger = CallLedger()
    ledger.admit(1, (7, 1, 1))
    assert ledger.supersede(7, 1)
    assert not ledger.supersede(7, 1)
    for one in (ledger, CallLedger(ledger.fences)):
        with pytest.raises(NodeCallError, match="Attempt 1 of job 7 has been superseded by attempt 2"):
            one.admit(1, (7, 1, 2))
        assert not one.admit(1, (7, 2, 3))
        assert not one.admit(1, (8, 1, 1))


def test_a_higher_attempt_supersedes_the_lower_by_itself() -> None:
    ledger = CallLedger()
    assert ledger.admit(0, (7, 3, 1))
    with pytest.raises(NodeCallError):
        ledger.admit(0, (7, 2, 9))


def test_daemons_of_the_master_have_no_attempts() -> None:
    ledger = CallLedger()
    ledger.admit(1, (0, 5, 1))
    assert not ledger.admit(1, (0, 1, 1))


def test_a_repeated_number_gets_its_answer_and_no_other_call() -> None:
    ledger = CallLedger()
    ledger.keep((7, 1, 4), Answer("blockdev_create", "d", b"[true,null]"))
    assert ledger.answered((7, 1, 4), "blockdev_create", "d") == b"[true,null]"
    assert ledger.answered((7, 1, 5), "blockdev_create", "d") is None
    for call, digest in (("blockdev_remove", "d"), ("blockdev_create", "e")):
        with pytest.raises(ParameterError, match="a number stands for one call"):
            ledger.answered((7, 1, 4), call, digest)


def test_old_answers_go() -> None:
    ledger = CallLedger()
    for step in range(KEPT_ANSWERS + 10):
        ledger.keep((7, 1, step), Answer("c", "", b"x"))
    assert len(ledger.answers) == KEPT_ANSWERS
    assert ledger.answered((7, 1, 9), "c", "") is None
    assert ledger.answered((7, 1, 10), "c", "") == b"x"
    for step in range(4):
        ledger.keep((8, 1, step), Answer("c", "", bytes(3 * 1024 * 1024)))
    assert sum(len(answer.body) for answer in ledger.answers.values()) <= 8 * 1024 * 1024
