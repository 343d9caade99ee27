# SPDX-License-Identifier: BSD-2-Clause
"""gnt-backup files and fetch: look into a backup, and copy a file out of it."""

from __future__ import annotations

import os
import shutil
import stat

from ganeti.cli import jobs
from ganeti.cli.failures import Failure
from ganeti.cli.invocation import err, out
from ganeti.cli.tabular import print_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

_UNREADABLE = "no: restore it as a new instance"


def listing(call: Invocation) -> int:
    """File systems, or the entries of a directory; status 1 where an entry of it is damaged."""
    found = jobs.ask(call, {"OP_ID": call.command.op_id, **call.parameters()})
    if "file_systems" in found:
        lines = [_file_system(each) for each in found["file_systems"]]
        headings = ["Disk", "Partition", "Volume", "Type", "Label", "Readable"]
        print_table(headings, [True, True, False, False, False, False], lines, headers=True, separator=None)
        return 0
    entries = found["entries"]
    lines = [_entry(each) for each in ([found["file"]] if entries is None else entries)]
    print_table(
        ["Mode", "User", "Group", "Size", "Name"], [False, True, True, True, False], lines, headers=True, separator=None
    )
    if found["cut"]:
        out(f"There are more than these {len(lines)}")
    damaged = [each for each in entries or () if each["problem"]]
    for each in damaged:
        err(f"{_printable(each['name'])} cannot be read: {each['problem']}")
    return 1 if damaged else 0


def fetch(call: Invocation) -> int:
    """Have the file read, and put it where it is wanted."""
    asked = call.parameters("output")
    target = call.get("output") or os.path.basename(asked["path"].rstrip("/"))
    if not target:
        raise Failure(f"{asked['path']} names no file: give its path in the guest")
    if os.path.isdir(target):
        target = os.path.join(target, os.path.basename(asked["path"]))
    _require_free(target)
    found = jobs.ask(call, {"OP_ID": call.command.op_id, **asked})
    _put(found["file"], target)
    out(f"{target}: {found['size']} bytes, of backup {found['backup']}")
    return 0


def _require_free(target: str) -> None:
    directory = os.path.dirname(target) or "."
    if os.path.lexists(target):
        raise Failure(f"{target} is there already: name another file with -o")
    if not os.path.isdir(directory):
        raise Failure(f"{directory} is not a directory: make it, or name another place with -o")


def _put(source: str, target: str) -> None:
    made = False
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        made = True
        with open(source, "rb") as old, open(descriptor, "wb") as new:
            shutil.copyfileobj(old, new, 1 << 20)
    except OSError as err:
        if made:
            os.unlink(target)
        raise Failure(f"{target} cannot be written ({err.strerror}); the file is at {source}") from err
    os.unlink(source)


def _file_system(each: dict[str, Any]) -> list[str]:
    partition = str(each["partition"]) if each["partition"] else "-"
    readable = "yes" if each["readable"] else _UNREADABLE
    names = [_printable(each[key]) or "-" for key in ("volume", "kind", "label")]
    return [str(each["disk"]), partition, *names, readable]


def _entry(each: dict[str, Any]) -> list[str]:
    if each["problem"]:
        return ["??????????", "?", "?", "?", _printable(each["name"])]
    return [
        stat.filemode(each["mode"]),
        str(each["uid"]),
        str(each["gid"]),
        str(each["size"]),
        _printable(each["name"]),
    ]


def _printable(text: str) -> str:
    """A guest chose these letters: none of them may act on a terminal."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)
