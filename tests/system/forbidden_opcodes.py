# SPDX-License-Identifier: BSD-2-Clause
"""What each opcode of instances forbids beyond the types of its parameters: what excludes each other, or the state.

For the cluster of `test_bad_input.py`: inst1 (shared files) and file1 run on node1, down1 is stopped and has no disks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.system.fake_bed import MASTER, FakeBed

from ganeti.tools.testbed import machine
from ganeti.wire.framing_sync import SyncConnection, connect
from ganeti.wire.job_file import FINAL_STATUSES
from ganeti.wire.luxi import VERSION

Row = tuple[dict[str, Any], str]
"""Parameters, and words of the answer."""
THERE = {"one": "inst1", "new": "new1", "node3": "node2"}
"""Texts of the examples, and what this cluster has in their place."""
NEW: dict[str, Any] = {
    "instance_name": "new1",
    "mode": "create",
    "disk_template": "sharedfile",
    "disks": [{"size": 8}],
    "nics": [],
    "os_type": "noop+default",
    "pnode": "node1",
}
RUNS, STOPPED, LOCAL = ({"instance_name": name} for name in ("inst1", "down1", "file1"))
ONE = {key: value for key, value in NEW.items() if key != "pnode"}

FORBIDDEN: Mapping[str, list[Row]] = {
    "OP_INSTANCE_CREATE": [
        (NEW | {"instance_name": "inst1"}, "already in the cluster"),
        (NEW | {"instance_name": "bad name"}, "not a valid instance name"),
        (NEW | {"iallocator": "hail"}, "either a node or an allocator"),
        (NEW | {"why": True}, "--why is about an allocator's choice"),
        (NEW | {"opportunistic_locking": True}, "is about an allocator's choice"),
        (NEW | {"ip_check": True}, "add --name-check"),
        (NEW | {"disk_template": "mirror", "snode": "node1"}, "name two different nodes"),
        (NEW | {"disk_template": "plain"}, "is not enabled in cluster"),
        (NEW | {"disk_template": "diskless"}, "leave --disk out"),
        (NEW | {"disks": []}, "needs at least one disk"),
        (NEW | {"disks": [{"size": 8}] * 17}, "are too many"),
        (NEW | {"disks": [{"size": 2**31}]}, "violates the policy"),
        (NEW | {"disks": [{"size": 2**52}], "ignore_ipolicy": True}, "MiB at most"),
        (NEW | {"disks": [{"size": 8, "mode": "x"}]}, "access mode 'x' is unknown"),
        (NEW | {"hypervisor": "kvm"}, "is not enabled in the cluster"),
        (NEW | {"hvparams": {"bogus": 1}}, "bogus"),
        (NEW | {"beparams": {"minmem": 256, "maxmem": 128}}, "is above the maximum"),
        (NEW | {"os_type": None}, "The OS is missing"),
        (NEW | {"os_type": "nowhere"}, "nowhere"),
        (NEW | {"nics": [{"network": "nowhere"}]}, "nowhere"),
        (NEW | {"nics": [{"mac": "zz"}]}, "zz"),
        (NEW | {"nics": [{"ip": "pool"}]}, "pool"),
        (NEW | {"tags": ["a b"]}, "not a valid tag"),
        (NEW | {"commit": True}, "'new1' not known"),
        (NEW | {"mode": "import"}, "export"),
        (ONE | {"iallocator": "nowhere"}, "nowhere"),
    ],
    "OP_INSTANCE_MULTI_ALLOC": [
        ({"instances": []}, "name at least one"),
        ({"instances": [NEW, NEW]}, "is described twice"),
        ({"instances": [NEW, ONE | {"instance_name": "new2"}]}, "name one for each"),
        ({"instances": [NEW], "iallocator": "hail"}, "name one for each"),
        ({"instances": [NEW | {"OP_ID": "OP_INSTANCE_REMOVE"}]}, "described by another opcode"),
        ({"instances": [NEW | {"bogus": 1}]}, "no parameter 'bogus'"),
        ({"instances": [NEW | {"instance_name": "inst1"}]}, "already in the cluster"),
        ({"instances": [ONE], "iallocator": "nowhere"}, "nowhere"),
        ({"instances": [NEW], "opportunistic_locking": True}, "is about an allocator's choice"),
    ],
    "OP_INSTANCE_SET_PARAMS": [
        (RUNS, "No changes submitted"),
        (RUNS | {"offline": True}, "shut it down first"),
        (RUNS | {"disks": [["remove", 7, {}]]}, "7"),
        (RUNS | {"disks": [["bogus", 0, {}]]}, "bogus"),
        (RUNS | {"disks": [["add", -1, {}]]}, "size"),
        (RUNS | {"disks": [["add", -1, {"size": -4}]]}, "size"),
        (RUNS | {"disks": [["add", -1, {"size": 4}]], "disk_template": "file"}, "do one first"),
        (RUNS | {"disk_template": "sharedfile"}, "sharedfile"),
        (RUNS | {"remote_node": "node2", "beparams": {"vcpus": 2}}, "add --disk-template"),
        (RUNS | {"file_driver": "loop", "beparams": {"vcpus": 2}}, "leave --file-driver out"),
        (RUNS | {"ext_params": {"provider": "x"}, "beparams": {"vcpus": 2}}, "leave --ext-params out"),
        (RUNS | {"nics": [["remove", 5, {}]]}, "5"),
        (RUNS | {"nics": [["modify", 0, {"mac": "zz"}]]}, "zz"),
        (RUNS | {"nics": [["add", -1, {"network": "nowhere"}]]}, "nowhere"),
        (RUNS | {"beparams": {"minmem": 256, "maxmem": 128}}, "maximum"),
        (RUNS | {"beparams": {"bogus": 1}}, "bogus"),
        (RUNS | {"hvparams": {"bogus": 1}}, "bogus"),
        (RUNS | {"runtime_mem": 10**9}, "memory"),
        (RUNS | {"pnode": "node2"}, "still running"),
        (STOPPED | {"runtime_mem": 64}, "not running"),
        (STOPPED | {"disk_template": "file"}, "no disks to convert"),
        (STOPPED | {"os_name": "nowhere"}, "nowhere"),
    ],
    "OP_INSTANCE_GROW_DISK": [
        (RUNS | {"disk": 9, "amount": 4}, "9"),
        (RUNS | {"disk": 0, "amount": 0}, "give a greater size"),
        (RUNS | {"disk": 0, "amount": 4, "absolute": True}, "not made smaller"),
        (RUNS | {"disk": 0, "amount": 2**40}, "would violate the policy"),
        (RUNS | {"disk": 0, "amount": 2**52, "ignore_ipolicy": True}, "MiB at most"),
        (STOPPED | {"disk": 0, "amount": 4}, "disk"),
    ],
    "OP_INSTANCE_RENAME": [
        (RUNS | {"new_name": "new1"}, "shut it down first"),
        (STOPPED | {"new_name": "inst1"}, "choose another name"),
        (STOPPED | {"new_name": "bad name"}, "not a valid instance name"),
        (STOPPED | {"new_name": "new1", "ip_check": True}, "add --name-check"),
    ],
    "OP_INSTANCE_REINSTALL": [
        (RUNS, "shut it down first"),
        (RUNS | {"os_type": "nowhere"}, "shut it down first"),
        (STOPPED, "has no disks"),
    ],
    "OP_INSTANCE_MOVE": [
        (LOCAL | {"target_node": "node1"}, "already on node node1"),
        (RUNS | {"target_node": "node2"}, "cannot be moved"),
        (LOCAL | {"target_node": "node2", "compress": "lzma"}, "is not enabled in the cluster"),
        (LOCAL | {"target_node": "node2", "compress": "gzip", "live": True}, "leave --compress out"),
    ],
    "OP_INSTANCE_RECREATE_DISKS": [
        (LOCAL, "shut it down first"),
        (STOPPED, "has no disks"),
        (LOCAL | {"disks": [7]}, "7"),
        (LOCAL | {"disks": [0, 0]}, "named twice"),
        (LOCAL | {"disks": [["x", 1]]}, "disks"),
        (LOCAL | {"disks": [[0, {"format": "raw"}]]}, "'format' cannot be changed"),
        (LOCAL | {"disks": [[0, {"size": -1}]]}, "size"),
        (LOCAL | {"iallocator": "nowhere"}, "nowhere"),
    ],
    "OP_INSTANCE_CHANGE_GROUP": [
        (RUNS, "make one with gnt-group add"),
        (RUNS | {"target_groups": ["default"]}, "name another one"),
        (RUNS | {"nodes": ["node2"]}, "name another one"),
        (RUNS | {"nodes": ["node2"], "target_groups": ["default"]}, "not both"),
        (RUNS | {"nodes": ["node2"], "iallocator": "hail"}, "not both"),
    ],
    "OP_INSTANCE_REPLACE_DISKS": [
        (RUNS | {"mode": "replace_auto", "disks": []}, "only mirrored disks"),
        (RUNS | {"mode": "replace_new_secondary", "disks": [], "iallocator": "hail"}, "only mirrored disks"),
    ],
    "OP_INSTANCE_MIGRATE": [
        (RUNS | {"mode": "live", "live": True}, "not both"),
        (RUNS | {"target_node": "node1"}, "already on node node1"),
        (RUNS | {"target_node": "node2", "iallocator": "hail"}, "allocator"),
        (RUNS | {"iallocator": "nowhere"}, "nowhere"),
        (LOCAL, "file"),
        (LOCAL | {"move_disks": True}, "-n NODE"),
    ],
    "OP_INSTANCE_FAILOVER": [
        (RUNS | {"target_node": "node1"}, "already on node node1"),
        (RUNS | {"target_node": "node2", "iallocator": "hail"}, "allocator"),
        (RUNS | {"iallocator": "nowhere"}, "nowhere"),
        (LOCAL, "file"),
    ],
    "OP_INSTANCE_STARTUP": [
        (STOPPED | {"beparams": {"bogus": 1}}, "bogus"),
        (STOPPED | {"beparams": {"maxmem": -1}}, "maxmem"),
        (STOPPED | {"hvparams": {"bogus": 1}}, "bogus"),
    ],
    "OP_INSTANCE_DEACTIVATE_DISKS": [(RUNS, "shut it down first")],
    "OP_INSTANCE_CONSOLE": [(STOPPED, "is not running")],
    "OP_INSTANCE_SNAPSHOT": [
        (RUNS | {"action": "list", "snapshot_name": "x"}, "leave the name out"),
        (RUNS | {"action": "create"}, "say which one"),
        (RUNS | {"action": "create", "snapshot_name": "a/b"}, "snapshot"),
        (RUNS | {"action": "remove", "snapshot_name": "nowhere"}, "has no snapshot nowhere"),
        (RUNS | {"action": "revert", "snapshot_name": "nowhere"}, "has no snapshot nowhere"),
        (STOPPED | {"action": "create", "snapshot_name": "x"}, "no disks"),
    ],
}

NOTHING_FORBIDDEN = {
    "OP_INSTANCE_ACTIVATE_DISKS": "it does what is left to do, whatever the state",
    "OP_INSTANCE_QUERY_DATA": "it reads",
    "OP_INSTANCE_REBOOT": "a stopped instance is started",
    "OP_INSTANCE_REMOVE": "a running instance is stopped first",
    "OP_INSTANCE_SHUTDOWN": "what is stopped stays so",
}
"""Opcodes without an entry above, and why."""


class Door:
    """LUXI and WConfD of a cluster, from outside."""

    def __init__(self, bed: FakeBed) -> None:
        init = machine.running_pid(bed.layout, bed.layout.node(MASTER))
        self._sockets = f"/proc/{init}/root/run/ganeti/socket"

    def serial(self) -> int:
        """The serial number of the configuration: it moves with each change."""
        with connect(f"{self._sockets}/ganeti-wconfd") as connection:
            connection.send({"method": "readConfig", "args": []})
            return int(connection.receive()["result"]["serial_no"])

    def refusals(self, opcodes: list[dict[str, Any]]) -> list[str]:
        """What each opcode is refused with, in a job of its own; several lines where it is not refused."""
        with connect(f"{self._sockets}/ganeti-query", 60.0) as connection:
            answers = _call(connection, "SubmitManyJobs", [[opcode] for opcode in opcodes])
            return [_result(connection, answer) for answer in answers]


def _call(connection: SyncConnection, method: str, *arguments: Any) -> Any:
    connection.send({"method": method, "args": list(arguments), "version": VERSION})
    answer = connection.receive()
    assert answer["success"], answer["result"]
    return answer["result"]


def _result(connection: SyncConnection, answer: list[Any]) -> str:
    accepted, told = answer
    if not accepted:
        return str(told)
    previous = None
    while previous is None or previous[0] not in FINAL_STATUSES:
        previous, _ = _call(connection, "WaitForJobChange", told, ["status"], previous, None, 20)
    ((results,),) = _call(connection, "QueryJobs", [told], ["opresult"])
    match results:
        case [["OpPrereqError", [str(message), str()]]]:
            return message
    return f"no refusal\nbut {previous[0]}: {results}"
