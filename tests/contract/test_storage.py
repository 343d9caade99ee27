# SPDX-License-Identifier: BSD-2-Clause
"""What every disk template must do, whatever it is made of; it runs over the registry and a template on two nodes.

A template joins by a `Harness` in `HARNESSES`: how its disks are named on a machine of the test's own.
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fakes import ceph_cluster, gluster_volume, host_drbd, replicated_nodes, volume_groups
from tests.fakes.paired_disks import CLOSED, PRIMARY, SECONDARY, PairedDisks, Pairs

import ganeti.node.storage
from ganeti.base.errors import BlockDeviceError, FileStoragePathError
from ganeti.base.paths import Paths
from ganeti.base.registry import import_all
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage import pieces
from ganeti.node.storage.interface import DiskTemplate
from ganeti.noded.world import RealNodeWorld
from ganeti.ports.node_world import Completed

import_all(ganeti.node.storage)
SETTING = "/srv/disks"
ON_HOST = bool(os.environ.get("GANETI_TEST_HOST"))
"""``make test-host``: the tools and the kernel of this machine, or a sentence that says what it lacks."""
LOOPED = Path(__file__).resolve().parents[1] / "fakes/extstorage/looped"
"""A provider of external storage."""
SERVED_BY_A_DAEMON = ("mirror",)
"""Their disks are there while their daemon runs: `tests/real/test_mirror.py` is their suite."""
DRIVERS: dict[str, type[DiskTemplate]] = {
    **{name: driver for name, driver in DiskTemplate.registry.items() if name not in SERVED_BY_A_DAEMON},
    PairedDisks.traits.name: PairedDisks,
}
EIGHT = "drbd-8.4"
"""The same template with the older kernel module, whose tools take other words and print other things."""
DRIVERS[EIGHT] = DRIVERS["drbd"]
TEMPLATES = sorted(name for name, driver in DRIVERS.items() if not driver.traits.adopts_only)
"""Those that make disks; `test_adoption.py` is the suite of those that only adopt them."""
WITH_DISKS = [name for name in TEMPLATES if DRIVERS[name].traits.has_disks]
IN_DIRECTORIES = [name for name in WITH_DISKS if DRIVERS[name].traits.directory_based]
SHARED = [name for name in WITH_DISKS if DRIVERS[name].traits.shared and DRIVERS[name].traits.locked]
MIRRORED = [name for name in WITH_DISKS if DRIVERS[name].traits.node_count > 1]
MOVABLE = SHARED + MIRRORED
VARIANTS = [(name, image_format) for name in WITH_DISKS for image_format in (DRIVERS[name].traits.formats or ("",))]


class Harness:
    """One or more nodes that see the same directory."""

    holders = ("node1",)
    """Where a disk is made."""
    lists = True
    """Whether all disks of the template can be found without knowing them."""
    setting = SETTING
    """What the cluster says of where disks lie."""
    told_space = True
    """Whether somebody knows how much room there is."""

    def __init__(self, root: Path, template: str) -> None:
        self.paths = Paths(str(root))
        self.template = template
        self.logged: list[str] = []
        self.top = Path(self.paths.under(SETTING))
        self.top.mkdir(parents=True)
        Path(self.paths.sysconf_dir).mkdir(parents=True)
        Path(self.paths.file_storage_paths_file).write_text(f"# where disks lie\n\n{SETTING}\n")

    def driver(self, node: str = "node1") -> DiskTemplate:
        world = RealNodeWorld(self.paths, node)
        world.log = self.logged.append  # type: ignore[method-assign]
        return DRIVERS[self.template](world)

    def disk(self, index: int = 0, size_mib: int = 4, **params: Any) -> DiskSpec:
        return DiskSpec(
            uuid=f"uuid-{index}",
            template=self.template,
            logical_id=self.logical_id(index),
            size_mib=size_mib,
            index=index,
            params={key: value for key, value in params.items() if value},
        )

    def logical_id(self, index: int) -> list[Any]:
        driver = DRIVERS[self.template].traits.logical_id_driver
        return [driver, f"{SETTING}/web1/uuid-{index}.file.disk{index}"]

    async def create(self, disk: DiskSpec) -> None:
        """As the master does: on every node that holds a copy, the primary last."""
        for node in reversed(self.holders):
            await self.driver(node).create(disk)

    salvages = True
    """Whether a copy that is behind can be used once its node is said to be all that is left."""

    def power_off(self, node: str) -> None:
        """What a node that is said to be dead has done with the disks."""

    def left(self) -> list[str]:
        return sorted(str(path.relative_to(self.top)) for path in self.top.rglob("*"))

    def close(self) -> None:
        """After the test."""


class PairedHarness(Harness):
    """Nodes of which two mirror each other."""

    holders = ("node1", "node2")

    def __init__(self, root: Path, template: str) -> None:
        super().__init__(root, template)
        self.pairs = Pairs()

    def driver(self, node: str = "node1") -> DiskTemplate:
        world = RealNodeWorld(self.paths, node)
        world.log = self.logged.append  # type: ignore[method-assign]
        return PairedDisks(world, self.pairs, SETTING)

    def logical_id(self, index: int) -> list[Any]:
        return ["pair", *self.holders, f"uuid-{index}"]

    def left(self) -> list[str]:
        return self.pairs.left()

    def close(self) -> None:
        self.pairs.close()


class GlusterHarness(Harness):
    """A directory that is said to be mounted; no Gluster runs here."""

    def driver(self, node: str = "node1") -> DiskTemplate:
        world = MountedWorld(self.paths, node)
        world.log = self.logged.append  # type: ignore[method-assign]
        return DRIVERS[self.template](world)


class MountedWorld(RealNodeWorld):
    async def run(self, argv: Sequence[str], **options: Any) -> Completed:
        if argv[0] == "mountpoint":
            return Completed(tuple(argv), 0, "", "")
        return await super().run(argv, **options)


class ExternalHarness(Harness):
    """Volumes of a provider that keeps them in files and attaches them as loop devices."""

    lists = False
    told_space = False

    def __init__(self, root: Path, template: str) -> None:
        super().__init__(root, template)
        if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
            pytest.skip("the provider attaches loop devices")
        place = Path(self.paths.under("/srv/ganeti/extstorage"))
        place.mkdir(parents=True)
        (place / "looped").symlink_to(LOOPED)

    def disk(self, index: int = 0, size_mib: int = 4, **params: Any) -> DiskSpec:
        return super().disk(index, size_mib, dir=str(self.top), **params)

    def logical_id(self, index: int) -> list[Any]:
        return ["looped", f"uuid-{index}.ext.disk{index}"]

    def left(self) -> list[str]:
        attached = [line for line in self.loops() if line]
        return sorted(str(path.name) for path in self.top.glob("[a-z]*")) + attached

    def loops(self) -> list[str]:
        told = subprocess.run(["losetup", "-n", "-O", "NAME,BACK-FILE"], capture_output=True, text=True, check=True)
        return [line for line in told.stdout.splitlines() if f"{self.top}/" in line]

    def close(self) -> None:
        for line in self.loops():
            subprocess.run(["losetup", "-d", line.split()[0]], check=True)


class LogicalHarness(Harness):
    """A volume group on loop devices, with the real tools of LVM 2."""

    def __init__(self, root: Path, template: str) -> None:
        super().__init__(root, template)
        if reason := volume_groups.why_not():
            pytest.skip(reason)
        self.group = volume_groups.VolumeGroup(root / "lvm", Path(self.paths.under("/dev")))
        self.setting = "xenvg"

    def driver(self, node: str = "node1") -> DiskTemplate:
        world = volume_groups.ToolWorld(self.paths, node)
        world.tools = self.group.tools
        world.log = self.logged.append  # type: ignore[method-assign]
        return DRIVERS[self.template](world)

    def logical_id(self, index: int) -> list[Any]:
        return ["xenvg", f"uuid-{index}.disk{index}"]

    def left(self) -> list[str]:
        return self.group.volumes()

    def close(self) -> None:
        self.group.close()


class CephHarness(Harness):
    """Images of a Ceph cluster in memory; QEMU shows them as files."""

    lists = False
    told_space = False

    def __init__(self, root: Path, template: str) -> None:
        super().__init__(root, template)
        if not ON_HOST:
            pytest.skip("make test-host runs the suite on a Ceph cluster")
        if reason := ceph_cluster.why_not():
            pytest.skip(reason)
        self.ceph = ceph_cluster.cluster()

    def driver(self, node: str = "node1") -> DiskTemplate:
        world = ceph_cluster.CephWorld(self.paths, node)
        world.ceph = self.ceph
        world.log = self.logged.append  # type: ignore[method-assign]
        return DRIVERS[self.template](world)

    def logical_id(self, index: int) -> list[Any]:
        return ["rbd", f"uuid-{index}.rbd.disk{index}"]

    def left(self) -> list[str]:
        return self.ceph.run("rbd", "ls", "rbd").split()

    def close(self) -> None:
        for name in self.left():
            for index in range(2):
                run(self.driver().deactivate(self.disk(index)))
            self.ceph.run("rbd", "snap", "purge", f"rbd/{name}")
            self.ceph.run("rbd", "rm", f"rbd/{name}")


class ReplicatedHarness(Harness):
    """Two nodes with a volume group each, and a stand-in for the kernel module between them."""

    holders = ("node1", "node2")
    lists = False
    setting = "xenvg"
    salvages = False
    version = replicated_nodes.NINE

    def __init__(self, root: Path, template: str) -> None:
        super().__init__(root, "drbd")
        if reason := volume_groups.why_not():
            pytest.skip(reason)
        self.nodes = self.made(root / "nodes")
        self.logged = self.nodes.logged

    def made(self, root: Path) -> replicated_nodes.ReplicatedNodes | host_drbd.HostNodes:
        return replicated_nodes.ReplicatedNodes(root, self.version)

    def driver(self, node: str = "node1") -> DiskTemplate:
        return DRIVERS[self.template](self.nodes.world(node))

    def disk(self, index: int = 0, size_mib: int = 4, **params: Any) -> DiskSpec:
        return replicated_nodes.disk(index, size_mib, params={key: value for key, value in params.items() if value})

    def power_off(self, node: str) -> None:
        self.nodes.restart(node)

    def left(self) -> list[str]:
        return [f"{name} on {node}" for node, group in self.nodes.groups.items() for name in group.volumes()]

    def close(self) -> None:
        self.nodes.close()


class OlderReplicatedHarness(ReplicatedHarness):
    """Nodes with the kernel module of version 8.4."""

    version = replicated_nodes.EIGHT

    def made(self, root: Path) -> replicated_nodes.ReplicatedNodes:
        if ON_HOST:
            pytest.skip("the kernel of this machine has one version of DRBD: the test of drbd has told of it")
        return replicated_nodes.ReplicatedNodes(root, self.version)


class HostReplicatedHarness(ReplicatedHarness):
    """Two nodes on this machine, whose kernel has DRBD of either version."""

    def made(self, root: Path) -> host_drbd.HostNodes:
        if reason := host_drbd.why_not():
            pytest.skip(reason)
        return host_drbd.HostNodes(root)

    def disk(self, index: int = 0, size_mib: int = 4, **params: Any) -> DiskSpec:
        made, minor = super().disk(index, size_mib, **params), host_drbd.FIRST_MINOR + index
        first, second, port, *_, secret = made.logical_id
        logical_id = [first, second, port, minor, minor + 10, secret]
        return msgspec.structs.replace(made, logical_id=logical_id, copies=dict(host_drbd.ADDRESSES))


class HostGlusterHarness(Harness):
    """A volume of a Gluster daemon on this machine, mounted by the driver itself."""

    def __init__(self, root: Path, template: str) -> None:
        super().__init__(root, template)
        if reason := gluster_volume.why_not():
            pytest.skip(reason)
        self.volume = gluster_volume.GlusterVolume(root / "brick")

    def disk(self, index: int = 0, size_mib: int = 4, **params: Any) -> DiskSpec:
        return super().disk(index, size_mib, host="127.0.0.1", volume=self.volume.name, **params)

    def close(self) -> None:
        self.volume.close(self.top)


SLOW = ("drbd", EIGHT, "ext", "gluster", "plain", "rbd", "sharedfile")
"""With tools and scripts that take their time: they run with what is real."""
HARNESSES: dict[str, type[Harness]] = {
    "plain": LogicalHarness,
    "rbd": CephHarness,
    "ext": ExternalHarness,
    "gluster": GlusterHarness,
    **dict.fromkeys(("diskless", "file", "sharedfile"), Harness),
    PairedDisks.traits.name: PairedHarness,
    "drbd": ReplicatedHarness,
    EIGHT: OlderReplicatedHarness,
}


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Harness]:
    template = request.param
    assert template in HARNESSES, f"the template {template} needs a harness here"
    harness = HARNESSES[template](tmp_path, template)
    yield harness
    harness.close()


if ON_HOST:
    HARNESSES |= {"drbd": HostReplicatedHarness, "gluster": HostGlusterHarness}
STAND_INS = {"drbd": "module-9-is-a-stand-in", EIGHT: "module-8.4-is-a-stand-in", "gluster": "mount-is-a-stand-in"}
"""What the machine that runs the tests does not have of each template: the report names it with each test."""
if ON_HOST:
    STAND_INS = {}


def over(templates: list[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "place", [pytest.param(name, marks=marks(name), id=reported(name)) for name in templates], indirect=True
    )


def reported(template: str, image_format: str = "") -> str:
    return "-".join(filter(None, (template, image_format, STAND_INS.get(template, ""))))


def marks(template: str) -> list[pytest.MarkDecorator]:
    """What takes long is no part of the quick check."""
    return [pytest.mark.real] if template in SLOW else []


over_variants = pytest.mark.parametrize(
    ("place", "image_format"),
    [pytest.param(*pair, marks=marks(pair[0])) for pair in VARIANTS],
    indirect=["place"],
    ids=[reported(*pair) for pair in VARIANTS],
)


over_image_files = pytest.mark.parametrize(
    ("place", "image_format"), [pair for pair in VARIANTS if pair[0] in IN_DIRECTORIES], indirect=["place"]
)


def needs(image_format: str) -> None:
    if image_format == "qcow2" and shutil.which("qemu-img") is None:
        pytest.skip("qemu-img makes qcow2 images")


@over(TEMPLATES)
def test_traits_are_told_without_contradiction(place: Harness) -> None:
    traits = place.driver().traits
    assert traits.name == place.template
    assert traits.formats == () or "format" in {parameter.name for parameter in traits.parameters}
    assert bool(traits.directory_setting) == traits.directory_based
    assert traits.has_disks or not traits.growable


@over([name for name in TEMPLATES if name not in WITH_DISKS])
def test_a_template_without_disks_has_nothing_and_makes_nothing(place: Harness) -> None:
    driver = place.driver()
    with pytest.raises(BlockDeviceError, match="no disks"):
        run(driver.create(place.disk()))
    run(driver.remove(place.disk()))
    run(driver.deactivate(place.disk()))
    assert run(driver.find(place.disk())) is None
    assert run(driver.list_owned(SETTING)) == []
    assert run(driver.verify(SETTING)) == []


@over_variants
def test_a_disk_lives_from_creation_to_removal(place: Harness, image_format: str) -> None:
    needs(image_format)
    driver, disk = place.driver(), place.disk(format=image_format)

    async def life() -> None:
        assert await driver.find(disk) is None
        await driver.create(disk)
        found = await driver.find(disk)
        assert found is not None
        assert found.size_mib == 4
        attached = await driver.activate(disk, "web1")
        assert attached.path or attached.blockdev
        assert attached.image_format == (image_format or "raw")
        await driver.deactivate(disk)
        await driver.remove(disk)
        assert await driver.find(disk) is None

    run(life())
    assert place.left() == []


@over_variants
def test_everything_may_be_repeated(place: Harness, image_format: str) -> None:
    needs(image_format)
    driver, disk = place.driver(), place.disk(format=image_format)

    async def twice(act: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        await act()
        await act()

    async def life() -> None:
        await twice(lambda: driver.create(disk))
        await twice(lambda: driver.activate(disk, "web1"))
        await twice(lambda: driver.deactivate(disk))
        await twice(lambda: driver.grow(disk, 2))
        found = await driver.find(disk)
        assert found is not None
        assert found.size_mib == 6
        await twice(lambda: driver.remove(disk))

    run(life())
    assert place.left() == []


@over_variants
def test_a_new_disk_is_empty_and_what_is_written_stays(place: Harness, image_format: str) -> None:
    needs(image_format)
    driver, disk = place.driver(), place.disk(format=image_format)
    run(driver.create(disk))
    attached = run(driver.as_file(run(driver.activate(disk, "web1"))))
    if attached.image_format != "raw":
        checked = subprocess.run(["qemu-img", "check", "-f", image_format, attached.path], capture_output=True)
        assert checked.returncode == 0, checked.stdout
        return
    with open(attached.path, "r+b") as device:
        assert device.read(4096) == bytes(4096)
        device.seek(0)
        device.write(b"QFI\xfb written by the guest")
    run(driver.deactivate(disk))
    again = run(driver.as_file(run(driver.activate(disk, "web1"))))
    assert again.image_format == "raw", "what a guest writes into a raw disk does not change how it is read"
    assert Path(again.path).read_bytes().startswith(b"QFI\xfb written")


@over_variants
def test_wiping_writes_zeros_over_the_part_that_is_named(place: Harness, image_format: str) -> None:
    needs(image_format)
    driver, disk = place.driver(), place.disk(size_mib=4, format=image_format)
    run(driver.create(disk))
    with pytest.raises(BlockDeviceError, match="cannot be wiped from 3 to 5 MiB"):
        run(driver.wipe(disk, 3, 2))
    path = run(driver.as_file(run(driver.activate(disk, "web1")))).path
    if image_format == "qcow2":
        run(driver.wipe(disk, 1, 3))
        assert os.stat(path).st_blocks * 512 >= 3 * 1024 * 1024
        return
    Path(path).write_bytes(b"x" * 4 * 1024 * 1024)
    run(driver.wipe(disk, 1, 2))
    mib = 1024 * 1024
    assert Path(path).read_bytes() == b"x" * mib + bytes(2 * mib) + b"x" * mib


@over(WITH_DISKS)
def test_a_disk_of_another_size_is_not_taken_for_the_one_wanted(place: Harness) -> None:
    driver = place.driver()
    run(driver.create(place.disk(size_mib=4)))
    with pytest.raises(BlockDeviceError, match=r"of 8 MiB cannot be made: there is one of 4 MiB"):
        run(driver.create(place.disk(size_mib=8)))
    found = run(driver.find(place.disk()))
    assert found.size_mib == 4


@over(WITH_DISKS)
def test_a_missing_disk_cannot_be_opened_or_grown(place: Harness) -> None:
    driver = place.driver()
    for act in (driver.activate(place.disk(), "web1"), driver.grow(place.disk(), 1)):
        with pytest.raises(BlockDeviceError, match="missing"):
            run(act)


@over(WITH_DISKS)
def test_all_disks_are_listed_for_finding_orphans(place: Harness) -> None:
    if not place.lists:
        assert list(run(place.driver().list_owned(SETTING))) == []
        return
    driver = place.driver()
    disks = [place.disk(index) for index in range(2)]

    async def make() -> None:
        for disk in disks:
            await driver.create(disk)
            await driver.activate(disk, "web1")

    run(make())
    assert list(run(driver.list_owned(place.setting))) == [disk.logical_id[-1] for disk in disks]


@over(IN_DIRECTORIES)
def test_what_a_killed_node_left_is_listed(place: Harness) -> None:
    (place.top / "web2").mkdir()
    for name in ("d.file.disk0.new", "gone.file.disk1.lock"):
        (place.top / "web2" / name).write_text("")
    assert list(run(place.driver().list_owned(SETTING))) == [
        f"{SETTING}/web2/d.file.disk0.new",
        f"{SETTING}/web2/gone.file.disk1.lock",
    ]


@over(WITH_DISKS)
def test_space_is_told_and_unknown_where_the_setting_leads_nowhere(place: Harness) -> None:
    if not place.told_space:
        assert run(place.driver().space(SETTING)).storage_free is None
        return
    space = run(place.driver().space(place.setting))
    assert space.storage_size >= space.storage_free > 0
    nowhere = run(place.driver().space("/srv/nowhere" if place.setting == SETTING else "nowhere"))
    assert (nowhere.storage_size, nowhere.storage_free) == (None, None)


@over(WITH_DISKS)
def test_verify_says_what_is_wrong_with_the_setting(place: Harness) -> None:
    driver = place.driver()
    assert run(driver.verify(place.setting)) == []
    assert place.left() == []
    if place.template not in IN_DIRECTORIES:
        return
    place.top.rmdir()
    assert "is not a directory: make it, or mount it" in run(driver.verify(SETTING))[0]
    assert "is not below" in run(driver.verify("/srv/elsewhere"))[0]


@over(IN_DIRECTORIES)
def test_the_directory_of_an_instance_goes_with_its_last_disk(place: Harness) -> None:
    driver = place.driver()
    for index in range(2):
        run(driver.create(place.disk(index)))
    run(driver.remove(place.disk(0)))
    assert place.left() == ["web1", "web1/uuid-1.file.disk1"]
    run(driver.remove(place.disk(1)))
    assert place.left() == []


@over(IN_DIRECTORIES)
def test_a_disk_moves_to_the_directory_of_its_new_name(place: Harness) -> None:
    driver, disks = place.driver(), [place.disk(index) for index in range(2)]
    for disk in disks:
        run(driver.create(disk))
    ids = [["loop", f"{SETTING}/db1/uuid-{index}.file.disk{index}"] for index in range(2)]
    for _ in ("once", "again"):
        run(driver.rename(disks[0], ids[0]))
        assert place.left() == ["db1", "db1/uuid-0.file.disk0", "web1", "web1/uuid-1.file.disk1"]
    run(driver.rename(disks[1], ids[1]))
    assert place.left() == ["db1", "db1/uuid-0.file.disk0", "db1/uuid-1.file.disk1"]
    with pytest.raises(BlockDeviceError, match="is missing"):
        run(driver.rename(disks[0], ["loop", f"{SETTING}/db2/uuid-0.file.disk0"]))


@over([name for name in IN_DIRECTORIES if name in SHARED])
def test_a_disk_that_another_node_uses_keeps_its_name(place: Harness) -> None:
    run(place.driver().create(place.disk()))
    run(place.driver("node2").activate(place.disk(), "web1"))
    with pytest.raises(BlockDeviceError, match="cannot be renamed: node node2 holds its image lock"):
        run(place.driver().rename(place.disk(), ["loop", f"{SETTING}/db1/uuid-0.file.disk0"]))
    run(place.driver("node2").rename(place.disk(), ["loop", f"{SETTING}/db1/uuid-0.file.disk0"]))
    assert place.left() == ["db1", "db1/uuid-0.file.disk0"]


@over(TEMPLATES)
def test_a_disk_is_copied_piece_by_piece_or_refused(place: Harness) -> None:
    driver, disk = place.driver(), place.disk(size_mib=16)
    if place.template not in IN_DIRECTORIES and not driver.traits.copyable:
        with pytest.raises(BlockDeviceError, match="cannot be copied to another node"):
            run(driver.stored_path(disk))
        return
    run(driver.create(disk))
    source = Path(run(driver.stored_path(disk)))
    mib = 1024 * 1024
    content = bytes(5 * mib) + os.urandom(2 * mib) + bytes(9 * mib)
    source.write_bytes(content)
    logical_id = ["loop", f"{SETTING}/copy/uuid-0.file.disk0"]
    copy = msgspec.structs.replace(disk, logical_id=place.logical_id(9) if driver.traits.naming else logical_id)
    run(driver.begin_copy(copy, len(content)))
    assert run(driver.find(copy)) is None, "it has its name when it is whole"
    offset = written = 0
    while (piece := pieces.read(str(source), offset)).offset < len(content):
        written += len(piece.data)
        offset = pieces.write(driver.unfinished_path(copy), piece.offset, piece.data)
    assert written < 4.1 * mib, "empty parts are left out"
    for _ in ("once", "again"):
        run(driver.end_copy(copy))
    assert Path(run(driver.stored_path(copy))).read_bytes() == content
    with pytest.raises(BlockDeviceError, match="is here already"):
        run(driver.begin_copy(copy, len(content)))
    run(driver.remove(copy))


@over(IN_DIRECTORIES)
def test_a_copy_that_was_not_ended_goes_with_its_disk(place: Harness) -> None:
    driver, disk = place.driver(), place.disk()
    run(driver.begin_copy(disk, 4 * 1024 * 1024))
    with pytest.raises(BlockDeviceError, match="has no room for 2 bytes at 4194303"):
        pieces.write(driver.unfinished_path(disk), 4 * 1024 * 1024 - 1, b"xx")
    run(driver.remove(disk))
    assert place.left() == []


@over(IN_DIRECTORIES)
@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/srv/other/web1/d", "is not below /srv/disks"),
        ("/srv/disks/../../etc/shadow", "without '.', '..'"),
        ("srv/disks/web1/d", "absolute"),
        ("/etc/web1/d", "/etc belongs to the system"),
        ("/srv/disks-of-others/web1/d", "is not below"),
    ],
)
def test_paths_outside_the_allowed_directories_are_refused(place: Harness, path: str, sentence: str) -> None:
    disk = DiskSpec(uuid="u", template=place.template, logical_id=["loop", path], size_mib=1, index=0)
    for act in ("create", "find"):
        with pytest.raises(FileStoragePathError, match=sentence):
            run(getattr(place.driver(), act)(disk))
    run(place.driver().remove(disk))
    there = Path(os.path.normpath(place.paths.under(path if path.startswith("/") else f"/{path}")))
    there.parent.mkdir(parents=True, exist_ok=True)
    there.write_text("of somebody else")
    if path.startswith("/"):
        with pytest.raises(FileStoragePathError, match=sentence):
            run(place.driver().remove(disk))
    assert there.read_text() == "of somebody else"


@over(IN_DIRECTORIES)
@pytest.mark.parametrize(
    "path",
    [
        "/srv/disks/a\nb/web1/d",
        "/srv/disks/a\0b/web1/d",
        f"/srv/disks/{'a' * 300}/web1/d",
        f"/srv/disks/web1/{'d' * 252}",
        "/srv/disks/file/web1/d",
        "/srv/disks/file/d",
        "/srv/disks" + "/deep" * 900 + "/d",
        "/srv/other/web1/d",
        "relative/web1/d",
        "",
    ],
)
def test_what_could_not_be_made_can_be_closed_and_removed(place: Harness, path: str) -> None:
    """The undo of a step is carried out although the step was refused: there is nothing to undo."""
    (place.top / "file").write_text("no directory")
    before = place.left()
    disk = DiskSpec(uuid="u", template=place.template, logical_id=["loop", path], size_mib=1, index=0)
    with contextlib.suppress(BlockDeviceError):
        run(place.driver().create(disk))
        run(place.driver().activate(disk, "web1"))
    run(place.driver().settle_migration(disk, "web1", arrived=False))
    run(place.driver().deactivate(disk))
    run(place.driver().remove(disk))
    assert place.left() == before


@over(IN_DIRECTORIES)
@pytest.mark.parametrize("logical_id", [[], ["loop"], ["bogus", "/srv/disks/web1/d"], ["loop", 7]])
def test_a_logical_id_that_names_no_file_leaves_nothing_to_remove(place: Harness, logical_id: list[Any]) -> None:
    disk = DiskSpec(uuid="u", template=place.template, logical_id=logical_id, size_mib=1, index=0)
    with pytest.raises(BlockDeviceError, match="names no file"):
        run(place.driver().create(disk))
    run(place.driver().deactivate(disk))
    run(place.driver().remove(disk))


@over(IN_DIRECTORIES)
def test_symbolic_links_do_not_lead_out(place: Harness, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (place.top / "web1").symlink_to(secret)
    with pytest.raises(FileStoragePathError, match="a symbolic link leads it out"):
        run(place.driver().create(place.disk()))
    (place.top / "web1").unlink()
    (place.top / "web1").mkdir()
    (secret / "file").write_text("x")
    (place.top / "web1/uuid-0.file.disk0").symlink_to(secret / "file")
    for act in (place.driver().activate(place.disk(), "web1"), place.driver().remove(place.disk())):
        with pytest.raises(FileStoragePathError, match="it is a symbolic link"):
            run(act)
    assert (secret / "file").read_text() == "x"


@over(IN_DIRECTORIES)
def test_a_node_that_allows_nothing_says_how_to_allow(place: Harness) -> None:
    Path(place.paths.file_storage_paths_file).unlink()
    with pytest.raises(FileStoragePathError, match=r"list one a line in .*file-storage-paths"):
        run(place.driver().create(place.disk()))


@contextlib.contextmanager
def small_file_system(directory: Path) -> Iterator[None]:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(directory)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a file system of a few MiB cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(directory)], check=True)


@over_image_files
@pytest.mark.parametrize("allocation", ["sparse", "full"])
def test_a_full_file_system_is_told_and_nothing_is_left(place: Harness, image_format: str, allocation: str) -> None:
    needs(image_format)
    with small_file_system(place.top):
        disk = place.disk(size_mib=64, format=image_format, allocation=allocation)
        with pytest.raises(BlockDeviceError, match=r"uuid-0.file.disk0 of 64 MiB cannot be made: .* are free there"):
            run(place.driver().create(disk))
        assert place.left() == []


@over(IN_DIRECTORIES)
def test_space_that_runs_out_while_a_disk_is_made_leaves_nothing(
    place: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = place.driver()
    monkeypatch.setattr(driver, "_check_space", lambda *_: None)
    with small_file_system(place.top):
        with pytest.raises(BlockDeviceError, match="No space left on device; 4 MiB are free there"):
            run(driver.create(place.disk(size_mib=64, allocation="full")))
        assert place.left() == []


STEPS = ("open", "makedirs", "ftruncate", "fsync", "rename", "replace", "link", "unlink", "rmdir", "write")


def dies_at(step: int, act: Callable[[], Coroutine[Any, Any, Any]]) -> bool:
    """Run *act* in a child that is killed before its *step*-th change of the file system; False when it got through."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] != 0
    count = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == step:
                os._exit(9)
            return real(*args, **kwargs)

        return call

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    try:
        asyncio.run(act())
    except BaseException:
        os._exit(1)
    os._exit(0)


