# SPDX-License-Identifier: BSD-2-Clause
"""Joining by a one-time token: who is let in, what both sides say when it fails, and that strangers end nothing."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ganeti.base.errors import CommandError, PrerequisiteError, TransportError
from ganeti.base.failed_logins import FAILURES_MAX, FailedLogins
from ganeti.base.paths import Paths
from ganeti.bootstrap import join_by_token
from ganeti.bootstrap.join_by_token import read_token, take_up
from ganeti.bootstrap.join_input import JoiningRequest
from ganeti.node import certificates

SECRET = b"s" * 16
AUTHORITY = certificates.create_authority("cluster")
REQUESTS = {"prepare": {"cluster_name": "cluster"}, "setup": {"cluster_name": "cluster", "node_name": "node2"}}

WAITING = """
import signal, sys
from types import SimpleNamespace
from ganeti.bootstrap import join_by_token as joining

signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the tests were started with
listen = joining._listen
machine = SimpleNamespace(paths=SimpleNamespace(server_cert=sys.argv[1], epoch_file=""), hostname="127.0.0.1")
joining.Machine = SimpleNamespace(here=lambda: machine)
joining.ClusterFiles = lambda paths: SimpleNamespace(has=lambda name: False)
joining.resolve_joining = lambda *_: ("node2", "10.77.0.2")
joining.prepare_request = joining.setup_request = lambda *_, **__: {}
joining.any_address = lambda paths: "127.0.0.1"
joining._listen = lambda address, port: listen(address, 0)
joining.offer({"node_name": "node2"}, lambda line: print(line, flush=True))
"""
"""A master that waits, and knows no file but its certificate."""


class Master:
    """One that waits at a free port of loopback for one machine."""

    def __init__(self, certificate: Path, valid_s: float, words: tuple[str, ...] = ("asks_cluster", "keep")) -> None:
        """*words* are said to the machine, once it is set up, before the connection ends."""
        self.words = words
        self.token = join_by_token._token(SECRET, str(certificate))
        self.failure: Exception | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        context = join_by_token._server_context(str(certificate))
        deadline_s = join_by_token.time.monotonic() + valid_s
        self._paths = Paths(str(certificate.parent))
        self._thread = threading.Thread(target=self._serve, args=(context, deadline_s))
        self._thread.start()

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _serve(self, context: ssl.SSLContext, deadline_s: float) -> None:
        try:
            joining = join_by_token._serve(self._listener, context, SECRET, "node2", REQUESTS, deadline_s, self._paths)
            for word in self.words:
                getattr(joining, word)()
            joining.close()
        except CommandError as err:
            self.failure = err

    def end(self) -> None:
        self._thread.join(20)
        assert not self._thread.is_alive()
        self._listener.close()


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    path = tmp_path / "server.pem"
    path.write_text(certificates.issue_node_certificate(AUTHORITY, "node1", "cluster", ["127.0.0.1"]))
    return path


@pytest.fixture
def master(certificate: Path) -> Iterator[Master]:
    made = Master(certificate, valid_s=10)
    yield made
    made.end()


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the machine was given to set up, in place of that; and the words for what it has done later."""
    given: list[Any] = []

    class Joining:
        def __init__(self, machine: Any) -> None: ...

        def set_up(self, request: JoiningRequest) -> None:
            given.extend((json.loads(request.prepare), json.loads(request.setup)))

        def ask_cluster(self) -> None: ...

        def keep(self) -> None: ...

        def leave(self) -> None: ...

        def take_back(self) -> None:
            given.append("taken back")

        def start_answering(self) -> None:
            given.append("answers")

    monkeypatch.setattr(join_by_token, "JoiningMachine", Joining)
    return given


def test_a_machine_with_the_token_gets_what_it_needs(master: Master, taken: list[Any]) -> None:
    assert take_up(master.place, master.token)
    master.end()
    assert taken.pop() == "answers"
    assert [abs(each.pop("time_s") - time.time()) < 60 for each in taken] == [True, True], "the master's clock"
    assert taken == [REQUESTS["prepare"], REQUESTS["setup"]]
    assert master.failure is None


def test_strangers_learn_nothing_and_end_nothing(master: Master, taken: list[Any]) -> None:
    wrong = join_by_token.base64.urlsafe_b64encode(b"x" * 16 + read_token(master.token)[1]).decode()
    with pytest.raises(PrerequisiteError, match="not the one that the master waits for"):
        take_up(master.place, wrong)
    for junk in (b"", b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01" + b"\0" * 5000):
        with socket.create_connection(("127.0.0.1", master.port), 5) as stranger:
            stranger.sendall(junk)
    assert taken == []
    take_up(master.place, master.token)
    assert len(taken) == 3


def test_whoever_says_the_secret_slowly_keeps_nobody_waiting(
    certificate: Path, taken: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_by_token, "_STRANGER_S", 0.2)
    slow = Master(certificate, valid_s=60.0)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        pytest.raises(OSError),  # of the handshake, too, where this machine is slow
        socket.create_connection(("127.0.0.1", slow.port), 20) as plain,
        context.wrap_socket(plain) as tls,
    ):
        for _ in range(200):  # each in time, all together not
            tls.sendall(b"x")
            time.sleep(0.05)
    monkeypatch.setattr(join_by_token, "_STRANGER_S", 20.0)
    take_up(slow.place, slow.token)
    slow.end()
    assert len(taken) == 3


