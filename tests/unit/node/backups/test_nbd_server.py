# SPDX-License-Identifier: BSD-2-Clause
"""A served chain: what a client reads is what the backups hold, and nothing that a client says does harm."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.backups import ChainLink, Chunk
from ganeti.node.backups import nbd, nbd_server
from ganeti.node.backups.chain_reader import ChainReader
from ganeti.node.backups.directory import BackupDirectory
from ganeti.wire.sealing import CHUNK_BYTES, NONCE_BYTES, Sealing

UUID = "6d1c1a2e-2a6e-4a3f-9b60-3a3a4e2b7c11"
SEALING = Sealing(b"k" * 32, UUID)
SIZE = 40 * CHUNK_BYTES + 5 * 512
"""Its last chunk is not whole."""


def make(store: BackupDirectory, backup: str, content: dict[int, bytes]) -> ChainLink:
    store.begin(UUID, backup, 1)
    chunks = [
        Chunk(number=number, digest=SEALING.digest(data), data=SEALING.seal(0, number, data, os.urandom(NONCE_BYTES)))
        for number, data in sorted(content.items())
    ]
    store.append(UUID, backup, 0, chunks, 0)
    store.finish(UUID, backup)
    store.publish(UUID, backup, 0, "")
    return ChainLink(id=backup, generation=0, disks=1)


@pytest.fixture
def disk(tmp_path: Path) -> tuple[ChainReader, bytes, BackupDirectory]:
    draw, store = random.Random(7), BackupDirectory(str(tmp_path / "kept"))
    older = {number: draw.randbytes(CHUNK_BYTES) for number in draw.sample(range(40), 20)}
    newer = {number: draw.randbytes(CHUNK_BYTES) for number in draw.sample(range(40), 8)}
    newer[40] = draw.randbytes(SIZE - 40 * CHUNK_BYTES)
    chain = [make(store, "new", newer), make(store, "old", older)]
    wanted = b"".join((older | newer).get(number, bytes(CHUNK_BYTES)) for number in range(41))[:SIZE]
    return ChainReader(store, SEALING, UUID, chain, [SIZE]), wanted, store


@pytest.fixture
def client(disk: tuple[ChainReader, bytes, BackupDirectory]) -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=nbd_server.serve, args=(theirs, disk[0]))
    thread.start()
    ours.settimeout(60)
    yield ours
    ours.close()
    thread.join(60)
    assert not thread.is_alive(), "a client that goes is let go"


async def pieces(client: socket.socket, spans: list[tuple[int, int]]) -> list[bytes]:
    client.settimeout(None)
    async with nbd.opened(await asyncio.open_connection(sock=client), "0") as source:
        assert await source.size() == SIZE
        return [await source.read(*span) for span in spans]


def test_what_a_client_reads_is_what_the_chain_holds(
    disk: tuple[ChainReader, bytes, BackupDirectory], client: socket.socket
) -> None:
    draw, wanted = random.Random(3), disk[1]
    spans = [(draw.randrange(SIZE), draw.randrange(1, 5 * CHUNK_BYTES)) for _ in range(30)] + [(0, SIZE)]
    found = asyncio.run(pieces(client, spans))
    assert all(found[at] == wanted[first : first + count] for at, (first, count) in enumerate(spans))


def test_a_damaged_chunk_is_an_error_of_the_disk(
    disk: tuple[ChainReader, bytes, BackupDirectory], client: socket.socket, tmp_path: Path
) -> None:
    path = tmp_path / "kept" / UUID / "new" / "disk0.0.chunks"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(BlockDeviceError, match="cannot be read at 0"):
        asyncio.run(pieces(client, [(0, SIZE)]))


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\0\0\0\3IHAVEOPT\0\0\0\7\0\0\0\0",
        b"\0\0\0\3IHAVEOPT\0\0\0\7\xff\xff\xff\xff",
        b"\0\0\0\3IHAVEOPT\0\0\0\7\0\0\0\6\0\0\xff\xff00",
        b"\0\0\0\3IHAVEOPT\0\0\0\1\0\0\0\0012",
        b"\0\0\0\3IHAVEOPT\0\0\0\1\0\0\0\4\xc2\xb2xx",
        b"GET / HTTP/1.1\r\n\r\n" + bytes(64),
    ],
)
def test_a_client_that_says_what_it_should_not_is_left(client: socket.socket, said: bytes) -> None:
    client.recv(18, socket.MSG_WAITALL)
    client.sendall(said)
    client.shutdown(socket.SHUT_WR)
    with contextlib.suppress(ConnectionResetError):
        while client.recv(4096):
            pass


def test_nothing_but_reading_inside_the_disk_is_done(client: socket.socket) -> None:
    client.recv(18, socket.MSG_WAITALL)
    client.sendall(b"\0\0\0\3IHAVEOPT\0\0\0\1\0\0\0\0010")
    size, flags = struct.unpack(">QH", client.recv(10, socket.MSG_WAITALL))
    assert size == SIZE and flags & 2, "it is read-only"
    for kind, offset, length in ((0, SIZE, 512), (0, SIZE - 512, 1024), (4, 0, 512), (6, 0, 512)):
        client.sendall(struct.pack(">IHHQQI", 0x25609513, 0, kind, 7, offset, length))
        magic, error, handle = struct.unpack(">IIQ", client.recv(16, socket.MSG_WAITALL))
        assert (magic, handle) == (0x67446698, 7) and error
    client.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 1, 7, 0, 512) + bytes(512))
    with contextlib.suppress(ConnectionResetError):
        assert client.recv(16) == b"", "a client that writes is left"