@over(IN_DIRECTORIES)
def test_killed_at_any_step_of_creation_it_can_be_repeated_or_undone(place: Harness) -> None:
    driver, disk = place.driver(), place.disk()
    step = 1
    while dies_at(step, lambda: driver.create(disk)):
        found = run(driver.find(disk))
        assert found is None or found.size_mib == disk.size_mib, f"half a disk after step {step}"
        if step % 2:
            run(driver.create(disk))
            assert run(driver.find(disk)).size_mib == disk.size_mib
        run(driver.remove(disk))
        assert place.left() == [], f"after step {step}"
        step += 1
    assert step > 5


@over(IN_DIRECTORIES)
def test_killed_at_any_step_of_removal_it_can_be_repeated(place: Harness) -> None:
    driver, disk = place.driver(), place.disk()
    for step in range(1, 20):
        run(driver.create(disk))
        run(driver.activate(disk, "web1"))
        ended = not dies_at(step, lambda: driver.remove(disk))
        run(driver.remove(disk))
        assert place.left() == [], f"after step {step}"
        if ended:
            break
    assert step > 2


@over(SHARED)
def test_killed_at_any_step_of_opening_it_can_be_repeated(place: Harness) -> None:
    driver, disk = place.driver(), place.disk()
    run(driver.create(disk))
    step = 1
    while dies_at(step, lambda: driver.activate(disk, "web1")):
        run(driver.activate(disk, "web1"))
        with pytest.raises(BlockDeviceError, match="node1"):
            run(place.driver("node2").activate(disk, "web1"))
        run(driver.deactivate(disk))
        assert place.left() == ["web1", "web1/uuid-0.file.disk0"], f"after step {step}"
        step += 1
    assert step > 3


