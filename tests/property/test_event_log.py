# SPDX-License-Identifier: BSD-2-Clause
"""Laws of the event log, against a list that forgets nothing."""

import json

from hypothesis import given
from hypothesis import strategies as st

from ganeti.master.events.log import EVENT_KINDS, EventLog

KINDS = st.sampled_from(EVENT_KINDS)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), KINDS, st.integers(0, 300)),
        st.tuples(st.just("read"), st.frozensets(KINDS, min_size=1), st.integers(1, 400)),
        st.tuples(st.just("lose"), st.frozensets(KINDS, min_size=1), st.just(0)),
        st.tuples(st.just("clear"), st.none(), st.none()),
    ),
    max_size=60,
)


@given(STEPS, st.integers(1, 12), st.integers(100, 2000))
def test_a_reader_gets_exactly_what_happened_or_is_told_that_it_cannot(steps, events_kept, bytes_kept):
    """Readers of every place and set of kinds: all after it in order and once, or None; and None only with a reason."""
    log = EventLog("life", events_kept, bytes_kept)
    happened: list[tuple[int, str, int]] = []
    lost_at = dict.fromkeys(EVENT_KINDS, 0)
    for what, first, second in steps:
        if what == "append":
            log.append(first, 0.0, {"n": len(happened), "pad": "x" * second})
            happened.append((log.number, first, len(happened)))
        elif what == "lose":
            log.lose(first)
            lost_at |= dict.fromkeys(first, log.number)
        elif what == "clear":
            log.clear()
            lost_at = dict.fromkeys(EVENT_KINDS, log.number)
        else:
            for start in range(log.number + 1):
                read_all(log, start, first, second, happened, lost_at)
        assert log.size_bytes <= bytes_kept or sum(bool(entry.framed) for entry in log._entries.values()) == 1


def read_all(log, start, kinds, most_bytes, happened, lost_at):
    wanted = [n for number, kind, n in happened if number > start and kind in kinds]
    number, seen = start, []
    while number < log.number:
        chunk = log.after(number, kinds, most_bytes)
        if chunk is None:
            dropped = [count for count, kind, _ in happened if kind in kinds and start < count not in log._entries]
            assert dropped or any(start < lost_at[kind] for kind in kinds)
            return
        assert chunk.number > number
        seen += [json.loads(line)["n"] for line in chunk.data.split(b"\x03")[:-1]]
        number = chunk.number
    assert seen == wanted
