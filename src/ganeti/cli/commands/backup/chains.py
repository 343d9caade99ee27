# SPDX-License-Identifier: BSD-2-Clause
"""gnt-backup history and key: tables of incremental backups, and the keys that they are encrypted with."""

from __future__ import annotations

import json
import os
import time

from ganeti.base.paths import Paths
from ganeti.cli import jobs
from ganeti.cli.commands import plain
from ganeti.cli.failures import Failure
from ganeti.cli.invocation import err, out
from ganeti.cli.tabular import print_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

_HEADINGS = ["Instance", "Backup", "Node", "Builds on", "Size", "Stored", "Made", "Proved"]
_TO_THE_RIGHT = [False, False, False, False, True, True, False, False]


def history(call: Invocation) -> int:
    """Of each backup where it is, what it takes, and when it was booted last."""
    log: list[Any] = []
    rows = jobs.ask(call, {"OP_ID": call.command.op_id, **call.parameters()}, log)
    for _, _, _, content in log:
        err(str(content))
    now_s = time.time()
    lines = [_line(row, now_s) for row in rows if not row["fault"]]
    print_table(_HEADINGS, _TO_THE_RIGHT, lines, headers=True, separator=None)
    faults = [row for row in rows if row["fault"]]
    for row in faults:
        out(f"Backup {row['id']} of {row['instance']} on {row['node']} cannot be used: {row['fault']}")
    return 1 if faults else 0


def forget(call: Invocation) -> int:
    """Ask before none is left."""
    if call.get("keep") == 0:
        return plain.submit(call)
    return jobs.run(call, {"OP_ID": call.command.op_id, **call.parameters("assume_yes")})


def key(call: Invocation) -> int:
    action = call.values["action"]
    if action == "new":
        key_id = jobs.submit_or_wait(call, {"OP_ID": call.command.op_id})
        if key_id is not jobs.SUBMITTED:
            out(f"New backups are encrypted with key {key_id}")
        return 0
    if action not in ("list", "show"):
        raise Failure(f"Command '{action}' is not valid: give new, list or show after '{call.command.line}'")
    keys = _keys()
    if not keys:
        out("There is no key yet: gnt-backup key new makes one")
    for number, (key_id, text) in enumerate(keys.items()):
        used = " (for new backups)" if number == len(keys) - 1 else ""
        out(f"{key_id}{used}" if action == "list" else f"{key_id} {text}")
    return 0


def schedule(call: Invocation) -> int:
    rows = jobs.submit_or_wait(call, {"OP_ID": call.command.op_id, **call.parameters()})
    if isinstance(rows, list) and call.get("action") == "list":
        lines = [_scheduled(row) for row in rows]
        headings = ["Name", "For", "Node", "Every", "Keep", "Prove every"]
        print_table(headings, [False, False, False, True, True, True], lines, headers=True, separator=None)
    return 0


def _scheduled(row: dict[str, Any]) -> list[str]:
    subject = f"{row['scope']} {row['target']}" if row["target"] else "all instances"
    prove = _age(row["prove"]) if row["prove"] else "-"
    return [row["name"], subject, row["node"], _age(row["interval"]), str(row["keep"]), prove]


def _keys() -> dict[str, str]:
    path = Paths(os.environ.get("GANETI_ROOTDIR", "")).config_file
    try:
        with open(path, encoding="utf-8") as file:
            return dict((json.load(file).get("backups") or {}).get("keys") or {})
    except OSError as err:
        raise Failure(f"The keys are in {path}, which cannot be read ({err.strerror}): be root on the master") from err


def _line(row: dict[str, Any], now_s: float) -> list[str]:
    proved = row["proved"]
    if proved is None:
        told = "never"
    else:
        age = f"{_age(now_s - proved['time'])} ago"
        told = f"{age}: {proved['sign']}" if proved["good"] else f"FAILED {age}: {proved['sign']}"
    return [
        row["instance"],
        row["id"],
        row["node"],
        row["parent"] or "-",
        _amount(row["size"]),
        _amount(row["stored"]),
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row["created"])),
        told,
    ]


def _amount(size: int) -> str:
    for unit, word in ((2**30, "G"), (2**20, "M")):
        if size >= unit:
            return f"{size / unit:.1f}{word}"
    return f"{size / 2**10:.0f}K"


def _age(seconds: float) -> str:
    for unit, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.0f} {word}"
    return f"{max(0, seconds):.0f} s"
