# SPDX-License-Identifier: BSD-2-Clause
"""What ganeti-metad answers, to whom, and what of it outlives the daemon."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import msgspec
import pytest

from ganeti.base.errors import PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.metad.answers import answer
from ganeti.metad.downloads import Downloads
from ganeti.metad.guests import Guests
from ganeti.node.metadata import Metadata
from ganeti.system.http_server import HttpReply, HttpRequest, HttpServer

ADDRESS = "169.254.0.9"
WEB1 = Metadata(
    name="web1",
    uuid="u1",
    address=ADDRESS,
    os="image+default",
    parameters={"dns": ("192.0.2.1", "public"), "key": ("hidden", "private")},
)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(str(tmp_path))
    os.makedirs(found.run_dir)
    directory = tmp_path / "srv/ganeti/os/image"
    directory.mkdir(parents=True)
    (directory / "ganeti_api_version").write_text("20\n")
    (directory / "variants.list").write_text("default\n")
    (directory / "parameters.list").write_text("dns its name server\n")
    for name in ("create", "import", "export", "rename", "verify"):
        (directory / name).write_text(f"#!/bin/sh\n# {name}\n")
        (directory / name).chmod(0o755)
    (directory / "base.tar").write_bytes(b"tar")
    return found


def guests(paths: Paths, known: Metadata = WEB1) -> Guests:
    found = Guests(f"{paths.run_dir}/metad.json")
    asyncio.run(found.update_config(msgspec.to_builtins(known)))
    return found


def get(paths: Paths, path: str, *, method: str = "GET", peer: str = ADDRESS, known: Metadata = WEB1) -> HttpReply:
    request = HttpRequest(method=method, path=f"/ganeti/latest/{path}", body=b"", peer=peer, certificate=None)
    return answer(guests(paths, known), paths, Downloads(), request)


def content(reply: HttpReply) -> bytes:
    async def read() -> bytes:
        assert reply.chunks is not None and reply.body == b""
        found = b"".join([piece async for piece in reply.chunks])
        await reply.chunks.aclose()
        return found

    return asyncio.run(read())


def test_a_guest_reads_what_is_its_own(paths: Paths) -> None:
    assert json.loads(get(paths, "os/parameters.json").body) == {
        "dns": ["192.0.2.1", "public"],
        "key": ["hidden", "private"],
    }
    assert json.loads(get(paths, "meta_data.json").body)["name"] == "web1"
    assert content(get(paths, "os/scripts/create")) == b"#!/bin/sh\n# create\n"
    assert get(paths, "os/parameters.json", peer="169.254.0.10").status == 404
    assert get(paths, "os/parameters.json", peer=f"::ffff:{ADDRESS}").status == 200


def test_a_script_that_no_node_runs_is_given_out_as_create(paths: Paths, tmp_path: Path) -> None:
    directory = tmp_path / "srv/ganeti/os/image"
    (directory / "create").rename(directory / "create_untrusted")
    (directory / "create_untrusted").write_text("#!/bin/sh\n# inside\n")
    assert content(get(paths, "os/scripts/create")) == b"#!/bin/sh\n# inside\n"


def test_paths_and_methods_of_3_1(paths: Paths) -> None:
    assert (get(paths, "read").status, get(paths, "read").body) == (200, b"")
    assert get(paths, "write", method="POST").status == 200
    assert get(paths, "read", method="POST").status == get(paths, "write").status == 405
    others = ("", "os", "os/scripts/nothing", "os/scripts/../create", "meta_data.xml", "os/parameters.json/x")
    assert {get(paths, path).status for path in others} == {404}
    assert get(paths, "os/parameters.json", method="POST").status == 404


def test_only_files_of_os_definitions_are_given_out(paths: Paths, tmp_path: Path) -> None:
    package = "/srv/ganeti/os/image/base.tar"
    for parameter, path in (("os-package", "os/package"), ("os-install-package", "os/os-install-package")):
        assert get(paths, path).status == 404
        whole = msgspec.structs.replace(WEB1, parameters={parameter: (package, "public")})
        assert content(get(paths, path, known=whole)) == b"tar"
        (tmp_path / "srv/ganeti/os/image/link").unlink(missing_ok=True)
        (tmp_path / "srv/ganeti/os/image/link").symlink_to("/etc/passwd")
        for stolen in ("/etc/passwd", "/srv/ganeti/os/../../../etc/passwd", "/srv/ganeti/os/image/link", "passwd"):
            whole = msgspec.structs.replace(WEB1, parameters={parameter: (stolen, "public")})
            assert get(paths, path, known=whole).status == 404


def test_a_file_beyond_a_gigabyte_is_refused(paths: Paths, tmp_path: Path) -> None:
    """One of a gigabyte is not; both are holes here."""
    place = tmp_path / "srv/ganeti/os/image/base.tar"
    whole = msgspec.structs.replace(WEB1, parameters={"os-package": ("/srv/ganeti/os/image/base.tar", "public")})
    for size, status in ((1024**3, 200), (1024**3 + 1, 404)):
        os.truncate(place, size)
        reply = get(paths, "os/package", known=whole, method="HEAD")
        assert reply.status == status
    assert reply.body == b"The file is larger than a gigabyte\n"


def test_a_restart_forgets_no_guest_and_others_cannot_read_the_file(paths: Paths) -> None:
    file = f"{paths.run_dir}/metad.json"
    first = guests(paths)
    assert os.stat(file).st_mode & 0o777 == 0o600
    moved = msgspec.structs.replace(WEB1, address="169.254.0.11")
    asyncio.run(first.update_config(msgspec.to_builtins(moved)))
    later = Guests(file)
    assert later.by_address("169.254.0.11") == moved and later.by_address(ADDRESS) is None
    asyncio.run(later.forget("web1"))
    assert later.is_empty and not os.path.exists(file)
    Path(file).write_text("{")
    assert Guests(file).is_empty


def test_what_is_no_guest_is_refused(paths: Paths) -> None:
    with pytest.raises(PrerequisiteError, match=r"These are no metadata of a guest: .*uuid"):
        asyncio.run(guests(paths).update_config({"name": "web1"}))


PACKAGE = msgspec.structs.replace(
    WEB1, address="127.0.0.1", parameters={"os-package": ("/srv/ganeti/os/image/base.tar", "")}
)
PATH = "/ganeti/latest/os/package"


def package(paths: Paths, downloads: Downloads, method: str = "GET") -> HttpReply:
    request = HttpRequest(method=method, path=PATH, body=b"", peer="127.0.0.1", certificate=None)
    return answer(guests(paths, PACKAGE), paths, downloads, request)


def test_a_guest_cannot_take_memory_of_its_node_with_large_files(paths: Paths, tmp_path: Path) -> None:
    """A file comes piece by piece, two at once for a guest, and is not read for HEAD."""
    os.truncate(tmp_path / "srv/ganeti/os/image/base.tar", 3_000_000)

    async def story() -> None:
        downloads = Downloads()
        head = await asyncio.to_thread(package, paths, downloads, "HEAD")
        assert (head.status, head.body, head.chunks, head.headers["Content-Length"]) == (200, b"", None, "3000000")
        replies = [await asyncio.to_thread(package, paths, downloads) for _ in range(3)]
        assert [(reply.status, reply.chunks is None) for reply in replies] == [(200, False), (200, False), (503, True)]
        assert b"2 downloads of this guest are running" in replies[2].body
        first = replies[0].chunks
        assert first is not None
        pieces = [piece async for piece in first]
        assert sum(map(len, pieces)) == 3_000_000 and max(map(len, pieces)) <= 65536
        for _ in ("once", "again"):
            await first.aclose()
        assert [(await asyncio.to_thread(package, paths, downloads)).status for _ in range(2)] == [200, 503]

    asyncio.run(story())


def test_a_file_that_becomes_shorter_is_not_taken_for_a_whole_one(paths: Paths, tmp_path: Path) -> None:
    reply = package(paths, Downloads())
    os.truncate(tmp_path / "srv/ganeti/os/image/base.tar", 1)
    with pytest.raises(ConnectionAbortedError, match="has become shorter"):
        content(reply)


def test_a_guest_that_goes_away_gives_its_download_back(paths: Paths, tmp_path: Path) -> None:
    """Over HTTP: the length is told, HEAD has no body, and the connection's end ends the download."""
    size = 40_000_000
    os.truncate(tmp_path / "srv/ganeti/os/image/base.tar", size)
    downloads = Downloads()

    async def handle(request: HttpRequest) -> HttpReply:
        return await asyncio.to_thread(answer, known, paths, downloads, request)

    async def ask(port: int, method: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % (method, PATH.encode()))
        return reader, writer, await reader.readuntil(b"\r\n\r\n")

    async def story() -> None:
        server = HttpServer(handle, address="127.0.0.1", port=0, tls=None)
        await server.start()
        async with asyncio.timeout(60):
            reader, writer, head = await ask(server.port, b"HEAD")
            assert b" 200 " in head and b"Content-Length: %d\r\n" % size in head and await reader.read() == b""
            writer.close()
            leaving = [await ask(server.port, b"GET") for _ in range(2)]
            assert all(b" 200 " in head for _, _, head in leaving)
            _, writer, head = await ask(server.port, b"GET")
            assert b" 503 " in head
            writer.close()
            for _, writer, _ in leaving:
                writer.transport.abort()
            while b" 503 " in head:
                reader, writer, head = await ask(server.port, b"GET")
                if b" 503 " in head:
                    writer.close()
            assert b"Content-Length: %d\r\n" % size in head
            assert len(await reader.readexactly(size)) == size and await reader.read() == b""
            writer.close()
        await server.close()

    known = guests(paths, PACKAGE)
    asyncio.run(story())
