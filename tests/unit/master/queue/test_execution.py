# SPDX-License-Identifier: BSD-2-Clause
"""The engine: phases in order, locks taken again when more are needed, failures undone before anything is freed."""

import asyncio
from typing import Any

import pytest
from tests.fakes.engine_world import MemoryWorld

from ganeti.base.errors import ExecutionError, HooksAbort, LockError, PrerequisiteError, TransportError
from ganeti.master.operation import REGISTRY, Hooks, MoreLocks, Operation, SubmitJobs, operation
from ganeti.master.queue.execution import JobRunner
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

    def hooks(self, view: Any, checked: Any) -> Hooks | None:
        env = {"INSTANCE_NAME": "web1"}
        return Hooks("work", "INSTANCE", "web1", env, [NODE], [NODE]) if self.hooked else None

    async def execute(self, checked: Any, ctx: Any) -> Any:
        assert checked == "checked"
        await ctx.undo.push(UndoChange("take the tag away", TagForTest(tag="new", add=False)))
        await ctx.config.commit(TagForTest(tag="new"), settles=self.settles)
        await ctx.undo.push(UndoNodeCall("remove the disk", NODE, "remove_disk", {"uuid": "x"}))
        await ctx.nodes.call(NODE, "make_disk")
        if self.fail_at == "execute":
            raise ExecutionError("It broke")
        if self.fail_at == "fault":
            raise KeyError("oops")
        return {"made": ["x"]}


@operation("OP_X_PARENT")
class Parent(Operation[Any], frozen=True, kw_only=True, forbid_unknown_fields=True):
    async def execute(self, checked: Any, ctx: Any) -> Any:
        return SubmitJobs([[Work()], [Work(depends=[[-1, []]], priority=10)]], {"extra": 1})


@pytest.fixture(scope="module", autouse=True)
def forget_the_operations():
    yield
    del REGISTRY["OP_X_WORK"], REGISTRY["OP_X_PARENT"]


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
        "published",
        "saved success",
        "free",
    ]
    assert world.stored.ops[0].result == {"made": ["x"]} and world.stored.position == [1, 7]
    assert world.undo.raw == b"", "the records of an ended opcode go"


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
    assert tail == ["node1 remove_disk", "commit TagForTest", "free", "published", "saved error"]
    first, second = world.stored.ops
    assert first.result == ["OpExecError", ["It broke"]]
    assert [entry[3] for entry in first.log] == ["undone: remove the disk", "undone: take the tag away"]
    assert (second.status, second.result) == ("error", ["OpExecError", ["Preceding opcode failed"]])
    assert "new" not in world.view().cluster.tags and world.undo.raw == b""


def test_a_settling_commit_makes_earlier_records_moot():
    world = MemoryWorld(work(fail_at="execute", settles=True))
    original = world.inner.config.commit

    async def commit(change: Any, *, settles: bool = False) -> Any:
        if settles:
            world.undo.append({"settles": 5, "attempt": 1})
            world.settled = (1, 5)
        return await original(change, settles=settles)

    world.inner.config.commit = commit
    carry_out(world)
    assert [entry[3] for entry in world.stored.ops[0].log] == ["undone: remove the disk"]
    assert "new" in world.view().cluster.tags


def test_what_cannot_be_undone_stays_on_disk_and_the_rest_is_still_undone():
    world = MemoryWorld(work(fail_at="execute"))
    world.inner.nodes.handlers["remove_disk"] = ExecutionError("the disk is stuck")
    carry_out(world)
    log = [entry[3] for entry in world.stored.ops[0].log]
    assert log == ["WARNING: could not undo: remove the disk: the disk is stuck", "undone: take the tag away"]
    (left,) = world.undo.log.given_up()
    assert (left.sentence, left.reason) == ("remove the disk", "the disk is stuck")


def test_a_step_that_turned_out_complete_is_settled_and_nothing_before_it_is_undone():
    world = MemoryWorld(work(fail_at="execute"))
    world.inner.nodes.handlers["remove_disk"] = lambda name, **arguments: {"settled": True}
    carry_out(world)
    assert [entry[3] for entry in world.stored.ops[0].log] == ["complete after all: remove the disk"]
    assert "new" in world.view().cluster.tags and world.undo.raw == b""


