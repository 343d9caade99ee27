# SPDX-License-Identifier: BSD-2-Clause
"""Lines of daemons' logs: one for each message, and nothing in one steers the terminal that shows it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganeti.system.logs import ReopeningHandler, SentenceFormatter, _SyslogFormatter, reopen_logs, set_up_logs

EVIL = "POST /2/x\x1b[2J\r\n2026-11-29 12:00:00,000: ganeti-rapi pid=1 INFO alice\x9b31m failed"
HARMLESS = r"POST /2/x\x1b[2J\x0d 2026-11-29 12:00:00,000: ganeti-rapi pid=1 INFO alice\x9b31m failed"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """The log of a daemon in *tmp_path*; the handlers of the tests are back afterwards."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    root.handlers = []
    try:
        set_up_logs("ganeti-rapi", str(tmp_path))
        yield tmp_path / "rapi-daemon.log"
    finally:
        for handler in root.handlers:
            handler.close()
        root.handlers, root.level = before, level


def test_a_message_is_one_line_without_control_characters(log: Path) -> None:
    logging.getLogger("test").error("%s", EVIL)
    text = log.read_text()
    assert text.endswith(f"ERROR {HARMLESS}\n")
    assert text.count("\n") == 1


def test_on_a_full_disk_one_sentence_tells_that_lines_are_lost(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    handler = logging.getLogger().handlers[0]
    assert isinstance(handler, ReopeningHandler)
    handler.setStream(os.fdopen(os.open("/dev/full", os.O_WRONLY), "a", encoding="utf-8"))
    for number in range(3):
        logging.getLogger("test").error("line %d", number)
    handler.close()
    assert capsys.readouterr().err == f"{log} cannot be written: No space left on device; lines are lost\n"


def test_a_log_that_cannot_be_opened_again_goes_on_in_the_old_file(log: Path) -> None:
    moved = log.rename(log.parent / "old.log")
    log.mkdir()
    reopen_logs()
    logging.getLogger("test").error("still here")
    said = moved.read_text().splitlines()
    assert f"the log continues in the old file: {log} cannot be opened: Is a directory" in said[0]
    assert said[1].endswith("ERROR still here")


def test_a_traceback_keeps_its_lines_and_no_control_character() -> None:
    try:
        raise ValueError(EVIL)
    except ValueError as err:
        record = logging.LogRecord("x", logging.ERROR, "x", 1, "it failed", (), (type(err), err, err.__traceback__))
    for line in (SentenceFormatter("ganeti-rapi").format(record), _SyslogFormatter("%(message)s").format(record)):
        assert "Traceback" in line
        assert "\x1b" not in line
    assert "\n" not in _SyslogFormatter("%(message)s").format(record)
