# SPDX-License-Identifier: BSD-2-Clause
"""Calls every method of the client library of Debian (python3-ganeti-rapi), or of the module that stands in for it.

Run on a node of the testbed by a plain interpreter: ``MODULE NODE1 NODE2 [PART LEFT OUT]…``. Prints what failed as
JSON, and which methods were not called.
"""

import importlib
import inspect
import json
import sys

library = importlib.import_module(sys.argv[1])
NODE1, NODE2 = sys.argv[2:4]
NAME = "lib.example.com"
called: "set[str]" = set()
failed: "list[str]" = []


if hasattr(library, "pycurl"):
    library.pycurl.global_init(library.pycurl.GLOBAL_ALL)
rapi = library.GanetiRapiClient("127.0.0.1", username="jack", password="open-sesame")


def call(method, *arguments, **named):
    called.add(method)
    try:
        return getattr(rapi, method)(*arguments, **named)
    except Exception as error:
        failed.append(f"{method}{arguments}{named}: {type(error).__name__}: {error}")
        return None


def check(what, is_so):
    if not is_so:
        failed.append(f"wrong: {what}")


def job(method, *arguments, ends="success", **named):
    """Call a method that submits a job, and wait for the job's end."""
    number = call(method, *arguments, **named)
    check(f"{method} gave the job {number!r}", isinstance(number, int))
    if not isinstance(number, int):
        return None
    called.add("WaitForJobCompletion")
    ended = rapi.WaitForJobCompletion(number, period=0.05, retries=1200)
    told = rapi.GetJobStatus(number)
    if ended != (ends == "success") or told["status"] != ends:
        failed.append(f"{method}{arguments}: job {number} ended {told['status']}, not {ends}: {told['opresult']}")
    return told["opresult"][-1]


def refused(method, *arguments, code, **named):
    called.add(method)
    try:
        given = getattr(rapi, method)(*arguments, **named)
        failed.append(f"{method}{arguments} gave {given!r}, not an error")
    except library.GanetiApiError as error:
        check(f"{method} was refused with {error.code}: {error}", error.code == code)


def reads():
    check("version", call("GetVersion") == 2)
    check("features", "instance-create-reqv1" in call("GetFeatures"))
    check("master", call("GetInfo")["master"] == NODE1)
    check("systems", any(name.startswith("noop") for name in call("GetOperatingSystems")))
    check("nodes", sorted(call("GetNodes")) == [NODE1, NODE2])
    check("bulk nodes", {row["name"] for row in call("GetNodes", bulk=True)} == {NODE1, NODE2})
    check("node", call("GetNode", NODE2)["pip"])
    check("role", call("GetNodeRole", NODE1) == "master")
    check("groups", call("GetGroups") == ["default"])
    check("bulk groups", call("GetGroups", bulk=True)[0]["node_cnt"] == 2)
    check("group", call("GetGroup", "default")["node_list"])
    refused("GetInstance", "no.such.host", code=404)
    check("query", call("Query", "node", ["name", "role"], ["=", "name", NODE1])["data"] == [[[0, NODE1], [0, "M"]]])
    check("fields", call("QueryFields", "node", ["name"])["fields"][0]["title"] == "Node")


def tags():
    for kind, name in (
        ("Cluster", ()),
        ("Node", (NODE2,)),
        ("Group", ("default",)),
        ("Instance", (NAME,)),
        ("Network", ("lan",)),
    ):
        job(f"Add{kind}Tags", *name, ["one", "two"])
        check(f"{kind} tags", sorted(call(f"Get{kind}Tags", *name)) == ["one", "two"])
        job(f"Delete{kind}Tags", *name, ["one", "two"])


def filters():
    uuid = call("AddFilter", 3, [["jobid", ["=", "id", 4000]]], "PAUSE")
    check("filter", call("GetFilter", uuid)["action"] == "PAUSE")
    check("filters", [row["uuid"] for row in call("GetFilters", bulk=True)] == call("GetFilters") == [uuid])
    check("replaced", call("ReplaceFilter", uuid, 4, [["jobid", ["=", "id", 4000]]], "REJECT") == uuid)
    call("DeleteFilter", uuid)


def networks_and_groups():
    job("CreateNetwork", "lan", "192.0.2.0/24", gateway="192.0.2.1", tags="one")
    check("networks", call("GetNetworks") == ["lan"] and call("GetNetworks", bulk=True)[0]["gateway"] == "192.0.2.1")
    job("ConnectNetwork", "lan", "default", "bridged", "br0")
    check("network", call("GetNetwork", "lan")["group_list"])
    job("ModifyNetwork", "lan", gateway="192.0.2.254")
    job("CreateGroup", "second", alloc_policy="unallocable")
    job("ModifyGroup", "second", alloc_policy="preferred")
    job("RenameGroup", "second", "third")
    job("AssignGroupNodes", "third", [NODE2])
    job("AssignGroupNodes", "default", [NODE2])
    job("DeleteGroup", "third")


