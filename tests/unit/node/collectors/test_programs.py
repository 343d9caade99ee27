# SPDX-License-Identifier: BSD-2-Clause
"""Programs of collectors: bad ones are ended, whole, and say why."""

import asyncio
import os
import time

import pytest

from ganeti.node.collectors.programs import STANDARD_PATH, output_of
from ganeti.node.collectors.report import UnreadableError


def run(script: str, *, timeout_s: float = 20.0, limit_bytes: int = 1000) -> bytes:
    return asyncio.run(output_of(["/bin/sh", "-c", script], timeout_s=timeout_s, limit_bytes=limit_bytes))


def test_what_it_prints():
    assert run("echo well; echo noise >&2") == b"well\n"


def test_it_inherits_nothing_of_its_daemon(monkeypatch):
    """Neither what the daemon was started with nor its standard input; it may say something else by hand otherwise."""
    monkeypatch.setenv("SECRET", "in the environment")
    reader, writer = os.pipe()
    before = os.dup(0)
    os.dup2(reader, 0)
    try:
        os.write(writer, b"of somebody else")
        os.close(writer)
        told = run("/usr/bin/env | sort; pwd; cat").decode().splitlines()
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(reader)
    shells_own = ("PWD=", "SHLVL=", "OLDPWD=", "_=")
    assert [line for line in told if not line.startswith(shells_own)] == ["LC_ALL=C", f"PATH={STANDARD_PATH}", "/"]


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("exit 3", "sh ended with status 3"),
        ("kill -9 $$", "sh ended with status -9"),
        ("yes", "sh printed more than 1000 bytes and was stopped"),
        ("sleep 1000", "sh did not end within 0.3 seconds and was stopped"),
        ("sleep 1000 & exec 1>&-; wait", "sh did not end within 0.3 seconds and was stopped"),
    ],
)
def test_a_bad_one(script, complaint):
    begin_s = time.monotonic()
    with pytest.raises(UnreadableError, match=complaint):
        run(script, timeout_s=0.3)
    assert time.monotonic() - begin_s < 10


def test_its_children_end_with_it(tmp_path):
    place = tmp_path / "child"
    with pytest.raises(UnreadableError):
        run(f"sleep 1000 & echo $! > {place}; wait", timeout_s=0.5)
    pid = int(place.read_text())
    for _ in range(1000):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] in "ZX":
                    return
        except FileNotFoundError:
            return
        time.sleep(0.005)
    raise AssertionError(f"{pid} lives")


def test_one_that_is_not_there():
    with pytest.raises(UnreadableError, match="nothing cannot be started: No such file or directory"):
        asyncio.run(output_of(["/nowhere/nothing"], timeout_s=1.0, limit_bytes=10))
