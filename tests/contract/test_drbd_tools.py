# SPDX-License-Identifier: BSD-2-Clause
"""What DRBD's tools are asked is what drbdadm itself would ask them, in version 8.4 and in version 9."""

import asyncio
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.replicated_nodes import ADDRESSES, TOOL, disk

from ganeti.base.errors import BlockDeviceError
from ganeti.base.paths import Paths
from ganeti.node.storage.drbd.places import Link, link_of
from ganeti.node.storage.drbd.tools import Tools, Version8, Version9, version_in
from ganeti.noded.world import RealNodeWorld

ADMIN = {Version8: "/lib/drbd/drbdadm-84", Version9: "/sbin/drbdadm"}
SETUP = {Version8: "/lib/drbd/drbdsetup-84", Version9: "/sbin/drbdsetup"}
KIND = {Version8: "8.4", Version9: "9"}
pytestmark = [pytest.mark.real, pytest.mark.skipif(not shutil.which("drbdadm"), reason="drbd-utils is missing")]
both = pytest.mark.parametrize("kind", [Version8, Version9])
PARAMS: dict[str, Any] = {"resync-rate": 1000, "disk-barriers": "bf", "meta-barriers": True, "protocol": "C"}

_RESOURCE = """
global {{ usage-count no; }}
resource resource3 {{
    net {{
        protocol C; cram-hmac-alg {digest}; shared-secret "secret"; allow-two-primaries no;
        after-sb-0pri discard-zero-changes; after-sb-1pri consensus;
    }}
    disk {{
        on-io-error detach; disk-barrier no; disk-flushes no; md-flushes no; resync-rate 1000; c-plan-ahead 0;
    }}
    on node1 {{
        {first} address {one}:11003;
        volume 0 {{ device /dev/drbd3; disk /dev/xenvg/data; meta-disk /dev/xenvg/meta[0]; }}
    }}
    on node2 {{
        {second} address {two}:11003;
        volume 0 {{ device /dev/drbd13; disk /dev/xenvg/data; meta-disk /dev/xenvg/meta[0]; }}
    }}
}}
"""


@pytest.fixture
def link() -> Link:
    return link_of(disk(3), "node1")


def tools(kind: type[Tools], root: str = "") -> Tools:
    return kind(RealNodeWorld(Paths(root), "node1"), KIND[kind])


def asked_by_drbdadm(kind: type[Tools], directory: Path, *words: str) -> list[list[str]]:
    """The commands that drbdadm would run on the first node, each as the name of its tool and a set of words."""
    nine = kind is Version9
    file = directory / "resource.res"
    file.write_text(
        _RESOURCE.format(
            digest=kind.digest,
            first="node-id 0;" if nine else "",
            second="node-id 1;" if nine else "",
            one=ADDRESSES["node1"],
            two=ADDRESSES["node2"],
        )
    )
    command = shlex.join([ADMIN[kind], "-c", str(file), "--dry-run", *words, "resource3"])
    said = subprocess.run(
        ["unshare", "--uts", "sh", "-c", f"hostname node1 && {command}"], capture_output=True, text=True, check=True
    ).stdout
    return [normal(shlex.split(line)) for line in said.splitlines()]


def normal(words: list[str]) -> list[str]:
    """The order of options says nothing."""
    plain = [word for word in words[1:] if not word.startswith("--")]
    options = sorted(word.removesuffix("=yes") for word in words if word.startswith("--"))
    return [os.path.basename(words[0]).removesuffix("-84"), *plain, *options]


def setup(*commands: list[str]) -> list[list[str]]:
    return [normal(["drbdsetup", *words]) for words in commands]


@both
def test_a_device_comes_up_as_drbdadm_brings_it_up(kind: type[Tools], link: Link, tmp_path: Path) -> None:
    own = tools(kind)
    [log, *wanted] = sorted(
        asked_by_drbdadm(kind, tmp_path, "up"), key=lambda words: (words[0] != "drbdmeta", str(words))
    )
    assert log == ["drbdmeta", "3", kind.metadata, "/dev/xenvg/meta", "0", "apply-al"]
    commands = [
        *own.new_words(link),
        *own.attach_words(link, "/dev/xenvg/data", "/dev/xenvg/meta", PARAMS),
        *own.connect_words(link, PARAMS),
    ]
    told = [
        [word for word in words if word not in ("--_name=node2", "--auto-promote=no")] for words in setup(*commands)
    ]
    expected = [[word for word in words if word != "--_name=node2"] for words in wanted]
    assert sorted(told) == sorted(expected)


