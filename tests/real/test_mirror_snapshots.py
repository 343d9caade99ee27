# SPDX-License-Identifier: BSD-2-Clause
"""Snapshots of mirrored disks: each node keeps its own, and both copies are the same after going back."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.real.mirror_lab import SETTING, Guest, Node, Pair, run, status

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage import image_io
from ganeti.node.storage.mirror.places import read_kept

pytestmark = pytest.mark.real


@pytest.fixture
def pair() -> Iterator[Pair]:
    root = Path(tempfile.mkdtemp(prefix="gntm", dir="/tmp"))  # sockets have short names
    nodes = Pair(root)
    try:
        yield nodes
    finally:
        nodes.close()
        shutil.rmtree(root)


class Place:
    """A disk of both nodes, the first one the primary."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.disk = pair.opened(replace(pair.disk(size_mib=4), primary=pair.one.name))

    def write(self, pattern: int) -> None:
        guest = Guest(self.pair.one, self.disk)
        assert guest.write(0, pattern) and guest.write(1024 * 1024, pattern)
        guest.end()

    def holds(self, node: Node) -> int:
        return node.image(self.disk).read_bytes()[1024 * 1024]

    def close(self) -> None:
        for node in self.pair.nodes:
            run(node.driver.deactivate(self.disk))

    def open(self) -> None:
        self.pair.use(self.disk, self.pair.one, self.pair.two)

    def names(self, node: Node) -> list[str]:
        return [each.name for each in run(node.driver.snapshots().of(self.disk))]

    def revert(self, name: str) -> None:
        for node in self.pair.nodes:
            run(node.driver.snapshots().revert(self.disk, name))


@pytest.fixture
def place(pair: Pair) -> Place:
    return Place(pair)


def test_both_copies_are_the_same_after_going_back(place: Place) -> None:
    """One node takes its own later than the other: what was written in between is not left in the second copy."""
    one, two = place.pair.nodes
    place.write(1)
    run(one.driver.snapshots().take(place.disk, "kept"))
    place.write(2)
    run(two.driver.snapshots().take(place.disk, "kept"))
    place.write(3)
    with pytest.raises(BlockDeviceError, match=r"is in use on node .*: close it first"):
        place.revert("kept")
    place.close()
    for _ in ("once", "again"):
        place.revert("kept")
    assert [place.holds(one), place.holds(two)] == [1, 2]
    assert not any(read_kept(str(node.image(place.disk))).clean for node in place.pair.nodes)
    place.open()
    assert [place.holds(one), place.holds(two)] == [1, 1] and place.pair.are_equal(place.disk)
    assert place.names(one) == place.names(two) == ["kept"]
    for node in place.pair.nodes:
        run(node.driver.snapshots().remove(place.disk, "kept"))
    assert place.names(one) == place.names(two) == []


def test_a_second_copy_without_the_snapshot_is_not_used_until_it_is_equal(place: Place) -> None:
    one, two = place.pair.nodes
    place.write(1)
    run(one.driver.snapshots().take(place.disk, "kept"))
    place.write(2)
    place.close()
    place.revert("kept")
    assert status(two, place.disk).is_degraded
    with pytest.raises(BlockDeviceError, match="not complete"):
        run(two.driver.steal(place.disk, "web1", "the other node is lost"))
    run(two.driver.deactivate(place.disk))
    place.open()
    assert [place.holds(one), place.holds(two)] == [1, 1] and place.pair.are_equal(place.disk)


def test_going_back_that_is_cut_off_parts_no_copies_in_silence(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    one, two = place.pair.nodes
    place.write(1)
    for node in place.pair.nodes:
        run(node.driver.snapshots().take(place.disk, "kept"))
    place.write(2)
    place.close()
    run(one.driver.snapshots().revert(place.disk, "kept"))
    with monkeypatch.context() as patch:
        patch.setattr(image_io, "copy_raw", fails)
        with pytest.raises(BlockDeviceError, match="No space left"):
            run(two.driver.snapshots().revert(place.disk, "kept"))
    assert [place.holds(one), place.holds(two)] == [1, 2]
    place.open()
    assert [place.holds(one), place.holds(two)] == [1, 1]


def test_snapshots_go_with_their_disk_and_stay_when_a_copy_is_made_anew(place: Place) -> None:
    _, two = place.pair.nodes
    for node in place.pair.nodes:
        run(node.driver.snapshots().take(place.disk, "kept"))
    place.close()
    run(two.driver.renew(place.disk))
    assert place.names(two) == ["kept"]
    assert run(two.driver.list_owned(SETTING)) == [place.disk.logical_id[1], f"{place.disk.logical_id[1]}.old"]
    for node in place.pair.nodes:
        run(node.driver.remove(place.disk))
        assert list(Path(node.paths.under(SETTING)).iterdir()) == []


def test_a_primary_that_is_not_complete_does_not_go_back(place: Place) -> None:
    _, two = place.pair.nodes
    for node in place.pair.nodes:
        run(node.driver.snapshots().take(place.disk, "kept"))
    place.close()
    turned: DiskSpec = replace(place.disk, primary=two.name)
    run(two.driver.renew(place.disk))
    with pytest.raises(BlockDeviceError, match="is not complete: have it made equal first"):
        run(two.driver.snapshots().check_revert(turned, "kept"))
    with pytest.raises(BlockDeviceError, match="is not complete: have it made equal first"):
        run(two.driver.snapshots().revert(turned, "kept"))
