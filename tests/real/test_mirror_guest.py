# SPDX-License-Identifier: BSD-2-Clause
"""A real guest on a mirrored disk: it runs as a user of the pool, its storage daemon dies, its disk grows."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.real import kvm_lab
from tests.real.kvm_lab import Lab
from tests.real.mirror_lab import Pair, run, wait_until

pytestmark = [pytest.mark.real, pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")]
NAME = "mirrored"
FIRST = 310_100


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, guest_image: Any) -> Iterator[Lab]:
    with kvm_lab.opened(tmp_path_factory.mktemp("kvm") / "lab", guest_image) as opened:
        data = opened.nodes[0].root / "var/lib/ganeti"
        data.mkdir(parents=True, exist_ok=True)
        (data / "ssconf_uid_pool").write_text(f"{FIRST}-{FIRST + 1}\n")
        yield opened


@pytest.fixture
def pair() -> Iterator[Pair]:
    root = Path(tempfile.mkdtemp(prefix="gntm", dir="/tmp"))
    root.chmod(0o755)
    nodes = Pair(root)
    try:
        yield nodes
    finally:
        nodes.close()
        shutil.rmtree(root)


def test_a_guest_of_the_pool_keeps_its_disk_which_grows(lab: Lab, pair: Pair) -> None:
    node = lab.nodes[0]
    disk = pair.opened(pair.disk())
    attached = run(pair.one.driver.activate(disk, NAME))
    spec = lab.instance(NAME, nics=0, disk=False, hvparams={"security_model": "pool"})
    told = f"{spec.hvparams['kernel_args']} ignore_loglevel"
    spec = msgspec.structs.replace(spec, disks=[disk], hvparams={**spec.hvparams, "kernel_args": told})
    node.forget_console(NAME)
    node.call("start", spec=spec, disks=[attached])
    try:
        node.wait_beats(NAME)
        assert os.stat(f"/proc/{node.pid(NAME)}").st_uid in (FIRST, FIRST + 1)
        [storage_daemon] = pair.one.storage_daemons()
        os.kill(storage_daemon, signal.SIGKILL)
        wait_until(lambda: pair.one.storage_daemons() not in ([], [storage_daemon]), "a storage daemon is there again")
        node.wait_beats(NAME)
        pair.wait_equal(disk, pair.one)
        for side in (pair.two, pair.one):
            run(side.driver.grow(disk, 8, in_use=side is pair.one))
        node.call("resize_disk", name=NAME, disk=run(pair.one.driver.activate(disk, NAME)), size_mib=24)
        node.wait_console(NAME, f"new size: {24 * 2048} 512-byte")
        node.wait_beats(NAME)
        grown = msgspec.structs.replace(disk, size_mib=24)
        pair.wait_equal(grown, pair.one)
    finally:
        node.call("stop", name=NAME, timeout_s=0)
    assert pair.are_equal(grown)
