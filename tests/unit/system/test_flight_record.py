# SPDX-License-Identifier: BSD-2-Clause
"""The flight recorder: what is read of it, and that it stays within its bound."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ganeti.system.flight_record import LONGEST_TEXT, FlightRecord, job, names_in, read


def test_lines_of_all_daemons_are_read_in_order_of_time(tmp_path: Path) -> None:
    one, other = FlightRecord(str(tmp_path), "node-daemon"), FlightRecord(str(tmp_path), "luxi-daemon")
    one.note([job(7), "web1"], "second", 20.0)
    other.note([job(7), "web1", "web1"], "first", 10.0)
    one.note([job(71), "web10"], "of others", 15.0)
    (tmp_path / "node-daemon.log").write_text("no record")
    assert [noted.text for noted in read(str(tmp_path), ["web1"], 0.0, 10)] == ["first", "second"]
    assert [noted.text for noted in read(str(tmp_path), [job(7)], 15.0, 10)] == ["second"]
    other.note(["web2"], "web1", 16.0)
    assert len(read(str(tmp_path), ["web1"], 0.0, 10)) == 2, "a line that only says the name is not about it"
    other.note(["web2"], "third", 17.0)
    assert [noted.text for noted in read(str(tmp_path), [], 0.0, 2)] == ["third", "second"]
    assert read(f"{tmp_path}/none", [], 0.0, 10) == []


@pytest.mark.parametrize("lines_each", [200, 7, 1])
def test_it_never_grows_beyond_its_bound_and_keeps_the_newest(tmp_path: Path, lines_each: int) -> None:
    """Also by a daemon that ends after some lines, or after each one, and is started again."""
    record = FlightRecord(str(tmp_path), "node-daemon", limit_bytes=2000)
    for number in range(200):
        if number % lines_each == 0:
            record.close()
            record = FlightRecord(str(tmp_path), "node-daemon", limit_bytes=2000)
        record.note(["web1"], f"line {number}", float(number))
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == 2 and max(sizes) <= 2000
    texts = [noted.text for noted in read(str(tmp_path), ["web1"], 0.0, 1000)]
    assert texts[-1] == "line 199" and texts == [f"line {number}" for number in range(200 - len(texts), 200)]
    assert len(texts) > 40
    record.note(["web1"], "x" * 10_000, 300.0)
    assert len(read(str(tmp_path), ["web1"], 300.0, 1)[0].text) == LONGEST_TEXT + 1


def test_a_later_daemon_goes_on_and_a_torn_line_counts_for_nothing(tmp_path: Path) -> None:
    FlightRecord(str(tmp_path), "node-daemon").note(["web1"], "before", 1.0)
    with open(tmp_path / "node-daemon.record", "ab") as file:
        file.write(b'[2.0, ["web1"], "to\n[3.0, "web1"]\n')
    FlightRecord(str(tmp_path), "node-daemon").note(["web1"], "after", 4.0)
    assert [noted.text for noted in read(str(tmp_path), ["web1"], 0.0, 10)] == ["before", "after"]
    assert os.stat(tmp_path / "node-daemon.record").st_mode & 0o007 == 0


def test_what_cannot_be_written_is_lost_and_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    record = FlightRecord(f"{tmp_path}/none", "node-daemon")
    record.note(["web1"], "a")
    record.note(["web1"], "b")
    assert len([line for line in caplog.messages if "lines are lost" in line]) == 1


def test_whom_an_opcode_is_about() -> None:
    opcode = {"OP_ID": "OP_X", "instance_name": "web1", "pnode": "node1", "snode": None, "nodes": ["n2", 3], "name": ""}
    assert names_in(opcode) == ["web1", "node1", "n2"]
