# SPDX-License-Identifier: BSD-2-Clause
"""`config-history`: what has changed in the configuration, and what an object was at a time, from the newest commits.

The database keeps the last thousand commits (`config/stream`), each with the objects as they were after it.
"""

import argparse
import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import msgspec

from ganeti.base.errors import UNKNOWN_ENTITY, WRONG_INPUT, WRONG_STATE, GanetiError, PrerequisiteError
from ganeti.base.paths import Paths, database_uri
from ganeti.wire.job_file import SUCCESS

NAME = "config-history"
Key = tuple[str, str]
_SHOWN = 20
_TIMES = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d")
_HIDDEN = "<hidden>"
_SECRET = ("osparams_private", "osparams_private_cluster")
EVER = ("serial_no", "mtime")
"""Fields that every change changes."""
_NOUNS = {"nodes": "node", "nodegroups": "group", "instances": "instance", "networks": "network", "disks": "disk"}


class Event(msgspec.Struct):
    position: tuple[int, int]
    put: list[tuple[str, str, dict[str, Any]]]
    remove: list[tuple[str, str]]


class Past:
    """All commits that are kept, the oldest first, and the present."""

    def __init__(self, events: list[tuple[float, Event]], present: dict[Key, dict[str, Any]]) -> None:
        self.events = events
        self.present = present

    def keys_of(self, text: str) -> list[Key]:
        """Objects of this name or UUID, present ones and past ones; raises `PrerequisiteError` for none."""
        found: dict[Key, None] = {}
        for key, plain in self._all():
            if text in (key[1], name_of(plain)) or (key[0] == "cluster" and text == "cluster"):
                found[key] = None
        if not found:
            raise PrerequisiteError(
                f"No object '{text}' is in the configuration, or was in what is kept of its past", UNKNOWN_ENTITY
            )
        return list(found)

    def at(self, key: Key, time_s: float) -> dict[str, Any] | None:
        """The object as it was; None if it did not exist. Raises `PrerequisiteError` for a time that is not kept."""
        state: dict[str, Any] | None = None
        known = False
        for made_s, event in self.events:
            touched = {(kind, uuid): plain for kind, uuid, plain in event.put}
            touched_here = key in touched or list(key) in [list(gone) for gone in event.remove]
            if made_s <= time_s and touched_here:
                state, known = touched.get(key), True
            elif made_s > time_s and touched_here and not known:
                return self._before_first(key, touched.get(key))
        return state if known else self.present.get(key)

    def _before_first(self, key: Key, after: dict[str, Any] | None) -> dict[str, Any] | None:
        if after is not None and after.get("serial_no") == 1:
            return None  # that commit made it
        begin = _shown_time(self.events[0][0])
        raise PrerequisiteError(
            f"What {label(key, after)} was then is not kept: commits are since {begin}", WRONG_INPUT
        )

    def _all(self) -> Iterator[tuple[Key, dict[str, Any]]]:
        yield from self.present.items()
        for _, event in self.events:
            for kind, uuid, plain in event.put:
                yield (kind, uuid), plain


def read(paths: Paths) -> Past:
    """Raises `PrerequisiteError` where there is no database that can be read."""
    path = paths.config_database
    if not os.path.exists(path):
        raise PrerequisiteError(f"There is no {path}: run this on the master of a cluster", WRONG_STATE)
    try:
        with closing(sqlite3.connect(database_uri(path, "ro"), uri=True, isolation_level=None)) as db:
            db.execute("BEGIN")
            commits = db.execute("SELECT time, event FROM commits ORDER BY epoch, serial").fetchall()
            objects = db.execute("SELECT kind, uuid, data FROM objects").fetchall()
    except sqlite3.Error as err:
        raise PrerequisiteError(f"{path} cannot be read: {err}", WRONG_STATE) from err
    events = [(made_s, msgspec.json.decode(event, type=Event)) for made_s, event in commits]
    return Past(events, {(kind, uuid): msgspec.json.decode(data) for kind, uuid, data in objects})


def lines(past: Past, wanted: Sequence[Key], limit: int) -> list[str]:
    """One line for each commit that concerns *wanted* (all, if empty), the newest last."""
    before: dict[Key, dict[str, Any]] = {}
    found = []
    for made_s, event in past.events:
        parts = []
        for kind, uuid, plain in event.put:
            key = (kind, uuid)
            if not wanted or key in wanted:
                parts.append(f"{label(key, plain)}: {_difference(before.get(key), plain)}")
            before[key] = plain
        for kind, uuid in event.remove:
            if not wanted or (kind, uuid) in wanted:
                parts.append(f"{label((kind, uuid), before.get((kind, uuid)))}: removed")
        if parts:
            epoch, serial = event.position
            found.append(f"{_shown_time(made_s)} {epoch}.{serial} {'; '.join(parts)}")
    return found[-limit:] if limit else found


