# SPDX-License-Identifier: BSD-2-Clause
"""Freezing a guest by its agent: an answer, a refusal, silence, nonsense, and no agent at all."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ganeti.base.paths import Paths
from ganeti.node.hypervisors.kvm import snapshots
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.snapshots import KvmSnapshots


class Agent:
    """An agent in a guest; *answers* by command, and what it says first is left of an earlier question."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'{"return": 3}\n')
        while line := await reader.readline():
            question = json.loads(line)
            self.asked.append(question["execute"])
            if question["execute"] == "guest-sync":
                writer.write(json.dumps({"return": question["arguments"]["id"]}).encode() + b"\n")
            elif question["execute"] in self.answers:
                writer.write(json.dumps(self.answers[question["execute"]]).encode() + b"\n")
        writer.close()


@pytest.fixture
def root() -> Iterator[Path]:
    """A short one: names of sockets have 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="gnt", dir="/tmp") as path:
        yield Path(path)


def frozen(root: Path, agent: Agent | None, *, uses_agent: bool = True) -> bool:
    places = Places(Paths(str(root)))
    known: Any = (None, SimpleNamespace(hvparams={"use_guest_agent": uses_agent}))

    async def ask() -> bool:
        socket = Path(places.socket("web1", "qga"))
        socket.parent.mkdir(parents=True, exist_ok=True)
        server = await asyncio.start_unix_server(agent.serve, str(socket)) if agent is not None else None
        kept = KvmSnapshots(places, lambda name: known)
        try:
            answer = await kept.freeze("web1")
            await kept.thaw("web1")
        finally:
            if server is not None:
                server.close()
        return answer

    return asyncio.run(ask())


def test_an_agent_freezes_and_thaws(root: Path) -> None:
    agent = Agent({"guest-fsfreeze-freeze": {"return": 2}, "guest-fsfreeze-thaw": {"return": 2}})
    assert frozen(root, agent)
    assert [word for word in agent.asked if word != "guest-sync"] == ["guest-fsfreeze-freeze", "guest-fsfreeze-thaw"]


def test_without_an_answer_nothing_was_frozen(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "AGENT_S", 0.2)
    assert not frozen(root / "a", Agent({"guest-fsfreeze-freeze": {"error": {"class": "GenericError"}}}))
    assert not frozen(root / "b", Agent({}))
    assert not frozen(root / "c", None)
    agent = Agent({"guest-fsfreeze-freeze": {"return": 2}})
    assert not frozen(root / "d", agent, uses_agent=False)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"null\n[]\n7\n",
        b"not json\n",
        b"\xff\n",
        b"[" * 60_000 + b"\n",
        b"[" + b"1," * 40_000 + b"1]\n",
        b"7\n" * 9000,
        b"{}\n" * 9000,
    ],
    ids=lambda said: said[:8].hex(),
)
def test_what_a_guest_sends_breaks_nothing(root: Path, said: bytes) -> None:
    """The agent belongs to the guest: it sends *said* and closes the connection."""

    class Hostile(Agent):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.write(said)
            writer.close()

    assert not frozen(root, Hostile({}))


def test_lines_that_are_no_objects_are_passed_over(root: Path) -> None:
    class Chatty(Agent):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"null\n[1]\n")
            await super().serve(reader, writer)

    assert frozen(root, Chatty({"guest-fsfreeze-freeze": {"return": 2}, "guest-fsfreeze-thaw": {"return": 2}}))
