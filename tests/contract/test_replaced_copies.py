# SPDX-License-Identifier: BSD-2-Clause
"""A copy that is made anew stays aside until the new one has everything: nothing loses the last good copy."""

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import volume_groups
from tests.fakes.replicated_nodes import EIGHT, NINE, ReplicatedNodes, disk

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.disks import GOOD, UNCERTAIN
from ganeti.node.storage.drbd.driver import ReplicatedVolumes
from ganeti.node.storage.drbd.tools import Tools

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(bool(volume_groups.why_not()), reason=volume_groups.why_not() or "none"),
]
DATA, META = "uuid-0.disk0_data", "uuid-0.disk0_meta"


@pytest.fixture(params=[NINE, EIGHT])
def nodes(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ReplicatedNodes]:
    """With room for two copies of a disk."""
    made = ReplicatedNodes(tmp_path, request.param, size_mib=450)
    yield made
    made.close()


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def pair(nodes: ReplicatedNodes) -> tuple[ReplicatedVolumes, ReplicatedVolumes]:
    """The drivers of both nodes, with a disk that both have complete; the first one writes it."""
    own, other = ReplicatedVolumes(nodes.world("node1")), ReplicatedVolumes(nodes.world("node2"))
    run(other.create(disk()))
    run(own.create(disk()))
    run(other.become_secondary(disk()))
    path = Path(run(own.activate(disk(), "web1")).path)
    whole(own)
    with path.open("r+b") as device:
        device.write(b"written")
    run(own.find(disk()))  # the stand-in gives the other copy what was written when it is next asked
    return own, other


def whole(driver: ReplicatedVolumes) -> None:
    for _ in range(20):
        if not run(driver.find(disk())).is_degraded:
            return
    raise AssertionError("the copies do not become equal")


def content(nodes: ReplicatedNodes, node: str, name: str) -> bytes:
    return (Path(nodes.paths(node).under("/dev/xenvg")) / name).read_bytes()[:7]


def test_what_was_complete_is_kept_until_it_may_be_forgotten(nodes: ReplicatedNodes) -> None:
    own, other = pair(nodes)
    run(other.renew(disk()))
    assert nodes.groups["node2"].volumes() == [DATA, f"{DATA}.old", META, f"{META}.old"]
    assert content(nodes, "node2", f"{DATA}.old") == b"written"
    run(other.become_secondary(disk()))
    whole(own)
    assert content(nodes, "node2", DATA) == b"written"
    for _ in ("once", "again"):
        run(other.forget_replaced(disk()))
        assert nodes.groups["node2"].volumes() == [DATA, META]
    assert run(other.find(disk())).ldisk_status == GOOD


def test_an_incomplete_copy_never_takes_the_place_of_a_complete_one(nodes: ReplicatedNodes) -> None:
    _, other = pair(nodes)
    nodes.restart("node1")
    run(other.renew(disk()))
    assert run(other.find(disk())).ldisk_status == UNCERTAIN
    run(other.renew(disk()))
    assert content(nodes, "node2", f"{DATA}.old") == b"written"
    run(other.remove(disk()))
    assert nodes.groups["node2"].volumes() == []


class KilledError(Exception):
    """The node daemon is killed before it starts a program."""


@pytest.mark.parametrize("nodes", [NINE], indirect=True)
@pytest.mark.parametrize("after", (3, 6, 9, 12))
def test_a_renewal_that_is_cut_short_anywhere_is_completed_by_another(
    nodes: ReplicatedNodes, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = pair(nodes)
    world, changes = nodes.world("node2"), 0

    async def killed(argv: list[str], **options: Any) -> Any:
        nonlocal changes
        changes += argv[0] in ("lvcreate", "lvrename", "lvremove", "lvchange", "drbdmeta", "drbdsetup")
        if changes >= after:
            raise KilledError
        return await nodes.world("node2").run(argv, **options)

    monkeypatch.setattr(world, "run", killed)
    try:
        run(ReplicatedVolumes(world).renew(disk()))
    except KilledError:
        run(ReplicatedVolumes(nodes.world("node2")).renew(disk()))
    kept = [name for name in nodes.groups["node2"].volumes() if content(nodes, "node2", name) == b"written"]
    assert kept
    run(other.become_secondary(disk()))
    whole(own)
    run(other.forget_replaced(disk()))
    assert nodes.groups["node2"].volumes() == [DATA, META]
    assert content(nodes, "node2", DATA) == b"written"


def test_where_no_room_is_left_the_old_copy_is_the_copy_again(nodes: ReplicatedNodes) -> None:
    own, other = pair(nodes)
    nodes.groups["node2"].run("lvcreate", "-L", "300m", "-n", "other", "xenvg")
    with pytest.raises(BlockDeviceError, match="MiB are needed and"):
        run(other.renew(disk()))
    assert nodes.groups["node2"].volumes() == ["other", DATA, META]
    whole(own)
    assert run(other.find(disk())).ldisk_status == GOOD
    assert content(nodes, "node2", DATA) == b"written"


def test_a_guest_goes_on_without_the_copy_of_its_own_node_while_that_is_made_anew(nodes: ReplicatedNodes) -> None:
    own, other = pair(nodes)
    run(own.renew(disk()))
    assert content(nodes, "node1", f"{DATA}.old") == b"written"
    whole(own)
    assert content(nodes, "node1", DATA) == b"written"
    assert run(other.find(disk())).ldisk_status == GOOD
    assert isinstance(run(own.tools()), Tools)
