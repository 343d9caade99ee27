# SPDX-License-Identifier: BSD-2-Clause
"""Transfers on a node: from one node to another by their processes, and nothing left when one is ended."""

import asyncio
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.one_node import OneNode, disk_spec, instance_spec

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.transfers import TransferState

PROGRAM = f'PYTHONPATH={os.pathsep.join(sys.path)} exec {sys.executable} -m ganeti.tools.import_export.command "$@"'


def receiving(node: OneNode, authority: str, name: str = "in-1") -> dict[str, Any]:
    return {
        "name": name,
        "key": "x509-b",
        "authority": authority,
        "magic": "magic-1",
        "compress": "none",
        "connect_timeout_s": 20,
        "bind": "127.0.0.1",
        "instance": spec(node),
        "index": 0,
        "debug": 0,
    }


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
    for _ in range(600):
        (state,) = await node.make_call("transfer_states", names=[name])
        assert isinstance(state, TransferState)
        if not state.running:
            return state
        await asyncio.sleep(0.02)
    raise AssertionError(f"{name} does not end")


def test_a_disk_goes_through(node: OneNode, tmp_path: Path) -> None:
    first, second = keys(node)

    async def story() -> None:
        port = await node.make_call("transfer_receive", **receiving(node, first))
        sent = {key: value for key, value in receiving(node, second, "out-1").items() if key in SHARED}
        await node.make_call("transfer_send", **(sent | {"key": "x509-a", "host": "127.0.0.1", "port": port}))
        for _ in range(600):
            (state,) = await node.make_call("transfer_states", names=["in-1"])
            if state.received:
                break
            await asyncio.sleep(0.02)
        assert os.path.getsize(tmp_path / "arrived") == 3000000
        await node.make_call("transfer_confirm", names=["in-1"])
        assert [(await ended(node, name)).exit_status for name in ("in-1", "out-1")] == [0, 0]
        for name in ("in-1", "out-1"):
            await node.make_call("transfer_end", name=name)

    node.run(story())
    assert os.listdir(node.paths.transfers_dir) == []


SHARED = ("name", "authority", "magic", "compress", "instance", "index", "debug")


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