def test_a_fault_of_our_own_is_noted_and_undone():
    world = carry_out(MemoryWorld(work(fail_at="fault")))
    assert [type(fault) for fault in world.faults] == [KeyError]
    assert world.stored.ops[0].result == ["OpExecError", ["KeyError: 'oops'"]]
    assert "node1 remove_disk" in world.story


def test_nothing_is_done_when_a_prerequisite_fails_or_in_a_dry_run():
    for opcode, result in (
        (work(fail_at="check"), ["OpPrereqError", ["No", "wrong_input"]]),
        (work(dry_run=True, fail_at="execute"), None),
    ):
        world = carry_out(MemoryWorld(opcode))
        assert world.stored.ops[0].result == result
        assert not [line for line in world.story if line.startswith(("commit", "node1"))]
        assert "free" in world.story


def test_a_pre_hook_that_fails_stops_everything_and_a_post_hook_does_not():
    world = MemoryWorld(work(hooked=True))
    seen: list[dict[str, str]] = []

    def hooks_runner(name: str, path: str, phase: str, env: dict[str, str]) -> list[list[Any]]:
        seen.append(env)
        return [["10-no", 1 if phase == "post" else 2, "because"]]

    world.inner.nodes.handlers["hooks_runner"] = hooks_runner
    carry_out(world)
    assert world.stored.status == "success"
    assert world.stored.ops[0].log[-1][3] == "WARNING: hook 10-no failed on node node1: because"
    assert seen[0]["GANETI_INSTANCE_NAME"] == "web1" and seen[0]["GANETI_HOOKS_PHASE"] == "pre"
    assert seen[1]["GANETI_POST_INSTANCE_NAME"] == "web1"

    world = MemoryWorld(work(hooked=True))
    world.inner.nodes.handlers["hooks_runner"] = lambda name, **arguments: [["10-no", 1, "because"]]
    carry_out(world)
    assert world.stored.ops[0].result[0] == HooksAbort.wire_name
    assert not [line for line in world.story if line.startswith("commit")]


def test_jobs_made_by_an_opcode_carry_its_reason_and_priority():
    world = carry_out(MemoryWorld({"OP_ID": "OP_X_PARENT", "priority": -10, "reason": [["gnt:user", "why", 1]]}))
    assert world.stored.ops[0].result == {"jobs": [[True, 10], [True, 11]], "extra": 1}
    (first,), (second,) = world.submitted
    assert first["reason"] == [["gnt:user", "why", 1]]
    assert (first["priority"], second["priority"], second["depends"]) == (-10, 10, [[-1, []]])


def test_cancel_between_opcodes_and_while_waiting():
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

        async def wait_locks(priority: int, request: Any) -> None:
            asyncio.get_running_loop().call_soon(runner.ask_cancel)
            await asyncio.get_running_loop().create_future()

        world.wait_locks = wait_locks
        await runner.run()

    asyncio.run(cancelled_waiting())
    assert world.stored.status == "canceled" and world.story == ["free", "published", "saved canceled"]


def test_cancel_while_facts_are_gathered_stops_the_opcode_before_it_acts(monkeypatch):
    world = MemoryWorld(work())
    runner = JobRunner(world.job, world)

    async def gather(self: Any, ctx: Any, view: Any) -> str:
        runner.ask_cancel()
        assert world.stored.status == "canceling"
        return "facts"

    monkeypatch.setattr(Work, "gather", gather)
    asyncio.run(runner.run())
    assert world.stored.status == "canceled" and world.story[-3:] == ["free", "published", "saved canceled"]
    assert not [line for line in world.story if line.startswith(("commit", "record"))]


def test_cancel_is_a_cancel_also_when_the_request_for_locks_cannot_be_withdrawn():
    world = MemoryWorld(work())

    async def go() -> None:
        runner = JobRunner(world.job, world)

        async def wait_locks(priority: int, request: Any) -> None:
            asyncio.get_running_loop().call_soon(runner.ask_cancel)
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                raise TransportError("WConfD does not answer") from None

        world.wait_locks = wait_locks
        await runner.run()

    asyncio.run(go())
    assert world.stored.status == "canceled"


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
        "free",
        "published",
        "saved error",
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


def carry_out_until_death() -> MemoryWorld:
    """A world as a killed process leaves it: records on disk, the opcode running."""
    world = MemoryWorld(work())

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
