# SPDX-License-Identifier: BSD-2-Clause
"""A process is a guest's only if its command line names the very pid file: a recycled id is nobody's guest."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ganeti.base.paths import Paths
from ganeti.node.hypervisors import affinity
from ganeti.node.hypervisors.interface import check_name
from ganeti.node.hypervisors.kvm import console, process
from ganeti.node.hypervisors.kvm.places import Places


@pytest.fixture
def places(tmp_path: Path) -> Places:
    made = Places(Paths(str(tmp_path)))
    made.prepare()
    return made


@pytest.fixture
def running(places: Places):
    """A process that looks like the guest ``web1``."""
    argv = [sys.executable, "-c", "import time; time.sleep(60)", "-pidfile", places.pid("web1")]
    child = subprocess.Popen(argv)
    Path(places.pid("web1")).write_text(f"{child.pid}\n")
    while not process.is_guest(child.pid, places.pid("web1")):
        assert child.poll() is None
    yield child
    child.kill()
    child.wait()


def test_a_guest_is_found_and_killed(places: Places, running: subprocess.Popen[bytes]) -> None:
    async def story() -> None:
        found = process.find(places, "web1")
        assert found is not None and found.pid == running.pid
        assert [one.name for one in process.find_all(places)] == ["web1"]
        assert not await found.wait_end(0.05)
        await found.kill()
        assert await found.wait_end(5)
        assert process.find(places, "web1") is None  # although nobody has waited for it yet
        await found.kill()

    asyncio.run(story())


def test_a_guest_whose_pid_file_is_gone_is_ended_all_the_same(places: Places, running: subprocess.Popen[bytes]) -> None:
    Path(places.pid("web1")).unlink()
    Path(places.process("web1")).write_text(str(running.pid))
    assert process.find(places, "web1") is None
    asyncio.run(process.end_last(places, "web1"))
    assert running.wait(5) < 0
    asyncio.run(process.end_last(places, "web1"))


def test_a_stranger_with_the_id_of_the_last_process_is_left_alone(
    places: Places, running: subprocess.Popen[bytes]
) -> None:
    Path(places.process("web2")).write_text(str(running.pid))
    asyncio.run(process.end_last(places, "web2"))
    assert running.poll() is None


def test_a_recycled_id_is_no_guest(places: Places, running: subprocess.Popen[bytes]) -> None:
    Path(places.pid("web2")).write_text(str(running.pid))
    assert process.find(places, "web2") is None
    stranger = process.GuestProcess("web2", running.pid, places.pid("web2"))
    asyncio.run(stranger.kill())
    assert running.poll() is None


@pytest.mark.parametrize("text", ["", "nonsense", "0", "-1", "99999999"])
def test_a_pid_file_with_nonsense_is_nobody(places: Places, text: str) -> None:
    Path(places.pid("web1")).write_text(text)
    assert process.find(places, "web1") is None
    assert process.find_all(places) == []


def test_figures_of_a_process() -> None:
    assert process.cpu_time_s(os.getpid()) > 0
    assert process.resident_mib(os.getpid()) > 1
    assert process.cpu_time_s(99999999) == 0.0


def test_masks() -> None:
    assert affinity.parse("all") == [None]
    assert affinity.parse("0-3,6,^2") == [frozenset({0, 1, 3, 6})]
    assert affinity.parse("1:all:0-1") == [frozenset({1}), None, frozenset({0, 1})]


def test_names_are_checked() -> None:
    check_name("web1.example.com")
    for name in ("", "..", "a/b"):
        with pytest.raises(Exception, match="host name"):
            check_name(name)


def test_a_console_behind_a_long_path_is_entered_by_its_directory() -> None:
    assert console.serial_command("/run/a.serial")[-1] == "UNIX-CONNECT:/run/a.serial"
    command = console.serial_command(f"/run/{'d' * 120}/a.serial")
    assert command[:2] == ["sh", "-c"] and "UNIX-CONNECT:a.serial" in command[2]