@over(MOVABLE)
def test_at_most_one_node_can_write(place: Harness) -> None:
    one, two, disk = place.driver("node1"), place.driver("node2"), place.disk()
    run(place.create(disk))
    run(two.become_secondary(disk))
    run(one.activate(disk, "web1"))
    with pytest.raises(BlockDeviceError, match="in use on node node1 by instance web1"):
        run(two.activate(disk, "web1"))
    run(in_sync(one, disk))
    run(two.become_secondary(disk))
    with pytest.raises(BlockDeviceError):
        run(two.activate(disk, "web1"))
    run(one.deactivate(disk))
    run(two.activate(disk, "web1"))


@over(SHARED)
def test_what_another_node_writes_is_not_removed(place: Harness) -> None:
    disk = place.disk()
    run(place.create(disk))
    run(place.driver("node1").activate(disk, "web1"))
    with pytest.raises(BlockDeviceError, match="node node1 holds its image lock"):
        run(place.driver("node2").remove(disk))


async def in_sync(primary: DiskTemplate, disk: DiskSpec) -> None:
    """Ask how far the copies are until all are there."""
    for _ in range(10):
        found = await primary.find(disk)
        assert found is not None
        if not found.is_degraded:
            return
    raise AssertionError("never in sync")


@over(MOVABLE)
@pytest.mark.parametrize("arrived", [True, False])
def test_a_migration_hands_the_right_to_write_over_or_leaves_it(place: Harness, arrived: bool) -> None:
    source, target, third = place.driver("node1"), place.driver("node2"), place.driver("node3")
    disk = place.disk()
    run(place.create(disk))
    run(target.become_secondary(disk))
    run(source.activate(disk, "web1"))
    run(in_sync(source, disk))
    run(source.activate(disk, "web1", for_migration=True))
    run(target.activate(disk, "web1", for_migration=True))
    for for_migration in (False, True):
        with pytest.raises(BlockDeviceError):
            run(third.activate(disk, "web1", for_migration=for_migration))
    run(target.settle_migration(disk, "web1", arrived=arrived))
    run(target.settle_migration(disk, "web1", arrived=arrived))
    owner, other = (target, source) if arrived else (source, target)
    run(other.become_secondary(disk))
    run(owner.activate(disk, "web1"))
    with pytest.raises(BlockDeviceError):
        run(other.activate(disk, "web1"))
    run(owner.deactivate(disk))
    run(other.activate(disk, "web1"))


