# SPDX-License-Identifier: BSD-2-Clause
"""The engine: phases in order, locks taken again when more are needed, failures undone before anything is freed."""

import asyncio
from typing import Any

import pytest
from tests.fakes.engine_world import MemoryWorld
from tests.fakes.sample_cluster import add_instance

from ganeti.base.errors import (
    REFUSED_AT_THE_DOOR,
    ExecutionError,
    HooksAbort,
    LockError,
    PrerequisiteError,
    TransportError,
    from_wire,
)
from ganeti.master.operation import REGISTRY, Defer, Hooks, MoreLocks, Operation, SubmitJobs, operation
from ganeti.master.queue.execution import JobRunner
from ganeti.master.queue.outcomes import standing
from ganeti.model.locks import LockPlan, instance_lock, node_lock
from ganeti.ports.config import Change
from ganeti.ports.context import UndoChange, UndoNodeCall
from ganeti.wire.job_file import RUNNING

NODE = "uuid-node1"


class TagForTest(Change, frozen=True):
    tag: str
    add: bool = True

    def apply(self, draft: Any) -> str:
        import msgspec

        tags = [tag for tag in draft.cluster.tags if tag != self.tag] + ([self.tag] if self.add else [])
        draft.put("cluster", msgspec.structs.replace(draft.cluster, tags=tags))
        return self.tag


