# SPDX-License-Identifier: BSD-2-Clause
"""The door of node calls where the disk fails: nothing runs that a restart would let an older master undo."""

import asyncio
import errno
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fakes.one_node import OneNode

from ganeti.base.errors import NodeCallError
from ganeti.node.actions.registry import REGISTRY
from ganeti.node.promises import Promise
from ganeti.node.state import NodeState
from ganeti.noded import calls as node_calls
from ganeti.noded.access import CandidateCertificates
from ganeti.noded.calls import NodeCalls
from ganeti.system.tls import certificate_digest


def request(*, epoch: int = 1, attempt: int = 1, step: int = 1, **arguments: Any) -> bytes:
    plain = {"epoch": epoch, "job": 7, "attempt": attempt, "step": step, "arguments": arguments}
    return msgspec.json.encode(plain)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the file of fences can be written now; it begins with no."""
    full = [True]
    write = node_calls._write_fences

    def refuse(*args: Any) -> None:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(*args)

    monkeypatch.setattr(node_calls, "_write_fences", refuse)
    return full


def test_a_call_waits_until_its_epoch_is_on_disk(tmp_path: Path, full_disk: list[bool]) -> None:
    node = OneNode(tmp_path)

    async def story() -> None:
        calls = NodeCalls(node.paths)
        body = request(epoch=9, values={"cluster_tags": "x"})
        for _ in range(2):
            ok, answer = json.loads(await calls.serve(node.state, "write_ssconf_files", body))
            assert not ok
            assert "noded-epoch.json cannot be written: No space left" in answer[1][0]
        assert not Path(node.paths.ssconf_file("cluster_tags")).exists()
        full_disk[0] = False
        assert json.loads(await calls.serve(node.state, "write_ssconf_files", body))[0]
        assert json.loads(Path(node.paths.epoch_file).read_text())["epoch"] == 9
        await calls.close(0)

    asyncio.run(story())


def test_an_abort_that_could_not_be_noted_is_noted_by_the_next(tmp_path: Path, full_disk: list[bool]) -> None:
    node = OneNode(tmp_path)

    async def story() -> None:
        calls = NodeCalls(node.paths)
        with pytest.raises(NodeCallError, match="cannot be written"):
            await calls.abort(7, 1)
        full_disk[0] = False
        await calls.abort(7, 1)
        assert json.loads(Path(node.paths.epoch_file).read_text())["attempts"] == {"7": 2}
        await calls.close(0)

    asyncio.run(story())


def test_a_disk_that_fails_is_no_fault_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The caller reads what failed and where, and the log has no traceback (seed 44 with 7 nodes)."""
    node = OneNode(tmp_path)

    def fail(path: str, *_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, "Input/output error", path)

    monkeypatch.setattr("ganeti.node.actions.files.write_atomically", fail)

    async def story() -> None:
        calls = NodeCalls(node.paths)
        ok, answer = json.loads(
            await calls.serve(node.state, "write_ssconf_files", request(values={"cluster_tags": "x"}))
        )
        assert (ok, answer[0]) == (False, "RpcError")
        assert answer[1][0].endswith("ssconf_cluster_tags: Input/output error")
        await calls.close(0)

    asyncio.run(story())
    assert not any(record.exc_info for record in caplog.records)