@over(MIRRORED)
def test_a_copy_comes_into_sync_and_takes_over(place: Harness) -> None:
    one, two, disk = place.driver("node1"), place.driver("node2"), place.disk()
    run(place.create(disk))
    run(two.become_secondary(disk))
    Path(run(one.activate(disk, "web1")).path).write_bytes(b"x" * 4 * 1024 * 1024)
    told = [run(one.find(disk)) for _ in range(4)]
    assert (told[-1].is_degraded, told[-1].sync_percent) == (False, None)
    assert all(0 < (status.sync_percent or 1) <= 100 for status in told)
    run(one.become_secondary(disk))
    assert Path(run(two.activate(disk, "web1")).path).read_bytes() == b"x" * 4 * 1024 * 1024
    if isinstance(place, PairedHarness):
        assert place.pairs.roles("uuid-0") == {"node1": SECONDARY, "node2": PRIMARY}


@over(MIRRORED)
def test_a_copy_that_is_behind_is_not_written(place: Harness) -> None:
    one, two, disk = place.driver("node1"), place.driver("node2"), place.disk()
    run(place.create(disk))
    run(one.activate(disk, "web1"))
    assert run(one.find(disk)).is_degraded
    run(one.deactivate(disk))
    with pytest.raises(BlockDeviceError, match="is behind that of node node1"):
        run(two.activate(disk, "web1"))
    if not place.salvages:
        with pytest.raises(BlockDeviceError, match="is incomplete"):
            run(two.steal(disk, "web1", "node1 is lost"))
        return
    run(two.steal(disk, "web1", "node1 is lost"))
    run(two.activate(disk, "web1"))


