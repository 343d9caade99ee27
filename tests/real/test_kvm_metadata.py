# SPDX-License-Identifier: BSD-2-Clause
"""A guest reads its metadata over its NIC for communication; nobody else gets them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract import hypervisor_world
from tests.real import kvm_lab
from tests.real.kvm_lab import Lab, LabNode

from ganeti.base.paths import Paths
from ganeti.node.metadata import socket_path
from ganeti.wire.framing_sync import ask

pytestmark = [pytest.mark.real, pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")]
NAME = "web1.example.com"
ADDRESS = "169.254.0.9"


@pytest.fixture
def lab(tmp_path: Path, guest_image) -> Iterator[Lab]:
    with kvm_lab.opened(tmp_path / "lab", guest_image) as found:
        yield found


@pytest.fixture
def node(lab: Lab) -> Iterator[LabNode]:
    """With ganeti-metad in its namespace."""
    node = lab.nodes[0]
    script = node.root / "srv/ganeti/os/image/create"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    with kvm_lab.metadata_daemon(node):
        yield node


def path_of(node: LabNode) -> str:
    return socket_path(Paths(str(node.root)))


def test_a_guest_reads_its_metadata(lab: Lab, node: LabNode) -> None:
    arguments = f"hostname=web1 addr={ADDRESS}/16 hb=1 no_timer_check console=ttyS0"
    nic = hypervisor_world.nic(
        0, mode="routed", link="communication_rt", ip=ADDRESS, name=f"ganeti:communication:{NAME}"
    )
    spec = lab.instance(NAME, nics=0, disk=False, hvparams={"kernel_args": arguments})
    lab.start(node, hypervisor_world.instance("kvm", NAME, hvparams=spec.hvparams, beparams=spec.beparams, nics=[nic]))
    known = {
        "name": NAME,
        "uuid": spec.uuid,
        "address": ADDRESS,
        "os": "image",
        "parameters": {"dns": ["192.0.2.1", "public"], "key": ["hidden", "private"]},
    }
    ask(path_of(node), 10.0, "update_config", known)
    node.wait_console(NAME, "BOOTED-OK")
    sockets = node.root / "run/ganeti/kvm-hypervisor/ctrl"
    question = "wget -qO- http://169.254.169.254/ganeti/latest/os/parameters.json; echo; echo EN$((0))D"
    kvm_lab.run(
        "sh", "-c", f"cd {sockets} && (echo; sleep 1; echo '{question}') | socat -t1 - UNIX-CONNECT:{NAME}.serial"
    )
    node.wait_console(NAME, "^EN0D")
    printed = node.console(NAME)
    answer = printed[printed.rindex("{") : printed.rindex("}") + 1]
    assert json.loads(answer) == known["parameters"]

    # The node itself has no metadata, and a file of the node is no OS's.
    page = "http://169.254.169.254/ganeti/latest/os/parameters.json"
    assert node.run("sh", "-c", f"busybox wget -qO- {page} 2>&1; true").endswith("404 Not Found\n")
    assert (node.root / "run/ganeti/metad.json").stat().st_mode & 0o777 == 0o600
    ask(path_of(node), 10.0, "forget", NAME)
    assert ask(path_of(node), 10.0, "list") == {}
    assert not (node.root / "run/ganeti/metad.json").exists()
