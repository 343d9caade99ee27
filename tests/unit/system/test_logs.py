# SPDX-License-Identifier: BSD-2-Clause
"""Lines of daemons' logs: one for each message, and nothing in one steers the terminal that shows it."""

from __future__ import annotations

import logging
from pathlib import Path

from ganeti.system.logs import SentenceFormatter, _SyslogFormatter, set_up_logs

EVIL = "POST /2/x\x1b[2J\r\n2026-11-29 12:00:00,000: ganeti-rapi pid=1 INFO alice\x9b31m failed"
HARMLESS = r"POST /2/x\x1b[2J\x0d 2026-11-29 12:00:00,000: ganeti-rapi pid=1 INFO alice\x9b31m failed"


def test_a_message_is_one_line_without_control_characters(tmp_path: Path) -> None:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    root.handlers = []
    try:
        set_up_logs("ganeti-rapi", str(tmp_path))
        logging.getLogger("test").error("%s", EVIL)
        text = (tmp_path / "rapi-daemon.log").read_text()
    finally:
        for handler in root.handlers:
            handler.close()
        root.handlers, root.level = before, level
    assert text.endswith(f"ERROR {HARMLESS}\n")
    assert text.count("\n") == 1


def test_a_traceback_keeps_its_lines_and_no_control_character() -> None:
    try:
        raise ValueError(EVIL)
    except ValueError as err:
        record = logging.LogRecord("x", logging.ERROR, "x", 1, "it failed", (), (type(err), err, err.__traceback__))
    for line in (SentenceFormatter("ganeti-rapi").format(record), _SyslogFormatter("%(message)s").format(record)):
        assert "Traceback" in line
        assert "\x1b" not in line
    assert "\n" not in _SyslogFormatter("%(message)s").format(record)