@over(WITH_DISKS)
def test_creation_that_fails_on_the_last_node_is_undone_on_all(place: Harness) -> None:
    disk = place.disk()
    run(place.driver(place.holders[0]).create(place.disk(size_mib=8)))
    with pytest.raises(BlockDeviceError, match="of 4 MiB cannot be made"):
        run(place.create(disk))
    for node in place.holders:
        run(place.driver(node).remove(disk))
        run(place.driver(node).remove(disk))
    assert place.left() == []


@over(WITH_DISKS)
def test_a_disk_is_removed_from_all_its_nodes_whatever_its_role(place: Harness) -> None:
    disk = place.disk()
    run(place.create(disk))
    for node in place.holders[1:]:
        run(place.driver(node).become_secondary(disk))
    run(place.driver().activate(disk, "web1"))
    for node in reversed(place.holders):
        run(place.driver(node).deactivate(disk))
        run(place.driver(node).remove(disk))
    assert place.left() == []


@over(WITH_DISKS)
def test_the_roles_of_a_node_may_be_repeated_and_a_missing_copy_has_none(place: Harness) -> None:
    driver, disk = place.driver(), place.disk()
    run(driver.become_secondary(disk))
    run(place.create(disk))
    for _ in range(2):
        run(driver.activate(disk, "web1"))
        run(driver.become_secondary(disk))
        run(driver.become_secondary(disk))
        run(driver.deactivate(disk))
    if isinstance(place, PairedHarness):
        assert place.pairs.roles("uuid-0") == {"node1": CLOSED, "node2": CLOSED}


