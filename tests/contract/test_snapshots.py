# SPDX-License-Identifier: BSD-2-Clause
"""What every template that keeps snapshots must do with them."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.contract.test_storage import DRIVERS, EIGHT, HARNESSES, Harness, in_sync, marks, run

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.exports import EXPORTED
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage import image_io
from ganeti.node.storage.interface import DiskTemplate, Snapshots
from ganeti.node.storage.lvm.volumes import Volumes

KEEPING = ("drbd", EIGHT, "ext", "file", "gluster", "plain", "rbd", "sharedfile")
"""`mirror`, whose disks a daemon serves, has its tests in `tests/real/test_mirror_snapshots.py`."""


class Place:
    """A disk of one template, and ways to write and read it."""

    def __init__(self, harness: Harness, image_format: str = "qcow2") -> None:
        self.driver: DiskTemplate = harness.driver()
        params = {"format": image_format} if self.driver.traits.formats else {}
        self.disk: DiskSpec = harness.disk(**params)
        self.harness = harness
        kept = self.driver.snapshots()
        assert kept is not None
        self.kept: Snapshots = kept
        run(harness.create(self.disk))

    def take(self, name: str) -> None:
        """On all nodes with a copy, as the master does; it notes the name where the template keeps none."""
        if self.driver.traits.snapshots_in_configuration:
            self._note(self.disk.snapshots | {name: time.time()})
        for node in self.harness.holders:
            run(self.of(node).take(self.disk, name))

    def revert(self, name: str) -> None:
        for node in self.harness.holders:
            run(self.of(node).revert(self.disk, name))

    def remove(self, name: str) -> None:
        for node in self.harness.holders:
            run(self.of(node).remove(self.disk, name))
        self._note({kept: taken for kept, taken in self.disk.snapshots.items() if kept != name})

    def of(self, node: str) -> Snapshots:
        kept = self.harness.driver(node).snapshots()
        assert kept is not None
        return kept

    def open(self) -> str:
        for node in self.harness.holders[1:]:
            run(self.harness.driver(node).become_secondary(self.disk))
        return str(run(self.driver.as_file(run(self.driver.activate(self.disk, "web1")))).path)

    def turn(self) -> None:
        """Let the other node be the primary one."""
        first, second = self.harness.holders
        self.harness.holders = (second, first)
        self.driver = self.harness.driver(second)
        self.disk = msgspec.structs.replace(self.disk, primary=second)

    def close(self) -> None:
        for node in self.harness.holders:
            run(self.harness.driver(node).deactivate(self.disk))

    def _note(self, names: dict[str, float]) -> None:
        self.disk = msgspec.structs.replace(self.disk, snapshots=names)

    def write(self, letter: str) -> None:
        path = self.open()
        if self.disk.params.get("format") == "qcow2":
            self._io(f"write -q -P {ord(letter)} 0 64k")
            return
        with open(path, "r+b") as file:
            file.write(letter.encode() * 65536)
        self.close()

    def holds(self, letter: str) -> bool:
        path = self.open()
        if self.disk.params.get("format") == "qcow2":
            return "verification failed" not in self._io(f"read -P {ord(letter)} 0 64k")
        found = Path(path).read_bytes()[:65536] == letter.encode() * 65536
        self.close()
        return found

    def _io(self, command: str) -> str:
        words = ["qemu-io", "-f", "qcow2", "-c", command, self.open()]
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    if shutil.which("qemu-img") is None:
        pytest.skip("qemu-img makes qcow2 images")
    template, _, image_format = request.param.partition(":")
    harness = HARNESSES[template](tmp_path, template)
    yield Place(harness, image_format or "qcow2")
    harness.close()


RAW = ("file:raw", "sharedfile:raw")
over_all = pytest.mark.parametrize(
    "place", [*(pytest.param(name, marks=marks(name)) for name in KEEPING), *RAW], indirect=True
)


def names(place: Place) -> list[str]:
    return [each.name for each in run(place.kept.of(place.disk))]


def test_each_template_with_snapshots_is_tested(tmp_path: Path) -> None:
    def keeps(driver: Any) -> bool:
        return "snapshots" in {name for cls in driver.__mro__[:-2] if cls is not DiskTemplate for name in vars(cls)}

    assert {name for name, driver in DRIVERS.items() if keeps(driver)} == set(KEEPING)


@over_all
def test_a_disk_goes_back_to_what_was_kept_more_than_once(place: Place) -> None:
    place.write("a")
    for _ in ("once", "again"):
        place.take("first")
    [kept] = run(place.kept.of(place.disk))
    assert (kept.name, abs(kept.created_s - time.time()) < 300) == ("first", True)
    place.write("b")
    place.take("second")
    assert names(place) == ["first", "second"]
    for _ in ("once", "again"):
        place.write("c")
        place.revert("first")
        assert place.holds("a")
    assert sorted(names(place)) == ["first", "second"]
    place.revert("second")
    assert place.holds("b")
    for _ in ("once", "again"):
        place.remove("first")
    assert names(place) == ["second"]
    with pytest.raises(BlockDeviceError, match="has no snapshot first"):
        place.revert("first")


@over_all
def test_snapshots_go_with_their_disk(place: Place) -> None:
    place.take("first")
    for node in place.harness.holders:
        run(place.harness.driver(node).remove(place.disk))
    assert place.harness.left() == []


@pytest.mark.parametrize(
    "place", [pytest.param(name, marks=marks(name)) for name in ("drbd", EIGHT, "plain")], indirect=True
)
def test_a_quick_snapshot_is_read_from_a_device_while_the_disk_is_written(place: Place) -> None:
    assert place.driver.traits.quick_snapshots
    place.write("a")
    run(place.kept.take(place.disk, EXPORTED))
    place.write("b")
    with open(place.kept.device(place.disk, EXPORTED), "rb") as device:
        assert device.read(65536) == b"a" * 65536
    run(place.kept.remove(place.disk, EXPORTED))
    assert names(place) == [] and place.holds("b")


over_pairs = pytest.mark.parametrize(
    "place", [pytest.param(name, marks=marks(name)) for name in ("drbd", EIGHT)], indirect=True
)


@over_pairs
def test_after_going_back_the_second_copy_is_made_equal_to_the_first(place: Place) -> None:
    """The nodes take theirs one after the other, and a guest may write in between."""
    first, second = place.harness.holders
    place.write("a")
    run(place.of(first).take(place.disk, "kept"))
    place.write("b")
    run(place.of(second).take(place.disk, "kept"))
    place.write("c")
    place.revert("kept")
    for node in (second, first):
        status = run(place.harness.driver(node).find(place.disk))
        assert status is not None and status.is_degraded == (node == second)
    place.open()
    run(in_sync(place.driver, place.disk))
    place.close()
    assert place.holds("a")
    place.turn()
    assert place.holds("a")


@over_pairs
def test_a_second_copy_without_the_snapshot_is_given_up_and_an_open_one_refused(place: Place) -> None:
    first, second = place.harness.holders
    place.write("a")
    run(place.of(first).take(place.disk, "kept"))
    place.write("b")
    place.open()
    with pytest.raises(BlockDeviceError, match=r"in use on node \w+: close it first \(gnt-instance deactivate-disks"):
        place.revert("kept")
    place.close()
    place.revert("kept")
    with pytest.raises(BlockDeviceError):
        run(place.harness.driver(second).activate(place.disk, "web1"))
    place.close()
    assert place.holds("a")


@over_pairs
def test_a_primary_that_is_not_complete_does_not_go_back(place: Place) -> None:
    """DRBD would open neither copy then: this one was never complete, and the other one is given up."""
    place.take("kept")
    place.turn()
    run(place.driver.renew(place.disk))
    run(place.of(place.harness.holders[0]).take(place.disk, "kept"))
    with pytest.raises(BlockDeviceError, match=r"is not complete \(Inconsistent\): have it made equal first"):
        run(place.of(place.harness.holders[0]).check_revert(place.disk, "kept"))
    with pytest.raises(BlockDeviceError, match="is not complete"):
        place.revert("kept")
    place.turn()
    place.write("b")
    run(place.of(place.harness.holders[0]).check_revert(place.disk, "kept"))


@over_pairs
def test_a_copy_that_is_made_anew_takes_no_snapshot_of_the_old_one_along(place: Place) -> None:
    _, second = place.harness.holders
    place.take("kept")
    driver = place.harness.driver(second)
    run(driver.renew(place.disk))
    assert run(place.of(second).of(place.disk)) == [] and names(place) == ["kept"]
    run(driver.forget_replaced(place.disk))
    run(driver.remove(place.disk))
    assert [name for name in place.harness.left() if name.endswith(second)] == []


@pytest.mark.parametrize("place", [pytest.param("plain", marks=marks("plain"))], indirect=True)
@pytest.mark.parametrize("step", ["merge", "snapshot"])
def test_an_interrupted_revert_of_a_volume_is_completed_or_given_up(
    place: Place, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Merging uses a snapshot up before it is taken again: in between, the volume itself is all there is of it."""

    async def fails(*_: Any) -> None:
        raise BlockDeviceError("the node fails")

    def interrupt() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Volumes, step, fails)
            with pytest.raises(BlockDeviceError, match="the node fails"):
                place.revert("first")

    for letter, name in (("a", "first"), ("b", "second")):
        place.write(letter)
        place.take(name)
    place.write("c")
    interrupt()
    assert sorted(names(place)) == ["first", "second"]
    with pytest.raises(BlockDeviceError, match="going back to snapshot first was interrupted"):
        run(place.driver.activate(place.disk, "web1"))
    with pytest.raises(BlockDeviceError, match="going back to snapshot first was interrupted"):
        place.revert("second")
    place.revert("first")
    assert place.holds("a") and sorted(names(place)) == ["first", "second"]
    interrupt()
    place.remove("first")
    assert names(place) == ["second"]
    place.revert("second")
    assert place.holds("b")


