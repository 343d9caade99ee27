# SPDX-License-Identifier: BSD-2-Clause
"""Exporting an instance: order of steps, what is written about it, the way back, refusals."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import disk_status, guest
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import BlockDeviceError, ExecutionError, JobCanceled, PrerequisiteError
from ganeti.master.operations.backup.export import ExportInstance
from ganeti.master.operations.backup.pace import MIB, Pace
from ganeti.model.objects import CLUSTER_KEY
from ganeti.model.parameters import Parameter
from ganeti.model.traits import Catalogue
from ganeti.ports.context import UndoNodeCall
from ganeti.wire import export_file

QUIET = ("instance_info", "script_output", "transfer_states", "export_list", "bridges_exist", "export_dump_sizes")


SUM = "5a" * 32


def state(**changes: Any) -> dict[str, Any]:
    return {"name": "t", "running": True, "connected": True} | changes


class Kept:
    """What comes to the target, and from where."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.sent: list[dict[str, Any]] = []
        self.states = {"node1": state(), "node3": state(received=True, exit_status=0, done_mib=64, sha256=SUM)}
        self.config = ""
        self.dumps: dict[str, int] = {}
        self.older: dict[str, list[str]] = {}
        self.reach = ["node3"]
        """Nodes that reach the directory of the new export."""

    def receive(self, node: str, /, **asked: Any) -> int:
        assert node == "node3"
        self.received.append(asked)
        return 4711

    def send(self, node: str, /, **asked: Any) -> None:
        assert (node, asked["host"], asked["port"]) == ("node1", self.received[-1]["bind"], 4711)
        self.sent.append(asked)

    def finish(self, node: str, /, *, config: str, dumps: dict[str, int], **_: Any) -> None:
        self.config = config
        self.dumps = dumps


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def ctx(kept: Kept) -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    instance = add_instance(context.config.view(), "web1", template="local")
    context.config.view().put("instances", instance.uuid, replace(instance, os="noop", tags=["a", "b"]))
    context.nodes.handlers.update(
        export_dump=lambda name, **_: {"boot": f"boot-{name[-1]}", "sha256": SUM},
        export_dump_sizes=lambda name, *, dumps, **_: [4096 for _ in dumps],
        transfer_key_make=lambda node, /, **asked: {"name": asked["name"], "certificate": f"of {node}"},
        transfer_receive=kept.receive,
        transfer_send=kept.send,
        transfer_states=lambda node, /, **_: [kept.states[node]],
        export_finish=kept.finish,
        export_list=lambda name, **_: kept.older.get(name, []),
        export_remove=lambda node, /, **_: True,
        export_info=lambda node, /, **_: kept.config if node in kept.reach else "of an older one",
    )
    return context


def export(ctx: FakeContext, **parameters: Any) -> Any:
    return run(ExportInstance(instance_name="web1", **{"target_node": "node3", **parameters}), ctx)


def steps(ctx: FakeContext) -> list[str]:
    return [re.sub("x509-[0-9a-f]+", "x509-KEY", line) for line in ctx.story if not line.endswith(QUIET)]