@over(SHARED)
def test_a_target_that_nobody_told_takes_over_once_the_source_let_go(place: Harness) -> None:
    source, target, third = place.driver("node1"), place.driver("node2"), place.driver("node3")
    disk = place.disk()
    run(source.create(disk))
    run(source.activate(disk, "web1"))
    run(target.activate(disk, "web1", for_migration=True))
    with pytest.raises(BlockDeviceError, match="its migration to this node is not finished"):
        run(target.activate(disk, "web1"))
    run(source.deactivate(disk))
    with pytest.raises(BlockDeviceError, match="is being moved to node node2"):
        run(third.activate(disk, "web1"))
    run(target.activate(disk, "web1"))
    with pytest.raises(BlockDeviceError, match="in use on node node2"):
        run(source.activate(disk, "web1"))


@over(MOVABLE)
def test_a_dead_nodes_right_is_taken_with_a_reason_that_is_logged(place: Harness) -> None:
    dead, heir, disk = place.driver("node1"), place.driver("node2"), place.disk()
    run(place.create(disk))
    run(heir.become_secondary(disk))
    run(dead.activate(disk, "web1"))
    run(in_sync(dead, disk))
    place.power_off("node1")
    run(heir.steal(disk, "web1", "failover from node1"))
    run(heir.activate(disk, "web1"))
    assert "taken from node1 for web1: failover from node1" in place.logged[-1]
    with pytest.raises(BlockDeviceError, match="in use on node node2"):
        run(dead.activate(disk, "web1"))
    run(dead.deactivate(disk))
    run(heir.activate(disk, "web1"))


@over(MOVABLE)
def test_many_nodes_at_once_leave_one_winner(place: Harness) -> None:
    disk = place.disk()
    run(place.create(disk))

    async def race() -> list[bool]:
        async def one(node: str) -> bool:
            try:
                await place.driver(node).activate(disk, "web1")
            except BlockDeviceError:
                return False
            return True

        return await asyncio.gather(*(one(f"node{number}") for number in range(12)))

    for _ in range(5):
        winners = run(race())
        assert winners.count(True) == 1
        run(place.driver(f"node{winners.index(True)}").deactivate(disk))


@over(SHARED)
def test_a_node_that_restarted_takes_its_own_lock_again(place: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = place.disk()
    run(place.driver().create(disk))
    run(place.driver().activate(disk, "web1"))
    monkeypatch.setattr("ganeti.node.storage.image_files.boot_identity", lambda: "a later boot")
    run(place.driver().activate(disk, "web1"))
    assert "taken again for web1" in place.logged[-1]
    with pytest.raises(BlockDeviceError, match="by instance web1"):
        run(place.driver().activate(disk, "web2"))
