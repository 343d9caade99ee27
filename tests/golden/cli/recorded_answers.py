# SPDX-License-Identifier: BSD-2-Clause
"""Answers of a master daemon that stand behind the golden texts: one fake cluster of three nodes."""

import calendar
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GROUP = "7419830b-3289-4b05-bff8-53ca59b8fc76"
COLLECTORS = ("cpu-avg-load", "diskstats", "drbd", "inst-status-xen", "lv", "xen-cpu-avg-load")


def golden(name: str) -> str:
    return (HERE / f"{name}.txt").read_text()


def seconds(text: str) -> int:
    return calendar.timegm(time.strptime(text, "%Y-%m-%d %H:%M:%S"))


def moment(text: str) -> list[int]:
    """``2026-11-20 15:11:32.417975`` as seconds and microseconds."""
    whole, _, micros = text.partition(".")
    return [seconds(whole), int(micros)]


def log_of(lines: list[str]) -> list[list[Any]]:
    """Log entries that are shown as these lines."""
    entries = []
    for serial, line in enumerate(lines, start=1):
        when = calendar.timegm(time.strptime(line[:24], "%a %b %d %H:%M:%S %Y"))
        entries.append([serial, [when, 0], "message", line[25:]])
    return entries


def field(name: str, title: str, kind: str) -> dict[str, str]:
    return {"name": name, "title": title, "kind": kind, "doc": ""}


def answer(fields: list[dict[str, str]], rows: list[list[Any]]) -> dict[str, Any]:
    """A query answer in which every value is known; a cell given as a tuple is (status, value)."""
    return {
        "fields": fields,
        "data": [[list(cell) if isinstance(cell, tuple) else [0, cell] for cell in row] for row in rows],
    }


