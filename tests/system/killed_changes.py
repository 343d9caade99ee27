# SPDX-License-Identifier: BSD-2-Clause
"""Changes of instances whose jobs are killed: what each needs, how it is asked for, and what may be left afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.system.fake_bed import MASTER, FakeBed
from tests.system.killing import NAME, carry_out, have_running_instance

from ganeti.tools.testbed import machine
from ganeti.tools.testbed.node_files import FILE_STORAGE, SHARED_FILE_STORAGE
from ganeti.wire.framing_sync import connect

Words = tuple[str, ...]
State = dict[str, dict[str, Any]]
MIB = 1 << 20
LOCAL, RENAMED, BATCH = "local", "inst2", ("first", "second")
OTHER_GROUP = "other"
STOP_AT_ONCE = "--shutdown-timeout=0"
MODIFY = ("gnt-instance", "modify")


def wconfd(bed: FakeBed, method: str, *arguments: Any) -> Any:
    """One call to WConfD, from outside."""
    init = machine.running_pid(bed.layout, bed.layout.node(MASTER))
    with connect(f"/proc/{init}/root/run/ganeti/socket/ganeti-wconfd") as connection:
        connection.send({"method": method, "args": list(arguments)})
        answer = connection.receive()
    assert answer["success"], answer["result"]
    return answer["result"]


def state(bed: FakeBed) -> State:
    """What the changes change of each instance, by its name."""
    wconfd(bed, "flushConfig")
    config = bed.config()
    return {
        instance["name"]: {
            "node": config["nodes"][instance["primary_node"]]["name"],
            "group": config["nodegroups"][config["nodes"][instance["primary_node"]]["group"]]["name"],
            "disks": [config["disks"][uuid]["size"] for uuid in instance["disks"]],
            "nics": len(instance["nics"]),
            "os": instance["os"],
        }
        for instance in config["instances"].values()
    }


def disk_files(bed: FakeBed) -> Iterator[tuple[Path, int]]:
    """Where the disks of the configuration lie, seen from outside, and the size of each in MiB."""
    config = bed.config()
    for instance in config["instances"].values():
        node = bed.layout.node(config["nodes"][instance["primary_node"]]["name"])
        for uuid in instance["disks"]:
            disk = config["disks"][uuid]
            path = disk["logical_id"][1]
            local = path.removeprefix(f"{FILE_STORAGE}/")
            shared = bed.layout.shared / path.removeprefix(f"{SHARED_FILE_STORAGE}/")
            yield (node.disks / local if local != path else shared), disk["size"]


def check_leftovers(bed: FakeBed, *, may_be_larger: bool = False) -> None:
    """Each node has the files of its own disks, of their sizes, and nothing else; no job has left anything."""
    wanted = dict(disk_files(bed))
    local = {path for node in bed.layout.nodes for path in node.disks.rglob("*") if path.is_file()}
    of_nodes = {path for path in wanted if not path.is_relative_to(bed.layout.shared)}
    assert {path for path in local if path.suffix != ".lock"} == of_nodes
    for path, size_mib in wanted.items():
        found = path.stat().st_size
        assert found == size_mib * MIB or (may_be_larger and found > size_mib * MIB), (path, found, size_mib)
    assert not list((bed.data(MASTER) / "queue").glob("*.undo")), "an undo log is left"
    assert wconfd(bed, "listReservations")["held"] == [], "room is still reserved"


def verify(bed: FakeBed) -> None:
    """`gnt-cluster verify` finds nothing; its jobs, which stop themselves too, are let go on."""
    process = machine.popen(bed.layout, MASTER, "gnt-cluster", "verify")

    def ended() -> bool:
        bed.let_go_on()
        return process.poll() is not None

    bed.wait(ended, "the end of gnt-cluster verify")
    said = "".join(process.communicate())
    assert process.returncode == 0 and "ERROR" not in said and "WARNING" not in said, said


# What the changes need


def have_stopped_instance(bed: FakeBed) -> None:
    have_running_instance(bed)
    carry_out(bed, "gnt-instance", "shutdown", "--timeout=0", NAME)


def have_one_disk(bed: FakeBed) -> None:
    have_running_instance(bed)
    if len(state(bed)[NAME]["disks"]) > 1:
        carry_out(bed, *MODIFY, "--disk", "1:remove", NAME)


def have_two_disks(bed: FakeBed) -> None:
    have_running_instance(bed)
    if len(state(bed)[NAME]["disks"]) < 2:
        carry_out(bed, *MODIFY, "--disk", "add:size=4m", NAME)


def have_one_nic(bed: FakeBed) -> None:
    have_running_instance(bed)
    if state(bed)[NAME]["nics"] > 1:
        carry_out(bed, *MODIFY, "--net", "1:remove", NAME)


def have_first_name(bed: FakeBed) -> None:
    if RENAMED in state(bed):
        carry_out(bed, "gnt-instance", "rename", RENAMED, NAME)
    elif state(bed).get(NAME) is None or NAME in bed.guests():
        have_stopped_instance(bed)


def have_lost_disks(bed: FakeBed) -> None:
    """The file of the only disk of a stopped instance is gone."""
    if len(state(bed).get(NAME, {}).get("disks", "")) != 1 or NAME in bed.guests():
        have_one_disk(bed)
        carry_out(bed, "gnt-instance", "shutdown", "--timeout=0", NAME)
    for path, _ in disk_files(bed):
        path.unlink(missing_ok=True)


def have_local_instance(bed: FakeBed) -> None:
    """One whose disk lies on its node, with something on it."""
    if LOCAL not in state(bed):
        add = ("gnt-instance", "add", "-t", "file", "-o", "noop+default", "--no-install", "--no-start", "-s", "8m")
        carry_out(bed, *add, LOCAL)
        ((path, _),) = [each for each in disk_files(bed) if each[0].parent.name == LOCAL]
        with path.open("r+b") as file:
            file.seek(5 * MIB)
            file.write(b"kept" * 4096)
    if LOCAL not in bed.guests():
        carry_out(bed, "gnt-instance", "startup", LOCAL)


def have_two_groups(bed: FakeBed) -> None:
    have_running_instance(bed)
    if all(group["name"] != OTHER_GROUP for group in bed.config()["nodegroups"].values()):
        carry_out(bed, "gnt-group", "add", OTHER_GROUP)
        free = next(node.name for node in bed.layout.nodes[1:] if node.name != state(bed)[NAME]["node"])
        carry_out(bed, "gnt-group", "assign-nodes", "--force", OTHER_GROUP, free)


def have_no_batch(bed: FakeBed) -> None:
    remove(bed, *BATCH)
    common = {"disk_template": "sharedfile", "disks": [{"size": 4}], "os_type": "noop+default"}
    common["beparams"] = {"memory": 64}  # type: ignore[assignment]
    batch = json.dumps([common | {"instance_name": name} for name in BATCH])
    bed.run("sh", "-c", f"echo '{batch}' >/root/batch.json")


# What is put away


def remove(bed: FakeBed, *names: str) -> None:
    for name in names:
        if name in state(bed):
            carry_out(bed, "gnt-instance", "remove", "-f", STOP_AT_ONCE, name)


def have_one_group(bed: FakeBed) -> None:
    remove(bed, NAME)
    nodes = bed.config()["nodes"].values()
    other = next(uuid for uuid, group in bed.config()["nodegroups"].items() if group["name"] == OTHER_GROUP)
    carry_out(bed, "gnt-group", "assign-nodes", "default", *(node["name"] for node in nodes if node["group"] == other))
    carry_out(bed, "gnt-group", "remove", OTHER_GROUP)


# What is asked for


def to_another_node(bed: FakeBed, *options: str) -> Words:
    other = next(node.name for node in bed.layout.nodes if node.name != state(bed)[LOCAL]["node"])
    return ("gnt-instance", "move", "-f", STOP_AT_ONCE, *options, "-n", other, LOCAL)


def to_another_group(bed: FakeBed) -> Words:
    other = "default" if state(bed)[NAME]["group"] == OTHER_GROUP else OTHER_GROUP
    return ("gnt-instance", "change-group", "-I", "hail", "--to", other, NAME)


def with_another_size(bed: FakeBed) -> Words:
    size = 8 if state(bed)[NAME]["disks"][0] != 8 else 12
    return ("gnt-instance", "recreate-disks", "--disk", f"0:size={size}m", NAME)


def always(*words: str) -> Callable[[FakeBed], Words]:
    return lambda bed: words


def differs(what: str, name: str = NAME) -> Callable[[State, State], bool]:
    """The change is made when *what* of the instance is another, and nothing else is."""
    return lambda before, now: (
        now[name][what] != before[name][what]
        and {**now[name], what: None, "node": None} == {**before[name], what: None, "node": None}
    )


@dataclass(frozen=True)
class Case:
    """*stops* is about how often its jobs stop; a number beyond their end lets them run through."""

    name: str
    stops: int
    prepare: Callable[[FakeBed], None]
    words: Callable[[FakeBed], Words]
    is_made: Callable[[State, State], bool]
    """Whether the change is complete, from the state before and the one that is found."""
    put_away: Callable[[FakeBed], None] = lambda bed: None
    is_no_change: bool = False
    """The configuration says the same before and after."""
    lacks_files: bool = False
    """Until it is made, disks of the configuration are not there."""
    may_be_larger: bool = False
    """Where it is not made, a disk may have more than the configuration says."""


CASES = (
    Case("add-disk", 15, have_one_disk, always(*MODIFY, "--disk", "add:size=4m,name=data", NAME), differs("disks")),
    Case("remove-disk", 11, have_two_disks, always(*MODIFY, "--disk", "1:remove", NAME), differs("disks")),
    Case("add-nic", 10, have_one_nic, always(*MODIFY, "--net", "add", NAME), differs("nics")),
    Case(
        "grow-disk",
        10,
        have_running_instance,
        always("gnt-instance", "grow-disk", NAME, "0", "4m"),
        differs("disks"),
        may_be_larger=True,
    ),
    Case(
        "reinstall",
        13,
        have_stopped_instance,
        always("gnt-instance", "reinstall", "-f", NAME),
        lambda before, now: now == before,
        is_no_change=True,
    ),
    Case(
        "rename",
        13,
        have_first_name,
        always("gnt-instance", "rename", NAME, RENAMED),
        lambda before, now: now.get(RENAMED) == before[NAME] and NAME not in now,
        have_first_name,
    ),
    Case("recreate-disks", 9, have_lost_disks, with_another_size, differs("disks"), lacks_files=True),
    Case(
        "move",
        24,
        have_local_instance,
        to_another_node,
        differs("node", LOCAL),
        lambda bed: remove(bed, LOCAL),
    ),
    Case(
        "move-live",
        29,
        have_local_instance,
        lambda bed: to_another_node(bed, "--live"),
        differs("node", LOCAL),
        lambda bed: remove(bed, LOCAL),
    ),
    Case("change-group", 21, have_two_groups, to_another_group, differs("group"), have_one_group),
    Case(
        "batch-create",
        42,
        have_no_batch,
        always("gnt-instance", "batch-create", "-I", "hail", "/root/batch.json"),
        lambda before, now: set(now) - set(before) <= set(BATCH),
        lambda bed: remove(bed, *BATCH),
    ),
)
