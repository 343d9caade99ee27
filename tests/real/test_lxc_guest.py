# SPDX-License-Identifier: BSD-2-Clause
"""A cluster runs a container and a chroot: made by an OS definition, listed, reached, moved when stopped, removed."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract import hypervisor_world
from tests.contract.hypervisor_world import NodeOnDisk
from tests.system.fake_bed import FakeBed

from ganeti.node.hypervisors.lxc.configuration import HIDDEN
from ganeti.tools.testbed import bed, cluster

NAME = "lxcbed1"
CHROOT = "chrootbed1"
_CREATE = """#!/bin/sh
exec cat /srv/ganeti/shared-file-storage/.roots/root.img >"$DISK_0_PATH"
"""
_DEFINE_OS = """
mkdir -p /usr/local/lib/ganeti/os/busybox && cd /usr/local/lib/ganeti/os/busybox &&
cp /srv/ganeti/shared-file-storage/.roots/create . &&
for name in export import rename verify; do printf '#!/bin/sh\\n' >$name; chmod +x $name; done &&
echo 20 >ganeti_api_version &&
touch parameters.list
"""

_SHOW_MOUNTS = f'cat "/proc/$(lxc-info -P /run/ganeti/lxc -n {NAME} -p -H)/mountinfo"'
_SHOW_PROGRAM = f'readlink "/proc/$(cat /run/ganeti/lxc/{NAME}/monitor.pid)/exe"'


def why_not() -> str:
    if os.geteuid() != 0:
        return "containers need root"
    lxc = hypervisor_world.driver("lxc", NodeOnDisk(Path("/nonexistent")))
    return "; ".join(hypervisor_world.asyncio.run(lxc.verify({})))


pytestmark = [pytest.mark.real, pytest.mark.skipif(bool(why_not()), reason=why_not())]


def cgroups() -> list[Path]:
    return [path for path in Path("/sys/fs/cgroup").rglob(f"lxc.*.{NAME}*") if path.is_dir()]


def remove_cgroups() -> None:
    for path in sorted(cgroups(), reverse=True):
        with contextlib.suppress(OSError):
            path.rmdir()


@pytest.fixture
def cluster_bed(tmp_path: Path) -> Iterator[FakeBed]:
    remove_cgroups()  # of a test that was killed
    layout = bed.up(tmp_path.resolve() / "bed", 2, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        roots = layout.shared / ".roots"
        roots.mkdir()
        hypervisor_world.root_disk(roots)
        (roots / "create").write_text(_CREATE)
        (roots / "create").chmod(0o755)
        found = FakeBed(layout)
        for node in layout.nodes:
            found.run("sh", "-c", _DEFINE_OS, node=node.name)
        found.run("gnt-cluster", "modify", "--enabled-hypervisors=fake,lxc,chroot")
        yield found
        shutil.rmtree(roots)
    finally:
        bed.down(layout)
        remove_cgroups()


def listed(found: FakeBed, name: str, fields: str) -> list[str]:
    return found.run("gnt-instance", "list", "--no-headers", "--separator=|", "-o", fields, name).strip().split("|")


def test_containers_live_in_a_cluster(cluster_bed: FakeBed) -> None:
    found = cluster_bed
    add = [
        "gnt-instance",
        "add",
        *["-t", "sharedfile", "-o", "busybox", "-n", "node2", "-s", "16m", "-B", "memory=64,vcpus=1"],
    ]
    found.run(*add, "--net", "0:", "-H", "lxc:num_ttys=2", NAME)
    assert listed(found, NAME, "status,hypervisor,oper_ram,oper_vcpus,hv/num_ttys,hv/startup_timeout") == [
        *("running", "lxc", "64", "1", "2", "30"),
    ]
    config = found.run("cat", f"/run/ganeti/lxc/{NAME}/config", node="node2")
    assert "sys_admin" in config and "sys_module" in config and "lxc.net.0.type = veth" in config
    inside = found.run("sh", "-c", _SHOW_MOUNTS, node="node2")
    hidden = [place for place in (f"/proc/{name}" for name in HIDDEN) if os.path.exists(place)]
    assert "/proc/irq" in hidden
    for place in ("/sys", "/proc/sys", *hidden):
        assert f" {place} ro," in inside, inside
    assert "memfd" in found.run("sh", "-c", _SHOW_PROGRAM, node="node2")
    links = found.run("ip", "-br", "link", "show", "master", "gnt-br0", node="node2")
    assert "lx" in links
    shown = found.run("gnt-instance", "console", "--show-cmd", NAME)
    assert "lxc-console" in shown and NAME in shown
    assert "BOOTED" in found.run("cat", f"/var/log/ganeti/lxc/{NAME}.console.log", node="node2")
    assert "cannot migrate" in found.run("gnt-instance", "migrate", "-f", NAME, expect=None)

    for words, why in (
        ("extra_config=lxc.hook.start-host=/bin/sh", "lxc.hook.start-host"),
        ("extra_config=lxc.mount.entry=/", "lxc.mount.entry"),
        ("devices=b 8:0 rw", "b 8:0 rw"),
    ):
        said = found.run("gnt-instance", "modify", "-H", words, NAME, expect=1)
        assert f"'{why}' could reach beyond the container" in said, said

    found.run("gnt-instance", "reboot", NAME)
    assert listed(found, NAME, "status") == ["running"]
    found.run("gnt-instance", "shutdown", NAME)
    assert listed(found, NAME, "status") == ["ADMIN_down"]
    assert cgroups() == []
    found.run("gnt-instance", "failover", "-f", "-n", "node1", NAME)
    found.run("gnt-instance", "startup", NAME)
    assert listed(found, NAME, "status,pnode") == ["running", "node1"]
    found.run("gnt-instance", "migrate", "-f", "--allow-failover", "-n", "node2", NAME)
    assert listed(found, NAME, "status,pnode") == ["running", "node2"]

    found.run(*add, "-H", "chroot", "--no-nics", CHROOT)
    assert listed(found, CHROOT, "status,hv/init_script") == ["running", "/ganeti-chroot"]
    assert "chroot" in found.run("gnt-instance", "console", "--show-cmd", CHROOT)
    verified = found.run("gnt-cluster", "verify", expect=None)
    assert "ERROR" not in verified, verified
    found.run("gnt-instance", "remove", "-f", CHROOT)
    found.run("gnt-instance", "remove", "-f", NAME)
    assert cgroups() == []
    for node in ("node1", "node2"):
        assert "/run/ganeti/" not in found.run("sh", "-c", "grep ext4 /proc/mounts; true", node=node)
        left = "ls -A /run/ganeti/lxc /run/ganeti/chroot-hypervisor 2>/dev/null | grep bed; true"
        assert found.run("sh", "-c", left, node=node) == ""
