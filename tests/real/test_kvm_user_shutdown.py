# SPDX-License-Identifier: BSD-2-Clause
"""A guest that is shut down from inside is noted by ganeti-kvmd, its QEMU ends, and it can be started again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real import kvm_lab
from tests.real.kvm_lab import Lab, LabNode

pytestmark = [pytest.mark.real, pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")]
NAME = "web1.example.com"


@pytest.fixture
def lab(tmp_path: Path, guest_image) -> Iterator[Lab]:
    with kvm_lab.opened(tmp_path / "lab", guest_image) as found:
        yield found


@pytest.fixture
def node(lab: Lab) -> Iterator[LabNode]:
    node = lab.nodes[0]
    environment = os.environ | {"GANETI_ROOTDIR": str(node.root)}
    words = [sys.executable, "-m", "ganeti.daemons.kvmd", "-f"]
    daemon = subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL)
    try:
        pid_file = node.root / "run/ganeti/ganeti-kvmd.pid"
        kvm_lab.wait_until(lambda: pid_file.exists() and bool(pid_file.read_text()), "ganeti-kvmd")
        yield node
    finally:
        daemon.terminate()
        daemon.wait()


def test_shut_down_from_inside_and_by_the_button(lab: Lab, node: LabNode) -> None:
    spec = lab.instance(NAME, hvparams={"user_shutdown": True}, nics=0)
    note = node.root / f"run/ganeti/kvm-hypervisor/ctrl/{NAME}.shutdown"
    pid_file = node.root / "run/ganeti/kvm-hypervisor/pid" / NAME
    for _ in range(2):  # kvmd sees each new QEMU, also when it does not listen yet
        lab.start(node, spec)
        assert node.state(NAME) == "running" and not note.exists()
        node.wait_console(NAME, "BOOTED-OK")
        kvm_lab.type_in(node, NAME, "", "poweroff")
        kvm_lab.wait_until(note.exists, "the note of the user's shutdown")
        kvm_lab.wait_until(lambda: not pid_file.exists(), "the end of QEMU")
        assert node.state(NAME) == "shutdown"
        assert [found["name"] for found in node.call("list_instances")] == [NAME]
        node.forget_console(NAME)

    lab.start(node, spec)
    node.wait_console(NAME, "BOOTED-OK")
    kvm_lab.type_in(node, NAME, "system_powerdown", kind="monitor")
    kvm_lab.wait_until(lambda: node.state(NAME) is None, "the end of QEMU after the power button")
    assert not note.exists()
    node.call("stop", name=NAME, timeout_s=0)
    assert node.leftovers(NAME) == []
