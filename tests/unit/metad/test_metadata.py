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
from ganeti.metad.guests import Guests
from ganeti.node.metadata import Metadata
from ganeti.system.http_server import HttpReply, HttpRequest

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
    return answer(guests(paths, known), paths, request)


def test_a_guest_reads_what_is_its_own(paths: Paths) -> None:
    assert json.loads(get(paths, "os/parameters.json").body) == {
        "dns": ["192.0.2.1", "public"],
        "key": ["hidden", "private"],
    }
    assert json.loads(get(paths, "meta_data.json").body)["name"] == "web1"
    assert get(paths, "os/scripts/create").body == b"#!/bin/sh\n# create\n"
    assert get(paths, "os/parameters.json", peer="169.254.0.10").status == 404
    assert get(paths, "os/parameters.json", peer=f"::ffff:{ADDRESS}").status == 200


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
        assert get(paths, path, known=whole).body == b"tar"
        (tmp_path / "srv/ganeti/os/image/link").unlink(missing_ok=True)
        (tmp_path / "srv/ganeti/os/image/link").symlink_to("/etc/passwd")
        for stolen in ("/etc/passwd", "/srv/ganeti/os/../../../etc/passwd", "/srv/ganeti/os/image/link", "passwd"):
            whole = msgspec.structs.replace(WEB1, parameters={parameter: (stolen, "public")})
            assert get(paths, path, known=whole).status == 404


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