def test_a_node_that_leaves_takes_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the master still sends, not knowing yet, must not be written where everything has just been removed."""
    node = OneNode(tmp_path)
    leave = {"modify_ssh_setup": False}

    async def story() -> None:
        calls = NodeCalls(node.paths)
        await calls.serve(node.state, "write_ssconf_files", request(values={"cluster_tags": "x"}))
        assert json.loads(await calls.serve(node.state, "node_leave_cluster", request(step=2, **leave)))[0]
        with pytest.raises(node_calls.StoppingError):
            await calls.serve(node.state, "write_ssconf_files", request(step=3, values={"cluster_tags": "y"}))
        assert not Path(node.paths.ssconf_file("cluster_tags")).exists()
        assert json.loads(await calls.serve(node.state, "node_leave_cluster", request(step=2, **leave)))[0]
        await calls.close(0)

    asyncio.run(story())


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """A call that changes nothing, and waits; this is set when it has begun."""
    begun = asyncio.Event()

    async def ask_for_long(node: NodeState, asked: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    declared = REGISTRY["version"]
    slow = replace(declared, name="ask_for_long", handler=ask_for_long, changes=False)
    monkeypatch.setitem(REGISTRY, "ask_for_long", slow)
    return begun


def test_a_call_that_changes_nothing_is_ended_with_its_attempt(tmp_path: Path, asking: asyncio.Event) -> None:
    """Its caller goes on, and hears of it: it is the call that is ended, not the request."""
    node = OneNode(tmp_path)

    async def story() -> None:
        calls = NodeCalls(node.paths)
        asked = asyncio.create_task(calls.serve(node.state, "ask_for_long", request()))
        await asking.wait()
        assert await calls.abort(7, 1) == 1
        ok, answer = json.loads(await asked)
        assert not ok
        assert "its attempt was superseded" in answer[1][0]
        await calls.close(0)

    asyncio.run(story())


def test_a_call_that_changes_nothing_holds_no_end_up(tmp_path: Path, asking: asyncio.Event) -> None:
    node = OneNode(tmp_path)

    async def story() -> None:
        calls = NodeCalls(node.paths)
        asked = asyncio.create_task(calls.serve(node.state, "ask_for_long", request()))
        await asking.wait()
        await calls.close(0)
        with pytest.raises(node_calls.StoppingError):
            await asked

    asyncio.run(story())


def test_a_caller_that_goes_away_ends_what_changes_nothing(tmp_path: Path, asking: asyncio.Event) -> None:
    node = OneNode(tmp_path)

    async def story() -> None:
        calls = NodeCalls(node.paths)
        asked = asyncio.create_task(calls.serve(node.state, "ask_for_long", request()))
        await asking.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert await calls.abort(7, 1) == 0
        await calls.close(0)

    asyncio.run(story())


def test_a_program_ends_when_its_caller_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether its job was killed or cancelled; the HTTP server does not end requests whose connection is closed."""
    node, begun, ended = OneNode(tmp_path), asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(node_calls, "GONE_EVERY_S", 0.01)

    async def think(node: NodeState, asked: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setitem(REGISTRY, "think", replace(REGISTRY["iallocator_runner"], name="think", handler=think))
    arguments = {"name": "x", "idata": "{}"}

    async def story() -> None:
        calls = NodeCalls(node.paths)
        asked = asyncio.create_task(calls.serve(node.state, "think", request(**arguments), is_gone=begun.is_set))
        ok, answer = json.loads(await asked)
        assert not ok and ended.is_set() and "its caller has gone" in answer[1][0]
        begun.clear()
        asked = asyncio.create_task(calls.serve(node.state, "think", request(**arguments)))
        await begun.wait()
        assert await calls.abort(7, 1) == 1, "one whose caller waits is ended by others, as any"
        await calls.close(0)

    asyncio.run(story())


def test_who_was_promised_to_be_followed_is_admitted_after_a_restart_too(tmp_path: Path) -> None:
    paths = OneNode(tmp_path).paths
    listed = Path(paths.ssconf_file("master_candidates_certs"))
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.write_text(f"one={certificate_digest(b'one')}\ntwo={certificate_digest(b'two')}\n")

    def admitted(certificates: CandidateCertificates) -> list[bool]:
        return [certificates.accepts(each) for each in (b"one", b"two", b"three")]

    async def story() -> None:
        certificates = CandidateCertificates(paths)
        calls = NodeCalls(paths, certificates)
        calls.keep_promise(Promise(2, "two"))
        listed.write_text(f"one={certificate_digest(b'one')}\n")
        assert admitted(certificates) == [True, True, False]
        calls.keep_promise(Promise(3, "two"))
        certificates = CandidateCertificates(paths)
        calls = NodeCalls(paths, certificates)
        assert admitted(certificates) == [True, True, False]
        calls.keep_promise(Promise(4, "three"))
        assert admitted(certificates) == [True, False, False]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("ahead_s", "words"),
    [(0, ""), (-299, ""), (299, ""), (301, "301 seconds behind"), (-4000, "4000 seconds ahead of")],
)
def test_a_job_of_another_time_changes_nothing(tmp_path: Path, ahead_s: int, words: str) -> None:
    node = OneNode(tmp_path)

    async def story() -> None:
        calls = NodeCalls(node.paths)
        body, sent_at = request(values={"cluster_tags": "x"}), f"{time.time() + ahead_s:.0f}"
        ok, answer = json.loads(await calls.serve(node.state, "write_ssconf_files", body, sent_at))
        assert ok is (words == "")
        assert ok or f"The clock of node node1 is {words} that of the caller: set the clocks right" in answer[1][0]
        assert Path(node.paths.ssconf_file("cluster_tags")).exists() is ok
        if not ok:  # the number is not used up: the same call works with the right time
            assert json.loads(await calls.serve(node.state, "write_ssconf_files", body, f"{time.time():.0f}"))[0]
        assert json.loads(await calls.serve(node.state, "version", request(), "1"))[0], "what is only read is answered"
        assert "is no time" in (await calls.serve(node.state, "write_ssconf_files", request(step=2), "noon")).decode()
        await calls.close(0)

    asyncio.run(story())
