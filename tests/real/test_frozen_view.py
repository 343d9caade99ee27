# SPDX-License-Identifier: BSD-2-Clause
"""The disks of a running guest are held for a backup: as of one moment, with what has changed since the one before."""

import asyncio
import re
import subprocess
from pathlib import Path

import msgspec
import pytest
from tests.contract import hypervisor_world
from tests.real import kvm_lab
from tests.real.kvm_lab import Lab, LabNode

from ganeti.base.errors import HypervisorError
from ganeti.model.node_requests import AttachedDisk, InstanceSpec
from ganeti.node.hypervisors.kvm.driver import KvmHypervisor
from ganeti.node.hypervisors.kvm.frozen_view import KvmFrozenViews

pytestmark = pytest.mark.real
NAME = "held"
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, guest_image):
    with kvm_lab.opened(tmp_path_factory.mktemp("kvm") / "lab", guest_image) as opened:
        yield opened


def frozen_views(node: LabNode) -> KvmFrozenViews:
    return KvmHypervisor(hypervisor_world.NodeOnDisk(node.root)).devices.frozen_views()


def beat(data: bytes) -> int:
    """The number that the guest had written last: it writes it into the first sector."""
    found = re.match(rb"(\d{8}) ", data)
    assert found, data[:64]
    return int(found[1])


def changed(held: KvmFrozenViews, spec: InstanceSpec, *, mark: str, since: str) -> list[tuple[int, int]] | None:
    """Hold the one disk of a guest; gives what was counted of it, None where nothing was."""
    (counted,) = asyncio.run(held.open(spec, mark=mark, since=since))
    return asyncio.run(held.changed(NAME, 0)) if counted else None


async def read(held: KvmFrozenViews, size: int, disk: int = 0) -> bytes:
    async with held.reading(NAME, disk) as source:
        assert await source.size() == 16 * MIB
        return await source.read(0, size)


def started(lab: Lab, image_format: str) -> tuple[LabNode, InstanceSpec, AttachedDisk]:
    node, path = lab.nodes[0], lab.directory / f"{NAME}.{image_format}"
    subprocess.run(["qemu-img", "create", "-q", "-f", image_format, str(path), "16M"], check=True)
    disk = msgspec.structs.replace(hypervisor_world.disk(path), image_format=image_format)
    spec = msgspec.structs.replace(lab.instance(NAME, nics=0, disk=False), disks=[disk.spec])
    node.forget_console(NAME)
    node.call("start", spec=spec, disks=[disk])
    node.wait_beats(NAME)
    return node, spec, disk


@pytest.mark.parametrize("image_format", ["raw", "qcow2"])
def test_a_moment_stays_while_the_guest_writes_and_changes_are_counted(lab: Lab, image_format: str) -> None:
    node, spec, disk = started(lab, image_format)
    held = frozen_views(node)
    try:
        before = node.beats(NAME)[-1]
        assert asyncio.run(held.open(spec, mark="one", since="")) == [False]
        after = node.beats(NAME)[-1] + 1
        node.wait_beats(NAME)
        assert before <= beat(asyncio.run(read(held, 512))) <= after < node.beats(NAME)[-1]
        asyncio.run(held.close(NAME, kept="one"))
        node.wait_beats(NAME)
        dirty = changed(held, spec, mark="two", since="one")
        assert dirty and dirty[0][0] == 0 and sum(count for _, count in dirty) <= 4, dirty
        asyncio.run(held.close(NAME, kept="two"))
        assert asyncio.run(held.open(spec, mark="three", since="one")) == [False], "nobody has counted since that"
        asyncio.run(held.close(NAME, kept="three"))
        node.call("stop", name=NAME, timeout_s=20)
        node.forget_console(NAME)
        node.call("start", spec=spec, disks=[disk])
        node.wait_beats(NAME)
        dirty = changed(held, spec, mark="four", since="three")
        assert (dirty is not None) == (image_format == "qcow2"), "the count survives in the image"
        with pytest.raises(HypervisorError, match="There is no frozen view of the disks of held"):
            asyncio.run(held.close(NAME, kept=""))
            asyncio.run(read(held, 512))
        node.wait_beats(NAME, 2)
        assert node.leftovers("scratch") == [] and not list((node.root / "srv/ganeti").rglob("held.*"))
    finally:
        node.call("stop", name=NAME, timeout_s=0)


def test_a_full_scratch_space_ends_the_moment_and_not_the_guest(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scratch file is on a file system that takes nothing more."""
    monkeypatch.setattr("ganeti.node.backups.room._SPARE_BYTES", 0)
    node, spec, _ = started(lab, "raw")
    held, scratch = frozen_views(node), node.root / "srv/ganeti/backup-scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(scratch)], check=True)
    try:
        asyncio.run(held.open(spec, mark="one", since=""))
        node.wait_beats(NAME, 3)
        with pytest.raises(Exception, match="cannot be read at 0 any more"):
            asyncio.run(read(held, 512))
        asyncio.run(held.close(NAME, kept=""))
        node.wait_beats(NAME, 2)
        assert node.state(NAME) == "running"
    finally:
        node.call("stop", name=NAME, timeout_s=0)
        subprocess.run(["umount", str(scratch)], check=True)


def test_several_disks_are_held_at_the_same_moment(lab: Lab) -> None:
    node = lab.nodes[0]
    disks = [lab.disk(NAME, 0), lab.disk(NAME, 1)]
    spec = msgspec.structs.replace(lab.instance(NAME, nics=0, disk=False), disks=[disk.spec for disk in disks])
    node.forget_console(NAME)
    node.call("start", spec=spec, disks=disks)
    held = frozen_views(node)
    try:
        node.wait_beats(NAME)
        assert asyncio.run(held.open(spec, mark="one", since="")) == [False, False]
        node.wait_beats(NAME, 2)
        assert len(asyncio.run(read(held, MIB, 1))) == MIB
        note = Path(held._note(NAME))
        note.touch()
        asyncio.run(held.close(NAME, kept="one"))
        assert not note.exists() and node.state(NAME) == "running"
        node.wait_beats(NAME, 2)
    finally:
        node.call("stop", name=NAME, timeout_s=0)


def test_what_has_changed_is_known_after_a_migration(lab: Lab) -> None:
    """Of a raw disk, whose bitmap lies nowhere but in QEMU."""
    source, target = lab.nodes
    spec = lab.instance(NAME)
    for node in lab.nodes:
        node.forget_console(NAME)
    lab.start(source, spec)
    try:
        source.wait_beats(NAME)
        asyncio.run(frozen_views(source).open(spec, mark="one", since=""))
        asyncio.run(frozen_views(source).close(NAME, kept="one"))
        lab.begin(spec, source, target)
        lab.finish(spec, source, target)
        target.wait_beats(NAME)
        dirty = changed(frozen_views(target), spec, mark="two", since="one")
        assert dirty and dirty[0][0] == 0 and sum(count for _, count in dirty) <= 4, dirty
        asyncio.run(frozen_views(target).close(NAME, kept="two"))
        target.wait_beats(NAME, 2)
    finally:
        for node in lab.nodes:
            node.call("stop", name=NAME, timeout_s=0)