def test_a_running_guest_is_down_until_its_node_has_the_dumps(ctx: FakeContext, kept: Kept) -> None:
    assert export(ctx) == (True, [True])
    assert steps(ctx) == [
        "undo: remove the unfinished dumps of web1 from node1",
        "undo: remove the unfinished dumps of web1 from node3",
        "undo: start web1 on node1 again",
        "undo: open the disks of web1 on node1",
        "node1 instance_shutdown",
        "node1 instance_disks_shutdown",
        "node1 instance_disks_assemble",
        "undo: end the script of the OS on node1",
        "node1 export_dump",
        "node1 instance_disks_assemble",
        "node1 instance_start",
        "undo: remove the key x509-KEY from node1",
        "node1 transfer_key_make",
        "undo: remove the key x509-KEY from node3",
        "node3 transfer_key_make",
        "undo: end the transfer import-1.0.0-disk0 on node3",
        "node3 transfer_receive",
        "undo: end the transfer export-1.0.0-disk0 on node1",
        "node1 transfer_send",
        "node3 transfer_confirm",
        "node1 transfer_end",
        "node3 transfer_end",
        "node1 transfer_key_remove",
        "node3 transfer_key_remove",
        "node3 export_finish",
        "node1 export_discard",
        "commit SetInstanceState settles",
    ]
    assert kept.dumps == {"disk0.dump": 4096}
    (received,), (sent,) = kept.received, kept.sent
    to, of = received["transfer"], sent["transfer"]
    assert (to.dump, of.dump, received["size"]) == ("disk0.dump", "disk0.dump", 4096)
    assert (to.authority, of.authority) == ("of node1", "of node3"), "each side knows the other alone"
    assert to.magic == of.magic != ""
    found = export_file.decode(kept.config)
    assert (found.name, found.os, found.source, found.tags) == ("web1", "noop", "node1", ["a", "b"])
    assert [(disk.dump, disk.size_mib, disk.dump_bytes, disk.sha256) for disk in found.disks] == [
        ("disk0.dump", 64, 4096, SUM)
    ]


def test_an_export_names_no_parameter_that_ganeti_3_1_refuses(ctx: FakeContext, kept: Kept) -> None:
    pretend = ctx.catalogue.hypervisors["pretend"]
    own = (Parameter("iops", "int", 0, not_in_3_1=True), Parameter("bandwidth", "int", 0, not_in_3_1=True))
    traits = dataclasses.replace(pretend, parameters=(*pretend.parameters, *own))
    ctx.catalogue = Catalogue(ctx.catalogue.templates, {"pretend": traits})
    instance = ctx.config.view().find_instance("web1")
    assert instance is not None
    ctx.config.view().put("instances", instance.uuid, replace(instance, hvparams={"iops": 7}))
    export(ctx)
    assert export_file.decode(kept.config).hvparams == {"kernel": "/boot/k", "iops": "7"}, (
        "cluster's own and unset ones"
    )


@pytest.mark.parametrize("parameters", [{"long_sleep": True}, {"remove_instance": True}])
def test_what_the_os_reads_goes_to_the_target_at_once_where_the_guest_is_not_to_run(
    ctx: FakeContext, kept: Kept, parameters: dict[str, Any]
) -> None:
    export(ctx, **parameters)
    (sent,) = kept.sent
    assert sent["transfer"].dump == ""
    assert "node1 export_dump" not in ctx.story
    if "long_sleep" in parameters:
        assert steps(ctx).index("node3 transfer_confirm") < steps(ctx).index("node1 instance_start")


def test_both_nodes_say_what_is_wrong_with_a_transfer(ctx: FakeContext, kept: Kept) -> None:
    kept.states = {
        "node1": state(running=False, exit_status=1, error="export ended with status 3"),
        "node3": state(running=False, exit_status=1, error="The connection was closed before the data began"),
    }
    sentence = "Disk 0 could not be copied: node1 says: export ended with status 3; node3 says: The connection was"
    with pytest.raises(ExecutionError, match=sentence):
        export(ctx)
    assert kept.config == ""


def test_a_dump_that_changes_on_its_way_replaces_no_older_export(ctx: FakeContext, kept: Kept) -> None:
    kept.states["node3"] = state(received=True, exit_status=0, sha256="00" * 32)
    with pytest.raises(ExecutionError, match=r"disk0.dump was written on node1 and has come to node3 with another che"):
        export(ctx)
    assert "node3 export_finish" not in ctx.story


def test_the_checksum_is_that_of_what_the_target_has_written(ctx: FakeContext, kept: Kept) -> None:
    for parameters in ({"long_sleep": True}, {"target_node": "node1"}):
        export(ctx, **parameters)
        assert [disk.sha256 for disk in export_file.decode(kept.config).disks] == [SUM]


