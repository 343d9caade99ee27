# SPDX-License-Identifier: BSD-2-Clause
"""Job files: `queue/job-N` of 3.1, with a few keys of our own (protocols, section 13).

The reader is tolerant and keeps keys it does not know; the writer writes what 3.1 writes. Keys that 3.1 does not have
are left out until they say something:

    attempt    number of the newest process of the job; it numbers their lock files
    begun      number of the newest process that was about to change something: written before its first step, and
               copied to the candidates, so that no take-over and no loss of power runs what it did twice
    deaths     how many of these processes died and left work to undo; the next one unwinds
    wants      [[lock, state], …] a job needs next, when it was handed back because it could not have them at once
    position   [epoch, serial] of the job's last commit, for LuxiD, which announces its end
    progress   (in an opcode's entry) [text, done, total] of the step under way

Progress lives in that side field, and a finished step becomes an ordinary log message: clients of 3.1 never meet a
log type they do not know.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from ganeti.base.errors import JobFileCorrupted
from ganeti.wire.framing_sync import WithoutCollecting

QUEUED = "queued"
WAITING = "waiting"
CANCELING = "canceling"
RUNNING = "running"
CANCELED = "canceled"
SUCCESS = "success"
ERROR = "error"

FINAL_STATUSES = frozenset({CANCELED, SUCCESS, ERROR})
ALL_STATUSES = (QUEUED, WAITING, CANCELING, RUNNING, CANCELED, SUCCESS, ERROR)

MESSAGE = "message"

REDACTED = "<redacted>"
"""What a secret parameter reads on disk."""
_ID_DIGITS = 18
SECRET_SUFFIX = "_secret"  # noqa: S105 - the end of names of parameters that hold secrets
_UNSHOWN_SUFFIXES = (SECRET_SUFFIX, "_private", "_private_cluster")

Timestamp = list[int]
"""[seconds, microseconds]."""

LogEntry = list[Any]
"""[serial, timestamp, type, value]; serials count over the whole job."""

Secret = tuple[list[str | int], dict[str, Any]]
"""The place of a secret parameter in an opcode, as the keys and indices that lead to it; and its values."""


class OpcodeEntry(msgspec.Struct, kw_only=True):
    """One opcode of a job: what was asked, and how it went."""

    input: dict[str, Any]
    status: str = QUEUED
    result: Any = None
    log: list[LogEntry] = []
    priority: int = 0
    start_timestamp: Timestamp | None = None
    exec_timestamp: Timestamp | None = None
    end_timestamp: Timestamp | None = None
    progress: list[Any] | None = None
    unknown: dict[str, Any] = {}

    def __repr__(self) -> str:
        """Without the parameters: some are secret, and code that logs a job need not think of that."""
        return f"OpcodeEntry({self.input.get('OP_ID')}, {self.status})"


class JobFile(msgspec.Struct, kw_only=True):
    id: int
    ops: list[OpcodeEntry]
    received_timestamp: Timestamp | None = None
    start_timestamp: Timestamp | None = None
    end_timestamp: Timestamp | None = None
    livelock: str | None = None
    process_id: int | None = None
    attempt: int = 1
    deaths: int = 0
    begun: int = 0
    wants: list[tuple[str, str]] | None = None
    position: list[int] | None = None
    unknown: dict[str, Any] = {}

    @property
    def status(self) -> str:
        return combined_status(op.status for op in self.ops)

    @property
    def final(self) -> bool:
        return self.status in FINAL_STATUSES

    @property
    def priority(self) -> int:
        """Priority of the first opcode that has not ended; of the last one when all have."""
        return self.ops[self.current_index()].priority if self.ops else 0

    @property
    def log_serial(self) -> int:
        return max((entry[0] for op in self.ops for entry in op.log), default=0)

    def current_index(self) -> int:
        """Index of the first opcode that has not ended; of the last one when all have."""
        for index, op in enumerate(self.ops):
            if op.status not in FINAL_STATUSES:
                return index
        return max(len(self.ops) - 1, 0)


def combined_status(statuses: Iterable[str]) -> str:
    """The status of a job from those of its opcodes, in order.

    All successful: success. The first error, canceling or canceled decides at once. Otherwise the last waiting or
    running one; queued and successful ones leave the value as it is, which begins as queued.
    """
    status, all_successful = QUEUED, True
    for op_status in statuses:
        if op_status == SUCCESS:
            continue
        all_successful = False
        if op_status in (ERROR, CANCELING, CANCELED):
            return op_status
        if op_status in (WAITING, RUNNING):
            status = op_status
    return SUCCESS if all_successful else status


def timestamp(now_s: float) -> Timestamp:
    microseconds = round(now_s * 1_000_000)
    return [microseconds // 1_000_000, microseconds % 1_000_000]


def seconds(stamp: Timestamp | None) -> float | None:
    return None if stamp is None else stamp[0] + stamp[1] / 1_000_000


_OPTIONAL_JOB_KEYS = ("livelock", "process_id", "wants", "position")


def encode(job: JobFile) -> bytes:
    """Write a job file; keys of our own only where they say something."""
    plain: dict[str, Any] = {
        **job.unknown,
        "id": job.id,
        "ops": [_plain_entry(op) for op in job.ops],
        "received_timestamp": job.received_timestamp,
        "start_timestamp": job.start_timestamp,
        "end_timestamp": job.end_timestamp,
    }
    for key in _OPTIONAL_JOB_KEYS:
        value = getattr(job, key)
        if value is not None:
            plain[key] = value
    if job.attempt != 1:
        plain["attempt"] = job.attempt
    if job.deaths:
        plain["deaths"] = job.deaths
    if job.begun:
        plain["begun"] = job.begun
    return msgspec.json.encode(plain)


def _plain_entry(op: OpcodeEntry) -> dict[str, Any]:
    plain: dict[str, Any] = {
        **op.unknown,
        "input": redact(op.input),
        "status": op.status,
        "result": op.result,
        "log": op.log,
        "priority": op.priority,
        "start_timestamp": op.start_timestamp,
        "exec_timestamp": op.exec_timestamp,
        "end_timestamp": op.end_timestamp,
    }
    if op.progress is not None:
        plain["progress"] = op.progress
    return plain


def decode(raw: bytes, job_id: int | None = None) -> JobFile:
    """Read a job file; raises `JobFileCorrupted` saying what is wrong with it."""
    what = f"Job file {job_id}" if job_id is not None else "The job file"
    try:
        with WithoutCollecting():
            plain = msgspec.json.decode(raw)
            if not isinstance(plain, dict):
                raise JobFileCorrupted(f"{what} is damaged: it is not a JSON object")
            plain["ops"] = [_split(entry, OpcodeEntry) for entry in plain["ops"]]
            job = msgspec.convert(_split(plain, JobFile), JobFile)
    except (
        msgspec.DecodeError,
        msgspec.ValidationError,
        UnicodeDecodeError,
        KeyError,
        TypeError,
        AttributeError,
    ) as err:
        raise JobFileCorrupted(f"{what} is damaged: {err}") from err
    for op in job.ops:
        if op.status not in ALL_STATUSES:
            raise JobFileCorrupted(f"{what} is damaged: '{op.status}' is not a status of an opcode")
    if job_id is not None and job.id != job_id:
        raise JobFileCorrupted(f"{what} is damaged: it says it is job {job.id}")
    return job


def _split(plain: dict[str, Any], cls: type[msgspec.Struct]) -> dict[str, Any]:
    """Sort the keys a struct knows from those it keeps in `unknown`; a null means "absent"."""
    known: dict[str, Any] = {}
    unknown: dict[str, Any] = {}
    fields = cls.__struct_fields__
    for key, value in plain.items():
        if key == "unknown" or key not in fields:
            unknown[key] = value
        elif value is not None or key == "result":
            known[key] = value
    if unknown:
        known["unknown"] = unknown
    return known


def read_job_id(value: Any) -> int | None:
    """A job id as clients write it, a number or its digits; None for anything else."""
    if isinstance(value, str) and len(value) <= _ID_DIGITS and value.isascii() and value.isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**_ID_DIGITS:
        return value
    return None


def secrets_of(opcode: dict[str, Any]) -> list[Secret]:
    """The secret parameters of an opcode, to be handed over in memory; also those of operations within it.

    A plan has its operation in a parameter, a creation of many instances has a list of them.
    """
    return _values_of(opcode, (SECRET_SUFFIX,))


def _values_of(opcode: dict[str, Any], suffixes: tuple[str, ...]) -> list[Secret]:
    found: list[Secret] = []
    unseen: list[tuple[list[str | int], Any]] = [([], opcode)]
    while unseen:  # no recursion: the depth is the client's choice
        place, value = unseen.pop()
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            if isinstance(inner, dict) and isinstance(key, str) and key.endswith(suffixes):
                if inner:
                    found.append(([*place, key], inner))
            elif isinstance(inner, dict | list | tuple):
                unseen.append(([*place, key], inner))
    return found


def put_secrets(opcode: dict[str, Any], secrets: Iterable[Secret]) -> None:
    """Put secrets that were handed over into the opcode as it was read from disk."""
    for place, values in secrets:
        inner: Any = opcode
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = values


def redact(opcode: dict[str, Any]) -> dict[str, Any]:
    """Give *opcode* as it may be stored: values of secret parameters never leave memory."""
    return _without(opcode, secrets_of(opcode))


def shown(opcode: dict[str, Any]) -> dict[str, Any]:
    """Give *opcode* as it may be shown: nor are values of private parameters, which no listing shows."""
    return _without(opcode, _values_of(opcode, _UNSHOWN_SUFFIXES))


def _without(opcode: dict[str, Any], hidden: Iterable[Secret]) -> dict[str, Any]:
    for place, values in hidden:
        opcode = _replaced(opcode, place, dict.fromkeys(values, REDACTED))
    return opcode


def _replaced(opcode: dict[str, Any], place: list[str | int], value: dict[str, Any]) -> dict[str, Any]:
    """Give a copy of *opcode* with *value* at *place*; what does not lead there is shared with the original."""
    copy = dict(opcode)
    inner: Any = copy
    for step in place[:-1]:
        inner[step] = dict(inner[step]) if isinstance(inner[step], dict) else list(inner[step])
        inner = inner[step]
    inner[place[-1]] = value
    return copy


def secrets_lost(job: JobFile) -> bool:
    """True if a parameter of an opcode still to be run is only known as redacted."""
    return any(
        REDACTED in values.values()
        for opcode in job.ops
        if opcode.status not in FINAL_STATUSES
        for _, values in secrets_of(opcode.input)
    )
