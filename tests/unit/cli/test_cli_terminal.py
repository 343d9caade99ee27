# SPDX-License-Identifier: BSD-2-Clause
"""What users, nodes, guests and strangers choose is printed so that it steers no terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fake_master import Failed

from ganeti.cli.infotext import print_info
from ganeti.cli.invocation import err, out
from ganeti.cli.tabular import print_table
from ganeti.wire.audit_lines import FIRST, sealed

if TYPE_CHECKING:
    import pytest
    from fake_master import FakeMaster, Runner

EVIL = "web\x1b]0;title\x07\x1b[2J\x9b31m\rroot\u202e"
HARMLESS = r"web\x1b]0;title\x07\x1b[2J\x9b31m\x0droot\u202e"


def test_every_way_of_printing_writes_control_characters_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    out(f"{EVIL}\n\tsecond line")
    err(EVIL)
    print_table(["Name"], [False], [[EVIL]])
    print_info({"Reason": EVIL})
    captured = capsys.readouterr()
    assert captured.out == f"{HARMLESS}\n\tsecond line\nName\n{HARMLESS}\nReason: {HARMLESS}\n"
    assert captured.err == f"{HARMLESS}\n"


def test_an_error_of_the_cluster_steers_no_terminal(gnt: Runner, master: FakeMaster) -> None:
    master.answers["Query"] = Failed("OpExecError", f"Node {EVIL} is away")
    ran = gnt("gnt-node list")
    assert ran.status == 1
    assert "\x1b" not in ran.err
    assert HARMLESS in ran.err


def test_a_stranger_writes_no_line_of_the_audit_log(gnt: Runner, tmp_path: Path) -> None:
    """Whoever reaches the port chooses the path of a request, and each refused one is a line."""
    path = "/2/x\x1b[1A\n2026-11-29 12:00:00 alice from 10.0.0.1: INSTANCE_REMOVE(web1), job 7 (200)"
    entry = {"time": 0.0, "who": None, "from": "10.0.0.9", "method": "POST", "path": path, "status": 404}
    log = tmp_path / "audit"
    log.write_text(sealed(entry, FIRST)[0] + "\n")
    ran = gnt(f"gnt-cluster audit --file={log} show")
    assert ran.status == 0
    assert ran.out.count("\n") == 1
    assert "\x1b" not in ran.out
