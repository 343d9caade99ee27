# SPDX-License-Identifier: BSD-2-Clause
"""The disks of a real guest are copied while it writes: each copy is as of one moment, and the guest goes on."""

import json
import re
from pathlib import Path

import msgspec
import pytest
from tests.real import kvm_lab
from tests.real.kvm_lab import Lab, LabNode

from ganeti.base.errors import HypervisorError

pytestmark = pytest.mark.real
NAME = "copied"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, guest_image):
    with kvm_lab.opened(tmp_path_factory.mktemp("kvm") / "lab", guest_image) as opened:
        yield opened


@pytest.fixture
def node(lab: Lab):
    node = lab.nodes[0]
    lab.start(node, lab.instance(NAME))
    node.wait_console(NAME, "BOOTED-OK")
    node.wait_beats(NAME, 2)
    yield node
    node.call("stop", name=NAME, timeout_s=0)


def last_beat(path: Path) -> int:
    """The number that the guest had written last: it writes it into the first sector."""
    found = re.match(rb"(\d{8}) ", path.read_bytes()[:512])
    assert found, path.read_bytes()[:64]
    return int(found[1])


def copy(node: LabNode, path: Path) -> None:
    path.write_bytes(b"")
    node.call("copy_disks", name=NAME, paths=[str(path)])


def test_a_copy_is_as_of_one_moment_and_the_guest_goes_on(lab: Lab, node: LabNode, tmp_path: Path) -> None:
    for number in range(3):
        before = node.beats(NAME)[-1]
        copy(node, tmp_path / "copy")
        after = node.beats(NAME)[-1]
        assert before <= last_beat(tmp_path / "copy") <= after + 1, number
        node.wait_beats(NAME, 2)
    assert (tmp_path / "copy").stat().st_size == Path(lab.disks(NAME)[0].path).stat().st_size
    assert node.state(NAME) == "running"


def test_what_a_killed_daemon_has_begun_is_ended_and_made_again(lab: Lab, node: LabNode, tmp_path: Path) -> None:
    (tmp_path / "copy").write_bytes(b"")
    daemon = node.daemon()
    assert daemon.stdin is not None
    request = {"method": "copy_disks", "arguments": {"name": NAME, "paths": [str(tmp_path / "copy")]}}
    daemon.stdin.write(json.dumps(msgspec.to_builtins(request)).encode() + b"\n")
    daemon.stdin.flush()
    kvm_lab.wait_until(lambda: (tmp_path / "copy").stat().st_size > 0, "the copying to begin", step_s=0.001)
    node.kill_daemon()
    node.call("end_copies", name=NAME)
    node.call("end_copies", name=NAME)
    copy(node, tmp_path / "copy")
    node.wait_beats(NAME, 2)


def test_a_target_that_cannot_be_written_leaves_the_guest_as_it_was(lab: Lab, node: LabNode, tmp_path: Path) -> None:
    with pytest.raises(HypervisorError, match="cannot be made"):
        node.call("copy_disks", name=NAME, paths=[str(tmp_path / "nowhere/copy")])
    with pytest.raises(HypervisorError, match="1 disks, and has 0"):
        node.call("copy_disks", name=NAME, paths=[])
    node.wait_beats(NAME, 2)