@both
def test_roles_metadata_and_ends_are_asked_for_as_drbdadm_does(kind: type[Tools], link: Link, tmp_path: Path) -> None:
    own = tools(kind)
    remote = link.remote
    for words, commands in (
        (("primary", "--force"), [own.role_words(link, "primary", force=True)]),
        (("secondary",), [own.role_words(link, "secondary")]),
        (("disconnect",), own.disconnect_words(link, remote)[:1]),
        (("down",), [["down", link.resource]]),
        (("detach",), [["detach", str(link.minor)]]),
    ):
        assert asked_by_drbdadm(kind, tmp_path, *words) == setup(*commands), words
    assert setup(["resize", str(link.minor)])[0] in asked_by_drbdadm(kind, tmp_path, "resize")
    made = [normal(["drbdmeta", *(word for word in own.create_metadata_words(link, "/dev/xenvg/meta"))])]
    told = asked_by_drbdadm(kind, tmp_path, "create-md")
    assert [[word for word in words if word != "--force"] for words in made] == told
    two = asked_by_drbdadm(kind, tmp_path, "net-options", "--allow-two-primaries")[0]
    mine = setup(own.two_primaries_words(link, remote, allowed=True))[0]
    assert [word for word in mine if not word.startswith("--")] == [word for word in two if not word.startswith("--")]
    assert set(mine) <= set(two)


@both
def test_the_stand_in_knows_the_options_that_the_real_tools_have(kind: type[Tools]) -> None:
    for command, known in json.loads(TOOL.with_name("options.json").read_text())[KIND[kind]].items():
        said = subprocess.run([SETUP[kind], "help", command], capture_output=True, text=True, check=False).stdout
        assert all(f"[--{option}" in said for option in known["options"]), command


@pytest.fixture
def device(tmp_path: Path) -> Iterator[str]:
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        pytest.skip("metadata of tests lie on loop devices")
    (tmp_path / "meta").write_bytes(b"")
    os.truncate(tmp_path / "meta", 128 * 2**20)
    found = subprocess.run(
        ["losetup", "-f", "--show", str(tmp_path / "meta")], check=True, capture_output=True, text=True
    ).stdout.strip()
    yield found
    subprocess.run(["losetup", "-d", found], check=True)


@both
def test_metadata_is_made_and_read_by_the_real_tool(kind: type[Tools], device: str, tmp_path: Path) -> None:
    own, link = tools(kind, str(tmp_path)), link_of(disk(93), "node1")
    assert run(own.metadata_state(link, device)) is None
    for _ in ("once", "again"):
        run(own.create_metadata(link, device))
        assert run(own.metadata_state(link, device)) == "Inconsistent"
    run(own.apply_activity_log(link, device))


@both
@pytest.mark.parametrize(("flags", "told"), [("1:1", "Consistent"), ("1:0", "Outdated"), ("0:1", "Inconsistent")])
def test_the_state_of_a_copy_that_is_down_is_that_of_the_real_tool(
    kind: type[Tools], device: str, tmp_path: Path, flags: str, told: str
) -> None:
    """Flags of the metadata: consistent, up to date."""
    own, link = tools(kind, str(tmp_path)), link_of(disk(93), "node1")
    run(own.create_metadata(link, device))
    words = ["drbdmeta", "--force", "93", kind.metadata, device, "0", "set-gi", f"A1B2C3D4E5F60708:0:0:0:{flags}"]
    words += ["--node-id", "0"] if kind is Version9 else []
    subprocess.run(words, check=True, capture_output=True)
    assert run(own.metadata_state(link, device)) == told


def test_the_version_is_told_by_the_kernel_or_by_the_tools() -> None:
    assert version_in("version: 8.4.11-1 (api:1/proto:86-101)\nsrcversion: 1\n") == "8.4.11-1"
    assert version_in("version: 9.1.7 (api:2/proto:110-121)\n") == "9.1.7"
    assert version_in("DRBDADM_API_VERSION=2\nDRBD_KERNEL_VERSION_CODE=0x090107\n") == "9.1.7"
    said = subprocess.run(["/sbin/drbdadm", "--version"], capture_output=True, text=True, check=True).stdout
    if not os.path.exists("/proc/drbd"):
        assert version_in(said) == ""
    with pytest.raises(BlockDeviceError, match=r"version 8\.3\.16: 8\.4 or 9 is needed"):
        version_in("version: 8.3.16 (api:88/proto:86-97)\n")


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)