def test_a_long_dump_says_how_far_it_is(ctx: FakeContext, kept: Kept) -> None:
    pace = Pace(ctx, ctx.config.view().find_node("node1").uuid, "disk 0", "dumped", 64 * MIB)
    for passed_s, done_mib in ((0, 0), (10, 16), (22, 48)):
        ctx.time_s += passed_s
        ctx.nodes.handlers["export_progress"] = lambda name, done=done_mib, **_: done * MIB
        asyncio.run(pace.tell("token"))
    said = [str(line) for line in ctx.log.lines if "dumped" in str(line) and "MiB" in str(line)]
    assert len(said) == 1 and "Disk 0: 48 MiB (75 %) dumped, 1.5 MiB/s, 11 s left" in said[0]
    ctx.nodes.handlers["export_progress"] = BlockDeviceError("not now")
    asyncio.run(pace.tell("token"))
    pace.end()


def test_a_cancelled_export_waits_for_nothing_more(ctx: FakeContext, kept: Kept) -> None:
    def cancelled() -> None:
        if kept.sent:
            raise JobCanceled("cancelled")

    ctx.stop_if_cancelled = cancelled  # type: ignore[method-assign]
    with pytest.raises(JobCanceled):
        export(ctx)
    assert "node3 export_finish" not in ctx.story


def test_each_disk_goes_with_keys_that_are_still_valid(ctx: FakeContext, kept: Kept) -> None:
    """Disks go one after the other, and one may take most of a day."""
    instance = ctx.config.view().find_instance("web1")
    disk = ctx.config.view().instance_disks(instance)[0]
    ctx.config.view().put("disks", "d-second", replace(disk, uuid="d-second", name=None))
    ctx.config.view().put("instances", instance.uuid, replace(instance, disks=[*instance.disks, "d-second"]))
    over: dict[str, float] = {}

    def make(node: str, /, *, name: str, validity_s: float, **_: Any) -> dict[str, Any]:
        over[name] = ctx.time_s + validity_s
        return {"name": name, "certificate": f"of {node}"}

    def receive(node: str, /, **asked: Any) -> int:
        assert ctx.time_s < over[asked["transfer"].key], "the key is not valid any more"
        return kept.receive(node, **asked)

    def confirm(node: str, /, **_: Any) -> None:
        ctx.time_s += 20 * 3600

    ctx.nodes.handlers |= {"transfer_key_make": make, "transfer_receive": receive, "transfer_confirm": confirm}
    assert export(ctx, long_sleep=True) == (True, [True, True])
    assert kept.dumps == {"disk0.dump": 4096, "disk1.dump": 4096}
    assert len({asked["transfer"].key for asked in (*kept.received, *kept.sent)}) == len(over) == 4
    made, removed = (ctx.story.count(f"node1 transfer_key_{word}") for word in ("make", "remove"))
    assert (made, removed) == (2, 2)


def test_the_primary_node_may_keep_it(ctx: FakeContext, kept: Kept) -> None:
    export(ctx, target_node="node1")
    assert kept.dumps == {"disk0.dump": 4096}
    assert not [line for line in ctx.story if "transfer" in line or "export_discard" in line]


def test_an_older_export_on_another_node_goes(ctx: FakeContext, kept: Kept) -> None:
    kept.older = {"node2": ["web1", "db1"]}
    export(ctx)
    assert [line for line in ctx.story if line.endswith("export_remove")] == ["node2 export_remove"]


def test_nodes_with_the_same_directory_of_exports_do_not_remove_the_new_one(ctx: FakeContext, kept: Kept) -> None:
    kept.older = {"node1": ["web1"], "node2": ["web1"]}
    kept.reach += ["node1"]
    export(ctx)
    assert [line for line in ctx.story if line.endswith("export_remove")] == ["node2 export_remove"]
    assert any("node1 has the same directory of exports" in line for line in ctx.lines)


