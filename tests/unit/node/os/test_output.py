# SPDX-License-Identifier: BSD-2-Clause
"""Lines of a script, as whoever follows it gets them."""

from pathlib import Path

from ganeti.node.os import output


def test_whole_lines_come_as_they_are_written(tmp_path: Path) -> None:
    log = tmp_path / "add.log"
    assert output.said("unknown", 0).lines == []
    output.begin("run", str(log))
    assert (output.said("run", 0).lines, output.said("run", 0).log) == ([], str(log))
    log.write_text("one\nt\x1bwo\n\nthr")
    found = output.said("run", 0)
    assert found.lines == ["one", "t wo"]
    assert output.said("run", found.offset).lines == []
    assert output.rest("run", found.offset).lines == ["thr"]
    with log.open("a") as file:
        file.write("ee\n")
    assert output.rest("run", found.offset).lines == ["three"]


def test_runs_of_one_second_have_a_log_together_and_lines_of_their_own(tmp_path: Path) -> None:
    log = tmp_path / "export.log"
    log.write_text("of disk 0\n")
    output.begin("disk 1", str(log))
    with log.open("a") as file:
        file.write("of disk 1\nend")
    found = output.said("disk 1", 0)
    assert found.lines == ["of disk 1"]
    assert output.rest("disk 1", found.offset).lines == ["end"]


def test_long_lines_are_cut_and_old_runs_forgotten(tmp_path: Path) -> None:
    log = tmp_path / "add.log"
    output.begin("long", str(log))
    log.write_text("x" * (output.PIECE_BYTES + 10))
    (line,) = output.said("long", 0).lines
    assert line == "x" * output.LONGEST_LINE + "…"
    for number in range(300):
        output.begin(f"run {number}", str(log))
    assert output.said("long", 0).log == ""


def test_what_a_job_may_not_show_is_hidden_in_its_lines(tmp_path: Path) -> None:
    log = tmp_path / "add.log"
    output.begin("run", str(log), ["hunter2", "hunter2345", "first line\nsecond line\n", "yes"])
    log.write_text("+ word=hunter2 more=hunter2345\nfirst line\n-> second line\nyes\nends with hunter2")
    found = output.said("run", 0)
    assert found.lines == ["+ word=<redacted> more=<redacted>", "<redacted>", "-> <redacted>", "yes"]
    assert output.rest("run", found.offset).lines == ["ends with <redacted>"]
