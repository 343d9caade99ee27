# SPDX-License-Identifier: BSD-2-Clause
"""A storage daemon is started, found and replaced; what it tells of is handled before it hears so."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from ganeti.base.errors import BlockDeviceError
from ganeti.base.paths import Paths
from ganeti.mirrord import storage_daemon
from ganeti.mirrord.commands import Commands, GoneError, RefusedError, SilentError
from ganeti.mirrord.processes import living
from ganeti.mirrord.questions import Question
from ganeti.mirrord.storage_daemon import KEPT, LOSING, Status, StorageDaemon
from ganeti.node.storage.mirror.places import Places
from ganeti.node.storage.mirror.requests import SECONDARY, Connect, Done, Opened, Refusal
from ganeti.system.boot import process_start

PROGRAM = """#!{python}
import select, socket, sys
image, commands, nbd = sys.argv[1:]
sockets = []
for name, kind in ((commands, socket.SOCK_SEQPACKET), (nbd, socket.SOCK_STREAM)):
    sockets.append(socket.socket(socket.AF_UNIX, kind))
    sockets[-1].bind(name)
    sockets[-1].listen()
exported, client = "", None
while True:
    ready, _, _ = select.select([each for each in (sockets[0], client) if each], [], [])
    if sockets[0] in ready:
        client, _ = sockets[0].accept()
    elif message := client.recv(4096).decode():
        number, word, *arguments = message.split("\\n")
        if word == "show":
            [exported] = arguments
        client.send("\\n".join([number, "ok", "alone", "0", "0", exported]).encode())
    else:
        client = None
"""
ENDS = "#!/bin/sh\nexit 1\n"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    found = Places(Paths(str(tmp_path)))
    os.makedirs(found.directory)
    os.makedirs(found.paths.log_dir)
    have_program(found, monkeypatch, PROGRAM.format(python=sys.executable))
    return found


def have_program(places: Places, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    program = Path(places.directory) / "program"
    program.write_text(text)
    program.chmod(0o755)
    monkeypatch.setattr(storage_daemon, "PROGRAM", str(program))


def play(story: Callable[[], Awaitable[None]]) -> None:
    async def played() -> None:
        await asyncio.wait_for(story(), 60)

    asyncio.run(played())


def test_one_that_runs_is_taken_as_it_is(places: Places) -> None:
    async def story() -> None:
        first = StorageDaemon(places, "disk", "image")
        await first.start("disk-0")
        process_id = first.process_id()
        later = StorageDaemon(places, "disk", "image")
        await later.prepare()
        assert await later.status() == Status("alone", export="disk-0")
        assert later.process_id() == process_id is not None
        await later.stop()
        assert first.process_id() is None
        with pytest.raises(GoneError):
            await first.status()

    play(story)


@pytest.mark.parametrize("opens", [False, True], ids=["of a former release", "hangs"])
def test_one_that_does_not_answer_is_replaced(places: Places, monkeypatch: pytest.MonkeyPatch, opens: bool) -> None:
    """One of a former release is QEMU's, and has another socket for commands."""
    monkeypatch.setattr(storage_daemon, "_FOUND_S", 0.3)
    monkeypatch.setattr(storage_daemon, "_ACCEPTS_S", 0.3)

    async def story() -> None:
        with (
            subprocess.Popen(["sleep", "1000"]) as other,
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door,
        ):
            Path(places.file("disk", "pid")).write_text(f"{other.pid} {process_start(other.pid)}\n")
            if opens:
                door.bind(places.file("disk", "cmd"))
                door.listen()
            daemon = StorageDaemon(places, "disk", "image")
            await daemon.start("disk-0")
            assert daemon.process_id() not in (None, other.pid)
            await daemon.stop()
            assert other.wait(60) < 0

    play(story)