def test_an_instance_whose_export_has_gone_stays(ctx: FakeContext, kept: Kept) -> None:
    kept.reach.clear()
    with pytest.raises(ExecutionError, match="The export of web1 on node3 has changed: the instance is not removed"):
        export(ctx, remove_instance=True)
    assert ctx.config.view().uuid_by_name("instances", "web1") is not None


def test_an_export_that_would_be_taken_for_an_unfinished_one_is_refused(ctx: FakeContext) -> None:
    instance = ctx.config.view().find_instance("web1")
    ctx.config.view().put("instances", instance.uuid, replace(instance, name="web1.new"))
    with pytest.raises(PrerequisiteError, match=r"would have the name that an unfinished one of web1 has"):
        run(ExportInstance(instance_name="web1.new", target_node="node3"), ctx)


def test_the_instance_is_removed_after_its_export(ctx: FakeContext) -> None:
    export(ctx, remove_instance=True)
    assert "node1 instance_shutdown" in ctx.story
    assert "node1 instance_start" not in ctx.story
    assert ctx.config.view().uuid_by_name("instances", "web1") is None


def zeroing(ctx: FakeContext, kept: Kept, *, seconds: float) -> None:
    """The cluster has an image whose guest takes that long."""
    cluster = ctx.config.view().cluster
    ctx.config.view().put("cluster", CLUSTER_KEY, replace(cluster, zeroing_image="/srv/zero.img"))
    begun: list[float] = []

    def start(name: str, *, image: str, **_: Any) -> None:
        assert (name, image) == ("node1", "/srv/zero.img")
        begun.append(ctx.time_s)

    def info(name: str, **_: Any) -> Any:
        return guest() if begun and ctx.time_s - begun[0] < seconds else None

    ctx.nodes.handlers |= {"helper_start": start, "instance_info": info}


def test_a_helper_guest_zeroes_free_space_between_the_stop_and_the_dump(ctx: FakeContext, kept: Kept) -> None:
    zeroing(ctx, kept, seconds=30)
    export(ctx, zero_free_space=True)
    told = [line for line in ctx.story if "helper" in line or line.endswith(("instance_shutdown", "export_dump"))]
    assert told == [
        "node1 instance_shutdown",
        "undo: end the helper guest of web1 on node1",
        "node1 helper_start",
        "node1 helper_end",
        "node1 export_dump",
    ]


def test_a_helper_guest_that_does_not_end_is_ended_and_nothing_is_dumped(ctx: FakeContext, kept: Kept) -> None:
    zeroing(ctx, kept, seconds=1e9)
    with pytest.raises(ExecutionError, match="web1 has not ended within 42 seconds and was stopped: give it more time"):
        export(ctx, zero_free_space=True, zeroing_timeout_fixed=10, zeroing_timeout_per_mib=0.5)
    assert ctx.story[-1] == "node1 helper_end"
    assert not [line for line in ctx.story if "export_dump" in line]


@pytest.fixture
def copying(ctx: FakeContext) -> FakeContext:
    """A hypervisor that copies disks of running guests."""
    drivers = catalogue()
    hypervisor = dataclasses.replace(drivers.hypervisors["pretend"], can_copy_disks=True)
    ctx.catalogue = Catalogue(drivers.templates, {"pretend": hypervisor})
    ctx.nodes.handlers["instance_info"] = lambda name, **_: guest("web1")
    ctx.nodes.handlers |= {"export_copy_disks": lambda name, **_: None, "export_end_copies": lambda name, **_: None}
    return ctx


