# SPDX-License-Identifier: BSD-2-Clause
"""Programs of node calls: what they get, what is said of them, and that none outlives its call."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ganeti.base.errors import CommandError
from ganeti.base.paths import Paths
from ganeti.noded import world as node_world
from ganeti.noded.world import RealNodeWorld, end_orphans


@pytest.fixture
def world(tmp_path: Path) -> RealNodeWorld:
    return RealNodeWorld(Paths(str(tmp_path)), "node1")


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + 10
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return path.read_text()


def test_output_input_directory_and_environment(world, tmp_path: Path) -> None:
    done = asyncio.run(
        world.run(["sh", "-c", "cat; pwd; echo $A; echo $HOME; echo e >&2"], stdin=b"in\n", cwd="/", env={"A": "b"})
    )
    assert (done.stdout, done.stderr, done.status) == ("in\n/\nb\n\n", "e\n", 0)
    assert done.output == "in\n/\nb\n\ne"


def test_failures_are_told_in_one_sentence(world, tmp_path: Path) -> None:
    for argv, sentence in (
        (["sh", "-c", "echo no disk; exit 4"], "sh ended with status 4: no disk"),
        (["sh", "-c", "kill -9 $$"], "sh was ended by signal SIGKILL: it said nothing"),
        (["/no/such/program"], "/no/such/program cannot be started: the program is not there, install it"),
        (["/proc/version"], "/proc/version cannot be started: it is not executable"),
    ):
        with pytest.raises(CommandError) as caught:
            asyncio.run(world.run(argv))
        assert str(caught.value) == sentence
    assert asyncio.run(world.run(["false"], check=False)).status == 1
    log = tmp_path / "logs/os/x.log"
    with pytest.raises(CommandError, match=rf"status 1: to the log \(log: {log}\)"):
        asyncio.run(world.run(["sh", "-c", "echo to the log; exit 1"], log_path=str(log)))
    assert log.stat().st_mode & 0o777 == 0o640


def test_a_program_that_takes_too_long_is_ended_with_its_children(world, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with pytest.raises(CommandError, match=r"sh did not end within 0.3 seconds and was stopped"):
        asyncio.run(world.run(["sh", "-c", f"sleep 60 & echo $! >{pids}; sleep 60"], timeout_s=0.3))
    assert not runs(int(pids.read_text()))
    assert list(tmp_path.glob("run/ganeti/node-calls/*")) == []


def test_even_one_that_ignores_being_asked_is_ended_when_its_call_is(
    world, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_world, "TERMINATION_GRACE_S", 0.2)
    pids = tmp_path / "pids"

    async def whole() -> None:
        script = f"trap '' TERM; echo $$ >{pids}; while :; do sleep 0.05; done"
        call = asyncio.create_task(world.run(["sh", "-c", script]))
        await asyncio.to_thread(wait_for, pids)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert not runs(int(pids.read_text()))

    asyncio.run(whole())


def test_a_background_program_that_keeps_the_pipe_does_not_hold_the_call(world) -> None:
    begun = time.monotonic()
    done = asyncio.run(world.run(["sh", "-c", "echo said; setsid sleep 5 & sleep 0.05"]))
    assert done.stdout == "said\n"
    assert time.monotonic() - begun < 4


@pytest.mark.parametrize(("own", "umask"), [(True, "0077"), (False, "0027")])
def test_what_scripts_of_the_administrator_write_is_for_root_alone(world: RealNodeWorld, own: bool, umask: str) -> None:
    """As in 3.1; what the daemon itself runs, such as QEMU, may share with its group."""
    before = os.umask(0o027)
    try:
        done = asyncio.run(world.run(["sh", "-c", "umask"], leaves_background=own))
    finally:
        os.umask(before)
    assert done.stdout.strip() == umask


def test_what_a_program_has_put_into_the_background_stays_where_it_may(world, tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = f"(sleep 0.2; echo done >{told}) >/dev/null 2>&1 &"
    asyncio.run(world.run(["sh", "-c", script], leaves_background=True))
    assert wait_for(told) == "done\n"
    told.unlink()
    asyncio.run(world.run(["sh", "-c", script]))
    time.sleep(0.4)
    assert not told.exists()


def test_a_spawned_process_outlives_whoever_started_it(world, tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from ganeti.base.paths import Paths\n"
        "from ganeti.noded.world import RealNodeWorld\n"
        "async def main():\n"
        f"    world = RealNodeWorld(Paths({str(tmp_path)!r}), 'node1')\n"
        "    print(await world.spawn(['sleep', '60']), flush=True)\n"
        "asyncio.run(main())\n"
    )
    pid = int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    try:
        assert runs(pid)
        assert os.getpgid(pid) == pid
    finally:
        os.kill(pid, signal.SIGKILL)


def test_an_ended_spawned_process_is_reaped(world) -> None:
    async def whole() -> None:
        pid = await world.spawn(["true"])
        await asyncio.wait_for(world._spawned[pid], 10)
        assert not os.path.exists(f"/proc/{pid}")

    asyncio.run(whole())


def test_orphans_of_a_killed_daemon_are_ended_and_strangers_left_alone(world, tmp_path: Path) -> None:
    records = Path(world.paths.run_dir, "node-calls")
    pids = tmp_path / "pids"
    code = (
        "import asyncio\n"
        "from ganeti.base.paths import Paths\n"
        "from ganeti.noded.world import RealNodeWorld\n"
        f"world = RealNodeWorld(Paths({str(tmp_path)!r}), 'node1')\n"
        f"asyncio.run(world.run(['sh', '-c', 'sleep 60 & echo $! >{pids}; wait']))\n"
    )
    daemon = subprocess.Popen([sys.executable, "-c", code])
    child = int(wait_for(pids))
    daemon.kill()
    daemon.wait()
    assert runs(child)
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    (records / str(stranger.pid)).write_text("another-boot 123")
    try:
        assert end_orphans(world.paths) == 1
        deadline = time.monotonic() + 10
        while runs(child):
            assert time.monotonic() < deadline
        assert stranger.poll() is None
        assert list(records.iterdir()) == []
    finally:
        stranger.kill()
        stranger.wait()


def test_what_a_program_began_in_sessions_of_its_own_ends_with_its_call(world, tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    async def whole() -> None:
        script = f"setsid sh -c 'setsid sleep 60 & echo $! >{pids}; exit' & wait; sleep 60"
        call = asyncio.create_task(world.run(["sh", "-c", script]))
        await asyncio.to_thread(wait_for, pids)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(whole())
    deadline = time.monotonic() + 10
    while runs(int(pids.read_text())):  # a signal that was sent takes its moment
        assert time.monotonic() < deadline
