# SPDX-License-Identifier: BSD-2-Clause
"""The undo log of a job: what its lines mean, and which records are still owed (D5). Pure.

One JSON object a line, each synced before the step it speaks of:

    {"record": n, "opcode": i, "attempt": a, "sentence": …, "node": uuid, "call": …, "arguments": …, "settled": …,
     "settled_call": {"sentence": …, "node": …, "call": …, "arguments": …}}
    {"record": n, "opcode": i, "attempt": a, "sentence": …, "change": {"name": …, "fields": {…}}}
    {…, "forward": true}                    in either: it completes what was begun instead of taking it back
    {"settles": step, "attempt": a}         the commit with this step makes every line above moot, once it has happened
    {"undone": n}                           record n has been carried out
    {"given_up": n, "reason": …}            record n could not be carried out; it stays, and verify names it
    {"completed": n}                        record n turned out to be complete; it and all before it are moot
    {"dropped": n}                          record n is moot: a commit settled it

A last line cut short by a crash was never synced, so its step never began: it is ignored.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, ConfigurationError, JobFileCorrupted
from ganeti.base.registry import find
from ganeti.master.declaring_modules import CHANGES
from ganeti.master.queue.outcomes import Outcome
from ganeti.ports.config import Change
from ganeti.ports.context import UndoChange, UndoNodeCall

Line = dict[str, Any]


@dataclass(frozen=True)
class PendingUndo:
    """One record that has not been unwound."""

    number: int
    opcode: int
    attempt: int
    record: UndoNodeCall | UndoChange


@dataclass(frozen=True)
class FailedUndo:
    number: int
    sentence: str
    reason: str
    node: str = ""
    """UUID; empty for a change of the configuration."""
    call: str = ""
    instance_uuid: str = ""
    instance_name: str = ""


def record_line(number: int, opcode: int, attempt: int, record: UndoNodeCall | UndoChange) -> Line:
    """The line of a new record."""
    line: Line = {"record": number, "opcode": opcode, "attempt": attempt, "sentence": record.sentence}
    if isinstance(record, UndoChange):
        line["change"] = change_to_plain(record.change)
        if record.rest is not None:
            line["settled_call"] = {"sentence": record.rest.sentence} | _call_to_plain(record.rest)
    else:
        line |= _call_to_plain(record)
    return line | ({"forward": True} if record.forward else {})


def _call_to_plain(record: UndoNodeCall) -> Line:
    line: Line = {"node": record.node_uuid, "call": record.call, "arguments": record.arguments}
    if record.settled_change is not None:
        line["settled"] = change_to_plain(record.settled_change)
    if record.settled_call is not None:
        line["settled_call"] = {"sentence": record.settled_call.sentence} | _call_to_plain(record.settled_call)
    return line


def change_to_plain(change: Change) -> dict[str, Any]:
    """The form in which a change travels: its name and its fields (architecture, "Views and changes")."""
    return {"name": type(change).__name__, "fields": msgspec.to_builtins(change)}


def change_from_plain(data: Any) -> Change:
    """Read a change by name; raises `ConfigurationError` for one that is not known here or does not fit."""
    cls = find(Change.registry, CHANGES, data.get("name"))
    if cls is None:
        raise ConfigurationError(f"No change of the configuration is named '{data.get('name')}'")
    try:
        return msgspec.convert(data.get("fields"), cls)
    except msgspec.ValidationError as err:
        raise ConfigurationError(f"Change {data.get('name')}: {err}") from err


_TOGETHER: Final = "together"
"""Key of a line that holds several."""


def encode_line(line: Line) -> bytes:
    return msgspec.json.encode(line, enc_hook=_encode_other) + b"\n"


def encode_lines(lines: Sequence[Line]) -> bytes:
    """What is written at once, as one line: a loss of power tears all of it, never one record before a whole one."""
    return encode_line(lines[0] if len(lines) == 1 else {_TOGETHER: list(lines)})


def _encode_other(value: Any) -> Any:
    raise TypeError(f"an undo record cannot hold a {type(value).__name__}")


def whole_part(raw: bytes) -> bytes:
    """The log without what was never synced: a last line without its end, and whatever begins with a torn line.

    A loss of power tears only what was not synced, and leaves zeros, which JSON has none of, where a block did not
    arrive. Each record is synced before its step begins, and with it all before it: a torn record's step never began,
    and what a torn note told is done again at worst. Where a whole record follows the zeros, they are damage.
    """
    hole = raw.find(b"\0")
    if hole < 0 or any(map(_is_record, raw[hole:].splitlines()[1:])):
        return raw[: raw.rfind(b"\n") + 1]
    return raw[: raw.rfind(b"\n", 0, hole) + 1]


def _is_record(text: bytes) -> bool:
    """Whether it is a line that was synced when it was written."""
    try:
        line = msgspec.json.decode(text)
    except UNREADABLE_JSON:
        return False
    return isinstance(line, dict) and not {"record", "settles", _TOGETHER}.isdisjoint(line)


def decode_lines(raw: bytes) -> list[Line]:
    """Read the whole part of a log; any other damage raises `JobFileCorrupted`."""
    lines: list[Line] = []
    for number, text in enumerate(whole_part(raw).splitlines(), 1):
        try:
            line = msgspec.json.decode(text)
        except UNREADABLE_JSON as err:
            raise JobFileCorrupted(f"Line {number} of the undo log is damaged: {err}") from err
        together = line.get(_TOGETHER, [line]) if isinstance(line, dict) else [line]
        if not isinstance(together, list) or not all(isinstance(each, dict) for each in together):
            raise JobFileCorrupted(f"Line {number} of the undo log is damaged: it is not a JSON object")
        lines += together
    return lines


class UndoLog:
    """What a log's lines add up to."""

    def __init__(self, lines: Iterable[Line] = ()) -> None:
        self._lines: list[Line] = list(lines)
        self._closed: set[int] = set()
        self._given_up: dict[int, str] = {}
        self._undone: set[int] = set()
        self._completed: set[int] = set()
        for line in self._lines:
            self._note(line)

    def add(self, line: Line) -> None:
        self._lines.append(line)
        self._note(line)

    @property
    def next_number(self) -> int:
        return max((line["record"] for line in self._lines if "record" in line), default=0) + 1

    @property
    def has_lines(self) -> bool:
        """True if the log has ever held a record that the candidates may know of."""
        return bool(self._lines)

    def has_records(self) -> bool:
        """True if there is anything a settling commit could make moot."""
        return bool(self.unspoken())

    def owed(self, last_settled: tuple[int, int] | None, ended_opcodes: Iterable[int] = ()) -> list[PendingUndo]:
        """Records to be unwound, last first.

        *last_settled* is (attempt, step) of the job's last commit that settled, as WConfD tells; records of
        *ended_opcodes* are moot, whatever the log says.
        """
        moot_before = self._settled_at(last_settled)
        ended = frozenset(ended_opcodes)
        return [
            PendingUndo(line["record"], line["opcode"], line["attempt"], _read_record(line))
            for index, line in reversed(list(enumerate(self._lines)))
            if "record" in line
            and index > moot_before
            and line["record"] not in self._closed
            and line["opcode"] not in ended
        ]

    def unspoken(self) -> list[int]:
        """Numbers of the records no line has closed."""
        return [line["record"] for line in self._lines if "record" in line and line["record"] not in self._closed]

    def given_up(self) -> list[FailedUndo]:
        return [
            _given_up(line, self._given_up[line["record"]])
            for line in self._lines
            if line.get("record") in self._given_up
        ]

    def outcome(self, last_settled: tuple[int, int] | None) -> Outcome:
        """What has become of the records so far; *last_settled* as for `owed`."""
        settled = self._settled_at(last_settled) >= 0
        forward = {line["record"] for line in self._lines if line.get("forward")} & self._undone
        completed = self._completed | forward
        return Outcome(len(self._undone - completed), len(completed), len(self._given_up), settled)

    def nodes(self) -> list[str]:
        """Uuids of the nodes named in the log, each once, in order."""
        return list(dict.fromkeys(node for line in self._lines for node in _nodes_of(line)))

    def _settled_at(self, last_settled: tuple[int, int] | None) -> int:
        found = -1
        for index, line in enumerate(self._lines):
            if "settles" in line and last_settled is not None and (line["attempt"], line["settles"]) <= last_settled:
                found = index
        return found

    def _note(self, line: Line) -> None:
        for key in ("undone", "dropped"):
            if key in line:
                self._closed.add(line[key])
                self._given_up.pop(line[key], None)
        if "undone" in line:
            self._undone.add(line["undone"])
        if "completed" in line:
            self._completed.add(line["completed"])
            self._closed.update(number for number in self.unspoken() if number <= line["completed"])
        if "given_up" in line:
            self._closed.add(line["given_up"])
            self._given_up[line["given_up"]] = line["reason"]


