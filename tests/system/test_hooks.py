# SPDX-License-Identifier: BSD-2-Clause
"""Hook scripts on real daemons: every directory of every node has one that writes down what it was told."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed, cluster, machine
from ganeti.tools.testbed.layout import GUEST_BRIDGE

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
PATHS = (
    *("node-add", "node-remove", "node-modify", "node-migrate", "group-modify", "cluster-init", "cluster-modify"),
    *("cluster-verify", "instance-add", "instance-start", "instance-stop", "instance-reboot", "instance-failover"),
    *("instance-modify", "instance-reinstall", "instance-rename"),
    *("instance-migrate", "instance-remove", "master-ip-turnup", "master-ip-turndown", "watcher", "config-update"),
)
TOLD = "/var/lib/hooks-told"
SCRIPT = f"""#!/bin/sh
env | grep ^GANETI_ > {TOLD}/$GANETI_HOOKS_PATH-$GANETI_HOOKS_PHASE
test ! -e {TOLD}/refuse-$GANETI_HOOKS_PATH-$GANETI_HOOKS_PHASE || {{ echo not now; exit 1; }}
"""
LAN = {
    "uuid": "11111111-2222-4333-8444-555555555555",
    "name": "lan",
    "network": "10.9.0.0/24",
    "gateway": "10.9.0.1",
    "mac_prefix": "aa:bb:cc",
    "tags": ["blue"],
    "serial_no": 1,
    "ctime": 1.0,
    "mtime": 1.0,
}


class HookBed(FakeBed):
    """What the scripts of each node were told since it was last asked."""

    def write_scripts(self) -> None:
        directories = " ".join(f"/etc/ganeti/hooks/{path}-{phase}.d" for path in PATHS for phase in ("pre", "post"))
        text = (
            f"mkdir -p {TOLD} {directories}; for d in {directories}; do printf %s {shlex.quote(SCRIPT)} > $d/10-env; "
            "chmod 755 $d/10-env; done"
        )
        for node in self.layout.nodes:
            self.run("sh", "-c", text, node=node.name)

    def told(self, node: str, name: str) -> dict[str, str]:
        """Variables of the last run of PATH-PHASE, which is then forgotten; empty if it did not run."""
        text = self.run("sh", "-c", f"cat {TOLD}/{name} 2>/dev/null && rm {TOLD}/{name}; true", node=node)
        return dict(line.removeprefix("GANETI_").split("=", 1) for line in text.splitlines() if "=" in line)

    def ran(self, node: str) -> set[str]:
        """Which directories ran on a node and have not been asked for."""
        return set(self.run("sh", "-c", f"ls {TOLD}; rm -f {TOLD}/*", node=node).split())


@pytest.fixture(scope="module")
def hooked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HookBed]:
    """A cluster of three nodes, whose first two have joined with the scripts in place."""
    layout = bed.up(tmp_path_factory.mktemp("hooks").resolve(), 3, "fake", watcher_interval_s=86400)
    try:
        made = HookBed(layout)
        made.write_scripts()
        made.run(*cluster.init_command(layout))
        yield made
    finally:
        bed.down(layout)


def picked(env: dict[str, str], *names: str) -> tuple[str | None, ...]:
    return tuple(env.get(name) for name in names)


def test_the_first_hooks_of_a_cluster(hooked: HookBed) -> None:
    """The address comes up with its hooks, then those of the new cluster run."""
    for phase in ("pre", "post"):
        env = hooked.told("node1", f"master-ip-turnup-{phase}")
        assert picked(env, "HOOKS_PHASE", "OP_CODE", "CLUSTER", "MASTER", "HOOKS_VERSION") == (
            *(phase, "OP_CLUSTER_IP_TURNUP", "cluster", "node1", "2"),
        )
        assert picked(env, "MASTER_NETMASK", "CLUSTER_IP_VERSION") == (
            ("24", "4") if hooked.layout.ip == "4" else ("64", "6")
        )
        assert env["MASTER_NETDEV"] in ("eth0", "lo") and env["MASTER_IP"] == hooked.layout.cluster_address
    env = hooked.told("node1", "cluster-init-post")
    assert picked(env, "OP_CODE", "OBJECT_TYPE", "OP_TARGET") == ("OP_CLUSTER_POST_INIT", "CLUSTER", "cluster")


def test_a_node_joins(hooked: HookBed) -> None:
    for name in ("node2", "node3"):
        hooked.run(*cluster.add_command(hooked.layout.node(name)))
        assert "node-add-pre" not in hooked.ran(name)
        assert hooked.told("node1", "node-add-pre")["NODE_NAME"] == name
        env = hooked.told("node1", "node-add-post")
        assert picked(env, "NODE_NAME", "POST_NODE_NAME", "POST_VM_CAPABLE", "POST_OP_TARGET") == (
            *(name, name, "True", name),
        )
    hooked.run("gnt-node", "modify", "--drained=yes", "node3")
    for node in ("node1", "node3"):
        env = hooked.told(node, "node-modify-post")
        assert picked(env, "DRAINED", "MASTER_CANDIDATE", "OFFLINE") == ("True", "None", "None")
        assert picked(env, "POST_DRAINED", "POST_MASTER_CANDIDATE", "POST_OFFLINE") == ("True", "False", "False")
    hooked.run("gnt-node", "modify", "--drained=no", "node3")


def test_an_instance_is_told_as_it_has_become(hooked: HookBed) -> None:
    add = ("gnt-instance", "add", "-n", "node1", "-o", "noop+default", "-t", "sharedfile", "-s", "8m")
    hooked.run(*add, "--net", "0:ip=none", "web1")
    assert "POST_INSTANCE_NAME" not in hooked.told("node1", "instance-add-pre")
    env = hooked.told("node1", "instance-add-post")
    assert picked(env, "POST_INSTANCE_STATUS", "POST_INSTANCE_PRIMARY", "ADD_MODE") == ("True", "node1", "create")
    hooked.run("gnt-instance", "shutdown", "web1")
    env = hooked.told("node1", "instance-stop-post")
    assert picked(env, "INSTANCE_STATUS", "POST_INSTANCE_STATUS", "POST_TIMEOUT") == ("up", "down", "120")
    hooked.run("gnt-instance", "startup", "web1")
    env = hooked.told("node1", "instance-start-post")
    assert picked(env, "INSTANCE_STATUS", "POST_INSTANCE_STATUS") == ("down", "up")
    moves = (
        ("failover", "instance-failover-post", "node1", "node2"),
        ("migrate", "instance-migrate-post", "node2", "node1"),
    )
    for command, post, old, new in moves:
        hooked.run("gnt-instance", command, "-f", "-n", new, "web1")
        for node in ("node1", "node2"):
            env = hooked.told(node, post)
            assert picked(env, "INSTANCE_PRIMARY", "POST_INSTANCE_PRIMARY", "NEW_PRIMARY") == (old, new, new), node
    hooked.run("gnt-instance", "reboot", "web1")
    assert hooked.told("node1", "instance-reboot-post")["POST_REBOOT_TYPE"] == "hard"


def test_what_a_node_refuses_runs_no_hook(hooked: HookBed) -> None:
    """As with Debian's 3.0.2: all that is checked is checked before the pre hooks."""
    add = ("gnt-instance", "add", "-n", "node1", "-t", "sharedfile", "-s", "8m", "--no-start")
    hooked.run(*add, "-o", "noop+default", "--no-nics", "web2")
    missing, memory = "environment_error", "insufficient_resources"
    (volume,) = [each["logical_id"][1] for each in hooked.config()["disks"].values() if "/web2/" in str(each)]
    taken = volume.replace("/web2/", "/web3/")
    hooked.run("sh", "-c", f"mkdir -p $(dirname {taken}) && touch {taken}")
    for node in ("node1", "node2", "node3"):
        hooked.ran(node)
    for command, code in (
        ((*add, "-o", "noop+default", "--net", "0:link=nobr", "web4"), missing),
        ((*add[:-1], "-o", "noop+default", "--no-nics", "-B", "memory=32768", "web4"), memory),
        ((*add, "-o", "nosuch", "--no-nics", "web4"), "unknown_entity"),
        (("gnt-instance", "modify", "--net", "add:link=nobr", "web2"), missing),
        (("gnt-instance", "modify", "-O", "x=1", "web2"), "wrong_input"),
        (("gnt-instance", "modify", "-B", "maxmem=32768", "--ignore-ipolicy", "web2"), memory),
        (("gnt-instance", "startup", "-B", "minmem=32768,maxmem=32768", "web2"), memory),
        (("gnt-instance", "reinstall", "-f", "-o", "nosuch", "web2"), "unknown_entity"),
        (("gnt-instance", "rename", "web2", "web3"), "wrong_state"),
    ):
        assert f"error type: {code}" in hooked.run(*command, expect=1), command
        assert not (hooked.ran("node1") - {"config-update-post"}), command
    hooked.run("rm", taken)
    hooked.run("ip", "link", "set", GUEST_BRIDGE, "down", node="node3")
    hooked.run("ip", "link", "set", GUEST_BRIDGE, "name", "away", node="node3")
    for verb in ("failover", "migrate"):
        assert missing in hooked.run("gnt-instance", verb, "-f", "-n", "node3", "web1", expect=1)
        assert not (hooked.ran("node1") - {"config-update-post"}), verb
    hooked.run("ip", "link", "set", "away", "name", GUEST_BRIDGE, node="node3")
    hooked.run("ip", "link", "set", GUEST_BRIDGE, "up", node="node3")
    hooked.run("gnt-instance", "remove", "-f", "web2")
    hooked.run("gnt-node", "modify", "--offline=yes", "node3")
    hooked.run("daemon-util", "stop", "ganeti-noded", node="node3")
    hooked.ran("node1")
    said = hooked.run("gnt-node", "modify", "--offline=no", "node3", expect=1)
    assert missing in said and "being de-offlined but fails the version check" in said
    assert not (hooked.ran("node1") - {"config-update-post"})
    hooked.run("daemon-util", "start", "ganeti-noded", node="node3")
    hooked.run("gnt-node", "modify", "--offline=no", "node3")
    for node in ("node1", "node2", "node3"):
        hooked.ran(node)


