# SPDX-License-Identifier: BSD-2-Clause
"""Laws of promises: whatever is asked, called and sent in whatever order, an epoch has one holder and none returns."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.thoroughness import examples

from ganeti.node.ledger import CallLedger
from ganeti.node.promises import Promise

EXAMPLES = examples(200, quick=50, campaign=2000)
masters = st.sampled_from("abc")
epochs = st.integers(1, 6)
events = st.lists(st.tuples(st.sampled_from(("ask", "record", "call")), epochs, masters), max_size=40)


def after(promise: Promise, what: str, epoch: int, master: str) -> Promise | None:
    if what == "ask":
        return promise.grant(epoch, master)
    return promise.admit_record(epoch, master) if what == "record" else promise.admit_call(epoch)


@given(events)
@settings(max_examples=EXAMPLES, deadline=None)
def test_the_epoch_never_falls_and_a_holder_stays(story: list[tuple[str, int, str]]) -> None:
    promise = Promise()
    holders: dict[int, str] = {}
    for event in story:
        new = after(promise, *event)
        if new is None:
            continue
        assert new.epoch >= promise.epoch
        if new.holder is not None:
            assert holders.setdefault(new.epoch, new.holder) == new.holder
        elif new.epoch in holders:
            raise AssertionError("a holder was forgotten")
        promise = new


@given(events)
@settings(max_examples=EXAMPLES, deadline=None)
def test_what_is_over_is_refused_whatever_it_is(story: list[tuple[str, int, str]]) -> None:
    promise = Promise()
    for what, epoch, master in story:
        new = after(promise, what, epoch, master)
        assert new is None or epoch >= promise.epoch
        assert (new is not None) or epoch <= promise.epoch
        promise = new or promise


@given(events, st.integers(1, 3))
@settings(max_examples=EXAMPLES, deadline=None)
def test_of_two_majorities_of_one_epoch_there_is_one(story: list[tuple[str, int, str]], seed: int) -> None:
    """Three nodes hear the same requests, each its own share of them: no two have a majority for the same epoch."""
    nodes = [Promise() for _ in range(3)]
    granted: dict[tuple[int, str], set[int]] = {}
    for index, (what, epoch, master) in enumerate(story):
        for number in range(3):
            if (index * seed + number) % 4 == 0:
                continue  # this one did not reach the node
            new = after(nodes[number], "ask" if what == "ask" else "call", epoch, master)
            if new is not None:
                nodes[number] = new
                if what == "ask":
                    granted.setdefault((epoch, master), set()).add(number)
    winners = [epoch for (epoch, _), supporters in granted.items() if len(supporters) >= 2]
    assert len(winners) == len(set(winners))


@given(st.lists(epochs, max_size=20))
def test_the_ledger_of_calls_has_the_same_epoch(story: list[int]) -> None:
    ledger = CallLedger()
    for epoch in story:
        before = ledger.promise
        try:
            ledger.admit(epoch, (0, 0, 0))
        except Exception:
            assert epoch < before.epoch
            assert ledger.promise == before
        else:
            assert ledger.promise == before.admit_call(epoch)
