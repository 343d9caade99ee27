# SPDX-License-Identifier: BSD-2-Clause
"""To whom a node promises itself, and which records it takes."""

from ganeti.node.promises import Promise, established_epoch, refusal_sentence


def test_one_promise_an_epoch_and_none_for_what_is_over() -> None:
    promise = Promise(3, "a")
    for epoch in (1, 2, 3):
        assert not promise.would_grant(epoch)
        assert promise.grant(epoch, "a") is None
    assert promise.grant(4, "b") == Promise(4, "b")


def test_records_come_from_the_holder_of_the_epoch_alone() -> None:
    promise = Promise(3, "a")
    assert promise.admit_record(3, "a") == promise
    assert promise.admit_record(3, "b") is None
    assert promise.admit_record(2, "a") is None


def test_a_first_record_of_a_higher_epoch_raises_the_promise() -> None:
    assert Promise(3, "a").admit_record(5, "b") == Promise(5, "b")


def test_a_call_raises_the_epoch_and_the_first_record_names_the_holder() -> None:
    promise = Promise(3, "a").admit_call(4)
    assert promise == Promise(4, None)
    assert promise.grant(4, "b") is None
    assert promise.admit_record(4, "b") == Promise(4, "b")
    assert Promise(3, "a").admit_call(3) == Promise(3, "a")
    assert Promise(3, "a").admit_call(2) is None


def test_a_refusal_says_what_would_be_granted() -> None:
    assert refusal_sentence(Promise(3, "a"), 2) == "Epoch 2 is over: this node has promised epoch 3 to node a"
    assert "ask for a higher one" in refusal_sentence(Promise(3, "a"), 3)
    assert "another master" in refusal_sentence(Promise(3), 2)


def test_an_epoch_is_established_by_a_commit_or_a_membership() -> None:
    assert established_epoch() == 0
    assert established_epoch(None, (3, 9)) == 3
    assert established_epoch((4, 1), (3, 9), None) == 4
