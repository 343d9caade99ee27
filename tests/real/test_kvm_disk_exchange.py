# SPDX-License-Identifier: BSD-2-Clause
"""A running guest's disk is copied to another one and exchanged for it, while the guest goes on writing."""

import contextlib
import os
import subprocess

import pytest
from msgspec.structs import replace
from tests.contract import hypervisor_world
from tests.real import kvm_lab
from tests.real.kvm_lab import Lab, LabNode

from ganeti.base.errors import HypervisorError
from ganeti.model.node_requests import AttachedDisk, InstanceSpec

pytestmark = pytest.mark.real
NAME = "copy"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, guest_image):
    with kvm_lab.opened(tmp_path_factory.mktemp("kvm") / "lab", guest_image) as opened:
        yield opened


def new_disk(lab: Lab, number: int, image_format: str, size: str = "16M") -> AttachedDisk:
    path = lab.directory / f"new-{number}.img"
    subprocess.run(["qemu-img", "create", "-q", "-f", image_format, str(path), size], check=True)
    made = hypervisor_world.disk(path, 0, image_format)
    return replace(made, spec=replace(made.spec, uuid=f"5c0f0a52-8f1c-4a79-8f5f-00000000{number:04}"))


def exchange(node: LabNode, spec: InstanceSpec, target: AttachedDisk) -> InstanceSpec:
    """Gives the instance with the new disk."""
    kvm_lab.wait_until(
        lambda: all(copy["is_equal"] for copy in node.call("mirror_disks", spec=spec, targets=[target])), "the copy"
    )
    for _ in range(2):
        node.call("exchange_disks", spec=spec, targets=[target])
    return replace(spec, disks=[target.spec])


def files_open(node: LabNode) -> list[str]:
    descriptors = f"/proc/{node.pid(NAME)}/fd"
    found = set()
    for each in os.listdir(descriptors):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile: QEMU looks at files for a moment
            found.add(os.path.basename(os.readlink(f"{descriptors}/{each}")))
    return sorted(name for name in found if name.endswith(".img"))


def test_a_disk_is_exchanged_under_its_guest(lab: Lab) -> None:
    first, second = lab.nodes
    spec = lab.instance(NAME)
    lab.start(first, spec)
    first.wait_beats(NAME)
    target = new_disk(lab, 1, "qcow2", "12M")
    spec = exchange(first, spec, target)
    assert files_open(first) == ["new-1.img"]
    first.wait_beats(NAME)
    last = new_disk(lab, 2, "raw", "12M")
    first.call("mirror_disks", spec=spec, targets=[last])
    first.call("give_up_exchange", spec=spec)
    assert files_open(first) == ["new-1.img"]
    with pytest.raises(HypervisorError, match="is not being copied"):
        first.call("exchange_disks", spec=spec, targets=[last])
    spec = exchange(first, spec, last)
    assert files_open(first) == ["new-2.img"]
    lab.begin(spec, first, second)
    lab.finish(spec, first, second)
    second.wait_beats(NAME)
    spec = exchange(second, spec, new_disk(lab, 3, "raw"))
    second.wait_beats(NAME)
    acknowledged = second.beats(NAME)[-1]
    second.call("stop", name=NAME, timeout_s=0)
    with open(lab.directory / "new-3.img", "rb") as disk:
        assert int(disk.read(8)) >= acknowledged
    assert first.leftovers(NAME) == second.leftovers(NAME) == []


def test_two_disks_are_exchanged_together_or_not_at_all(lab: Lab) -> None:
    node = lab.nodes[0]
    spec = lab.instance(NAME)
    spec = replace(spec, disks=[*spec.disks, lab.disk(NAME, 1).spec])
    lab.start(node, spec)
    node.forget_console(NAME)
    node.wait_beats(NAME, 1)
    targets = [
        replace(new_disk(lab, 4 + index, "raw"), spec=replace(new_disk(lab, 4 + index, "raw").spec, index=index))
        for index in range(2)
    ]
    for ending in ("give_up_exchange", "exchange_disks"):
        kvm_lab.wait_until(
            lambda: all(copy["is_equal"] for copy in node.call("mirror_disks", spec=spec, targets=targets)), "the copy"
        )
        node.call("hold_copies", spec=spec, targets=targets)
        node.kill_daemon()
        node.call("hold_copies", spec=spec, targets=targets)
        if ending == "give_up_exchange":
            node.call(ending, spec=spec)
            assert files_open(node) == [f"{NAME}-1.img", f"{NAME}.img"]
        else:
            node.call(ending, spec=spec, targets=targets)
            assert files_open(node) == ["new-4.img", "new-5.img"]
        node.wait_beats(NAME)
    node.call("stop", name=NAME, timeout_s=0)
