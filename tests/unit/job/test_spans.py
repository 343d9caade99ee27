# SPDX-License-Identifier: BSD-2-Clause
"""The spans of a job, from its file and from notes of its node calls; the SDK is only loaded where spans are wanted."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from ganeti.job.nodes import NodeCallNote
from ganeti.job.spans import place_of, spans_of
from ganeti.wire.job_file import ERROR, SUCCESS, JobFile, OpcodeEntry
from ganeti.wire.traceparent import SOURCE, Place, read_place

ABOVE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
S = 1_000_000_000


def entry(op_id: str, begun_s: int | None, ended_s: int | None, status: str, reason: Any = ()) -> OpcodeEntry:
    stamps = {"start_timestamp": begun_s, "end_timestamp": ended_s}
    told = {name: None if value is None else [value, 500] for name, value in stamps.items()}
    return OpcodeEntry(input={"OP_ID": op_id, "reason": list(reason)}, status=status, **told)  # type: ignore[arg-type]


def job(reason: Any = (), **more: Any) -> JobFile:
    ops = [entry("OP_A", 12, 14, SUCCESS, reason), entry("OP_B", 14, 20, ERROR)]
    stamps = {"received_timestamp": [10, 0], "start_timestamp": [12, 500], "end_timestamp": [20, 500]}
    return JobFile(**{"id": 7, "ops": ops, **stamps, **more})


def test_everything_lies_below_the_request() -> None:
    traced = job([[SOURCE, ABOVE, 1]])
    place = place_of(traced)
    notes = [
        NodeCallNote("x", "n1", 13 * S, 13 * S + 5, None, place.below("x")),
        NodeCallNote("y", "n2", 16 * S, 17 * S, "NodeTimeoutError", place.below("y")),
    ]
    spans = {span.name: span for span in spans_of(traced, notes)}
    whole = spans["job OP_A"]
    assert whole.parent == read_place(ABOVE) and (whole.begun_ns, whole.ended_ns) == (10 * S, 20 * S + 500_000)
    assert whole.fault and spans["OP_B"].fault and not spans["OP_A"].fault
    assert (spans["queued"].begun_ns, spans["queued"].ended_ns) == (10 * S, 12 * S + 500_000)
    for name, above in (
        ("queued", whole),
        ("OP_A", whole),
        ("node call x", spans["OP_A"]),
        ("node call y", spans["OP_B"]),
    ):
        assert spans[name].parent == above.place and spans[name].place.trace_id == whole.place.trace_id, name
    assert spans["node call y"].fault == "NodeTimeoutError" and spans["node call x"].attributes == {"ganeti.node": "n1"}
    assert len({span.place.span_id for span in spans.values()}) == len(spans) == 6


def test_a_job_that_is_handed_back_goes_on_in_the_same_trace() -> None:
    first = job(end_timestamp=None)
    first.ops[1] = entry("OP_B", None, None, "queued")
    begun = {span.name: span for span in spans_of(first, [])}
    ended = {span.name: span for span in spans_of(job(), [])}
    assert begun.keys() == {"OP_A"} and begun["OP_A"].place == ended["OP_A"].place
    assert begun["OP_A"].parent == ended["job OP_A"].place and ended["job OP_A"].parent is None


def test_a_trace_that_is_not_sampled_has_no_spans() -> None:
    assert spans_of(job([[SOURCE, ABOVE[:-1] + "0", 1]]), []) == []


@pytest.mark.parametrize(
    "text",
    ["", "00-0-0-0", ABOVE.replace("00-", "ff-", 1), f"{ABOVE}-more", "00-" + "0" * 32 + "-" + "1" * 16 + "-01"],
)
def test_what_names_no_span_is_none(text: str) -> None:
    assert read_place(text) is None
    assert str(Place(1, 2)) == "00-" + "1".zfill(32) + "-" + "2".zfill(16) + "-01" and read_place(
        str(Place(1, 2))
    ) == Place(1, 2)


def test_a_later_version_of_the_header_begins_as_this_one() -> None:
    """As the standard demands of who knows an older version."""
    later = ABOVE.replace("00-", "cc-", 1)
    assert read_place(later) == read_place(f"{later}-more") == read_place(ABOVE)
    assert read_place(f"{later}more") is None


def test_the_daemons_load_nothing_of_it_unless_it_is_wanted() -> None:
    daemons = "ganeti.daemons.noded, ganeti.daemons.rapi, ganeti.daemons.spawner, ganeti.job.world, ganeti.job.nodes"
    program = f"import sys, {daemons}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"opentelemetry", "requests", "jwt", "ganeti.job.spans"} & set(loaded)
