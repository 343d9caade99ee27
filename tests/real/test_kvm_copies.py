# SPDX-License-Identifier: BSD-2-Clause
"""The disks of a real guest are copied while it writes: each copy is as of one moment, and the guest goes on."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
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


def test_several_disks_are_copied_as_of_one_moment(lab: Lab, tmp_path: Path) -> None:
    node, name = lab.nodes[0], "several"
    disks = [lab.disk(name, number) for number in range(2)]
    Path(disks[1].path).write_bytes(os.urandom(16 * 2**20))
    lab.start(node, msgspec.structs.replace(lab.instance(name), disks=[disk.spec for disk in disks]))
    node.wait_console(name, "BOOTED-OK")
    paths = [tmp_path / "first", tmp_path / "second"]
    for path in paths:
        path.write_bytes(b"")
    node.call("copy_disks", name=name, paths=[str(path) for path in paths])
    assert paths[1].read_bytes() == Path(disks[1].path).read_bytes()
    assert node.state(name) == "running"
    node.wait_beats(name, 2)
    node.call("stop", name=name, timeout_s=0)


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
    assert not list(node.root.rglob(f"{NAME}*copy*"))
    copy(node, tmp_path / "copy")
    node.wait_beats(NAME, 2)


def test_a_target_that_cannot_be_written_leaves_the_guest_as_it_was(lab: Lab, node: LabNode, tmp_path: Path) -> None:
    with pytest.raises(HypervisorError, match="cannot be made"):
        node.call("copy_disks", name=NAME, paths=[str(tmp_path / "nowhere/copy")])
    with pytest.raises(HypervisorError, match="1 disks, and has 0"):
        node.call("copy_disks", name=NAME, paths=[])
    node.wait_beats(NAME, 2)


def test_a_target_that_fills_up_is_never_the_guests_trouble(lab: Lab, tmp_path: Path) -> None:
    """What the guest overwrites meanwhile does not fit beside what has been copied: its write succeeds all the same."""
    node, name = lab.nodes[0], "filled"
    path = Path(lab.disk(name, size_mib=400).path)
    with path.open("r+b") as disk:
        for _ in range(400):
            disk.write(os.urandom(2**20))
    lab.start(node, lab.instance(name))
    node.wait_console(name, "BOOTED-OK")
    kvm_lab.type_in(node, name, "")
    node.wait_console(name, f"^{name}:.*# ")
    with mounted(tmp_path / "small", "500m") as small:
        (small / "copy").write_bytes(b"")
        with slowed(node, name):
            daemon = node.daemon()
            assert daemon.stdin is not None and daemon.stdout is not None
            request = {"method": "copy_disks", "arguments": {"name": name, "paths": [str(small / "copy")]}}
            daemon.stdin.write(json.dumps(request).encode() + b"\n")
            daemon.stdin.flush()
            time.sleep(3)
        used_mib = (small / "copy").stat().st_blocks * 512 // 2**20
        kvm_lab.run("mount", "-o", f"remount,size={used_mib + 2}m", str(small))
        kvm_lab.type_in(node, name, "dd if=/dev/zero of=/dev/vda bs=1M count=60 seek=335 conv=fsync")
        node.wait_console(name, "60.0 records out")
        kvm_lab.type_in(node, name, "block_job_set_speed copy0 0", kind="monitor")
        assert "could not be copied: No space left" in str(json.loads(daemon.stdout.readline())["error"])
    assert node.state(name) == "running"
    node.call("stop", name=name, timeout_s=0)


@contextlib.contextmanager
def mounted(place: Path, size: str) -> Iterator[Path]:
    place.mkdir()
    kvm_lab.run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place))
    try:
        yield place
    finally:
        kvm_lab.run("umount", "-l", str(place))


@contextlib.contextmanager
def slowed(node: LabNode, name: str) -> Iterator[None]:
    """A copying that begins gets on by next to nothing."""
    control = node.root / "run/ganeti/kvm-hypervisor/ctrl"
    again = "while sleep 0.002; do echo block_job_set_speed copy0 1; done"
    words = ["sh", "-c", f"cd {control} && ({again}) | timeout 10 socat -t0.5 - UNIX-CONNECT:{name}.monitor"]
    slowing = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        time.sleep(0.2)
        yield
    finally:
        os.killpg(slowing.pid, signal.SIGTERM)
        slowing.wait()