def test_a_running_guest_is_exported_without_a_stop(copying: FakeContext, kept: Kept) -> None:
    copied: list[str] = []
    copying.nodes.handlers["export_copy_disks"] = lambda name, *, token, **_: copied.append(token)
    assert export(copying, shutdown=False) == (True, [True])
    told = steps(copying)
    (end,) = (each for each in copying.records if "copying" in each.sentence)
    assert isinstance(end, UndoNodeCall)
    assert end.arguments["token"] == copied[0] != ""
    assert told[2:5] == [
        "undo: end the copying of disks of web1 on node1",
        "node1 export_copy_disks",
        "undo: remove the key x509-KEY from node1",
    ]
    (sent,) = kept.sent
    assert (sent["copied"], sent["transfer"].directory) == (True, "web1.new")
    assert not [line for line in told if "shutdown" in line or "start" in line or "assemble" in line]


def test_one_that_should_run_and_does_not_has_no_moment_to_be_copied_at(copying: FakeContext) -> None:
    copying.nodes.handlers["instance_info"] = lambda name, **_: None
    with pytest.raises(PrerequisiteError, match="should run and does not: start it"):
        export(copying, shutdown=False)


def test_what_cannot_be_exported_is_refused(ctx: FakeContext) -> None:
    for parameters, sentence in (
        ({"shutdown": False}, "The hypervisor pretend cannot copy disks of a running guest: leave --noshutdown out"),
        ({"shutdown": False, "remove_instance": True}, "cannot be removed without stopping it"),
        ({"compress": "lzma"}, "Compression 'lzma' is not enabled in the cluster: use one of none, gzip"),
        ({"zero_free_space": True}, "No helper guest can zero free space: name its image first"),
        ({"zeroing_timeout_fixed": 3}, "A time for zeroing is given without --zero-free-space: add it"),
        ({"mode": "remote", "target_node": []}, "An export to another cluster needs x509_key_name"),
        ({"x509_key_name": ["x"]}, "x509_key_name is about an export to another cluster: leave it out"),
    ):
        with pytest.raises(PrerequisiteError, match=sentence):
            export(ctx, **parameters)
    node = ctx.config.view().find_node("node3")
    ctx.config.view().put("nodes", node.uuid, replace(node, drained=True))
    with pytest.raises(PrerequisiteError, match="Node node3 is drained: choose another node"):
        export(ctx)


class Killed(BaseException):
    """The job ends here, without a word."""


class Machine:
    """Node 1 with a guest, whose disks it can snapshot; it dies or refuses at one of its calls."""

    def __init__(self, ctx: FakeContext) -> None:
        self.runs, self.kept, self.degraded = True, False, False
        self.states = {
            "instance_shutdown": ("runs", False),
            "instance_start": ("runs", True),
            "export_snapshot_disks": ("kept", True),
            "export_remove_snapshots": ("kept", False),
        }
        self.told: list[str] = []
        self.killed_at = -1
        self.refused = ""
        ctx.nodes.handlers |= {
            "instance_info": lambda name, **_: guest("web1") if self.runs else None,
            "blockdev_find": lambda name, **_: disk_status(is_degraded=self.degraded),
        }
        for call in (*self.states, "export_dump", "export_finish", "export_discard"):
            ctx.nodes.handlers[call] = self._answering(call, ctx.nodes.handlers.get(call, lambda node, /, **_: None))

    def _answering(self, call: str, answer: Any) -> Any:
        def answering(node: str, /, **asked: Any) -> Any:
            self.told.append(call)
            if call == self.refused:
                raise BlockDeviceError("no room")
            name, value = self.states.get(call, ("", None))
            if name:
                setattr(self, name, value)
            if len(self.told) - 1 == self.killed_at:
                raise Killed
            return answer(node, **asked)

        return answering

    def unwind(self, ctx: FakeContext) -> None:
        """What a job that goes on after the death of this one does."""
        self.killed_at, self.refused = -1, ""
        for record in reversed(ctx.records):
            if isinstance(record, UndoNodeCall):
                asyncio.run(ctx.nodes.call(record.node_uuid, record.call, **record.arguments))