@pytest.mark.parametrize("place", [pytest.param("file", marks=marks("file"))], indirect=True)
def test_a_disk_that_went_back_has_no_bitmap_that_counts_changes(place: Place) -> None:
    path = run(place.driver.stored_path(place.disk))
    place.take("first")
    subprocess.run(["qemu-img", "bitmap", "--add", "-f", "qcow2", path, "ganeti-backup-one"], check=True)

    def told() -> str:
        words = ["qemu-img", "info", "-f", "qcow2", path]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert "ganeti-backup-one" in told()
    place.revert("first")
    assert "ganeti-backup-one" not in told()


@pytest.mark.parametrize("place", ["file:raw"], indirect=True)
def test_a_raw_image_that_has_grown_keeps_its_size_and_a_name_takes_its_snapshots_along(place: Place) -> None:
    place.write("a")
    place.take("first")
    run(place.driver.grow(place.disk, 1))
    place.disk = msgspec.structs.replace(place.disk, size_mib=place.disk.size_mib + 1)
    place.write("b")
    driver, path = place.disk.logical_id
    renamed = [driver, path.replace("web1", "web2")]
    run(place.driver.rename(place.disk, renamed))
    place.disk = msgspec.structs.replace(place.disk, logical_id=renamed)
    place.revert("first")
    assert place.holds("a") and names(place) == ["first"]
    found = run(place.driver.find(place.disk))
    assert found is not None and found.size_mib == place.disk.size_mib
    run(place.driver.remove(place.disk))
    assert place.harness.left() == []


@pytest.mark.parametrize("place", ["file:raw"], indirect=True)
def test_a_revert_of_a_raw_image_that_is_cut_off_leaves_it_as_it_was(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    place.write("a")
    place.take("first")
    place.write("b")
    with monkeypatch.context() as patch:
        patch.setattr(image_io, "copy_raw", fails)
        with pytest.raises(BlockDeviceError, match="No space left"):
            place.revert("first")
    assert place.holds("b") and names(place) == ["first"]
