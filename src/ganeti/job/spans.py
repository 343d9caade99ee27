# SPDX-License-Identifier: BSD-2-Clause
"""What a job has done as spans of a trace: the job, its wait in the queue, each opcode, each node call. Pure.

They are made when the job has ended, from its file and from notes of its node calls. The ids of spans follow from the
job, so that a second process of a job that was handed back adds to the same trace.
"""

from collections.abc import Sequence

from ganeti.job.nodes import NodeCallNote
from ganeti.system.spans import Span
from ganeti.wire.job_file import ERROR, FINAL_STATUSES, JobFile, OpcodeEntry, Timestamp
from ganeti.wire.traceparent import Place, made_up, place_in


def spans_of(job: JobFile, calls: Sequence[NodeCallNote]) -> list[Span]:
    """Give the spans of what has ended; none where the submitter's trace is not sampled."""
    parent, whole = _parent(job), place_of(job)
    if not whole.is_sampled:
        return []
    opcodes = [(whole.below("opcode", index), entry) for index, entry in enumerate(job.ops)]
    found = [
        _opcode(whole, place, entry)
        for place, entry in opcodes
        if entry.status in FINAL_STATUSES and entry.start_timestamp
    ]
    found += [_call(_above(opcodes, note) or whole, note) for note in calls]
    if job.end_timestamp is not None and job.received_timestamp is not None:
        found += _job(job, whole, parent)
    return found


def place_of(job: JobFile) -> Place:
    """Give the job's own span: the same for each process that is this job."""
    return (_parent(job) or made_up(job.id, job.received_timestamp)).below("job", job.id)


def _parent(job: JobFile) -> Place | None:
    return place_in(job.ops[0].input.get("reason") or ())


def _job(job: JobFile, whole: Place, parent: Place | None) -> list[Span]:
    received_ns, ended_ns = _ns(job.received_timestamp), _ns(job.end_timestamp)
    attributes: dict[str, str | int] = {"ganeti.job": job.id, "ganeti.status": job.status}
    fault = "the job failed" if job.status == ERROR else None
    found = [Span(f"job {job.ops[0].input['OP_ID']}", whole, parent, received_ns, ended_ns, attributes, fault)]
    if job.start_timestamp is not None:
        found.append(Span("queued", whole.below("queued"), whole, received_ns, _ns(job.start_timestamp)))
    return found


def _opcode(whole: Place, place: Place, entry: OpcodeEntry) -> Span:
    attributes: dict[str, str | int] = {"ganeti.status": entry.status, "ganeti.priority": entry.priority}
    fault = "the opcode failed" if entry.status == ERROR else None
    begun_ns, ended_ns = _ns(entry.start_timestamp), _ns(entry.end_timestamp or entry.start_timestamp)
    return Span(entry.input["OP_ID"], place, whole, begun_ns, ended_ns, attributes, fault)


def _call(above: Place, note: NodeCallNote) -> Span:
    name, told = f"node call {note.call}", {"ganeti.node": note.node}
    return Span(name, note.place, above, note.begun_ns, note.ended_ns, told, note.fault, kind="client")


def _above(opcodes: Sequence[tuple[Place, OpcodeEntry]], note: NodeCallNote) -> Place | None:
    """Give the opcode that was running when the call began."""
    found = None
    for place, entry in opcodes:
        if entry.start_timestamp is not None and _ns(entry.start_timestamp) <= note.begun_ns:
            found = place
    return found


def _ns(stamp: Timestamp | None) -> int:
    return 0 if stamp is None else (stamp[0] * 1_000_000 + stamp[1]) * 1000