@pytest.fixture
def machine(ctx: FakeContext) -> Machine:
    """Its template makes snapshots at once."""
    drivers = catalogue()
    quick = dataclasses.replace(drivers.templates["local"], quick_snapshots=True)
    ctx.catalogue = Catalogue(drivers.templates | {"local": quick}, drivers.hypervisors)
    return Machine(ctx)


BY_SNAPSHOT = (
    "instance_shutdown",
    "export_snapshot_disks",
    "instance_start",
    "export_remove_snapshots",
    "export_finish",
    "export_discard",
)


def test_a_guest_runs_again_as_soon_as_its_disks_have_snapshots(ctx: FakeContext, kept: Kept, machine: Machine) -> None:
    assert export(ctx) == (True, [True])
    assert machine.told == list(BY_SNAPSHOT) and machine.runs and not machine.kept
    (sent,) = kept.sent
    assert (sent["copied"], sent["transfer"].directory, sent["transfer"].dump) == (True, "web1.new", "")
    told = steps(ctx)
    taken = told.index("undo: remove the snapshot for the export of web1 from node1")
    assert told[taken + 1 : taken + 5] == [
        "node1 export_snapshot_disks",
        "node1 instance_disks_assemble",
        "node1 instance_start",
        "undo: remove the key x509-KEY from node1",
    ]
    assert told.index("node3 transfer_confirm") < told.index("node1 export_remove_snapshots")


def test_the_primary_node_may_keep_what_the_os_reads_of_snapshots(ctx: FakeContext, machine: Machine) -> None:
    export(ctx, target_node="node1")
    assert machine.told == [*BY_SNAPSHOT[:3], "export_dump", "export_remove_snapshots", "export_finish"]
    assert machine.runs and not machine.kept


@pytest.mark.parametrize("step", range(len(BY_SNAPSHOT)))
def test_an_export_that_dies_at_any_step_leaves_a_running_guest_and_no_snapshot(
    ctx: FakeContext, machine: Machine, step: int
) -> None:
    machine.killed_at = step
    with pytest.raises(Killed):
        export(ctx)
    assert machine.told == list(BY_SNAPSHOT[: step + 1])
    machine.unwind(ctx)
    assert machine.runs and not machine.kept


def test_a_guest_whose_disks_have_no_room_for_snapshots_stays_stopped_until_they_are_dumped(
    ctx: FakeContext, kept: Kept, machine: Machine
) -> None:
    machine.refused = "export_snapshot_disks"
    assert export(ctx) == (True, [True])
    assert machine.told[1:5] == ["export_snapshot_disks", "export_remove_snapshots", "export_dump", "instance_start"]
    assert machine.runs and not machine.kept
    (sent,) = kept.sent
    assert (sent.get("copied"), sent["transfer"].dump) == (None, "disk0.dump")


def test_a_snapshot_that_cannot_be_removed_is_told_of(ctx: FakeContext, kept: Kept, machine: Machine) -> None:
    machine.refused = "export_remove_snapshots"
    assert export(ctx) == (True, [True])
    assert kept.dumps == {"disk0.dump": 4096}
    assert any("gnt-instance snapshot remove web1 .export" in str(line) for line in ctx.lines)


@pytest.mark.parametrize("case", ["degraded", "down", "long_sleep", "remove_instance"])
def test_where_a_snapshot_would_be_wrong_or_useless_none_is_taken(
    ctx: FakeContext, machine: Machine, case: str
) -> None:
    parameters = {case: True} if case in ("long_sleep", "remove_instance") else {}
    machine.degraded = case == "degraded"
    if case == "down":
        machine.runs = False
        instance = ctx.config.view().find_instance("web1")
        ctx.config.view().put("instances", instance.uuid, replace(instance, admin_state="down", disks_active=False))
    export(ctx, **parameters)
    assert not [call for call in machine.told if "snapshot" in call]
    assert machine.runs == (case in ("degraded", "long_sleep"))