def _given_up(line: Line, reason: str) -> FailedUndo:
    arguments = line.get("arguments") or {}
    instance = arguments.get("instance") if isinstance(arguments, dict) else None
    found = instance if isinstance(instance, dict) else {}
    return FailedUndo(
        line["record"],
        line["sentence"],
        reason,
        str(line.get("node", "")),
        str(line.get("call", "")),
        str(found.get("uuid", "")),
        str(found.get("name", "")),
    )


def _nodes_of(line: Line) -> Iterator[str]:
    if "node" in line:
        yield line["node"]
    if line.get("settled_call"):
        yield from _nodes_of(line["settled_call"])


def _read_record(line: Line) -> UndoNodeCall | UndoChange:
    if "change" in line:
        rest = _read_call(line["settled_call"]) if line.get("settled_call") else None
        return UndoChange(line["sentence"], change_from_plain(line["change"]), bool(line.get("forward")), rest)
    return _read_call(line)


def _read_call(line: Line) -> UndoNodeCall:
    settled = change_from_plain(line["settled"]) if line.get("settled") else None
    rest = _read_call(line["settled_call"]) if line.get("settled_call") else None
    forward = bool(line.get("forward"))
    return UndoNodeCall(line["sentence"], line["node"], line["call"], line["arguments"], settled, rest, forward)
