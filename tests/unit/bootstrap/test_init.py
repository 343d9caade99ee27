# SPDX-License-Identifier: BSD-2-Clause
"""Making a cluster: what is refused, what is written, and that nothing stays when it fails."""

from __future__ import annotations

import fcntl
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import pretend_machine as pretend

from ganeti.base.errors import CommandError, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.bootstrap import init, init_checks
from ganeti.bootstrap.init_checks import check
from ganeti.bootstrap.machine import Machine
from ganeti.master.config.invariants import verify_all
from ganeti.model.configuration import Configuration
from ganeti.model.hypervisors import PARAMETERS_OF_3_1
from ganeti.model.templates import IN_BUILT_IN_POLICY
from ganeti.node import certificates

OPTIONS: dict[str, Any] = {
    "cluster_name": "cluster",
    "master_netdev": "eth0",
    "enabled_hypervisors": ["pretend"],
    "enabled_disk_templates": ["local", "none"],
}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = pretend.make(tmp_path)
    monkeypatch.setattr(init.Machine, "here", classmethod(lambda cls: made))
    monkeypatch.setattr(init, "build_catalogue", pretend.catalogue)
    monkeypatch.setattr(init, "wait_for_node_daemon", lambda paths, address, timeout_s: None)
    monkeypatch.setattr(init, "_wait_for_master_daemon", lambda machine: None)
    return made


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"enabled_hypervisors": ["xyz"]}, "Unknown hypervisor 'xyz': there are pretend"),
        ({"enabled_hypervisors": []}, "At least one hypervisor"),
        ({"enabled_disk_templates": ["abc"]}, "Unknown disk template 'abc'"),
        ({"enabled_disk_templates": ["none", "none"]}, "given twice"),
        ({"primary_ip_version": 5}, "it is 4 or 6"),
        ({"cluster_name": "nowhere"}, "The name 'nowhere' has no IPv4 address"),
        ({"cluster_name": "node1"}, "a cluster needs a name and address of its own"),
        ({"secondary_ip": "10.1.1.1"}, "not an address of this machine"),
        ({"secondary_ip": "fe80::1"}, "not an IPv4 address"),
        ({"secondary_ip": "nonsense"}, "not an IPv4 address"),
        ({"master_netmask": 33}, "from 1 to 32"),
        ({"master_netdev": "eth9"}, "'eth9' does not exist here"),
        ({"vg_name": "data"}, "would not be used"),
        ({"drbd_helper": "/bin/true"}, "would not be used"),
        ({"enabled_disk_templates": ["volumes"], "vg_name": "no-such-group"}, "no-such-group"),
        ({"file_storage_dir": "relative"}, "absolute path"),
        ({"file_storage_dir": "/etc/disks"}, "cannot hold a disk"),
        ({"mac_prefix": "aa:bb"}, "three bytes"),
        ({"mac_prefix": "ab:00:00"}, "first byte must be even"),
        ({"hvparams": {"pretend": {"colour": "red"}}}, "colour"),
        ({"hvparams": {"xyz": {}}}, "Parameters for 'xyz'"),
        ({"beparams": {"vcpus": "many"}}, "vcpus"),
        ({"beparams": {"maxmem": "64", "minmem": "128"}}, "minmem (128) is above maxmem (64)"),
        ({"nicparams": {"mode": "flying"}}, "flying"),
        ({"ndparams": {"speed": 1}}, "Unknown node parameter"),
        ({"hv_state": {"xyz": {}}}, "Unknown hypervisor 'xyz'"),
        ({"disk_state": {"plain": {"data": {"disk_moon": 1}}}}, "Unknown disk state parameter 'disk_moon'"),
        ({"ipolicy": {"std": {"disk-size": 4000000}}}, "outside every pair of bounds"),
        ({"ipolicy": {"std": {"hat-size": 4}}}, "unknown key 'hat-size'"),
        ({"ipolicy": {"disk-templates": ["volumes"]}}, "volumes"),
        ({"ipolicy": {"vcpu-ratio": 0.5}}, "at least 1"),
        ({"specs_mem_size": {"min": "1g"}, "ipolicy": {"std": {"memory-size": 1}}}, "exclude each other"),
        ({"candidate_pool_size": 0}, "the least is 1"),
        ({"gluster_storage_dir": "/mnt/gluster"}, "no disk template here has its gluster_storage_dir"),
        ({"uid_pool": [[5, 1]]}, "5-1 cannot be used"),
        ({"uid_pool": [[0, 5]]}, "0-5 cannot be used"),
        ({"compression_tools": ["lzop"]}, "The compression tool gzip cannot be left out"),
        ({"default_iallocator": "oracle"}, "'oracle' was not found"),
        ({"ssh_key_type": "dsa"}, "OpenSSH does not take it"),
        ({"ssh_key_type": "rsa", "ssh_key_bits": 10}, "10 bits"),
        ({"install_image": "image"}, "cannot be the install image: give an absolute path"),
    ],
)
def test_refusals_are_one_sentence_and_change_nothing(
    machine: Any, tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    if options.get("vg_name") == "no-such-group":
        machine.run = lambda argv, **_: subprocess.CompletedProcess(argv, 5, "", "not found")
    before = pretend.tree(tmp_path)
    with pytest.raises(PrerequisiteError) as caught:
        init.init_cluster(OPTIONS | options)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert pretend.tree(tmp_path) == before
    assert machine.told == []


def test_a_host_of_ipv6_alone_is_told_which_option_it_needs(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(name: str, version: int) -> tuple[str, str]:
        if version == 4:
            raise PrerequisiteError(f"The name '{name}' has no IPv4 address")
        return name, "fd77::1"

    monkeypatch.setattr(machine, "resolve", resolve)
    with pytest.raises(PrerequisiteError, match=r"IPv6 alone, fd77::1: add --primary-ip-version 6"):
        init.init_cluster(OPTIONS)


@pytest.mark.requirement("S1.96", "S1.98")
@pytest.mark.parametrize(
    ("secondary", "recorded"), [("10.99.0.1", "10.99.0.1"), ("fd77::1", "fd77::1"), ("fd77:0::1", "fd77::1")]
)
def test_primary_addresses_may_be_ipv6(machine: Any, secondary: str, recorded: str) -> None:
    """Hybrid with an IPv4 secondary address; IPv6 alone where the primary one is named again."""
    machine.names |= {"node1": "fd77::1", "cluster": "fd77::100"}
    machine.own.add("fd77::1")
    ipv6 = OPTIONS | {"primary_ip_version": 6}
    found = check(ipv6 | {"secondary_ip": secondary}, machine, pretend.catalogue())
    assert (found.primary_ip, found.secondary_ip, found.master_ip) == ("fd77::1", recorded, "fd77::100")
    assert found.master_netmask == 128
    for wrong, sentence in ((None, "give it with -s"), ("fd77::2", "not an IPv4 address")):
        with pytest.raises(PrerequisiteError, match=sentence):
            check(ipv6 | {"secondary_ip": wrong}, machine, pretend.catalogue())


@pytest.mark.requirement("S1.96")
def test_the_address_that_stands_for_all_is_no_machines_own() -> None:
    """A daemon can listen there, so a secondary address 0.0.0.0 would be taken for one of this machine."""
    machine = Machine()
    assert machine.owns("127.0.0.1")
    for strange in ("0.0.0.0", "::", "192.0.2.77", "2001:db8::77"):
        assert not machine.owns(strange), strange


def test_an_address_in_use_is_refused(machine: Any) -> None:
    machine.in_use.add("10.77.0.100")
    with pytest.raises(PrerequisiteError, match="in use already"):
        check(OPTIONS, machine, pretend.catalogue())


def test_loopback_addresses_are_refused_on_a_real_machine(machine: Any) -> None:
    machine.paths = Paths("")
    with pytest.raises(PrerequisiteError, match=r"'local' resolves to the loopback address 127\.0\.0\.1"):
        init_checks._master_address({"cluster_name": "local"}, machine, 4, "node1", "10.77.0.1")
    machine.names["node1"] = "127.0.1.1"
    with pytest.raises(PrerequisiteError, match=r"loopback address 127\.0\.1\.1"):
        init_checks._own_address(machine, 4)


def test_remains_of_a_cluster_are_refused(machine: Any, tmp_path: Path) -> None:
    queue = tmp_path / "var/lib/ganeti/queue"
    queue.mkdir(parents=True)
    (queue / "job-1").write_text("{}")
    with pytest.raises(PrerequisiteError, match=r"queue directory .* is not empty"):
        check(OPTIONS, machine, pretend.catalogue())
    (queue.parent / "config.data").write_text("{}")
    with pytest.raises(PrerequisiteError, match="has a cluster already"):
        check(OPTIONS, machine, pretend.catalogue())


def test_a_node_of_another_cluster_is_refused(machine: Any, tmp_path: Path) -> None:
    """A regular node has neither configuration nor queue, but keys and instances."""
    data = tmp_path / "var/lib/ganeti"
    data.mkdir(parents=True, exist_ok=True)
    (data / "ssconf_cluster_name").write_text("other\n")
    with pytest.raises(PrerequisiteError, match="is a node of a cluster"):
        check(OPTIONS, machine, pretend.catalogue())


def test_an_interrupted_init_takes_everything_away_again(
    machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pretend.tree(tmp_path)

    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(init, "_wait_for_master_daemon", interrupt)
    with pytest.raises(KeyboardInterrupt):
        init.init_cluster(OPTIONS)
    assert machine.told[-1] == "stop-all"
    assert pretend.tree(tmp_path) == before


def test_the_watcher_is_kept_away_meanwhile(machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that starts the daemons in between made init fail, and left the cluster's address on the machine."""

    def locked() -> bool:
        with (tmp_path / "run/lock/ganeti-watcher.lock").open("r+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    seen: list[bool] = []
    monkeypatch.setattr(init, "_wait_for_master_daemon", lambda machine: seen.append(locked()))
    init.init_cluster(OPTIONS)
    assert seen == [True]
    assert not locked()


def test_a_machine_without_host_keys_is_refused(machine: Any, tmp_path: Path) -> None:
    (tmp_path / "etc/ssh/ssh_host_ed25519_key.pub").unlink()
    with pytest.raises(PrerequisiteError, match="No ssh host key"):
        check(OPTIONS, machine, pretend.catalogue())


def test_what_a_cluster_begins_with(machine: Any, tmp_path: Path) -> None:
    init.init_cluster(OPTIONS | {"beparams": {"memory": "256m"}, "hvparams": {"pretend": {"kernel": "/boot/other"}}})
    data = tmp_path / "var/lib/ganeti"
    plain = json.loads((data / "config.data").read_text())
    config = Configuration.from_plain(plain)
    assert verify_all(config) == []
    assert (plain["version"], plain["serial_no"]) == (3010000, 1)
    cluster = config.cluster
    assert cluster.beparams["default"]["maxmem"] == cluster.beparams["default"]["minmem"] == 256
    assert cluster.hvparams["pretend"] == {"kernel": "/boot/other"}
    assert set(cluster.hvparams) == {*PARAMETERS_OF_3_1, "pretend"}
    assert set(IN_BUILT_IN_POLICY) <= set(cluster.diskparams)
    assert (cluster.diskparams["plain"], cluster.diskparams["drbd"]["resync-rate"]) == ({"stripes": 1}, 61440)
    assert [(group["name"], group["members"]) for group in plain["nodegroups"].values()] == [("default", [])]
    node = config.find_node("node1")
    assert (node.uuid, node.master_candidate) == (cluster.master_node, True)
    pem = (data / "client.pem").read_text()
    assert cluster.candidate_certs == {node.uuid: certificates.digest(pem)}
    assert (data / "ssconf_master_candidates_certs").read_text() == f"{node.uuid}={certificates.digest(pem)}\n"
    assert machine.told == ["stop-all", "start ganeti-noded", "start-all"]
    modes = {path.name: path.stat().st_mode & 0o777 for path in data.iterdir() if not path.name.startswith("ssconf")}
    assert modes == {
        "ca.key": 0o400,
        "ca.pem": 0o444,
        "client.pem": 0o440,
        "cluster-domain-secret": 0o600,
        "config.data": 0o640,
        "ganeti_pub_keys": 0o600,
        "hmac.key": 0o440,
        "known_hosts": 0o644,
        "queue": 0o700,
        "server.pem": 0o440,
    }
    assert (tmp_path / "srv/ganeti/file-storage").stat().st_mode & 0o777 == 0o750
    assert "node1" in (tmp_path / "etc/hosts").read_text()
    public = (tmp_path / "root/.ssh/id_rsa.pub").read_text()
    assert public.endswith(" root@node1\n")
    assert public.strip() in (tmp_path / "root/.ssh/authorized_keys").read_text()


def test_ssh_and_names_can_be_left_alone(machine: Any, tmp_path: Path) -> None:
    hosts, keys = (tmp_path / "etc/hosts").read_bytes(), (tmp_path / "root/.ssh/authorized_keys").read_bytes()
    init.init_cluster(OPTIONS | {"modify_etc_hosts": False, "modify_ssh_setup": False})
    assert (tmp_path / "etc/hosts").read_bytes() == hosts
    assert (tmp_path / "root/.ssh/authorized_keys").read_bytes() == keys
    assert not (tmp_path / "root/.ssh/id_rsa").exists()


def test_a_failed_start_takes_everything_away_again(machine: Any, tmp_path: Path) -> None:
    before = pretend.tree(tmp_path)
    machine.broken.add("start-all")

    def leave_traces(*words: str, timeout_s: float = 0.0) -> None:
        data = tmp_path / "var/lib/ganeti"
        if words == ("start-all",):  # what daemons leave behind
            (data / "config.sqlite").write_text("x")
            (data / "queue" / "serial").write_text("1")
        pretend.PretendMachine.daemon_util(machine, *words)

    machine.daemon_util = leave_traces
    with pytest.raises(CommandError, match="start-all"):
        init.init_cluster(OPTIONS)
    assert machine.told[-1] == "stop-all"
    after = pretend.tree(tmp_path)
    assert {path for path, (mode, _) in after.items() if path not in before} == set()
    assert after == before


@pytest.mark.requirement("S5.7")
def test_the_default_allocator_is_hail(machine: Any, tmp_path: Path) -> None:
    program = tmp_path / "usr/lib/ganeti/iallocators/hail"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    init.init_cluster(OPTIONS)
    plain = json.loads((tmp_path / "var/lib/ganeti/config.data").read_text())
    assert plain["cluster"]["default_iallocator"] == "hail"