def instances():
    job(
        "CreateInstance",
        "create",
        NAME,
        "diskless",
        [],
        [],
        os="noop+default",
        hypervisor="fake",
        pnode=NODE1,
        reason="a test",
    )
    check("instances", call("GetInstances") == [NAME])
    check("bulk instances", call("GetInstances", bulk=True)[0]["status"] == "running")
    check("instance", call("GetInstance", NAME)["pnode"] == NODE1)
    check("info", NAME in job("GetInstanceInfo", NAME, static=True))
    job("ShutdownInstance", NAME, timeout=0)
    refused("GetInstanceConsole", NAME, code=503)
    job("ModifyInstance", NAME, beparams={"vcpus": 2})
    job("StartupInstance", NAME, dry_run=True)
    job("StartupInstance", NAME)
    call("GetInstanceConsole", NAME)
    job("RebootInstance", NAME, reboot_type="hard")
    job("ShutdownInstance", NAME, timeout=0)
    tags()
    job("ShutdownInstance", NAME, timeout=0)
    job("RenameInstance", NAME, "new.example.com", ip_check=False, name_check=False)
    job("DeleteInstance", "new.example.com")
    body = call(
        "InstanceAllocation", "create", "multi.example.com", "diskless", [], [], os="noop+default", hypervisor="fake"
    )
    job("InstancesMultiAlloc", [body], iallocator="hail")


def disks():
    job(
        "CreateInstance",
        "create",
        NAME,
        "sharedfile",
        [{"size": 64}],
        [],
        os="noop+default",
        hypervisor="fake",
        pnode=NODE1,
    )
    job("GrowInstanceDisk", NAME, 0, 16, wait_for_sync=True)
    job("FailoverInstance", NAME, target_node=NODE2)
    job("MigrateInstance", NAME, mode="live", target_node=NODE1)
    job("MigrateNode", NODE1, mode="live", target_node=NODE2)
    job("ShutdownInstance", NAME, timeout=0)
    job("ActivateInstanceDisks", NAME, ignore_size=True)
    job("DeactivateInstanceDisks", NAME)
    job("RecreateInstanceDisks", NAME, disks=[0], ends="error")  # they are there
    job("ReplaceInstanceDisks", NAME, disks=[0], mode="replace_on_primary", ends="error")  # there is no second copy
    job("ReinstallInstance", NAME, os="noop+default")
    job("ReinstallInstance", NAME, os="noop+default", no_startup=True)
    job("PrepareExport", NAME, "local")
    job("ExportInstance", NAME, "local", NODE1)
    job("DeleteInstance", NAME)


def nodes():
    job("ModifyCluster", maintain_node_health=False)
    job("RedistributeConfig")
    job("ModifyNode", NODE2, master_candidate=False, auto_promote=False, force=True)
    job("SetNodeRole", NODE2, "master-candidate")
    job("GetNodeStorageUnits", NODE2, "file", "name,free")
    job("ModifyNodeStorageUnits", NODE2, "lvm-pv", "/dev/sdx", allocatable=True, ends="error")
    job("RepairNodeStorageUnits", NODE2, "lvm-vg", "xenvg", ends="error")
    job("EvacuateNode", NODE2, iallocator="hail", mode="primary-only")
    job("PowercycleNode", NODE1, force=False, ends="error")  # the master


def jobs():
    number = call("ModifyCluster", maintain_node_health=False)
    check("jobs", number in call("GetJobs") and number in [row["id"] for row in call("GetJobs", bulk=True)])
    rapi.WaitForJobCompletion(number, period=0.05)
    news = call("WaitForJobChange", number, ["status"], None, None)
    check("news", news["job_info"] == ["success"])
    check("cancel", call("CancelJob", number)[0] is False)
    check("unknown job", call("GetJobStatus", 99999)["status"] is None)


def undo_of_networks():
    job("DisconnectNetwork", "lan", "default")
    job("DeleteNetwork", "lan")


parts = (reads, filters, networks_and_groups, instances, disks, nodes, jobs, undo_of_networks)
for part in [each for each in parts if each.__name__ not in sys.argv[4:]]:
    try:
        part()
    except Exception as error:
        failed.append(f"{part.__name__}: {type(error).__name__}: {error}")
ADDED = {"RenameNetwork", "GetIncidents", "DeleteIncident"}
"""What Debian's library has not."""
methods = {name for name, _ in inspect.getmembers(library.GanetiRapiClient, inspect.isfunction) if name[0].isupper()}
print(json.dumps({"failed": failed, "not_called": sorted(methods - called - ADDED)}))