@operation("OP_X_WORK")
class Work(Operation[Any], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Records an undo, tags the cluster, and fails where it is told to."""

    fail_at: str = ""
    more: bool = False
    settles: bool = False
    hooked: bool = False

    def locks(self, view: Any) -> LockPlan:
        return LockPlan.of(shared=[node_lock(NODE)])

    async def gather(self, ctx: Any, view: Any) -> Any:
        wanted = LockPlan.of(exclusive=[instance_lock("web1")])
        if self.more and f"locks cluster/BGL:shared instance/web1:exclusive {node_lock(NODE)}:shared" not in ctx.story:
            return MoreLocks(wanted)
        return "facts"

    def check(self, view: Any, facts: Any, ctx: Any) -> Any:
        assert facts == "facts"
        if self.fail_at == "check":
            raise PrerequisiteError("No")
        return "checked"

    async def check_on_nodes(self, checked: Any, ctx: Any) -> Any:
        assert checked == "checked"
        if self.fail_at == "nodes":
            raise PrerequisiteError("Not here")
        return "checked on nodes"

    def hooks(self, view: Any, checked: Any) -> Hooks | None:
        assert checked == "checked on nodes"
        env = {"INSTANCE_NAME": "web1"}
        return Hooks("work", "INSTANCE", "web1", env, [NODE], [NODE]) if self.hooked else None

    async def execute(self, checked: Any, ctx: Any) -> Any:
        assert checked == "checked on nodes"
        await ctx.undo.push(UndoChange("take the tag away", TagForTest(tag="new", add=False)))
        await ctx.config.commit(TagForTest(tag="new"), settles=self.settles)
        rest = UndoNodeCall("", NODE, "remove_rest", {})
        await ctx.undo.push(UndoNodeCall("remove the disk", NODE, "remove_disk", {"uuid": "x"}, settled_call=rest))
        await ctx.nodes.call(NODE, "make_disk")
        if self.fail_at == "execute":
            raise ExecutionError("It broke")
        if self.fail_at == "fault":
            raise KeyError("oops")
        return {"made": ["x"]}


@operation("OP_X_FORWARD")
class Forward(Operation[Any], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Its second record says that with one change it is complete, but for the rest."""

    async def execute(self, checked: Any, ctx: Any) -> Any:
        await ctx.undo.push(UndoNodeCall("remove the disk", NODE, "remove_disk", {}))
        rest = UndoNodeCall("remove what is left", NODE, "remove_rest", {})
        change = UndoChange("complete it", TagForTest(tag="new"), forward=True, rest=rest)
        await ctx.undo.push(change)
        raise ExecutionError("It broke")


@operation("OP_X_PARENT")
class Parent(Operation[Any], frozen=True, kw_only=True, forbid_unknown_fields=True):
    async def execute(self, checked: Any, ctx: Any) -> Any:
        return SubmitJobs([[Work()], [Work(depends=[[-1, []]], priority=10)]], {"extra": 1})


@operation("OP_X_PATIENT")
class Patient(Operation[Any], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Defers itself, a little more urgent each time, until its priority is -2."""

    late: bool = False

    async def gather(self, ctx: Any, view: Any) -> Any:
        if ctx.job.priority > -2 and not self.late:
            raise Defer(ctx.job.priority - 1)

    async def execute(self, checked: Any, ctx: Any) -> Any:
        if self.late:
            raise Defer
        return ctx.job.priority


@pytest.fixture(scope="module", autouse=True)
def forget_the_operations():
    yield
    for op_id in ("OP_X_WORK", "OP_X_PARENT", "OP_X_PATIENT", "OP_X_FORWARD"):
        del REGISTRY[op_id]


def work(**parameters: Any) -> dict[str, Any]:
    return {"OP_ID": "OP_X_WORK", **parameters}


def carry_out(world: MemoryWorld) -> MemoryWorld:
    asyncio.run(JobRunner(world.job, world).run())
    return world


def test_phases_in_order():
    world = carry_out(MemoryWorld(work()))
    assert world.story == [
        f"locks cluster/BGL:shared {node_lock(NODE)}:shared",
        "record: take the tag away",
        "commit TagForTest",
        "record: remove the disk",
        "node1 make_disk",
        "saved success",
        "free",
    ]
    assert world.stored.ops[0].result == {"made": ["x"]} and world.stored.position == [1, 7]
    assert world.undo.raw == b"", "the records of an ended opcode go"


@pytest.mark.requirement("S2.59")
def test_more_locks_that_precede_are_taken_from_the_beginning():
    world = carry_out(MemoryWorld(work(more=True)))
    assert world.story[:3] == [
        f"locks cluster/BGL:shared {node_lock(NODE)}:shared",
        "free",
        f"locks cluster/BGL:shared instance/web1:exclusive {node_lock(NODE)}:shared",
    ]
    assert world.stored.status == "success"


def test_a_failure_is_unwound_last_first_under_the_locks():
    world = carry_out(MemoryWorld(work(fail_at="execute"), work()))
    tail = world.story[world.story.index("node1 make_disk") + 1 :]
    assert tail == ["node1 remove_disk", "commit TagForTest", "saved error", "free"]
    first, second = world.stored.ops
    assert first.result == ["OpExecError", ["It broke"]]
    assert [entry[3] for entry in first.log] == ["undone: remove the disk", "undone: take the tag away"]
    assert (second.status, second.result) == ("error", ["OpExecError", ["Preceding opcode failed"]])
    assert "new" not in world.view().cluster.tags and world.undo.raw == b""


def test_a_settling_commit_makes_earlier_records_moot():
    world = MemoryWorld(work(fail_at="execute", settles=True))
    note_settling(world)
    carry_out(world)
    assert [entry[3] for entry in world.stored.ops[0].log] == ["undone: remove the disk"]
    assert "new" in world.view().cluster.tags


def note_settling(world: MemoryWorld) -> None:
    """Have the log told of commits that settle, as a real process does."""
    original = world.inner.config.commit

    async def commit(change: Any, *, settles: bool = False) -> Any:
        if settles:
            await world.undo.append({"settles": 5, "attempt": 1})
            world.settled = (1, 5)
        return await original(change, settles=settles)

    world.inner.config.commit = commit


def test_what_cannot_be_undone_stays_on_disk_and_the_rest_is_still_undone():
    world = MemoryWorld(work(fail_at="execute"))
    world.inner.nodes.handlers["remove_disk"] = ExecutionError("the disk is stuck")
    carry_out(world)
    log = [entry[3] for entry in world.stored.ops[0].log]
    assert log == [" - WARNING: could not undo: remove the disk: the disk is stuck", "undone: take the tag away"]
    (left,) = world.undo.log.given_up()
    assert (left.sentence, left.reason) == ("remove the disk", "the disk is stuck")


def test_the_undo_of_what_a_node_refuses_at_the_door_is_nothing_to_undo():
    world = MemoryWorld(work(fail_at="execute"))
    world.inner.nodes.handlers["remove_disk"] = from_wire(["ParameterError", ["bad name", REFUSED_AT_THE_DOOR]])
    carry_out(world)
    log = [entry[3] for entry in world.stored.ops[0].log]
    assert log == ["nothing to undo: remove the disk: bad name", "undone: take the tag away"]
    assert world.undo.raw == b"", "nothing is left for verification to name"


def test_a_step_that_turned_out_complete_is_settled_and_nothing_before_it_is_undone():
    world = MemoryWorld(work(fail_at="execute"))
    world.inner.nodes.handlers["remove_disk"] = lambda name, **arguments: {"settled": True}
    carry_out(world)
    assert [entry[3] for entry in world.stored.ops[0].log] == ["complete after all: remove the disk"]
    assert "new" in world.view().cluster.tags and world.undo.raw == b""
    assert world.stored.ops[0].result[1] == ["It broke; what it had begun was completed, as its log says"]


def test_what_cannot_follow_a_complete_step_is_named_and_nothing_before_it_is_undone():
    world = MemoryWorld(work(fail_at="execute"))
    world.inner.nodes.handlers["remove_disk"] = lambda name, **arguments: {"settled": True}
    world.inner.nodes.handlers["remove_rest"] = ExecutionError("the rest is stuck")
    carry_out(world)
    log = [entry[3] for entry in world.stored.ops[0].log]
    assert log == [" - WARNING: could not complete: remove the disk: the rest is stuck"]
    assert "new" in world.view().cluster.tags
    (left,) = world.undo.log.given_up()
    assert (left.sentence, left.reason) == ("remove the disk", "the rest is stuck")


def test_a_commit_whose_answer_was_lost_and_that_has_happened_is_told_of():
    world = MemoryWorld(work(settles=True))
    note_settling(world)
    world.inner.nodes.handlers["make_disk"] = TransportError("It is silent")
    carry_out(world)
    told = world.stored.ops[0].result[1][0]
    assert told == "It is silent; what it had committed stays, its later steps were undone, as its log says"


def test_a_fault_of_our_own_is_noted_and_undone():
    world = carry_out(MemoryWorld(work(fail_at="fault")))
    assert [type(fault) for fault in world.faults] == [KeyError]
    assert world.stored.ops[0].result == ["OpExecError", ["KeyError: 'oops'"]]
    assert "node1 remove_disk" in world.story


def test_nothing_is_done_when_a_prerequisite_fails_or_in_a_dry_run():
    for opcode, result in (
        (work(fail_at="check"), ["OpPrereqError", ["No", "wrong_input"]]),
        (work(dry_run=True, fail_at="nodes"), ["OpPrereqError", ["Not here", "wrong_input"]]),
        (work(dry_run=True, fail_at="execute"), None),
    ):
        world = carry_out(MemoryWorld(opcode))
        assert world.stored.ops[0].result == result
        assert not [line for line in world.story if line.startswith(("commit", "node1"))]
        assert "free" in world.story
    (said,) = world.stored.ops[0].log
    assert said[3] == " - INFO: dry-run mode requested, not actually executing the operation"


def test_what_nodes_refuse_runs_no_hook_and_what_passes_is_asked_once(monkeypatch):
    asked: list[str] = []
    original = Work.check_on_nodes

    async def check_on_nodes(self: Any, checked: Any, ctx: Any) -> Any:
        asked.append(world.stored.status)
        return await original(self, checked, ctx)

    monkeypatch.setattr(Work, "check_on_nodes", check_on_nodes)
    world = MemoryWorld(work(hooked=True, fail_at="nodes"))
    carry_out(world)
    assert world.stored.ops[0].result == ["OpPrereqError", ["Not here", "wrong_input"]]
    assert not [line for line in world.story if "hooks_runner" in line or line.startswith(("commit", "record"))]

    world = MemoryWorld(work(hooked=True))
    world.inner.nodes.handlers["hooks_runner"] = lambda name, **_: []
    carry_out(world)
    assert world.stored.status == "success" and [line for line in world.story if "hooks_runner" in line]
    assert asked == ["waiting", "waiting"]


def test_cancel_while_nodes_are_asked_stops_the_opcode_before_its_hooks(monkeypatch):
    world = MemoryWorld(work(hooked=True))
    runner = JobRunner(world.job, world)

    async def check_on_nodes(self: Any, checked: Any, ctx: Any) -> Any:
        runner.ask_cancel()
        return checked

    monkeypatch.setattr(Work, "check_on_nodes", check_on_nodes)
    asyncio.run(runner.run())
    assert world.stored.status == "canceled" and world.story[-2:] == ["free", "saved canceled"]
    assert not [line for line in world.story if "hooks_runner" in line or line.startswith(("commit", "record"))]


def test_a_pre_hook_that_fails_stops_everything_and_a_post_hook_does_not():
    world = MemoryWorld(work(hooked=True))
    seen: list[dict[str, str]] = []

    def hooks_runner(name: str, path: str, phase: str, env: dict[str, str]) -> list[list[Any]]:
        seen.append(env)
        return [["10-no", 1 if phase == "post" else 2, "because"]]

    world.inner.nodes.handlers["hooks_runner"] = hooks_runner
    carry_out(world)
    assert world.stored.status == "success"
    assert world.stored.ops[0].log[-1][3] == " - WARNING: hook 10-no failed on node node1: because"
    assert seen[0]["GANETI_INSTANCE_NAME"] == "web1" and seen[0]["GANETI_HOOKS_PHASE"] == "pre"
    assert seen[1]["GANETI_POST_INSTANCE_NAME"] == "web1"

    world = MemoryWorld(work(hooked=True))
    world.inner.nodes.handlers["hooks_runner"] = lambda name, **arguments: [["10-no", 1, "because"]]
    carry_out(world)
    assert world.stored.ops[0].result == [HooksAbort.wire_name, [[["node1", "10-no", "because"]]]]
    assert str(from_wire(world.stored.ops[0].result)) == "Hooks refused it: node node1, script 10-no: because"
    assert not [line for line in world.story if line.startswith("commit")]


def test_what_is_done_stays_done_where_its_post_hooks_cannot_be_told():
    world = MemoryWorld(work(hooked=True))
    original = world.inner.config.commit

    async def commit_and_lose_the_cluster(change: Any, *, settles: bool = False) -> Any:
        answer = await original(change, settles=settles)
        world.inner.config.view = lost
        return answer

    def lost() -> Any:
        raise TransportError("the configuration cannot be read")

    world.inner.nodes.handlers["hooks_runner"] = lambda name, **_: []
    world.inner.config.commit = commit_and_lose_the_cluster
    carry_out(world)
    assert world.stored.status == "success"
    assert "could not be run: the configuration cannot be read" in world.stored.ops[0].log[-1][3]


def test_jobs_made_by_an_opcode_carry_its_reason_and_priority():
    world = carry_out(MemoryWorld({"OP_ID": "OP_X_PARENT", "priority": -10, "reason": [["gnt:user", "why", 1]]}))
    assert world.stored.ops[0].result == {"jobs": [[True, 10], [True, 11]], "extra": 1}
    (first,), (second,) = world.submitted
    assert first["reason"] == [["gnt:user", "why", 1]]
    assert (first["priority"], second["priority"], second["depends"]) == (-10, 10, [[-1, []]])


def test_cancel_between_opcodes_and_while_the_lock_daemon_is_away():
    world = MemoryWorld(work(), work())

    async def cancelled_in_the_first() -> None:
        runner = JobRunner(world.job, world)
        world.inner.nodes.handlers["make_disk"] = lambda name: runner.ask_cancel()
        await runner.run()

    asyncio.run(cancelled_in_the_first())
    assert [entry.status for entry in world.stored.ops] == ["success", "canceled"]
    assert world.stored.ops[1].result == ["JobCanceled", ["Job canceled by request"]]

    world = MemoryWorld(work())

    async def cancelled_waiting() -> None:
        runner = JobRunner(world.job, world)

        async def claim_locks(priority: int, request: Any) -> bool:
            asyncio.get_running_loop().call_soon(runner.ask_cancel)
            return await asyncio.get_running_loop().create_future()  # WConfD is being restarted

        world.claim_locks = claim_locks
        await runner.run()

    asyncio.run(cancelled_waiting())
    assert world.stored.status == "canceled" and world.story == ["free", "saved canceled"]


def test_cancel_while_facts_are_gathered_stops_the_opcode_before_it_acts(monkeypatch):
    world = MemoryWorld(work())
    runner = JobRunner(world.job, world)

    async def gather(self: Any, ctx: Any, view: Any) -> str:
        runner.ask_cancel()
        assert world.stored.status == "canceling"
        return "facts"

    monkeypatch.setattr(Work, "gather", gather)
    asyncio.run(runner.run())
    assert world.stored.status == "canceled" and world.story[-2:] == ["free", "saved canceled"]
    assert not [line for line in world.story if line.startswith(("commit", "record"))]


def test_cancel_ends_what_is_waited_for_before_the_opcode_acts(monkeypatch):
    """An allocator that is a program may think for minutes."""
    world = MemoryWorld(work())
    runner = JobRunner(world.job, world)

    async def gather(self: Any, ctx: Any, view: Any) -> str:
        asyncio.get_running_loop().call_soon(runner.ask_cancel)
        return await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(Work, "gather", gather)
    asyncio.run(asyncio.wait_for(runner.run(), 30))
    assert world.stored.status == "canceled" and world.story[-2:] == ["free", "saved canceled"]


def test_cancel_is_a_cancel_also_when_the_claim_breaks_off():
    world = MemoryWorld(work())

    async def go() -> None:
        runner = JobRunner(world.job, world)

        async def claim_locks(priority: int, request: Any) -> bool:
            asyncio.get_running_loop().call_soon(runner.ask_cancel)
            try:
                return await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                raise TransportError("WConfD does not answer") from None

        world.claim_locks = claim_locks
        await runner.run()

    asyncio.run(go())
    assert world.stored.status == "canceled"


WANTED = [("cluster/BGL", "shared"), (node_lock(NODE), "shared")]
ALL_WANTED = [("cluster/BGL", "shared"), ("instance/web1", "exclusive"), (node_lock(NODE), "shared")]


def go_on(world: MemoryWorld) -> MemoryWorld:
    """Be the next process of a job that was handed back."""
    assert world.story[-1] == "handed back"
    world.story.clear()
    world.job = world.stored
    world.job.attempt += 1
    return carry_out(world)


def test_a_job_whose_locks_are_taken_is_handed_back_and_goes_on_later():
    world = MemoryWorld(work())
    world.job.livelock, world.job.process_id = "/run/job_1", 17
    world.taken = {node_lock(NODE)}
    carry_out(world)
    assert world.story == [f"refused cluster/BGL:shared {node_lock(NODE)}:shared", "free", "handed back"]
    file = world.stored
    assert (file.status, file.wants, file.livelock, file.process_id) == ("queued", WANTED, None, None)
    assert file.ops[0].start_timestamp is not None and file.ops[0].end_timestamp is None

    world.taken = set()
    go_on(world)
    assert world.story[0] == f"locks cluster/BGL:shared {node_lock(NODE)}:shared"
    assert (world.stored.status, world.stored.wants) == ("success", None)


def test_locks_wanted_later_are_asked_for_at_once_by_the_next_process():
    world = MemoryWorld(work(more=True))
    world.taken = {"instance/web1"}
    carry_out(world)
    assert world.story == [
        f"locks cluster/BGL:shared {node_lock(NODE)}:shared",
        "free",
        f"refused cluster/BGL:shared instance/web1:exclusive {node_lock(NODE)}:shared",
        "free",
        "handed back",
    ]
    assert world.stored.wants == ALL_WANTED

    world.taken = set()
    go_on(world)
    assert world.story[0] == f"locks cluster/BGL:shared instance/web1:exclusive {node_lock(NODE)}:shared"
    assert world.stored.status == "success"


def test_wants_are_of_the_opcode_that_gave_up_alone():
    world = MemoryWorld(work(), work())
    world.job.wants = ALL_WANTED
    carry_out(world)
    claims = [line for line in world.story if line.startswith("locks")]
    assert ["instance/web1" in claim for claim in claims] == [True, False]


def test_between_two_opcodes_a_job_makes_way_for_a_better_one():
    world = MemoryWorld(work(), work())
    world.go_on = False
    carry_out(world)
    assert [entry.status for entry in world.stored.ops] == ["success", "queued"]
    assert (world.stored.status, world.stored.wants, world.stored.position) == ("queued", None, [1, 7])
    go_on(world)
    assert world.stored.status == "success", "one opcode a turn is what a process does at least"
    assert [line for line in world.story if line.startswith("node1")] == ["node1 make_disk"]


def test_cancel_while_the_job_is_being_handed_back_and_after(monkeypatch):
    world = MemoryWorld(work())
    world.taken = {node_lock(NODE)}
    runner = JobRunner(world.job, world)

    async def free_locks(*, ending: bool = False) -> None:
        runner.ask_cancel()

    monkeypatch.setattr(world, "free_locks", free_locks)
    asyncio.run(runner.run())
    assert world.stored.status == "canceled" and "handed back" not in world.story

    world = MemoryWorld(work())
    world.taken = {node_lock(NODE)}
    world.messages = []
    runner = JobRunner(world.job, world)
    asyncio.run(runner.run())
    written = world.disk
    world.messages = [-10]
    runner.ask_cancel()
    runner.renew_priority()
    assert world.disk == written and world.job.status == "queued", "the file is the queue's now"
    assert world.messages == [-10], "the queue must find the message"


def test_an_opcode_defers_itself_with_another_priority():
    world = carry_out(MemoryWorld({"OP_ID": "OP_X_PATIENT"}))
    for priority in (-1, -2):
        assert (world.stored.status, world.stored.wants, world.stored.ops[0].priority) == ("queued", None, priority)
        go_on(world)
    assert (world.stored.status, world.stored.ops[0].result) == ("success", -2)


def test_an_opcode_that_has_begun_to_act_cannot_defer_itself():
    world = carry_out(MemoryWorld({"OP_ID": "OP_X_PATIENT", "late": True}))
    assert world.stored.status == "error" and [type(fault) for fault in world.faults] == [Defer]


def test_a_new_priority_counts_from_the_next_claim_on():
    world = MemoryWorld(work(), work())
    runner = JobRunner(world.job, world)

    def renew(name: str) -> None:
        if not world.messages:
            world.messages = [-7]
            runner.renew_priority()

    world.inner.nodes.handlers["make_disk"] = renew
    asyncio.run(runner.run())
    assert world.claimed == [0, -7] and [entry.priority for entry in world.stored.ops] == [0, -7]


def test_a_new_priority_that_comes_while_the_job_is_handed_back_is_kept():
    world = MemoryWorld(work())
    world.taken = {node_lock(NODE)}
    world.messages = [5]
    carry_out(world)
    assert world.stored.priority == 5


def test_a_lock_that_is_refused_ends_the_job_in_error():
    world = MemoryWorld(work())
    world.refusal = LockError("Not this one")
    carry_out(world)
    assert world.stored.ops[0].result == ["LockError", ["Not this one"]]


def test_the_successor_takes_over_aborts_unwinds_and_ends():
    world = carry_out_until_death()
    asyncio.run(JobRunner(world.job, world).unwind_for_the_dead("Job 1 died while OP_X_WORK was running"))
    assert world.story == [
        "take over",
        f"abort on {NODE}",
        "node1 remove_disk",
        "commit TagForTest",
        "saved error",
        "free",
    ]
    result = world.stored.ops[0].result
    assert result[1][0].startswith("Job 1 died") and "undone" in result[1][0]
    assert world.undo.raw == b""


def test_the_successor_leaves_ended_opcodes_alone():
    world = carry_out_until_death()
    world.job.ops.insert(0, world.job.ops[0])
    world.job.ops[0].status = "success"
    second = type(world.job.ops[0])(input=work(), status=RUNNING)
    world.job.ops[1] = second
    asyncio.run(JobRunner(world.job, world).unwind_for_the_dead("Job 1 died"))
    assert not [line for line in world.story if line.startswith(("commit", "node1"))]
    assert "nothing to undo" in world.stored.ops[1].result[1][0]


@pytest.mark.parametrize("opcode", [work(), work(fail_at="execute")], ids=["success", "error"])
def test_an_end_that_the_candidates_do_not_have_keeps_records_and_locks(opcode):
    world = MemoryWorld(opcode)
    world.copied = False
    carry_out(world)
    assert world.stored.final and world.story[-1].startswith("saved")
    assert "free" not in world.story and world.undo.log.has_lines


def test_what_had_been_committed_for_good_is_said_to_stay():
    world = carry_out_until_death(work(settles=True))
    asyncio.run(JobRunner(world.job, world).unwind_for_the_dead("Job 1 died"))
    told = "Job 1 died; what it had committed stays, its later steps were undone, as its log says"
    assert world.stored.ops[0].result == ["OpExecError", [told]]


def test_a_successor_tells_what_the_one_before_it_had_completed_and_how_the_object_is():
    world = carry_out_until_death(work())
    world.job.ops[0].input["instance_name"] = "web1"
    add_instance(world.inner.config.config, "web1")
    asyncio.run(world.undo.append({"completed": 1}))
    asyncio.run(JobRunner(world.job, world).unwind_for_the_dead("Job 1 died"))
    told = "what it had begun was completed, as its log says, its later steps were undone, as its log says"
    state = "instance web1 is there, marked up, on node1"
    assert world.stored.ops[0].result[1][0] == f"Job 1 died; {told}; {state}"


@pytest.mark.parametrize(
    ("opcode", "words"),
    [
        ({}, ""),
        ({"instance_name": "gone"}, "there is no instance gone"),
        ({"instance_name": "gone", "instance_uuid": "u1"}, "there is no instance gone"),
        ({"node_name": "node2"}, "node node2 is there, a candidate"),
        ({"group_name": "default"}, "node group default is there"),
        ({"node_name": "node9"}, "there is no node node9"),
    ],
)
def test_the_configuration_says_what_is_there(opcode, words):
    assert standing(MemoryWorld(work()).view(), opcode) == words


def carry_out_until_death(opcode: dict[str, Any] | None = None) -> MemoryWorld:
    """A world as a killed process leaves it: records on disk, the opcode running."""
    world = MemoryWorld(opcode or work())
    note_settling(world)

    class Killed(BaseException):
        pass

    def die(name: str) -> None:
        raise Killed

    world.inner.nodes.handlers["make_disk"] = die
    with pytest.raises(Killed):
        carry_out(world)
    world.job.attempt = 2
    world.story.clear()
    return world


@pytest.mark.parametrize("fails", [False, True])
def test_a_change_that_completes_keeps_what_came_before(fails: bool) -> None:
    world = MemoryWorld({"OP_ID": "OP_X_FORWARD"})
    if fails:

        def stuck(name: str, **arguments: Any) -> None:
            raise ExecutionError("the disk is stuck")

        world.inner.nodes.handlers["remove_rest"] = stuck
    carry_out(world)
    assert "commit TagForTest" in world.story and "node1 remove_disk" not in world.story
    assert len(world.undo.log.given_up()) == (1 if fails else 0)


def test_where_a_completing_commit_may_have_happened_nothing_before_it_is_undone() -> None:
    world = MemoryWorld({"OP_ID": "OP_X_FORWARD"})

    async def lost(change: Any, *, settles: bool = False) -> Any:
        raise TransportError("The configuration daemon is silent")

    world.inner.config.commit = lost
    carry_out(world)
    told = [entry[3] for entry in world.stored.ops[0].log]
    assert told == [" - WARNING: could not complete: complete it: The configuration daemon is silent"]
    assert "node1 remove_disk" not in world.story
    assert [left.sentence for left in world.undo.log.given_up()] == ["complete it"]
