# SPDX-License-Identifier: BSD-2-Clause
"""The parts of a disk that QEMU notes changes of, and a storage daemon that starts and does not answer."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ganeti.base.paths import Paths
from ganeti.mirrord import storage_daemon
from ganeti.mirrord.processes import living
from ganeti.mirrord.storage_daemon import StorageDaemon, add_image, part_bytes
from ganeti.node.hypervisors.kvm.qmp import QmpError
from ganeti.node.storage.mirror.places import Places
from ganeti.system.boot import process_start

GIB = 2**30


@pytest.mark.parametrize(
    ("size", "length"),
    [(0, 4096), (64 * GIB, 4096), (64 * GIB + 1, 8192), (1024 * GIB, 65536), (100 * 1024 * GIB, 65536)],
)
def test_parts_grow_with_the_disk(size, length):
    assert part_bytes(size) == length


GREETS = """#!{python}
import json, os, socket, sys
path = next(word for word in sys.argv if "path=" in word).partition("path=")[2].split(",")[0]
first = not os.path.exists("{mark}")
open("{mark}", "a").close()
door = socket.socket(socket.AF_UNIX)
door.bind(path)
door.listen()
while True:
    client, _ = door.accept()
    client.sendall(b'{{"QMP": {{}}}}\\n')
    for number, line in enumerate(client.makefile()):
        if not first or number < {answers}:
            found = [] if first else ["an export"]
            client.sendall(json.dumps({{"id": json.loads(line)["id"], "return": found}}).encode() + b"\\n")
"""


@pytest.mark.parametrize("answers", [0, 1, 2, 3])
def test_one_that_stops_answering_its_first_client_is_replaced(
    answers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "storage-daemon"
    program.write_text(GREETS.format(python=sys.executable, mark=tmp_path / "started", answers=answers))
    program.chmod(0o755)
    places = Places(Paths(str(tmp_path)))
    os.makedirs(places.directory)
    os.makedirs(places.paths.log_dir)
    monkeypatch.setattr(storage_daemon, "PROGRAM", str(program))
    monkeypatch.setattr(storage_daemon, "_FIRST_ANSWER_S", 0.3)
    monkeypatch.setattr(storage_daemon, "_SERVES_WITHIN_S", 1.0)

    async def play() -> None:
        daemon = StorageDaemon(places, "disk", str(tmp_path / "image"))
        await daemon.start("disk-0")
        living = daemon.process_id()
        await daemon.stop()
        assert living is not None and daemon.process_id() is None

    asyncio.run(play())


QUESTIONS = {"query-block-exports": [], "query-named-block-nodes": [{"node-name": "file"}, {"node-name": "disk"}]}


def test_one_that_was_left_without_its_export_shows_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ganeti-mirrord ended after it had withdrawn the export."""
    places, asked = Places(Paths(str(tmp_path))), []

    class Answering:
        async def execute(self, command: str, arguments: dict[str, object] | None = None) -> object:
            asked.append(command)
            return QUESTIONS.get(command)

    daemon = StorageDaemon(places, "disk", str(tmp_path / "image"))
    monkeypatch.setattr(daemon, "process_id", os.getpid)
    monkeypatch.setattr(daemon, "_qmp", Answering())
    asyncio.run(daemon.start("disk-0"))
    assert [command for command in asked if command not in QUESTIONS] == ["block-export-add"]


@pytest.mark.parametrize("has", [["file"], ["file", "disk"]], ids=["its image", "all but its server"])
def test_one_that_was_begun_by_a_killed_mirrord_is_replaced(
    has: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 88 of the faults on mirrored disks: "Duplicate nodes with node-name='file'", and the disk stood still."""

    class Half:
        def __init__(self, nodes: list[str]) -> None:
            self.nodes, self.exports = nodes, 0
            self.listens = False

        def close(self) -> None:
            return

        async def execute(self, command: str, arguments: dict[str, Any] | None = None) -> object:
            name = str((arguments or {}).get("node-name"))
            if command == "blockdev-add" and name in self.nodes:
                raise QmpError(f"Duplicate nodes with node-name='{name}'", "GenericError")
            if command == "block-export-add" and not self.listens:
                raise QmpError("NBD server not running", "GenericError")
            self.nodes += [name] if command == "blockdev-add" else []
            self.exports += command == "block-export-add"
            self.listens |= command == "nbd-server-start"
            return {
                "query-block-exports": [{}] * self.exports,
                "query-named-block-nodes": [{"node-name": each} for each in self.nodes],
            }.get(command)

    places = Places(Paths(str(tmp_path)))
    daemon = StorageDaemon(places, "disk", str(tmp_path / "image"))
    monitors: list[Half] = []
    runs = True

    async def spawn() -> None:
        nonlocal runs
        monitors.append(Half([]))
        runs, daemon._qmp = True, monitors[-1]  # type: ignore[assignment]

    async def stop() -> None:
        nonlocal runs
        runs, daemon._qmp = False, None

    monkeypatch.setattr(daemon, "process_id", lambda: os.getpid() if runs else None)
    monkeypatch.setattr(daemon, "_spawn_answering", spawn)
    monkeypatch.setattr(daemon, "stop", stop)
    monkeypatch.setattr(daemon, "_qmp", Half(has))
    asyncio.run(daemon.start("disk-0"))
    assert [monitor.exports for monitor in monitors] == [1]


@pytest.mark.parametrize("knows", [True, False])
def test_an_image_is_opened_where_the_kernel_refuses_io_uring(knows: bool, caplog: pytest.LogCaptureFixture) -> None:
    added = []

    async def add(options: dict[str, object]) -> None:
        if "aio" in options and not knows:
            raise QmpError("Unable to use io_uring: Operation not permitted")
        added.append(options)

    asyncio.run(add_image(add, "image"))
    assert ("image is opened without io_uring: Unable to use io_uring" in caplog.text) is not knows
    [options] = added
    assert options.get("aio") == ("io_uring" if knows else None)
    assert options["filename"] == "image"


FIRST_THREAD_ENDS = """
import ctypes, sys, threading
def stay():
    sys.stdin.read()
threading.Thread(target=stay).start()
print(flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def test_one_lives_while_any_thread_of_it_runs(tmp_path: Path) -> None:
    """A killed one whose first thread has ended may still write."""
    pid_file = tmp_path / "pid"
    command = [sys.executable, "-c", FIRST_THREAD_ENDS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            pid_file.write_text(f"{process.pid} {process_start(process.pid)}")
            deadline = time.monotonic() + 60
            while ") Z " not in Path(f"/proc/{process.pid}/stat").read_text():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert living(str(pid_file)) == process.pid
        finally:
            process.kill()
        while living(str(pid_file)) is not None:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_guest_that_is_no_root_can_pass_to_the_socket_of_its_disk(tmp_path: Path) -> None:
    """It connects once more when the disk grows, or its storage daemon has ended; daemons run with this umask."""
    places = Places(Paths(str(tmp_path)))
    os.makedirs(places.directory, mode=0o710)  # of an earlier release
    before = os.umask(0o027)
    try:
        places.make_directory()
    finally:
        os.umask(before)
    assert os.stat(places.directory).st_mode & 0o777 == 0o711
