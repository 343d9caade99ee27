# SPDX-License-Identifier: BSD-2-Clause
"""Words for people about jobs, locks, priorities and lengths of time, as `why` puts them into sentences."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ganeti.base.errors import GanetiError
from ganeti.master.query.jobs import opcode_summary
from ganeti.model.locks import BGL, CONFIG, Level, is_set_lock, lock_order
from ganeti.model.view import ConfigView
from ganeti.wire.job_file import CANCELED, ERROR, MESSAGE, SUCCESS, JobFile, OpcodeEntry, seconds

_PRIORITY_WORDS = {-10: "high", 0: "normal", 10: "low"}
_SUMMARY_LETTERS = 80
_MESSAGE_LETTERS = 160
_LOCKS_NAMED = 4
_SETS = {
    Level.CLUSTER: "the whole cluster",
    Level.INSTANCE: "all instances",
    Level.NODEGROUP: "all node groups",
    Level.NODE: "all nodes",
    Level.NODE_RES: "the resources of all nodes",
    Level.NETWORK: "all networks",
}
_ONES = {
    Level.INSTANCE: "instance",
    Level.NODEGROUP: "group",
    Level.NODE: "node",
    Level.NODE_RES: "the resources of node",
    Level.NETWORK: "network",
}
_KINDS = {Level.NODEGROUP: "nodegroups", Level.NODE: "nodes", Level.NODE_RES: "nodes", Level.NETWORK: "networks"}


def span(length_s: float) -> str:
    """``2 min 10 s``; the two largest units are enough."""
    whole = max(0, int(length_s))
    if whole < 1:
        return "less than a second"
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    parts = [(days, "day" if days == 1 else "days"), (hours, "h"), (minutes, "min"), (rest, "s")]
    first = next(index for index, (number, _) in enumerate(parts) if number)
    return " ".join(f"{number} {unit}" for number, unit in parts[first : first + 2] if number)


def listed(items: Iterable[str]) -> str:
    """``a, b and c``."""
    texts = list(items)
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def cut(text: str, letters: int) -> str:
    """One line of at most so many letters."""
    line = " ".join(text.split())
    return line if len(line) <= letters else line[: letters - 1] + "…"


def lock_words(lock: str, view: ConfigView) -> str:
    """What a lock stands for, by name: ``node node1.example.com``, ``all instances``."""
    if lock == BGL:
        return "the cluster"
    if lock == CONFIG:
        return "the configuration"
    try:
        level, name = lock_order(lock)
    except GanetiError:
        return lock
    if is_set_lock(lock):
        return _SETS[level]
    found = view.get(_KINDS[level], name) if level in _KINDS else None
    return f"{_ONES[level]} {getattr(found, 'name', name)}"


def locks_listed(locks: Iterable[str], view: ConfigView) -> str:
    """Several locks by name, the first few of many."""
    ordered = sorted(dict.fromkeys(locks), key=lock_order)
    return listed(_few([lock_words(lock, view) for lock in ordered], _LOCKS_NAMED))


def locks_wanted(request: Mapping[str, str], view: ConfigView) -> str:
    """Locks with the mode in which they are wanted."""
    ordered = sorted(request, key=lock_order)
    return listed(_few([f"{lock_words(lock, view)} ({request[lock]})" for lock in ordered], _LOCKS_NAMED))


def _few(texts: Sequence[str], most: int) -> list[str]:
    return list(texts) if len(texts) <= most else [*texts[:most], f"{len(texts) - most} more"]


def priority_words(priority: int) -> str:
    word = _PRIORITY_WORDS.get(priority)
    return f"{word} ({priority})" if word else str(priority)


def submitted_priority(entry: OpcodeEntry) -> int:
    priority = entry.input.get("priority")
    return priority if isinstance(priority, int) else 0


def label(file: JobFile) -> str:
    """``job 9 (INSTANCE_MIGRATE(db3))``: the number, and the opcode it has come to, or at which it failed."""
    if not file.ops:
        return f"job {file.id}"
    stopped = next((entry for entry in file.ops if entry.status in (ERROR, CANCELED)), None)
    entry = stopped or file.ops[file.current_index()]
    return f"job {file.id} ({cut(opcode_summary(entry.input), _SUMMARY_LETTERS)})"


def owner_words(name: int | str) -> str:
    return f"job {name}" if isinstance(name, int) else name


def opcode_place(file: JobFile) -> str:
    """``opcode 2 of 3``; nothing for a job of one opcode."""
    return f"opcode {file.current_index() + 1} of {len(file.ops)}" if len(file.ops) > 1 else ""


def doing(entry: OpcodeEntry, now_s: float) -> str:
    """The step under way with its percentage, or else the last message, in quotes; nothing if it said nothing."""
    if entry.progress and isinstance(entry.progress[0], str):
        return f'"{cut(entry.progress[0], _MESSAGE_LETTERS)}{_percentage(entry.progress)}"'
    for item in reversed(entry.log):
        if len(item) == 4 and item[2] == MESSAGE and isinstance(item[3], str):
            said_s = seconds(item[1])
            when = f" (said {span(now_s - said_s)} ago)" if said_s is not None else ""
            return f'"{cut(item[3], _MESSAGE_LETTERS)}"{when}'
    return ""


def _percentage(progress: Sequence[Any]) -> str:
    match progress:
        case [_, int() | float() as done, int() | float() as total, *_] if total > 0:
            return f", {min(100, int(100 * done / total))} %"
    return ""


def ending(file: JobFile, now_s: float) -> str:
    """How a job has ended: ``failed 3 min ago: there is no node …``."""
    end_s = seconds(file.end_timestamp)
    ago = f" {span(now_s - end_s)} ago" if end_s is not None else ""
    if file.status == SUCCESS:
        began_s = seconds(file.start_timestamp)
        took = f", after {span(end_s - began_s)}" if end_s is not None and began_s is not None else ""
        return f"ended with success{ago}{took}"
    verb = "was canceled" if file.status == CANCELED else "failed"
    reason = next((text for entry in file.ops if entry.status == file.status and (text := _error(entry.result))), "")
    return f"{verb}{ago}" + (f": {reason}" if reason else "")


def _error(result: Any) -> str:
    """The sentence of a failed opcode's result, ``[class, [text, …]]``."""
    match result:
        case [str(), [str() as text, *_]]:
            return cut(text, _MESSAGE_LETTERS).rstrip(".")
    return ""


def plain_json(value: Any) -> str:
    """A predicate of a filter rule as its author wrote it."""
    return cut(msgspec.json.encode(value).decode(), _MESSAGE_LETTERS)
