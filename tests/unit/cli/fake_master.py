# SPDX-License-Identifier: BSD-2-Clause
"""A master daemon that answers from a script, and a way to run a command against it."""

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ganeti.cli.main import run

END = b"\x03"


def load(table: str) -> Any:
    """The commands of a generated table."""
    space: dict[str, Any] = {}
    exec(table, space)
    return space["COMMANDS"]


class Failed:
    """An answer that says no."""

    def __init__(self, name: str, *details: Any) -> None:
        self.wire = [name, list(details)]


class FakeMaster:
    """Listens on a Unix socket; `answers` maps a call to its result, to a function of its arguments, or to a list
    of results used up one by one. `requests` keeps what was asked."""

    def __init__(self, path: Path) -> None:
        self.answers: dict[str, Any] = {}
        self.requests: list[tuple[str, list[Any]]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(timeout=5)

    def calls(self, method: str) -> list[list[Any]]:
        return [arguments for name, arguments in self.requests if name == method]

    def submitted(self) -> list[dict[str, Any]]:
        """Every opcode that was submitted, one by one or together, without its reason trail."""
        lists = [call[0] for call in self.calls("SubmitJob")]
        lists += [job for call in self.calls("SubmitManyJobs") for job in call[0]]
        return [{key: opcode[key] for key in opcode if key != "reason"} for ops in lists for opcode in ops]

    def job(self, result: Any = None, *, status: str = "success", log: tuple[Any, ...] = (), job_id: int = 14) -> None:
        """Answer for one job that ends like this."""
        self.answers["SubmitJob"] = job_id
        self.answers["WaitForJobChange"] = [[status], list(log)]
        self.answers["QueryJobs"] = [[status, [status], [result]]]

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        buffer = b""
        with connection:
            while block := connection.recv(65536):
                buffer += block
                while END in buffer:
                    message, _, buffer = buffer.partition(END)
                    request = json.loads(message)
                    self.requests.append((request["method"], request["args"]))
                    reply = self._reply(request["method"], request["args"])
                    if reply is None:
                        return
                    connection.sendall(json.dumps(reply).encode() + END)

    def _reply(self, method: str, arguments: list[Any]) -> dict[str, Any] | None:
        if method not in self.answers:
            return {"success": False, "result": f"Failed to parse request: no answer prepared for {method}"}
        answer = self.answers[method]
        if isinstance(answer, Turns):
            answer = answer.take()
        if callable(answer):
            answer = answer(*arguments)
        if isinstance(answer, Hangup):
            return None
        if isinstance(answer, Failed):
            return {"success": False, "result": answer.wire}
        return {"success": True, "result": answer}


class Turns:
    """One answer after the other; the last one stays."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)

    def take(self) -> Any:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


class Hangup:
    """Close the connection instead of answering."""


class Ran:
    """What a command did."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err


Runner = Callable[..., Ran]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("GNT_INSTANCE_LIST", "GNT_NODE_LIST", "GANETI_DEBUG", "FORCE_LUXI_SOCKET", "GANETI_HOSTNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GANETI_ROOTDIR", str(tmp_path / "root"))


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaster]:
    path = tmp_path / "luxi"
    monkeypatch.setenv("FORCE_LUXI_SOCKET", str(path))
    fake = FakeMaster(path)
    yield fake
    fake.stop()


@pytest.fixture
def gnt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Runner:
    """Run ``gnt("gnt-node list -o name")``: the words are those of a shell, without its quoting."""

    def runner(line: str, *more: str) -> Ran:
        program, *words = line.split()
        monkeypatch.setattr(sys, "argv", [program, *words, *more])
        status = run(program)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Ran(status, captured.out, captured.err)

    return runner
