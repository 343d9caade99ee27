# SPDX-License-Identifier: BSD-2-Clause
"""What a container is configured as, and that nobody who may only submit jobs is let out of one."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.contract import hypervisor_world
from tests.contract.hypervisor_world import NodeOnDisk

from ganeti.base.errors import HypervisorError, TypeEnforcementError
from ganeti.base.paths import Paths
from ganeti.model.parameters import accept_all
from ganeti.node.hypervisors.interface import Hypervisor
from ganeti.node.hypervisors.lxc import control_groups
from ganeti.node.hypervisors.lxc.configuration import configuration, device_of, roots_own
from ganeti.node.hypervisors.lxc.control_groups import Hierarchies
from ganeti.node.hypervisors.lxc.parameters import ALWAYS_DROPPED, CAPABILITIES, PARAMETERS
from ganeti.node.hypervisors.lxc.places import Places

OLD = Hierarchies({name: f"/sys/fs/cgroup/{name}" for name in (*control_groups.NEEDED, "cpuacct")}, "/sys/fs/cgroup/u")
NEW = Hierarchies({}, "/sys/fs/cgroup", frozenset({"cpu", "cpuset", "memory", "pids"}))
PLACES = Places(Paths())


def lines(groups: Hierarchies = NEW, nics: int = 0, **hvparams) -> list[str]:
    given = [hypervisor_world.nic(index) for index in range(nics)]
    beparams = {"maxmem": 64, "minmem": 64, "vcpus": 2}
    spec = hypervisor_world.instance("lxc", "web1", hvparams=hvparams, nics=given, beparams=beparams)
    return configuration(spec, spec.hvparams, PLACES, groups, last_capability=40).splitlines()


def test_limits_are_those_of_the_hierarchies_there_are() -> None:
    old, new = lines(OLD, cpu_mask="0-1,3"), lines(NEW, cpu_mask="0-1,3")
    assert "lxc.cgroup.memory.limit_in_bytes = 67108864" in old and "lxc.cgroup2.memory.max = 67108864" in new
    assert "lxc.cgroup.cpu.cfs_quota_us = 200000" in old and "lxc.cgroup2.cpu.max = 200000 100000" in new
    assert "lxc.cgroup.cpuset.cpus = 0,1,3" in old and "lxc.cgroup2.cpuset.cpus = 0,1,3" in new
    for found, prefix in ((old, "lxc.cgroup"), (new, "lxc.cgroup2")):
        devices = [line for line in found if ".devices." in line]
        assert devices[:2] == [f"{prefix}.devices.deny = a", f"{prefix}.devices.allow = c 1:3 rw"]


def test_nics_are_pairs_with_the_instances_addresses() -> None:
    found = lines(nics=2)
    assert "lxc.net.1.hwaddr = aa:00:00:00:00:02" in found
    devices = [line.split(" = ")[1] for line in found if ".veth.pair" in line]
    assert len(set(devices)) == 2 and all(len(device) <= 15 for device in devices)
    assert devices[0] == device_of(hypervisor_world.nic(0))


@pytest.mark.parametrize("given", ["", "sys_time", "chown,sys_boot"])
def test_what_gives_the_node_away_is_always_dropped(given: str) -> None:
    [line] = [line for line in lines(drop_capabilities=given) if line.startswith("lxc.cap.drop")]
    dropped = set(line.split(" = ")[1].split())
    assert dropped == ALWAYS_DROPPED | set(filter(None, given.split(",")))
    assert {"sys_admin", "sys_module", "mac_override", "sys_time", "sys_boot", "sys_rawio"} <= dropped
    assert set(CAPABILITIES) >= ALWAYS_DROPPED


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("extra_config", "lxc.hook.start-host = /bin/sh"),
        ("extra_config", "lxc.hook.pre-mount=/bin/sh"),
        ("extra_config", "lxc.mount.entry = / root none bind"),
        ("extra_config", "lxc.mount.auto = proc:rw"),
        ("extra_config", "lxc.mount.fstab = /etc/x"),
        ("extra_config", "lxc.rootfs.path = /"),
        ("extra_config", "lxc.include = /tmp/x"),
        ("extra_config", "lxc.cap.drop ="),
        ("extra_config", "lxc.cap.keep = sys_admin"),
        ("extra_config", "lxc.apparmor.profile = unconfined"),
        ("extra_config", "lxc.seccomp.profile = /dev/null"),
        ("extra_config", "lxc.console.logfile = /etc/passwd"),
        ("extra_config", "lxc.net.0.script.up = /tmp/x"),
        ("extra_config", "lxc.namespace.share.pid = 1"),
        ("extra_config", "lxc.sysctl.kernel.core_pattern = x"),
        ("extra_config", "lxc.cgroup.devices.allow = a"),
        ("extra_config", "lxc.cgroup2.memory.max = 1000"),
        ("extra_config", "lxc.prlimit.core = 1, lxc.hook.stop = /x"),
        ("extra_config", "lxc.prlimit.core = 1\nlxc.hook.stop = /x"),
        ("extra_config", "lxc.environment = A=1\rlxc.hook.stop = /x"),
        ("extra_config", "LXC.HOOK.STOP = /x"),
        ("extra_config", "nonsense"),
        ("extra_config", "lxc.init.cwd = /tmp"),
        ("extra_config", "lxc.init.cmd = /proc/self/exe"),
        ("extra_config", "lxc.init.cmd = /sbin/..//proc/self/exe"),
        ("extra_config", "lxc.init.cmd = sbin/init"),
        ("devices", "b 8:0 rw"),
        ("devices", "c 1:1 rw"),
        ("devices", "c *:* rwm"),
        ("devices", "c 1:3 rwm"),
        ("devices", "a"),
        ("devices", "c 1:3 rw\nlxc.hook.stop = /x"),
        ("drop_capabilities", "sys_time keep"),
        ("drop_capabilities", "none"),
        ("extra_cgroups", "../x"),
        ("cpu_mask", "0:1"),
        ("num_ttys", -1),
    ],
)
def test_no_value_reaches_beyond_the_container(name: str, value: object) -> None:
    with pytest.raises(TypeEnforcementError, match=name):
        accept_all(PARAMETERS, {name: value}, "hypervisor")
    driver = Hypervisor.registry["lxc"](NodeOnDisk(Path("/nonexistent")))
    with pytest.raises((TypeEnforcementError, HypervisorError)):  # the node trusts no master
        asyncio.run(driver.check_parameters({name: value}))


def test_settings_that_act_inside_are_taken() -> None:
    given = "lxc.prlimit.nofile = 1024, lxc.environment = LANG=C.UTF-8,lxc.sysctl.net.ipv4.ip_forward=1"
    accept_all(PARAMETERS, {"extra_config": given}, "hypervisor")
    accept_all(PARAMETERS, {"extra_config": "lxc.init.cmd = /usr/lib/systemd/systemd --log-level=info"}, "hypervisor")
    assert lines(extra_config=given)[-3:] == [
        *("lxc.prlimit.nofile = 1024", "lxc.environment = LANG=C.UTF-8", "lxc.sysctl.net.ipv4.ip_forward = 1"),
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="the file is root's")
def test_root_of_the_node_adds_what_nobody_else_may(tmp_path: Path) -> None:
    places = Places(Paths(str(tmp_path)))
    spec = hypervisor_world.instance("lxc", "web1")
    own = Path(places.roots_own("web1"))
    assert roots_own(places, spec) == ""
    own.parent.mkdir(parents=True)
    for elsewhere in ("lxc.cap.drop =", "# instance 0f0b7f0e-54d1-44a8-9c35-6d4a5f7d8e01\nlxc.cap.drop ="):
        own.write_text(elsewhere)
        with pytest.raises(HypervisorError, match=f"adds the line '# instance {spec.uuid}' to it"):
            roots_own(places, spec)
    text = f"# instance {spec.uuid}\nlxc.cap.drop ="
    own.write_text(text)
    assert roots_own(places, spec) == f"{text}\n"
    own.chmod(0o666)
    with pytest.raises(HypervisorError, match="writable by root alone"):
        roots_own(places, spec)
    own.chmod(0o644)
    os.chown(own, 1000, 1000)
    with pytest.raises(HypervisorError, match="writable by root alone"):
        roots_own(places, spec)
    own.unlink()
    own.symlink_to("/etc/passwd")
    with pytest.raises(HypervisorError, match="Cannot read"):
        roots_own(places, spec)


def test_a_node_without_apparmor_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enabled = tmp_path / "enabled"
    monkeypatch.setattr("ganeti.node.hypervisors.lxc.driver.APPARMOR", str(enabled))
    hypervisor = Hypervisor.registry["lxc"](NodeOnDisk(tmp_path))
    for text in ("N\n", None):
        enabled.write_text(text) if text else enabled.unlink()
        [sentence] = hypervisor.cautions()
        assert sentence.startswith("AppArmor is off on this node")
    enabled.write_text("Y\n")
    assert hypervisor.cautions() == Hypervisor.registry["chroot"](NodeOnDisk(tmp_path)).cautions() == []


def test_hierarchies_are_read_from_the_mounts(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    (tmp_path / "u").mkdir()
    (tmp_path / "u/cgroup.controllers").write_text("memory pids\n")
    mounts.write_text(
        "30 1 0:1 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
        f"31 1 0:2 / {tmp_path}/u rw - cgroup2 cgroup2 rw\n"
        "32 1 0:3 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices\n"
    )
    found = control_groups.hierarchies(str(mounts))
    assert [found.version(name) for name in ("cpu", "cpuacct", "devices", "memory", "cpuset")] == [1, 1, 1, 2, 0]
    assert NEW.version("devices") == 2
