# SPDX-License-Identifier: BSD-2-Clause
"""Which certificate a node is shown: the newest, and a former one where it knows this node by that alone."""

from __future__ import annotations

import asyncio
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from pathlib import Path

import pytest

from ganeti.base.paths import Paths
from ganeti.node.certificates import Authority, create_authority, digest, issue_node_certificate
from ganeti.system.http_client import BrokenError, HttpClient
from ganeti.system.http_server import HttpReply, HttpRequest, HttpServer
from ganeti.system.tls import ServerFiles, certificate_digest, client_contexts, server_context

ADDRESS = "127.0.0.1"


class Bed:
    """A node daemon's door, and a caller with a current certificate and two former ones."""

    def __init__(self, root: Path) -> None:
        self.paths = Paths(str(root))
        Path(self.paths.data_dir).mkdir(parents=True)
        self.authority = create_authority("cluster")
        Path(self.paths.authority_cert).write_text(self.authority.certificate)
        self.write(self.paths.server_cert, self.authority)
        self.digests = [
            self.write(self.paths.client_cert, self.authority),
            self.write(self.paths.former_client_cert("2000000000"), self.authority),
            self.write(self.paths.former_client_cert("1000000000"), self.authority),
        ]
        self.admitted = set(self.digests)
        self.shown: list[int] = []
        """Which of the caller's certificates came, in order."""

    def write(self, path: str, authority: Authority) -> str:
        text = issue_node_certificate(authority, "node1", "cluster", [ADDRESS])
        Path(path).write_text(text)
        return digest(text)

    def door(self, request: HttpRequest) -> HttpReply | None:
        assert request.certificate is not None
        shown = certificate_digest(request.certificate)
        self.shown.append(self.digests.index(shown))
        return None if shown in self.admitted else HttpReply(403, b"stranger")

    def play(self, *steps: Callable[[], None]) -> list[tuple[list[int], int | str]]:
        """After each step, ask until there is an answer; gives the certificates shown and the status, or the error."""

        async def story() -> list[tuple[list[int], int | str]]:
            async def handle(request: HttpRequest) -> HttpReply:
                return HttpReply(200, b"done")

            context, short = server_context(ServerFiles.of(self.paths)), frozenset({"sent-at"})
            server = HttpServer(handle, address=ADDRESS, port=0, tls=context, door=self.door, short=short)
            await server.start()
            client = HttpClient(lambda: client_contexts(self.paths), lambda name: ADDRESS)
            told: list[tuple[list[int], int | str]] = []
            for step in steps:
                step()
                self.shown.clear()
                told.append((self.shown.copy(), await ask(client, server.port)))
                told[-1][0].extend(self.shown)
            await client.close()
            await server.close()
            return told

        return asyncio.run(story())


async def ask(client: HttpClient, port: int) -> int | str:
    while True:
        try:
            status, _ = await client.post("node1", port, "/version", b"{}", limit_s=5.0, connect_s=5.0)
            return status
        except BrokenError as err:
            if not err.has_other:
                return err.reason


def test_the_connection_to_a_node_has_a_small_buffer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LuxiD and WConfD have one to each of 1,000 nodes."""
    bed = Bed(tmp_path)
    monkeypatch.setattr(SSLProtocol, "max_size", 256 * 1024)

    async def story() -> int:
        client = HttpClient(lambda: client_contexts(bed.paths), lambda name: ADDRESS)
        assert isinstance(await ask(client, 1), str), "nobody listens there"
        await client.close()
        return SSLProtocol.max_size

    assert asyncio.run(story()) <= 32 * 1024


def test_a_refused_certificate_is_followed_by_the_former_ones(tmp_path: Path) -> None:
    bed = Bed(tmp_path)

    def only(*numbers: int) -> Callable[[], None]:
        return lambda: setattr(bed, "admitted", {bed.digests[number] for number in numbers})

    told = bed.play(only(0, 1, 2), only(2), only(2), only(0), only())
    assert told[0] == ([0], 200)
    assert told[1] == ([0, 1, 2], 200)
    assert told[2] == ([2], 200)  # what it took is shown again
    assert told[3] == ([2, 0], 200)
    assert told[4][1] == 403 and len(told[4][0]) <= 6


def test_a_renewed_certificate_is_shown_by_both_sides_without_a_restart(tmp_path: Path) -> None:
    bed = Bed(tmp_path)

    def renew() -> None:
        bed.digests[0] = bed.write(bed.paths.client_cert, bed.authority)
        bed.admitted = {bed.digests[0]}
        bed.write(bed.paths.server_cert, bed.authority)

    assert bed.play(lambda: None, renew) == [([0], 200), ([0], 200)]


def test_a_server_that_does_not_trust_the_new_authority_yet_gets_the_former_certificate(tmp_path: Path) -> None:
    """As a node that was away when the authority was renewed."""
    bed = Bed(tmp_path)
    away = Paths(str(tmp_path / "away"))
    Path(away.data_dir).mkdir(parents=True)
    Path(away.authority_cert).write_text(bed.authority.certificate)
    bed.write(away.server_cert, bed.authority)
    new = create_authority("cluster")
    Path(bed.paths.authority_cert).write_text(new.certificate + bed.authority.certificate)
    bed.digests[0] = bed.write(bed.paths.client_cert, new)

    async def story() -> int | str:
        async def handle(request: HttpRequest) -> HttpReply:
            return HttpReply(200, b"done")

        server = HttpServer(handle, address=ADDRESS, port=0, tls=server_context(ServerFiles.of(away)), door=bed.door)
        await server.start()
        client = HttpClient(lambda: client_contexts(bed.paths), lambda name: ADDRESS)
        status = await ask(client, server.port)
        await client.close()
        await server.close()
        return status

    assert asyncio.run(story()) == 200
    assert bed.shown == [1]
