# SPDX-License-Identifier: BSD-2-Clause
"""Each rule of the configuration, broken once; the sentence names the object."""

import re

import pytest

from ganeti.master.config.invariants import verify_all
from ganeti.model.configuration import Configuration

NODE1, NODE2, NODE3 = (f"0000002{i}-0000-4000-8000-00000000002{i}" for i in range(3))
GROUP = "00000010-0000-4000-8000-000000000010"
WEB1, WEB2, WEB3 = (f"0000004{i}-0000-4000-8000-00000000004{i}" for i in range(3))
DRBD, DATA, LOGS, FILE = (f"0000005{i}-0000-4000-8000-00000000005{i}" for i in range(4))


def change(data: dict, path: str, value: object) -> None:
    *parents, last = path.split("/")
    for part in parents:
        data = data[int(part)] if isinstance(data, list) else data[part]
    data[int(last) if isinstance(data, list) else last] = value


def test_the_sample_is_sound(golden):
    assert verify_all(Configuration.from_plain(golden)) == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("cluster/enabled_hypervisors", [], "The cluster has no enabled hypervisor"),
        ("cluster/enabled_hypervisors", ["kvm", "lxc"], "The enabled hypervisor lxc has no parameters"),
        ("cluster/enabled_disk_templates", [], "The cluster has no enabled disk template"),
        ("cluster/master_node", "gone", "cluster cluster.example.com refers to node 'gone', which does not exist"),
        ("cluster/master_node", NODE3, "The master node node3.example.com is not a master candidate"),
        ("cluster/tcpudp_port_pool", [11004], "TCP/UDP port 11004 is used more than once: cluster .*, instance web2"),
        (f"nodes/{NODE1}/uuid", "other", "node node1.example.com stands under the key"),
        (f"nodes/{NODE2}/group", "gone", "node node2.example.com refers to nodegroup 'gone'"),
        (f"nodes/{NODE2}/drained", True, "node node2.example.com is master_candidate and drained at once"),
        (
            f"nodes/{NODE2}/secondary_ip",
            "198.51.100.11",
            "node address 198.51.100.11 is used more than once: node node1",
        ),
        (f"nodes/{NODE2}/name", "node1.example.com", "name among nodes node1.example.com is used more than once"),
        (f"nodegroups/{GROUP}/name", "spare", "name among nodegroups spare is used more than once"),
        (f"nodegroups/{GROUP}/name", GROUP, "has a name that looks like a uuid"),
        (f"nodegroups/{GROUP}/alloc_policy", "never", "has the allocation policy 'never': it must be one of preferred"),
        (f"nodegroups/{GROUP}/networks", {"gone": {}}, "nodegroup default refers to network 'gone'"),
        (f"instances/{WEB1}/primary_node", "gone", "instance web1.example.com refers to node 'gone'"),
        (f"instances/{WEB1}/disks", ["gone"], "instance web1.example.com refers to disk 'gone'"),
        (f"instances/{WEB1}/nics/0/network", "gone", "instance web1.example.com refers to network 'gone'"),
        (f"instances/{WEB1}/nics/1/mac", "AA:00:00:00:00:03", "MAC address aa:00:00:00:00:03 is used more than once"),
        (f"instances/{WEB1}/network_port", 11000, "TCP/UDP port 11000 is used more than once"),
        (f"instances/{WEB1}/admin_state", "maybe", "has the state 'maybe': it must be one of up, down, offline"),
        (f"instances/{WEB3}/disks", [DRBD], "disk 00000050.* is used more than once: instance web1.* instance web3"),
        (f"instances/{WEB2}/disks", [LOGS, DATA], "calls its disk 0 'disk/1': it must be 'disk/0'"),
        (f"disks/{DATA}/nodes", ["gone"], "disk data refers to node 'gone'"),
        (f"disks/{DATA}/logical_id", ["xenvg", f"{LOGS}.disk1"], "plain volume of node .* is used more than once"),
    ],
)
def test_every_rule_is_checked(golden, path, value, problem):
    change(golden, path, value)
    problems = verify_all(Configuration.from_plain(golden))
    assert any(re.search(problem, found) for found in problems), problems


def test_an_address_twice_in_one_network(golden):
    change(golden, f"instances/{WEB2}/nics/0/network", "00000030-0000-4000-8000-000000000030")
    change(golden, f"instances/{WEB2}/nics/0/ip", "203.0.113.5")
    assert len([p for p in verify_all(Configuration.from_plain(golden)) if "IP address in network" in p]) == 1


def test_a_pool_with_room_is_told_of_but_breaks_nothing(golden):
    change(golden, f"nodes/{NODE2}/master_candidate", False)
    assert verify_all(Configuration.from_plain(golden)) == [
        "Not enough master candidates: there are 1, there should be 2"
    ]