def test_a_stranger_is_let_go_at_once(master: Master, taken: list[Any]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", master.port), 20) as plain,
        context.wrap_socket(plain) as tls,
    ):
        tls.sendall(b"nothing\n")
        assert tls.recv(100) == b"", "before anybody else comes"
    take_up(master.place, master.token)


def test_guessing_is_slowed_down_and_the_token_is_good_afterwards(
    certificate: Path, taken: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FailedLogins, "too_many", lambda self, address: len(self._times.get(address, ())) >= limit[0])
    limit = [FAILURES_MAX]
    guessed = Master(certificate, valid_s=30.0)
    wrong = join_by_token.base64.urlsafe_b64encode(b"x" * 16 + read_token(guessed.token)[1]).decode()
    for _ in range(FAILURES_MAX):
        with pytest.raises(PrerequisiteError, match="not the one"):
            take_up(guessed.place, wrong)
    with pytest.raises(TransportError):
        take_up(guessed.place, guessed.token)
    assert taken == []
    limit[0] += 1
    take_up(guessed.place, guessed.token)
    guessed.end()
    assert len(taken) == 3


def test_a_machine_that_cannot_be_set_up_tells_the_master(
    master: Master, taken: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Any, request: JoiningRequest) -> None:
        raise PrerequisiteError("This machine belongs to the cluster 'other'")

    monkeypatch.setattr(join_by_token.JoiningMachine, "set_up", refuse)
    with pytest.raises(PrerequisiteError, match="belongs to the cluster"):
        take_up(master.place, master.token)
    master.end()
    assert str(master.failure) == "node2 could not be set up: This machine belongs to the cluster 'other'"
    assert taken == []


@pytest.mark.parametrize("words", [("asks_cluster", "take_back"), ("take_back",), ()])
def test_a_machine_that_the_cluster_does_not_take_is_as_it_was(
    certificate: Path, taken: list[Any], words: tuple[str, ...]
) -> None:
    """Its job failed, or the command ended before it asked for the job."""
    master = Master(certificate, 60.0, words)
    with pytest.raises(CommandError, match="has not taken this machine in, and everything is as it was"):
        take_up(master.place, master.token)
    master.end()
    assert taken[2:] == ["taken back"]


def test_a_machine_whose_job_goes_on_stays_set_up(certificate: Path, taken: list[Any]) -> None:
    master = Master(certificate, 60.0, ("asks_cluster",))
    assert not take_up(master.place, master.token)
    master.end()
    assert taken[2:] == ["answers"]


def test_another_master_is_not_taken_for_this_one(master: Master, taken: list[Any], tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_text(certificates.issue_node_certificate(AUTHORITY, "node9", "cluster", ["127.0.0.1"]))
    with pytest.raises(PrerequisiteError, match="is not the master that has given this token"):
        take_up(master.place, join_by_token._token(SECRET, str(other)))
    assert taken == []
    take_up(master.place, master.token)


def test_a_token_ends_with_its_time(certificate: Path) -> None:
    late = Master(certificate, valid_s=0.05)
    late.end()
    assert "has not joined in time" in str(late.failure)
    with pytest.raises(TransportError, match=r"\(Connection refused\): does gnt-node token still wait there"):
        take_up(late.place, late.token)


def test_interrupting_the_command_takes_the_token_back(certificate: Path, taken: list[Any]) -> None:
    """Nothing but that process knows the token: it needs no list, and nothing else that revokes it."""
    command = [sys.executable, "-c", WAITING, str(certificate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as waiting:
        assert waiting.stdout is not None
        _, _, place, token = waiting.stdout.readline().split()
        waiting.send_signal(signal.SIGINT)
        waiting.wait(60)
    with pytest.raises(TransportError, match="does gnt-node token still wait there"):
        take_up(place, token)
    next_one = Master(certificate, valid_s=60.0)
    with pytest.raises(PrerequisiteError, match="not the one that the master waits for"):
        take_up(next_one.place, token)
    assert taken == []
    take_up(next_one.place, next_one.token)
    next_one.end()
    assert len(taken) == 3


@pytest.mark.parametrize("token", ["", "short", "not/base64url", "QUJD"])
def test_a_token_that_is_not_whole(token: str) -> None:
    with pytest.raises(PrerequisiteError, match="not whole"):
        take_up("node1", token)


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("node1", ("node1", 1817)),
        ("node1:99", ("node1", 99)),
        ("10.0.0.1", ("10.0.0.1", 1817)),
        ("fd77::1", ("fd77::1", 1817)),
        ("[fd77::1]:99", ("fd77::1", 99)),
        ("[fd77::1]", ("fd77::1", 1817)),
    ],
)
def test_the_place_of_the_master(given: str, place: tuple[str, int]) -> None:
    assert join_by_token._place(given) == place
