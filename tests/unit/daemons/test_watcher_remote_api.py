# SPDX-License-Identifier: BSD-2-Clause
"""A remote API that takes connections and says nothing is started again, once; one that answers is left alone."""

from __future__ import annotations

import http.server
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganeti.base.errors import CommandError
from ganeti.base.paths import Paths
from ganeti.daemons import watcher_remote_api
from ganeti.daemons.watcher_remote_api import RemoteApi


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:  # the name that the library wants
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(str(tmp_path))
    os.makedirs(found.run_dir)
    return found


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def run(paths: Paths, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> list[str]:
    """Gives what was restarted; *words* are how the daemon was started."""
    monkeypatch.setattr(RemoteApi, "_words", lambda self: ["ganeti-rapi", *words])
    restarted: list[str] = []
    RemoteApi(paths, lambda name: None, restarted.append, None, 0.2).ensure()
    return restarted


def test_one_that_answers_is_left_alone(paths: Paths, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (["-p", str(port)], [f"--port={port}", "--bind=0.0.0.0"], [f"-p{port}", "-b", "127.0.0.1"]):
        assert run(paths, monkeypatch, [*words, "--no-ssl"]) == []
    assert run(paths, monkeypatch, ["-p", str(port)]) == ["ganeti-rapi"], "it speaks no TLS"


@pytest.mark.parametrize("address", ["::1", "[::1]"])
def test_one_of_ipv6_is_asked_there(paths: Paths, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    class Server(http.server.HTTPServer):
        address_family = socket.AF_INET6

    monkeypatch.setattr(
        RemoteApi, "_words", lambda self: ["ganeti-rapi", "-p", str(server.server_address[1]), "--no-ssl"]
    )
    with Server(("::1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        restarted: list[str] = []
        RemoteApi(paths, lambda name: None, restarted.append, address, 2.0).ensure()
        server.shutdown()
    assert restarted == []


def test_one_at_an_interface_is_asked_there(paths: Paths, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the cluster's addresses are: lo has 127.0.0.1."""
    monkeypatch.setattr(watcher_remote_api, "any_address", lambda paths: "0.0.0.0")
    monkeypatch.setitem(watcher_remote_api._HERE_BY, "0.0.0.0", "127.0.0.2")  # somebody else's
    for words in (["-i", "lo"], ["--interface=lo"], ["-ilo", "-b", "127.0.0.2"]):
        assert run(paths, monkeypatch, ["-p", str(port), *words, "--no-ssl"]) == []
    assert run(paths, monkeypatch, ["-p", str(port), "-i", "nothing", "--no-ssl"]) == ["ganeti-rapi"]


def test_one_that_says_nothing_is_started_again_once(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert run(paths, monkeypatch, ["-p", str(silent.getsockname()[1]), "--no-ssl"]) == [watcher_remote_api.NAME]
    assert "does not answer after a restart either" in caplog.text


def test_one_that_does_not_start_stops_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    asked = []

    def ensure(name: str) -> None:
        asked.append(name)
        raise CommandError(f"{name} could not be started (exit status 1): see its log")

    RemoteApi(Paths("/nowhere"), ensure, asked.append, None, 0.2).ensure()
    assert asked == ["ganeti-rapi"] and "ganeti-rapi could not be started" in caplog.text