def test_groups_and_the_cluster_are_told_as_they_have_become(hooked: HookBed) -> None:
    hooked.run("gnt-group", "modify", "--alloc-policy=last_resort", "default")
    env = hooked.told("node1", "group-modify-post")
    assert picked(env, "GROUP_NAME", "POST_NEW_ALLOC_POLICY") == ("default", "last_resort")
    hooked.run("gnt-cluster", "modify", "--max-running-jobs=19")
    env = hooked.told("node1", "cluster-modify-post")
    assert picked(env, "NEW_VG_NAME", "POST_NEW_VG_NAME", "OBJECT_TYPE") == ("None", "None", "CLUSTER")
    hooked.run("gnt-cluster", "add-tags", "green")
    hooked.run("gnt-cluster", "verify")
    for node in ("node1", "node2", "node3"):
        env = hooked.told(node, "cluster-verify-post")
        assert picked(env, "CLUSTER_TAGS", "POST_CLUSTER_TAGS", "NODE_TAGS_node2") == ("green", "green", "")
    hooked.run("gnt-cluster", "remove-tags", "green")


def test_the_address_goes_and_comes_with_its_hooks_which_may_refuse(hooked: HookBed) -> None:
    hooked.ran("node1")
    hooked.run("touch", f"{TOLD}/refuse-master-ip-turndown-pre")
    said = hooked.run("gnt-cluster", "deactivate-master-ip", "--yes", expect=1)
    assert "Hooks refused it: script master-ip-turndown-pre.d/10-env: not now" in said
    assert hooked.ran("node1") >= {"master-ip-turndown-pre"}
    hooked.run("gnt-cluster", "deactivate-master-ip", "--yes")
    env = hooked.told("node1", "master-ip-turndown-post")
    assert picked(env, "OP_CODE", "HOOKS_PATH") == ("OP_CLUSTER_IP_TURNDOWN", "master-ip-turndown")
    assert hooked.ran("node1") & {"master-ip-turndown-pre", "master-ip-turnup-post"} == {"master-ip-turndown-pre"}
    hooked.run("gnt-cluster", "activate-master-ip")
    assert hooked.told("node1", "master-ip-turnup-post")["MASTER_IP"] == env["MASTER_IP"]
    hooked.run("gnt-cluster", "activate-master-ip")
    assert not hooked.told("node1", "master-ip-turnup-post"), "the address was up: nothing was done"


