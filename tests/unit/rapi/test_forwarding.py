# SPDX-License-Identifier: BSD-2-Clause
"""Requests that a node passes on to the master: they arrive as they came, with the address of who asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict

from ganeti.base.paths import Paths
from ganeti.rapi.forwarding import Forwarder
from ganeti.system import http_relay
from ganeti.system.http_relay import HttpRelay
from ganeti.system.http_server import HttpReply, HttpRequest, HttpServer

CLIENT, NODE = "127.0.0.2", "127.0.0.1"


def files(root: Path, **values: str) -> Paths:
    paths = Paths(str(root))
    Path(paths.ssconf_file("master_node")).parent.mkdir(parents=True)
    for key, value in {"master_node": "master", "master_ip": NODE, **values}.items():
        Path(paths.ssconf_file(key)).write_text(value + "\n")
    return paths


def secret(root: Path, text: str) -> Callable[[], str]:
    """A file that holds *text*; none for no text."""
    path = root / f"secret-{text}"
    if text:
        path.write_text(text)
    return lambda: str(path)


def passed_on(
    root: Path, *targets: bytes, nodes: str = f"node2 {NODE}", head: bytes = b"", secrets: tuple[str, str] = ("s", "s")
) -> tuple[list[bytes], list[HttpRequest]]:
    """Send GET requests to a node; gives the first line of each answer, and what the master was asked."""
    asked: list[HttpRequest] = []

    async def answer(request: HttpRequest) -> HttpReply:
        asked.append(request)
        return HttpReply(200, b"done")

    def door(request: HttpRequest) -> HttpReply | None:
        asked.append(request)
        return None

    async def story() -> list[bytes]:
        relay, lines = HttpRelay(None), []
        at_master = Forwarder(
            answer, files(root / "m", node_primary_ips=nodes), "master", relay, 1, door, secret(root, secrets[0])
        )
        master = HttpServer(at_master.answer, address=NODE, port=0, tls=None, door=at_master.door)
        await master.start()
        at_node = Forwarder(answer, files(root / "n"), "node2", relay, master.port, door, secret(root, secrets[1]))
        node = HttpServer(at_node.answer, address=NODE, port=0, tls=None, door=at_node.door)
        await node.start()
        async with asyncio.timeout(10):
            for target in targets:
                reader, writer = await asyncio.open_connection(NODE, node.port, local_addr=(CLIENT, 0))
                writer.write(b"GET %s HTTP/1.1\r\nHost: node2\r\n%s\r\n" % (target, head))
                lines.append(await reader.readline())
                writer.close()
        for each in (node, master, relay):
            await each.close()
        return lines

    return asyncio.run(story()), asked


def test_a_path_arrives_as_it_came(tmp_path: Path) -> None:
    named = {"a%3Fb": "a?b", "a%23b": "a#b", "%2541": "%41", "a%00b": "a\0b", "%C3%A9": "é"}
    lines, asked = passed_on(tmp_path, *(f"/2/{word}?tag=%26%3d".encode() for word in named))
    assert all(b" 200 " in line for line in lines)
    assert [request.path for request in asked[::2]] == [f"/2/{word}" for word in named.values()]
    assert {request.query for request in asked} == {"tag=%26%3d"}


def test_the_master_knows_who_asked(tmp_path: Path) -> None:
    _, asked = passed_on(tmp_path, b"/2", head=b"X-Ganeti-Forwarded-For: 192.0.2.9\r\n")
    assert [request.peer for request in asked] == [CLIENT, CLIENT]


@pytest.mark.parametrize("nodes", ["node2 192.0.2.1", "", "node2 what"])
def test_others_than_nodes_are_not_believed(tmp_path: Path, nodes: str) -> None:
    _, asked = passed_on(tmp_path, b"/2", nodes=nodes)
    assert [request.peer for request in asked] == [NODE, NODE]


@pytest.mark.parametrize("secrets", [("s", "t"), ("s", ""), ("", "s"), ("", "")])
def test_a_node_without_the_secret_is_not_believed(tmp_path: Path, secrets: tuple[str, str]) -> None:
    _, asked = passed_on(tmp_path, b"/2", secrets=secrets)
    assert [request.peer for request in asked] == [NODE, NODE]


@pytest.mark.parametrize(
    "change", [{}, {"client": "192.0.2.8"}, {"method": "PUT"}, {"target": "/2/x"}, {"late_s": 400}]
)
def test_others_with_the_address_of_a_node_are_not_believed(tmp_path: Path, change: dict[str, Any]) -> None:
    """Programs of a node, and guests that leave through it, can repeat what they have seen at most."""
    asked: list[HttpRequest] = []

    async def answer(request: HttpRequest) -> HttpReply:
        asked.append(request)
        return HttpReply(200, b"done")

    paths = files(tmp_path, node_primary_ips=f"node2 {NODE}")
    gate = Forwarder(answer, paths, "master", HttpRelay(None), 1, lambda request: None, secret(tmp_path, "s"))
    request = HttpRequest("GET", "/2", b"", "192.0.2.9", None, raw_path="/2")
    signed = gate._signature(request, "192.0.2.9", int(time.time()) - change.get("late_s", 0))
    heads = {
        "X-Ganeti-Forwarded-By": "node2",
        "X-Ganeti-Forwarded-For": change.get("client", "192.0.2.9"),
        "X-Ganeti-Forwarded-Signature": signed,
    }
    target = change.get("target", "/2")
    sent = HttpRequest(
        change.get("method", "GET"), target, b"", NODE, None, raw_path=target, headers=CIMultiDict(heads)
    )
    asyncio.run(gate.answer(sent))
    [found] = asked
    assert found.peer == (NODE if change else "192.0.2.9")
    assert ("x-ganeti-forwarded-by" in found.headers) is not bool(change)


def test_a_page_of_another_site_is_refused_before_its_request_is_passed_on(tmp_path: Path) -> None:
    """The headers that tell it are not passed on."""
    asked: list[HttpRequest] = []

    async def answer(request: HttpRequest) -> HttpReply:
        asked.append(request)
        return HttpReply(200, b"done")

    relay = HttpRelay(None)
    node = Forwarder(answer, files(tmp_path), "node2", relay, 1, lambda request: None, secret(tmp_path, "s"))
    request = HttpRequest("POST", "/2/instances/web1/reboot", b"", CLIENT, None, "", {"Sec-Fetch-Site": "cross-site"})
    assert asyncio.run(node.answer(request)).status == 403
    assert not asked


def relayed(root: Path, reply: HttpReply) -> bytes:
    """What a client of a node gets of the master's reply, whole."""

    async def answer(request: HttpRequest) -> HttpReply:
        return reply

    async def story() -> bytes:
        relay = HttpRelay(None)
        master = HttpServer(answer, address=NODE, port=0, tls=None)
        await master.start()
        at_node = Forwarder(answer, files(root), "node2", relay, master.port, lambda request: None, secret(root, "s"))
        node = HttpServer(at_node.answer, address=NODE, port=0, tls=None)
        await node.start()
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection(NODE, node.port)
            writer.write(b"GET /3/events HTTP/1.1\r\nHost: node2\r\nConnection: close\r\n\r\n")
            said = await reader.read()
            writer.close()
        for each in (node, master, relay):
            await each.close()
        return said

    return asyncio.run(story())