def _difference(before: dict[str, Any] | None, after: dict[str, Any]) -> str:
    if before is None:
        return "added" if after.get("serial_no") == 1 else "changed"
    names = [name for name in {**before, **after} if name not in EVER and before.get(name) != after.get(name)]
    return ", ".join(f"{name}={_value(name, after.get(name))}" for name in names) or "no field but its serial number"


def _value(name: str, value: Any) -> str:
    return _HIDDEN if name in _SECRET else json.dumps(value)


def label(key: Key, plain: dict[str, Any] | None) -> str:
    if key[0] == "cluster":
        return "cluster"
    return f"{_NOUNS.get(key[0], key[0])} {name_of(plain or {}) or key[1]}"


def name_of(plain: dict[str, Any]) -> str:
    return str(plain.get("name") or plain.get("cluster_name") or "")


def _shown_time(time_s: float) -> str:
    return time.strftime(_TIMES[0], time.localtime(time_s))


def read_time(text: str) -> float:
    """Local time, or seconds since 1970; raises `PrerequisiteError`."""
    if text.replace(".", "", 1).isdigit():
        return float(text)
    for form in _TIMES:
        try:
            return time.mktime(time.strptime(text, form))
        except ValueError:
            continue
    raise PrerequisiteError(f"--at: '{text}' is no time, such as '2026-11-25 21:44' or seconds since 1970", WRONG_INPUT)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=NAME, description="What has changed in the configuration.")
    parser.add_argument("--undo", metavar="COMMIT", help="take the commit of this number back, such as 1.46")
    parser.add_argument("--dry-run", action="store_true", help="only show what --undo would submit")
    parser.add_argument("--at", metavar="TIME", help="show what each object was at this time")
    parser.add_argument("--limit", type=int, default=_SHOWN, help="so many of the newest commits; 0 for all (20)")
    parser.add_argument("object", nargs="*", help="names or UUIDs; 'cluster' is the cluster itself")
    options = parser.parse_args(arguments)
    try:
        past = read(Paths(os.environ.get("GANETI_ROOTDIR", "").rstrip("/")))
        if options.undo is not None:
            return _undo(past, options.undo, dry_run=options.dry_run)
        wanted = [key for text in options.object for key in past.keys_of(text)]
        if options.at is None:
            print("\n".join(lines(past, wanted, max(0, options.limit))))
            return 0
        if not wanted:
            raise PrerequisiteError("--at needs the name of an object", WRONG_INPUT)
        for key in wanted:
            _show(past, key, read_time(options.at))
    except (GanetiError, OSError) as err:
        print(f"{NAME}: {err}", file=sys.stderr)
        return 1
    return 0


def _undo(past: Past, text: str, *, dry_run: bool) -> int:
    """Submit what takes a commit back as one job, and wait for its end."""
    from ganeti.tools import config_undo
    from ganeti.tools.htools.command_line.option_values import luxi_socket
    from ganeti.tools.htools.haskell.failures import ToolError
    from ganeti.tools.htools.programs.execution import Origin, submit, wait
    from ganeti.tools.htools.programs.session import Session

    epoch, _, serial = text.partition(".")
    if not epoch.isdigit() or not serial.isdigit():
        raise PrerequisiteError(f"'{text}' is no number of a commit, such as 1.46", WRONG_INPUT)
    found = config_undo.opcodes(past, (int(epoch), int(serial)))
    for opcode in found:
        print(json.dumps(opcode))
    if dry_run:
        return 0
    try:
        with Session(luxi_socket()) as session:
            (number,) = submit(session, [found], Origin("gnt-cluster undo", f"undo {text} by"))
            (status,) = wait(session, [number]).values()
    except ToolError as err:
        print(f"{NAME}: {err}", file=sys.stderr)
        return 1
    print(f"Job {number}: {status}")
    return 0 if status == SUCCESS else 1


def _show(past: Past, key: Key, time_s: float) -> None:
    plain = past.at(key, time_s)
    if plain is None:
        print(f"{label(key, past.present.get(key))} did not exist at {_shown_time(time_s)}")
        return
    hidden = {name: _HIDDEN if name in _SECRET and value else value for name, value in plain.items()}
    print(json.dumps({label(key, plain): hidden}, indent=2))


if __name__ == "__main__":
    sys.exit(main())
