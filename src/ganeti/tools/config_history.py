# SPDX-License-Identifier: BSD-2-Clause
"""`config-history`: what has changed in the configuration, and what an object was at a time, from the newest commits.

The database keeps the last thousand commits (`config/stream`), each with the objects as they were after it.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from ganeti.base.errors import WRONG_INPUT, GanetiError, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.base.terminal import SPEAKER
from ganeti.tools import config_undo
from ganeti.tools.config_past import EVER, Key, Past, label, read, shown_time
from ganeti.tools.fingerprints import shortened
from ganeti.wire.job_file import SUCCESS

NAME = "config-history"
_SHOWN = 20
_TIMES = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d")
_HIDDEN = "<hidden>"
_SECRET = ("osparams_private", "osparams_private_cluster", "keys")
"""Fields whose values are shown to nobody: of the last one these are the keys of backups."""
_NOTES = {"backups": ("tried", "done")}
"""Fields by which the cluster remembers what it has done; they are shown only where their object is asked for."""


def lines(past: Past, wanted: Sequence[Key], limit: int) -> list[str]:
    """One line for each commit that concerns *wanted* (all, if empty), the newest last."""
    before: dict[Key, dict[str, Any]] = {}
    found = []
    for made_s, event in past.events:
        parts = []
        for kind, uuid, plain in event.put:
            key = (kind, uuid)
            if key in wanted or not wanted:
                left_out = () if wanted else _NOTES.get(kind, ())
                if told := _difference(before.get(key), plain, left_out):
                    parts.append(f"{label(key, plain)}: {told}")
            before[key] = plain
        for kind, uuid in event.remove:
            if not wanted or (kind, uuid) in wanted:
                parts.append(f"{label((kind, uuid), before.get((kind, uuid)))}: removed")
        if parts:
            epoch, serial = event.position
            found.append(f"{shown_time(made_s)} {epoch}.{serial} {'; '.join(parts)}")
    return found[-limit:] if limit else found


def _difference(before: dict[str, Any] | None, after: dict[str, Any], left_out: Sequence[str]) -> str:
    """Empty where nothing has changed but what is *left_out*."""
    if before is None:
        return "added" if after.get("serial_no") == 1 else "changed"
    names = [name for name in {**before, **after} if name not in EVER and before.get(name) != after.get(name)]
    if names and not set(names) - set(left_out):
        return ""
    changes = (_changes(name, before.get(name), after.get(name), name) for name in names)
    return ", ".join(each for part in changes for each in part) or "no field but its serial number"


def _changes(path: str, before: Any, after: Any, name: str) -> Iterator[str]:
    """Of dictionaries only what differs: those of the cluster are long."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            if key not in after:
                yield f"{path}.{key} removed"
            elif key not in before or before[key] != after[key]:
                yield from _changes(f"{path}.{key}", before.get(key), after[key], name)
        return
    yield f"{path}={_HIDDEN if name in _SECRET else json.dumps(shortened(after))}"


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
        print(f"{os.environ.get(SPEAKER, NAME)}: {err}", file=sys.stderr)
        return 1
    return 0


def _undo(past: Past, text: str, *, dry_run: bool) -> int:
    """Submit what takes a commit back as one job, and wait for its end."""
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
        print(f"{os.environ.get(SPEAKER, NAME)}: {err}", file=sys.stderr)
        return 1
    print(f"Job {number}: {status}")
    return 0 if status == SUCCESS else 1


def _show(past: Past, key: Key, time_s: float) -> None:
    plain = past.at(key, time_s)
    if plain is None:
        print(f"{label(key, past.present.get(key))} did not exist at {shown_time(time_s)}")
        return
    hidden = {name: _HIDDEN if name in _SECRET and value else shortened(value) for name, value in plain.items()}
    print(json.dumps({label(key, plain): hidden}, indent=2))


if __name__ == "__main__":
    sys.exit(main())