def test_a_client_of_a_node_is_told_what_the_master_says_of_methods_and_caches(tmp_path: Path) -> None:
    said = relayed(tmp_path, HttpReply(405, b"{}", headers={"Allow": "GET", "Cache-Control": "no-store"}))
    assert b"\r\nAllow: GET\r\n" in said and b"\r\nCache-Control: no-store\r\n" in said


def test_a_stream_of_events_that_is_silent_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address of the cluster has moved away from a master that is still connected, and cannot be heard any more."""
    monkeypatch.setattr(http_relay, "EVENTS_SILENT_S", 0.05)
    monkeypatch.setattr(http_relay, "LOOK_S", 0.01)

    async def frames() -> AsyncGenerator[bytes, None]:
        yield b"id: p1\n\n"
        await asyncio.sleep(3600)

    said = relayed(tmp_path, HttpReply(200, b"", "text/event-stream", chunks=frames()))
    assert b"id: p1\n\n\r\n" in said and said.endswith(b"\r\n0\r\n\r\n")


def test_a_stream_of_events_ends_once_another_node_is_the_master(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_relay, "LOOK_S", 0.01)

    async def frames() -> AsyncGenerator[bytes, None]:
        yield b"id: p1\n\n"
        Path(Paths(str(tmp_path)).ssconf_file("master_node")).write_text("node3\n")
        await asyncio.sleep(3600)

    said = relayed(tmp_path, HttpReply(200, b"", "text/event-stream", chunks=frames()))
    assert said.endswith(b"\r\n0\r\n\r\n")
