# SPDX-License-Identifier: BSD-2-Clause
"""Transfers on a node: from one node to another by their processes, and nothing left when one is ended."""

import asyncio
import os
import stat
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fakes.one_node import OneNode, disk_spec, instance_spec

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.transfers import DiskTransfer, TransferState

PROGRAM = f'PYTHONPATH={os.pathsep.join(sys.path)} exec {sys.executable} -m ganeti.tools.import_export.command "$@"'


def transfer(node: OneNode, name: str, key: str, authority: str, **changes: Any) -> DiskTransfer:
    usual = DiskTransfer(
        name=name,
        key=key,
        authority=authority,
        magic="magic-1",
        compress="none",
        instance=spec(node),
        index=0,
        debug=0,
    )
    return msgspec.structs.replace(usual, **changes)


def receiving(node: OneNode, authority: str, **changes: Any) -> dict[str, Any]:
    what = transfer(node, "in-1", "x509-b", authority, **changes)
    return {"transfer": what, "connect_timeout_s": 20, "bind": "127.0.0.1"}


def sending(node: OneNode, authority: str, port: int, **changes: Any) -> dict[str, Any]:
    return {"transfer": transfer(node, "out-1", "x509-a", authority, **changes), "host": "127.0.0.1", "port": port}


def spec(node: OneNode) -> Any:
    place = Path(node.paths.under("/srv/ganeti/shared-file-storage/web1"))
    place.mkdir(parents=True, exist_ok=True)
    return instance_spec(disks=[disk_spec()], osparams_private={"word": "quiet"})


@pytest.fixture
def node(tmp_path: Path) -> OneNode:
    made = OneNode(tmp_path)
    made.program("/usr/lib/ganeti/import-export", PROGRAM)
    made.definition(export="head -c 3000000 /dev/zero", **{"import": f"cat > {tmp_path}/arrived"})
    disk = Path(made.paths.under("/srv/disks/web1/d0.file.disk0"))
    disk.parent.mkdir(parents=True)
    disk.write_bytes(bytes(1024 * 1024))
    return made


def keys(node: OneNode) -> tuple[str, str]:
    made = [node.call("transfer_key_make", name=f"x509-{each}", owner=each, validity_s=600) for each in "ab"]
    return made[0].certificate, made[1].certificate


async def ended(node: OneNode, name: str) -> TransferState:
    for _ in range(3000):
        (state,) = await node.make_call("transfer_states", names=[name])
        assert isinstance(state, TransferState)
        if not state.running:
            return state
        await asyncio.sleep(0.02)
    raise AssertionError(f"{name} does not end")


async def carry(
    node: OneNode, certificates: tuple[str, str], to: dict[str, Any], of: dict[str, Any], **size: int
) -> None:
    """Both processes, from the beginning to their end."""
    first, second = certificates
    port = await node.make_call("transfer_receive", **receiving(node, first, **to), **size)
    await node.make_call("transfer_send", **sending(node, second, port, **of))
    for _ in range(3000):
        (state,) = await node.make_call("transfer_states", names=["in-1"])
        if state.received:
            break
        await asyncio.sleep(0.02)
    await node.make_call("transfer_confirm", names=["in-1"])
    assert [(await ended(node, name)).exit_status for name in ("in-1", "out-1")] == [0, 0]
    for name in ("in-1", "out-1"):
        await node.make_call("transfer_end", name=name)


def test_a_disk_goes_through(node: OneNode, tmp_path: Path) -> None:
    node.run(carry(node, keys(node), {}, {}))
    assert os.path.getsize(tmp_path / "arrived") == 3000000
    assert os.listdir(node.paths.transfers_dir) == []


@pytest.mark.parametrize("tool", ["none", "gzip-fast"])
def test_a_dump_becomes_a_dump_in_which_what_is_zero_takes_no_room(node: OneNode, tool: str) -> None:
    exports = Path(node.paths.export_dir)
    kept = exports / "web1"
    kept.mkdir(parents=True)
    content = os.urandom(300000) + bytes(3000000) + b"end" + bytes(1000000)
    (kept / "disk0.dump").write_bytes(content)
    to = {"directory": "web2.new", "dump": "disk0.dump", "compress": tool}
    node.run(carry(node, keys(node), to, to | {"directory": "web1"}, size=len(content)))
    arrived = exports / "web2.new/disk0.dump"
    assert arrived.read_bytes() == content
    assert arrived.stat().st_blocks * 512 < 2000000
    assert stat.S_IMODE(arrived.stat().st_mode) == 0o600


def test_no_room_for_a_dump_is_said_before_anything_is_sent(node: OneNode) -> None:
    first, _ = keys(node)
    to = receiving(node, first, directory="web2.new", dump="disk0.dump")
    with pytest.raises(BlockDeviceError, match="has no room"):
        node.call("transfer_receive", **to, size=1 << 60)


def test_a_dump_that_is_missing_or_a_link_is_not_sent(node: OneNode) -> None:
    _, second = keys(node)
    kept = Path(node.paths.export_dir) / "web1"
    kept.mkdir(parents=True)
    of = sending(node, second, 1, directory="web1", dump="disk0.dump")
    with pytest.raises(BlockDeviceError, match=r"its dump disk0.dump is missing. Export the instance again"):
        node.call("transfer_send", **of)
    (kept / "disk0.dump").symlink_to("/etc/passwd")
    with pytest.raises(BlockDeviceError, match="is no plain file"):
        node.call("transfer_send", **of)


def test_a_transfer_that_is_ended_leaves_neither_process_nor_file(node: OneNode) -> None:
    first, _ = keys(node)

    async def story() -> None:
        await node.make_call("transfer_receive", **receiving(node, first))
        directory = f"{node.paths.transfers_dir}/in-1"
        assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
        assert not any(b"quiet" in (Path(directory) / name).read_bytes() for name in os.listdir(directory))
        await node.make_call("transfer_end", name="in-1")
        await node.make_call("transfer_end", name="in-1")
        (state,) = await node.make_call("transfer_states", names=["in-1"])
        assert not state.running

    node.run(story())
    assert os.listdir(node.paths.transfers_dir) == []


def test_keys_are_for_root_and_go_with_the_next_of_the_same_owner(node: OneNode) -> None:
    keys(node)
    for directory in ("x509-a", "x509-b"):
        for path in Path(node.paths.transfer_keys_dir, directory).iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o400
    node.call("transfer_key_make", name="x509-c", owner="a", validity_s=600)
    assert sorted(os.listdir(node.paths.transfer_keys_dir)) == ["x509-b", "x509-c"]
    os.utime(f"{node.paths.transfer_keys_dir}/x509-b", (1, 1))
    node.call("transfer_key_make", name="x509-d", owner="d", validity_s=600)
    node.call("transfer_key_remove", name="x509-d")
    node.call("transfer_key_remove", name="x509-d")
    assert sorted(os.listdir(node.paths.transfer_keys_dir)) == ["x509-c"]


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", ".x", "x509-../../etc"])
def test_nothing_outside_is_reached(node: OneNode, name: str) -> None:
    for call in ("transfer_end", "transfer_key_remove"):
        with pytest.raises(BlockDeviceError, match="name of a"):
            node.call(call, name=name)


def test_a_key_that_is_gone_is_said(node: OneNode) -> None:
    with pytest.raises(BlockDeviceError, match="is not on this node any more: prepare the export again"):
        node.call("transfer_receive", **receiving(node, "x"))