def test_the_watcher_runs_its_hooks_on_every_node(hooked: HookBed) -> None:
    hooked.run("touch", f"{TOLD}/refuse-watcher-pre")
    for node in ("node1", "node2"):
        hooked.run("ganeti-watcher", node=node)
        for phase in ("pre", "post"):
            env = hooked.told(node, f"watcher-{phase}")
            assert picked(env, "HOOKS_PHASE", "HOOKS_PATH", "CLUSTER", "MASTER") == (
                phase,
                "watcher",
                "cluster",
                "node1",
            )
            assert "OP_CODE" not in env
    assert "hook watcher-pre.d/10-env failed: not now" in hooked.run("cat", "/var/log/ganeti/watcher.log")
    hooked.run("gnt-cluster", "watcher", "pause", "1h")
    hooked.ran("node1")
    hooked.run("ganeti-watcher")
    assert not hooked.ran("node1") & {"watcher-pre", "watcher-post"}
    hooked.run("gnt-cluster", "watcher", "continue")


def test_a_nic_in_a_network_is_told_with_all_of_it(hooked: HookBed) -> None:
    """No command puts an instance into a network yet: the configuration of another release may have them."""
    hooked.run("daemon-util", "stop-master")
    path = hooked.data("node1") / "config.data"
    config = json.loads(path.read_text())
    config["networks"][LAN["uuid"]] = LAN
    (instance,) = config["instances"].values()
    instance["nics"][0] |= {"network": LAN["uuid"], "ip": "10.9.0.7"}
    (group,) = config["nodegroups"].values()
    group["networks"] = {LAN["uuid"]: {"mode": "bridged", "link": GUEST_BRIDGE, "vlan": ""}}
    hooked.run("sh", "-c", f"cat > /var/lib/ganeti/config.data.new <<'END'\n{json.dumps(config)}\nEND")
    hooked.run("sh", "-c", "mv /var/lib/ganeti/config.data.new /var/lib/ganeti/config.data")
    hooked.run("sh", "-c", "rm -f /var/lib/ganeti/config.sqlite*")
    hooked.run("daemon-util", "start-master")
    hooked.run("gnt-instance", "shutdown", "web1")
    for prefix in ("", "POST_"):
        found = {
            key.removeprefix(f"{prefix}INSTANCE_NIC0_"): value
            for key, value in hooked.told("node1", f"instance-stop-{'post' if prefix else 'pre'}").items()
            if key.startswith(f"{prefix}INSTANCE_NIC0_NETWORK")
        }
        assert found == {
            "NETWORK": LAN["uuid"],
            "NETWORK_NAME": "lan",
            "NETWORK_UUID": LAN["uuid"],
            "NETWORK_SUBNET": "10.9.0.0/24",
            "NETWORK_GATEWAY": "10.9.0.1",
            "NETWORK_MAC_PREFIX": "aa:bb:cc",
            "NETWORK_TAGS": "blue",
        }


def test_what_goes_is_told_as_it_was(hooked: HookBed) -> None:
    hooked.run("gnt-instance", "remove", "-f", "web1")
    env = hooked.told("node1", "instance-remove-post")
    assert picked(env, "INSTANCE_NAME", "POST_INSTANCE_NAME") == ("web1", "web1")
    hooked.ran("node3")
    hooked.run("gnt-node", "remove", "node3")
    for node in ("node1", "node2", "node3"):
        env = hooked.told(node, "node-remove-post")
        assert picked(env, "NODE_NAME", "POST_NODE_NAME", "MASTER") == ("node3", "node3", "node1"), node
    assert hooked.ran("node3") & {f"node-remove-{phase}" for phase in ("pre", "post")} == set(), "once, and no pre hook"


def test_a_machine_without_hooks_has_none(hooked: HookBed) -> None:
    """Nothing of all this is left running or wrong."""
    machine.run(hooked.layout, "node1", "sh", "-c", "rm -rf /etc/ganeti/hooks", timeout_s=60)
    hooked.run("ganeti-watcher")
    assert "ERROR" not in hooked.run("gnt-cluster", "verify")