NODE_FIELDS = [
    field("name", "Node", "text"),
    *(field(name, name[0].upper() + name[1].upper() + name[2:], "unit") for name in ("dtotal", "dfree")),
    field("mtotal", "MTotal", "unit"),
    field("mnode", "MNode", "unit"),
    field("mfree", "MFree", "unit"),
    field("pinst_cnt", "Pinst", "number"),
    field("sinst_cnt", "Sinst", "number"),
]
NODE_LIST = answer(
    NODE_FIELDS,
    [
        ["node1", 258048, 76904, 24064, 1126, 22630, 1, 0],
        ["node2", 258048, 76904, 24064, 1126, 22733, 0, 0],
        ["node3", 258048, 76904, 24064, 1126, 22733, 0, 0],
    ],
)
NODE_ROLES = answer(
    [
        field("name", "Node", "text"),
        field("role", "Role", "text"),
        field("group", "Group", "text"),
        field("pip", "PrimaryIP", "text"),
        field("sip", "SecondaryIP", "text"),
    ],
    [[f"node{n}", "M" if n == 1 else "C", "default", f"10.77.0.{9 + n}", f"10.77.0.{9 + n}"] for n in (1, 2, 3)],
)
INSTANCE_FIELDS = [
    field("name", "Instance", "text"),
    field("hypervisor", "Hypervisor", "text"),
    field("os", "OS", "text"),
    field("pnode", "Primary_node", "text"),
    field("status", "Status", "text"),
    field("oper_ram", "Memory", "unit"),
]
INSTANCE_UUID = "3f8cfb98-6857-428c-bfeb-acdce3be4be7"
INSTANCE_ROW = ["inst1", "fake", "noop+default", "node1", "running", 128]
INSTANCE_LIST = answer(INSTANCE_FIELDS, [INSTANCE_ROW])
INSTANCE_LIST_UUID = answer([*INSTANCE_FIELDS, field("uuid", "UUID", "text")], [[*INSTANCE_ROW, INSTANCE_UUID]])
LOCKS = answer([field(name, name.capitalize(), "other") for name in ("name", "mode", "owner", "pending")], [])
NDPARAMS = {
    "cpu_speed": 1.0,
    "exclusive_storage": False,
    "oob_program": "",
    "ovs": False,
    "ovs_link": "",
    "ovs_name": "switch1",
    "spindle_count": 1,
    "ssh_port": 22,
}
NODE_INFO = answer(
    [],
    [["node1", "10.77.0.10", "10.77.0.10", True, False, False, (3, None), True, True, ["inst1"], [], NDPARAMS, {}]],
)
_JOBS = """\
1 success CLUSTER_POST_INIT
2 success OS_DIAGNOSE
3 success CLUSTER_VERIFY
4 success CLUSTER_VERIFY_CONFIG
5 success CLUSTER_VERIFY_GROUP(7419830b-3289-4b05-bff8-53ca59b8fc76)
6 error INSTANCE_CREATE(inst1)
7 success OS_DIAGNOSE
8 error INSTANCE_CREATE(inst1)
9 success NODE_ADD(node2)
10 success NODE_ADD(node3)
11 success OS_DIAGNOSE
12 success INSTANCE_CREATE(inst1)
13 success CLUSTER_VERIFY
14 success CLUSTER_VERIFY_CONFIG
15 success CLUSTER_VERIFY_GROUP(7419830b-3289-4b05-bff8-53ca59b8fc76)
16 success INSTANCE_QUERY_DATA"""
JOB_LIST = answer(
    [field("id", "ID", "number"), field("status", "Status", "text"), field("summary", "Summary", "other")],
    [[int(number), status, [summary]] for number, status, summary in map(str.split, _JOBS.splitlines())],
)
BACKEND = {"always_failover": False, "auto_balance": True, "maxmem": 128, "minmem": 128, "spindle_use": 1, "vcpus": 1}
INSTANCE_DATA = {
    "inst1": {
        "name": "inst1",
        "uuid": INSTANCE_UUID,
        "config_state": "up",
        "run_state": "up",
        "pnode": "node1",
        "pnode_group_uuid": GROUP,
        "pnode_group_name": "default",
        "snodes": [],
        "snodes_group_uuids": [],
        "snodes_group_names": [],
        "os": "noop+default",
        "nics": [],
        "disk_template": "diskless",
        "disks": [],
        "hypervisor": "fake",
        "network_port": None,
        "hv_instance": {},
        "hv_actual": {},
        "be_instance": {},
        "be_actual": BACKEND,
        "os_instance": {},
        "os_actual": {},
        "serial_no": 2,
        "ctime": seconds("2026-11-20 15:11:53") + 0.25,
        "mtime": seconds("2026-11-20 15:11:55") + 0.5,
    }
}
NODE_ADD_JOB = [
    9,
    "success",
    [
        {
            "OP_ID": "OP_NODE_ADD",
            "comment": None,
            "debug_level": 0,
            "depends": None,
            "disk_state": {},
            "hv_state": {},
            "master_capable": True,
            "node_name": "node2",
            "node_setup": False,
            "primary_ip": "10.77.0.11",
            "priority": 0,
            "readd": False,
            "reason": [
                ["gnt:client:gnt-node", "add", 1795187492162024960],
                ["gnt:opcode:node_add", "job=9;index=0", 1795187492417975000],
            ],
            "secondary_ip": "10.77.0.11",
            "vm_capable": True,
        }
    ],
    [None],
    ["success"],
    [[[1, moment("2026-11-20 15:11:35.945714"), "message", " - INFO: Node will be a master candidate"]]],
    [moment("2026-11-20 15:11:34.945526")],
    [moment("2026-11-20 15:11:35.020652")],
    [moment("2026-11-20 15:11:38.330862")],
    moment("2026-11-20 15:11:32.417975"),
    moment("2026-11-20 15:11:34.945526"),
    moment("2026-11-20 15:11:38.330874"),
]
_DRBD = {
    "c-delay-target": 1,
    "c-fill-target": 0,
    "c-max-rate": 61440,
    "c-min-rate": 4096,
    "c-plan-ahead": 20,
    "data-stripes": 1,
    "disk-barriers": "n",
    "disk-custom": "",
    "dynamic-resync": False,
    "meta-barriers": False,
    "meta-stripes": 1,
    "metavg": "xenvg",
    "net-custom": "",
    "protocol": "C",
    "resync-rate": 61440,
}
_SPEC = ("cpu-count", "disk-count", "disk-size", "memory-size", "nic-count", "spindle-use")
CLUSTER = {
    "software_version": "3.1.0",
    "protocol_version": 3010000,
    "config_version": 3010000,
    "os_api_version": 20,
    "export_version": 0,
    "vcs_version": "v3.1.0",
    "name": "cluster",
    "uuid": "2c36a9dd-73e7-4377-811b-4f47c75b6a58",
    "ctime": seconds("2026-11-20 15:08:57") + 0.7,
    "mtime": seconds("2026-11-20 15:08:59") + 0.7,
    "master": "node1",
    "architecture": ["64bits", "x86_64"],
    "tags": [],
    "default_hypervisor": "fake",
    "enabled_hypervisors": ["fake"],
    "hvparams": {"fake": {"migration_mode": "live"}, "kvm": {"acpi": True}},
    "os_hvp": {},
    "osparams": {},
    "hidden_os": [],
    "blacklisted_os": [],
    "candidate_pool_size": 10,
    "max_running_jobs": 20,
    "max_tracked_jobs": 25,
    "mac_prefix": "aa:00:00",
    "master_netdev": "lo",
    "master_netmask": 32,
    "use_external_mip_script": False,
    "volume_group_name": None,
    "reserved_lvs": [],
    "drbd_usermode_helper": None,
    "file_storage_dir": "/srv/ganeti/file-storage",
    "shared_file_storage_dir": "/srv/ganeti/shared-file-storage",
    "gluster_storage_dir": "/var/run/ganeti/gluster",
    "maintain_node_health": False,
    "uid_pool": [],
    "default_iallocator": "hail",
    "default_iallocator_params": {},
    "primary_ip_version": 4,
    "prealloc_wipe_disks": False,
    "enabled_disk_templates": ["diskless", "file"],
    "install_image": "",
    "instance_communication_network": "",
    "zeroing_image": "",
    "compression_tools": ["gzip", "gzip-fast", "gzip-slow"],
    "enabled_user_shutdown": False,
    "modify_ssh_setup": False,
    "ssh_key_type": "rsa",
    "ssh_key_bits": 2048,
    "ndparams": NDPARAMS,
    "beparams": {"default": BACKEND},
    "nicparams": {"default": {"link": "xen-br0", "mode": "bridged", "vlan": ""}},
    "diskparams": {
        "blockdev": {},
        "diskless": {},
        "drbd": _DRBD,
        "ext": {"access": "kernelspace"},
        "file": {},
        "gluster": {"access": "kernelspace", "host": "127.0.0.1", "port": 24007, "volume": "gv0"},
        "plain": {"stripes": 1},
        "rbd": {"access": "kernelspace", "pool": "rbd"},
        "sharedfile": {},
    },
    "ipolicy": {
        "minmax": [
            {
                "min": dict(zip(_SPEC, (1, 0, 0, 4, 0, 0), strict=True)),
                "max": dict(zip(_SPEC, (8, 16, 1048576, 32768, 8, 12), strict=True)),
            }
        ],
        "std": dict(zip(_SPEC, (1, 1, 1024, 128, 1, 1), strict=True)),
        "disk-templates": ["diskless", "file"],
        "vcpu-ratio": 4.0,
        "spindle-ratio": 32.0,
    },
    "enabled_data_collectors": dict.fromkeys(COLLECTORS, True),
    "data_collector_interval": dict.fromkeys(COLLECTORS, 5000000),
}
