# SPDX-License-Identifier: BSD-2-Clause
"""The QMP client against a server of ours: answers, events in between, refusals, silence and sudden ends."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ganeti.base.errors import HypervisorError
from ganeti.node.hypervisors.kvm import sockets
from ganeti.node.hypervisors.kvm.qmp import EVENTS_MAX, Qmp, QmpError, QmpGoneError, QmpTimeoutError

GREETING = {"QMP": {"version": {}, "capabilities": []}}
Handler = Callable[[dict[str, Any], asyncio.StreamWriter], Awaitable[None]]


def say(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    writer.write(json.dumps(message).encode() + b"\r\n")


def conversation(path: Path, handler: Handler, story: Callable[[], Awaitable[None]], *, greets: bool = True) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if greets:
            say(writer, GREETING)
        while line := await reader.readline():
            message = json.loads(line)
            if message["execute"] == "qmp_capabilities":
                say(writer, {"return": {}, "id": message["id"]})
            else:
                await handler(message, writer)
        writer.close()

    async def run() -> None:
        with sockets.listen(str(path)) as listening:
            server = await asyncio.start_unix_server(serve, sock=listening)
            async with server:
                await story()

    asyncio.run(run())


async def silent(message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    return None


async def echo(message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    say(writer, {"event": "STOP", "data": {}})
    say(writer, {"return": message.get("arguments"), "id": message["id"]})


def test_an_answer_is_found_among_events_and_events_are_kept(tmp_path: Path) -> None:
    async def story() -> None:
        async with Qmp(str(tmp_path / "q")) as qmp:
            assert await qmp.execute("echo", {"a": 1}) == {"a": 1}
            assert (await qmp.wait_event("STOP", "RESUME", timeout_s=1))["event"] == "STOP"
            with pytest.raises(QmpTimeoutError, match="RESUME"):
                await qmp.wait_event("RESUME", timeout_s=0.05)

    conversation(tmp_path / "q", echo, story)


def test_a_refusal_carries_qemus_words(tmp_path: Path) -> None:
    async def refuse(message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        say(writer, {"error": {"class": "CommandNotFound", "desc": "no such thing"}, "id": message["id"]})

    async def story() -> None:
        async with Qmp(str(tmp_path / "q")) as qmp:
            with pytest.raises(QmpError, match="refused 'dance': no such thing") as caught:
                await qmp.execute("dance")
            assert caught.value.error_class == "CommandNotFound"

    conversation(tmp_path / "q", refuse, story)


def test_silence_ends_in_time(tmp_path: Path) -> None:
    async def story() -> None:
        async with Qmp(str(tmp_path / "q")) as qmp:
            with pytest.raises(QmpTimeoutError, match="'query-status'"):
                await qmp.execute("query-status", timeout_s=0.05)

    conversation(tmp_path / "q", silent, story)


def test_a_taken_socket_is_said_to_be_so(tmp_path: Path) -> None:
    async def story() -> None:
        with pytest.raises(QmpTimeoutError, match="another client holds"):
            async with Qmp(str(tmp_path / "q"), timeout_s=0.05):
                pass

    conversation(tmp_path / "q", silent, story, greets=False)


def test_a_sudden_end_is_told_apart(tmp_path: Path) -> None:
    async def leave(message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def story() -> None:
        async with Qmp(str(tmp_path / "q")) as qmp:
            with pytest.raises(QmpGoneError):
                await qmp.execute("quit")

    conversation(tmp_path / "q", leave, story)


def test_nobody_there(tmp_path: Path) -> None:
    async def story() -> None:
        async with Qmp(str(tmp_path / "none")):
            pass

    with pytest.raises(QmpGoneError, match="Nobody answers"):
        asyncio.run(story())


def test_a_path_longer_than_the_kernel_takes(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()

    async def story() -> None:
        async with Qmp(str(deep / "q")) as qmp:
            assert await qmp.execute("echo", {}) == {}

    conversation(deep / "q", echo, story)
    with pytest.raises(HypervisorError, match="shorter name"):
        sockets.listen(str(deep / ("n" * 120)))


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        (b'{"return": "\xff"}\n', "no JSON"),
        (b'{"return": ' + b"[" * 20_000 + b"\n", "no JSON"),
        (b"[]\n", "no message"),
        (b"x" * (64 * 1024 * 1024), "a line without end"),
    ],
)
def test_a_qemu_that_is_taken_over_sends_anything(tmp_path: Path, sent: bytes, sentence: str) -> None:
    async def lie(message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        writer.write(sent)

    async def story() -> None:
        async with Qmp(str(tmp_path / "q")) as qmp:
            with pytest.raises(HypervisorError, match=sentence):
                await qmp.execute("query-status", timeout_s=30.0)

    conversation(tmp_path / "q", lie, story)


def test_events_that_nobody_waits_for_are_not_kept_for_ever(tmp_path: Path) -> None:
    async def flood(message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        for number in range(3 * EVENTS_MAX):
            say(writer, {"event": "BALLOON_CHANGE", "data": {"actual": number}})
        say(writer, {"event": ["no", "name"]})
        say(writer, {"event": "SHUTDOWN"})
        say(writer, {"return": {}, "id": message["id"]})

    async def story() -> None:
        async with Qmp(str(tmp_path / "q")) as qmp:
            await qmp.execute("query-status", timeout_s=30.0)
            assert len(qmp._events) == EVENTS_MAX
            assert (await qmp.wait_event("SHUTDOWN", timeout_s=1))["event"] == "SHUTDOWN"

    conversation(tmp_path / "q", flood, story)


@pytest.mark.parametrize("error", ["no", None, 7, [], {"class": [], "desc": {"a": 1}}, {"desc": "x" * 100_000}])
def test_a_qemu_that_is_taken_over_refuses_in_no_form(tmp_path: Path, error: Any) -> None:
    async def refuse(message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        say(writer, {"error": error, "id": message["id"]})

    async def story() -> None:
        async with Qmp(str(tmp_path / "q")) as qmp:
            with pytest.raises(QmpError, match="QEMU refused 'quit'") as caught:
                await qmp.execute("quit")
            assert len(str(caught.value)) < 1000
            assert isinstance(caught.value.error_class, str)

    conversation(tmp_path / "q", refuse, story)


@pytest.mark.parametrize("answer", ["running", None, 7, [], [1], {}, {"status": []}, {"status": 10**400}])
def test_answers_without_sense_are_faults_of_that_guest(tmp_path: Path, answer: Any) -> None:
    """Whoever lists the guests of a node, or ends one, goes on as with a QEMU that does not answer."""

    async def mock(message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        say(writer, {"return": answer, "id": message["id"]})

    async def story() -> None:
        with pytest.raises(HypervisorError, match="answers without sense"):
            async with Qmp(str(tmp_path / "q")) as qmp:
                state = (await qmp.execute("query-status"))["status"]
                float({"running": 1}[state])

    conversation(tmp_path / "q", mock, story)


def test_a_fault_of_another_kind_is_left_as_it_is(tmp_path: Path) -> None:
    async def story() -> None:
        with pytest.raises(OSError, match="no room"):
            async with Qmp(str(tmp_path / "q")):
                raise OSError("no room")

    conversation(tmp_path / "q", silent, story)