def test_one_that_ends_at_once_says_so(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    have_program(places, monkeypatch, ENDS)

    async def story() -> None:
        with pytest.raises(BlockDeviceError) as error:
            await StorageDaemon(places, "disk", "image").start("disk-0")
        why = f"its storage daemon has ended with status 1; {places.paths.log_dir}/mirrord-disks.log may say why"
        assert str(error.value) == f"Disk image cannot be opened: {why}"

    play(story)


def test_a_program_that_is_missing_is_named(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_daemon, "PROGRAM", "/nowhere/storage-daemon")

    async def story() -> None:
        with pytest.raises(BlockDeviceError) as error:
            await StorageDaemon(places, "disk", "image").start("disk-0")
        assert str(error.value) == (
            "/nowhere/storage-daemon cannot be started: No such file or directory; install the package ganeti again"
        )

    play(story)


@pytest.mark.skipif(os.geteuid() != 0, reason="files are given away")
def test_the_socket_of_a_guest_is_given_to_it_again(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the first try fails: the guest connects again."""

    async def story() -> None:
        daemon, path = StorageDaemon(places, "disk", "image"), places.file("disk", "nbd")
        await daemon.start("disk-0")
        os.chown(path, 65534, 65533)
        await daemon.stop()
        with monkeypatch.context() as patch:
            have_program(places, patch, ENDS)
            with pytest.raises(BlockDeviceError):
                await daemon.start("disk-0")
        have_program(places, monkeypatch, PROGRAM.format(python=sys.executable))
        await daemon.start("disk-0")
        assert (os.stat(path).st_uid, os.stat(path).st_gid) == (65534, 65533)
        await daemon.stop()

    play(story)


class Program:
    """The other end of a storage daemon's commands, in the test's own hands."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    async def hear(self) -> list[str]:
        return (await asyncio.get_running_loop().sock_recv(self._sock, 4096)).decode().split("\n")

    async def say(self, *fields: str) -> None:
        await asyncio.get_running_loop().sock_sendall(self._sock, "\n".join(fields).encode())


@asynccontextmanager
async def connected(places: Places) -> AsyncIterator[tuple[StorageDaemon, Program]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(places.file("disk", "cmd"))
        door.listen()
        door.setblocking(False)
        daemon = StorageDaemon(places, "disk", "image")
        limiting = asyncio.create_task(daemon.limit(1))
        client, _ = await asyncio.get_running_loop().sock_accept(door)
        with client:
            client.setblocking(False)
            program = Program(client)
            assert await program.hear() == ["1", "rate", "1024"]
            await program.say("1", "ok")
            await limiting
            yield daemon, program
            daemon._drop()


def test_it_hears_that_a_loss_is_noted_once_it_is(places: Places) -> None:
    async def story() -> None:
        async with connected(places) as (daemon, program):
            sentences, is_written = [], asyncio.Event()

            async def lost(sentence: str) -> None:
                sentences.append(sentence)
                await is_written.wait()

            async def asked(question: Question) -> None:
                raise AssertionError

            daemon.hear(lost, asked)
            await program.say("0", "lost", "node2 does not answer")
            looking = asyncio.create_task(daemon.status())
            assert await program.hear() == ["2", "status"], "nothing is noted yet"
            await program.say("2", "ok", LOSING, "4096", "8192", "disk-0")
            assert await looking == Status(LOSING, 4096, 8192, "disk-0")
            assert (await looking).percent == 50.0 and not (await looking).works
            is_written.set()
            assert await program.hear() == ["3", "noted"]
            assert sentences == ["node2 does not answer"]

    play(story)


def test_a_loss_is_told_once_more_where_that_it_is_noted_is_not_heard(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then the guest's writes wait. The next look connects again."""

    async def story() -> None:
        async with connected(places) as (daemon, program):

            async def lost(sentence: str) -> None:
                return

            async def asked(question: Question) -> None:
                raise AssertionError

            async def silent(commands: Commands, word: str) -> list[str]:
                raise SilentError("The storage daemon takes no commands")

            daemon.hear(lost, asked)
            with monkeypatch.context() as patch:
                patch.setattr(Commands, "execute", silent)
                await program.say("0", "lost", "node2 does not answer")
                assert await program.hear() == [""], "the connection has ended"
            assert daemon._commands is None

    play(story)


def test_another_node_is_answered_over_the_connection_that_asked(places: Places) -> None:
    async def story() -> None:
        async with connected(places) as (daemon, program):
            questions: asyncio.Queue[Question] = asyncio.Queue()

            async def lost(sentence: str) -> None:
                raise AssertionError

            daemon.hear(lost, questions.put)
            for how, line in (("serve", Done()), ("close", Refusal(error="not here"))):
                await program.say("0", "asks", "7", "node2,cluster", "{}")
                question = await questions.get()
                assert question.names == {"node2", "cluster"} and question.line == "{}"
                answer = question.serve() if how == "serve" else question.refuse("not here")
                answering = asyncio.create_task(answer)
                number, *rest = await program.hear()
                assert rest == ["answer", "7", how, msgspec.json.encode(line).decode()]
                await program.say(number, "ok")
                await answering
            daemon._drop()
            with pytest.raises(GoneError):
                await question.serve()

    play(story)


def test_the_other_copy_is_named_with_all_that_is_needed_to_reach_it(places: Places) -> None:
    disk = Opened(uuid="u", image="i", role=SECONDARY, peer="node2", address="1.2.3.4", rate_kib=2, marked_session="s")

    async def story() -> None:
        async with connected(places) as (daemon, program):
            attaching = asyncio.create_task(daemon.attach(disk, 5, "disk-1", KEPT))
            *words, line = await program.hear()
            paths = places.paths
            assert words == [
                *("2", "attach", "1.2.3.4", "1818", "node2", "u", paths.client_cert, paths.authority_cert),
                *("disk-1", "kept", "2048"),
            ]
            assert msgspec.json.decode(line, type=Connect) == Connect(uuid="u", generation=5, session="s")
            await program.say("2", "error", "node2 refuses", msgspec.json.encode(Refusal(error="not here")).decode())
            with pytest.raises(BlockDeviceError, match=r"^not here$"):
                await attaching
            attaching = asyncio.create_task(daemon.attach(disk, 5, "disk-1", KEPT))
            await program.hear()
            await program.say("3", "error", "no connection")
            with pytest.raises(RefusedError, match=r"^no connection$"):
                await attaching

    play(story)


def test_a_connection_of_another_node_is_given_away(places: Places) -> None:
    async def story() -> None:
        async with connected(places) as (daemon, program):
            near, far = socket.socketpair()
            with far:
                with near:
                    taking = asyncio.create_task(daemon.take(near))
                    await asyncio.sleep(0)
                    message, [given], _, _ = socket.recv_fds(program._sock, 4096, 1)
                    assert message.decode().split("\n")[1:] == [
                        *("take", places.paths.server_cert, places.paths.authority_cert)
                    ]
                    await program.say("2", "ok")
                    await taking
                with socket.socket(fileno=given) as taken:
                    taken.send(b"x")
                    assert far.recv(1) == b"x"

    play(story)


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
