# SPDX-License-Identifier: BSD-2-Clause
"""A snapshot in the image of a guest that runs and writes on."""

import asyncio
import subprocess
from pathlib import Path

import msgspec
import pytest
from tests.contract import hypervisor_world
from tests.real import kvm_lab
from tests.real.kvm_lab import Lab

from ganeti.node.hypervisors.kvm.driver import KvmHypervisor

pytestmark = pytest.mark.real
NAME = "kept"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, guest_image):
    with kvm_lab.opened(tmp_path_factory.mktemp("kvm") / "lab", guest_image) as opened:
        yield opened


def beat_in(image: Path) -> int:
    """The beat that an image holds in its first sector."""
    words = ["qemu-io", "-f", "qcow2", "-c", "read -v 0 8", str(image)]
    line = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    return int(bytes.fromhex("".join(line.split()[1:9])))


def test_a_snapshot_of_a_running_guest_holds_its_last_beat(lab: Lab) -> None:
    node, image = lab.nodes[0], lab.directory / f"{NAME}.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(image), "16M"], check=True)
    disk = msgspec.structs.replace(hypervisor_world.disk(image), image_format="qcow2")
    spec = msgspec.structs.replace(lab.instance(NAME, nics=0, disk=False), disks=[disk.spec])
    kept = KvmHypervisor(hypervisor_world.NodeOnDisk(node.root)).snapshots()
    try:
        node.call("start", spec=spec, disks=[disk])
        node.wait_beats(NAME)
        before = node.beats(NAME)[-1]
        asyncio.run(kept.take(NAME, disk.spec, "one"))
        after = node.beats(NAME)[-1] + 1
        asyncio.run(kept.take(NAME, disk.spec, "two"))
        node.wait_beats(NAME, 4)
        asyncio.run(kept.remove(NAME, disk.spec, "two"))
        node.wait_beats(NAME, 1)
    finally:
        node.call("stop", name=NAME, timeout_s=0)
    assert beat_in(image) >= node.beats(NAME)[-1] > after
    subprocess.run(["qemu-img", "snapshot", "-a", "one", str(image)], check=True)
    assert before <= beat_in(image) <= after
    listed = subprocess.run(
        ["qemu-img", "snapshot", "-l", str(image)], capture_output=True, text=True, check=True
    ).stdout
    assert " one " in listed and " two " not in listed
