# SPDX-License-Identifier: BSD-2-Clause
"""Jobs on real daemons: they run, wait, are cancelled, and die at every step of their start (S2.26 to S2.41, S2.62)."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.fakes.master_daemons import HOST, NODE_UUID, OFFLINE_UUID, WITHIN_S, Master, children_of, running_master

from ganeti.master.queue.undo import encode_line
from ganeti.ports.luxid import AnswerPlacement
from ganeti.stores.undo_files import outstanding_undo, undo_path
from ganeti.system.livelock import is_alive

pytestmark = pytest.mark.daemons

DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 0.01}
DUMMY = {"OP_ID": "OP_TEST_DUMMY"}
REQUEST = {
    "type": "allocate",
    "name": "web1",
    "memory": 128,
    "vcpus": 1,
    "disks": [],
    "disk_template": "diskless",
    "disk_space_total": 0,
    "required_nodes": 1,
}


def delay(seconds: float, **more: object) -> dict[str, object]:
    return {**DELAY, "duration": seconds, **more}


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    with running_master(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def fresh_master(tmp_path):
    """A master whose daemons a test kills."""
    with running_master(tmp_path / "cluster") as running:
        yield running


def stopped_job(master: Master) -> int:
    """Wait for a job process that has stopped itself; gives its process id."""
    return master.until(lambda: next((pid for pid in spawned(master) if state_of(pid) == "T"), 0), "a job stops")


def spawned(master: Master) -> list[int]:
    """Children of the spawner."""
    luxid = master.daemons["luxid"].pid
    return [pid for spawner in children_of(luxid) for pid in children_of(spawner)]


def state_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


class TestLife:
    @pytest.mark.requirement("S2.30", "S2.33")
    def test_a_delay_ends_in_success_and_its_lock_file_is_gone(self, master):
        job_id = master.submit(delay(0.01))
        file = master.wait(job_id)
        assert file.status == "success" and file.ops[0].result is None
        assert file.livelock.endswith(f"job_{job_id:06d}_1")
        master.until(lambda: not os.path.exists(file.livelock), "the lock file goes")
        assert file.start_timestamp <= file.ops[0].exec_timestamp <= file.end_timestamp
        assert not os.path.exists(undo_path(master.paths, job_id))

    def test_its_process_is_called_by_its_number_and_its_opcode(self, master):
        job_id = master.submit(DUMMY, delay(30))
        master.until(lambda: master.file(job_id).ops[1].status == "running", "the second opcode runs")
        pid = master.file(job_id).process_id
        line = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()
        assert line == f"ganeti job {job_id}: TEST_DELAY (2 of 2)"
        assert Path(f"/proc/{pid}/comm").read_text() == f"ganeti-job-{job_id}\n"
        assert str(master.root).encode() in Path(f"/proc/{pid}/environ").read_bytes(), "the environment is left alone"
        assert master.luxi("CancelJob", job_id, True)[0]

    def test_messages_and_results_are_kept(self, master):
        job_id = master.submit({**DUMMY, "messages": ["one", "two"], "result": {"a": [1]}}, {**DUMMY, "result": 7})
        file = master.wait(job_id)
        assert [op.result for op in file.ops] == [{"a": [1]}, 7]
        assert [(entry[0], entry[2], entry[3]) for entry in file.ops[0].log] == [
            (1, "message", "one"),
            (2, "message", "two"),
        ]

    def test_a_failure_ends_the_job_and_what_comes_after(self, master):
        file = master.wait(master.submit({**DUMMY, "fail": "no luck"}, DUMMY))
        assert file.status == "error"
        assert [op.result for op in file.ops] == [
            ["OpExecError", ["no luck"]],
            ["OpExecError", ["Preceding opcode failed"]],
        ]

    def test_a_dry_run_acts_not(self, master):
        file = master.wait(master.submit({**DUMMY, "fail": "never", "dry_run": True}))
        assert file.status == "success" and file.ops[0].result is None

    def test_jobs_made_by_a_job_carry_its_reason(self, master):
        opcode = {**DUMMY, "submit_jobs": [[DUMMY], [{**DUMMY, "depends": [[-1, ["success"]]]}]]}
        file = master.wait(master.submit({**opcode, "reason": [["gnt:user", "because", 1]]}))
        (ok_one, first), (ok_two, second) = file.ops[0].result["jobs"]
        assert ok_one and ok_two
        child = master.wait(second)
        assert child.status == "success" and child.ops[0].input["depends"] == [[first, ["success"]]]
        assert [entry[:2] for entry in child.ops[0].input["reason"]] == [
            ["gnt:user", "because"],
            ["gnt:opcode:test_dummy", f"job={file.id};index=0"],
            ["gnt:opcode:test_dummy", f"job={child.id};index=0"],
        ]

    def test_a_dependency_that_failed_ends_the_job_in_error(self, master):
        answers = master.luxi(
            "SubmitManyJobs", [[{**DUMMY, "fail": True}], [{**DUMMY, "depends": [[-1, ["success"]]]}]]
        )
        second = master.wait(answers[1][1])
        assert second.status == "error" and second.livelock is None
        assert f"Job {answers[0][1]}" in second.ops[0].result[1][0]

    def test_at_most_max_running_jobs_have_a_process_and_better_ones_go_first(self, master):
        jobs = [[delay(0.3)] for _ in range(20)] + [[delay(0)], [delay(0, priority=-10)]]
        ids = [job_id for _, job_id in master.luxi("SubmitManyJobs", jobs)]
        files = [master.wait(job_id) for job_id in ids]
        assert {file.status for file in files} == {"success"}
        last, better = files[-2:]
        assert better.start_timestamp <= min(file.start_timestamp for file in files[:20])
        assert last.start_timestamp >= min(file.end_timestamp for file in files)

    def test_a_secret_parameter_never_reaches_the_disk(self, master):
        job_id = master.submit({"OP_ID": "OP_TEST_OS_PARAMS", "osparams_secret": {"password": "hush"}})
        file = master.wait(job_id)
        assert file.status == "success", file.ops[0].result
        with open(master.files.path(job_id)) as stored:
            text = stored.read()
        assert "hush" not in text and "<redacted>" in text
        ((ops,),) = master.luxi("QueryJobs", [job_id], ["ops"])
        assert ops[0]["osparams_secret"] == {"password": "<redacted>"}

    def test_the_secret_of_a_planned_operation_reaches_the_plan_and_not_the_disk(self, master):
        planned = {"OP_ID": "OP_TEST_OS_PARAMS", "osparams_secret": {"password": "hush"}}
        job_id = master.submit({"OP_ID": "OP_PLAN", "operation": planned})
        file = master.wait(job_id)
        assert file.status == "success" and file.ops[0].result["complete"], file.ops[0].result
        assert "1 secret parameters were received" in str(file.ops[0].result["notes"])
        with open(master.files.path(job_id)) as stored:
            text = stored.read()
        assert "hush" not in text and "<redacted>" in text

    def test_waiting_is_woken_by_each_change(self, master):
        job_id = master.submit(delay(0.3))
        begun = time.monotonic()
        values, log = master.luxi("WaitForJobChange", job_id, ["status"], ["success"], None, 60)
        assert log == [] and values[0] != "success"
        while values != ["success"]:
            values, _ = master.luxi("WaitForJobChange", job_id, ["status"], values, None, 60)
        assert time.monotonic() - begun < WITHIN_S / 2

    def test_waiting_in_vain_gives_the_unchanged_values(self, master):
        job_id = master.submit(delay(5))
        master.until(lambda: master.luxi("QueryJobs", [job_id], ["status"]) == [["running"]], "it runs")
        assert master.luxi("WaitForJobChange", job_id, ["status"], ["running"], None, 0.05) == [["running"], []]
        assert master.luxi("CancelJob", job_id, True)[0]

    def test_unknown_jobs(self, master):
        assert master.raw_luxi("WaitForJobChange", 99999, ["status"], None, None, 1) == (
            False,
            ["JobLost", ["Job 99999 not found"]],
        )
        assert master.luxi("CancelJob", 99999, False) == [False, "Job 99999 not found in queue"]
        assert master.luxi("QueryJobs", [99999], ["id", "status"]) == [[99999, None]]


class TestCancel:
    def test_a_queued_job_is_dequeued(self, master):
        first = master.submit(delay(0.5))
        second = master.submit(delay(0, depends=[[first, []]]))
        assert master.luxi("CancelJob", second, False) == [True, f"Dequeued job {second}"]
        assert master.file(second).status == "canceled"
        assert master.file(second).ops[0].result == ["JobCanceled", ["Job canceled by request"]]
        master.wait(first)

    @pytest.mark.requirement("S1.83", "S2.5", "S2.8", "S2.12")
    def test_a_job_waiting_for_locks_is_cancelled_and_leaves_none(self, master):
        holder = master.submit(delay(30, on_master=True, no_locks=False, on_nodes=[NODE_UUID]))
        master.until(lambda: master.file(holder).status == "running", "the first runs")
        waiter = master.submit(delay(0, no_locks=False, on_nodes=[NODE_UUID]))
        master.until(lambda: master.waits_for_locks(waiter), "the second waits")
        file = master.file(waiter)
        assert (file.status, file.livelock, file.process_id) == ("queued", None, None), "waiting takes no process"
        assert master.luxi("CancelJob", waiter, False) == [True, f"Dequeued job {waiter}"]
        master.until(lambda: not master.waits_for_locks(waiter), "its request is withdrawn")
        assert master.luxi("CancelJob", holder, True) == [True, "SIGKILL send to the process"]
        file = master.wait(holder)
        assert file.status == "error" and f"Job {holder} died" in file.ops[0].result[1][0]
        third = master.wait(master.submit(delay(0, no_locks=False, on_nodes=[NODE_UUID], on_master=False)))
        assert third.ops[0].exec_timestamp is not None, "the locks of the dead were not freed"

    def test_a_running_job_is_told_and_goes_on(self, master):
        job_id = master.submit(delay(0.5))
        master.until(lambda: master.luxi("QueryJobs", [job_id], ["status"]) == [["running"]], "it runs")
        ok, message = master.luxi("CancelJob", job_id, False)
        assert (ok, message) == (False, "Job no longer waiting, can't cancel (informed it anyway)")
        assert master.wait(job_id).status == "success"


@pytest.fixture(scope="module")
def pausing(tmp_path_factory):
    """A master whose LuxiD is started anew, to stop at some place."""
    with running_master(tmp_path_factory.mktemp("pausing")) as running:
        yield running


class TestDeathInTheHandshake:
    @pytest.mark.parametrize("place", ["job-forked", "job-locked", "job-greeted", "job-confirmed"])
    def test_a_job_killed_there_is_found_dead(self, pausing, place):
        pausing.kill("luxid", signal.SIGTERM)
        pausing.start("luxid", GANETI_PAUSE_AT=place)
        job_id = pausing.submit(DELAY)
        os.kill(stopped_job(pausing), signal.SIGKILL)
        file = pausing.wait(job_id)
        assert file.status == "error" and file.ops[0].exec_timestamp is None
        assert place in ("job-forked", "job-locked") or not is_alive(file.livelock)

    @pytest.mark.requirement("S2.26", "S2.36")
    def test_its_lock_file_is_locked_before_it_is_named(self, pausing):
        pausing.kill("luxid", signal.SIGTERM)
        pausing.start("luxid", GANETI_PAUSE_AT="job-locked")
        job_id = pausing.submit(DELAY)
        pid = stopped_job(pausing)
        path = f"{pausing.paths.livelock_dir}/job_{job_id:06d}_1"
        assert is_alive(path) and os.path.getsize(path) == 0
        assert pausing.file(job_id).livelock != path
        os.kill(pid, signal.SIGCONT)
        pausing.until(lambda: pausing.file(job_id).livelock == path, "its name is in the job's file")
        pausing.wait(job_id)

    @pytest.mark.requirement("S2.39", "S2.41")
    @pytest.mark.parametrize("place", ["job-forked", "job-locked", "job-greeted"])
    def test_a_job_whose_luxid_dies_before_confirming_never_runs(self, pausing, place):
        pausing.kill("luxid", signal.SIGTERM)
        pausing.start("luxid", GANETI_PAUSE_AT=place)
        job_id = pausing.submit({**DUMMY, "messages": ["it ran"]})
        pid = stopped_job(pausing)
        os.kill(pausing.daemons["luxid"].pid, signal.SIGSTOP)
        os.kill(pid, signal.SIGCONT)
        pausing.kill("luxid")
        pausing.start("luxid")
        file = pausing.wait(job_id)
        if file.status == "success":
            assert place == "job-greeted", "it was confirmed before the kill"
        else:
            assert file.ops[0].log == [] and "died" in file.ops[0].result[1][0]
        pausing.until(lambda: state_of(pid) in ("", "Z"), "the process ends")

    @pytest.mark.parametrize("place", ["luxid-submitted", "luxid-announced", "luxid-greeted", "luxid-stored"])
    def test_luxid_killed_there_loses_no_job(self, pausing, place):
        pausing.kill("luxid", signal.SIGTERM)
        luxid = pausing.start("luxid", GANETI_PAUSE_AT=place)
        with pausing.connection() as connection:
            connection.send({"method": "SubmitJob", "args": [[{**DUMMY, "messages": ["it ran"]}]]})
            pausing.until(lambda: state_of(luxid.pid) == "T", "luxid stops")
            job_id = max(pausing.files.ids())
            pausing.kill("luxid")
        pausing.start("luxid")
        file = pausing.wait(job_id)
        ran = [entry[3] for entry in file.ops[0].log]
        assert (file.status, ran) in [("success", ["it ran"]), ("error", [])]
        if place == "luxid-submitted":
            assert file.status == "success", "it had not been picked: nothing was lost"

    def test_the_spawner_killed_is_started_again(self, pausing):
        pausing.kill("luxid", signal.SIGTERM)
        luxid = pausing.start("luxid")
        pausing.wait(pausing.submit(DELAY))
        (spawner,) = children_of(luxid.pid)
        os.kill(spawner, signal.SIGKILL)
        assert pausing.wait(pausing.submit(DELAY)).status == "success"


class TestRestart:
    def test_running_jobs_outlive_luxid(self, fresh_master):
        running = fresh_master.submit(delay(0.5))
        fresh_master.until(lambda: fresh_master.file(running).status == "running", "it runs")
        process = fresh_master.file(running).process_id
        os.kill(process, signal.SIGSTOP)
        queued = fresh_master.submit(delay(0, depends=[[running, ["success"]]]))
        fresh_master.kill("luxid")
        fresh_master.start("luxid")
        assert fresh_master.luxi("QueryJobs", [running, queued], ["status"]) == [["running"], ["queued"]]
        os.kill(process, signal.SIGCONT)
        assert fresh_master.wait(running).status == "success"
        assert fresh_master.wait(queued).status == "success"

    @pytest.mark.requirement("S1.86")
    def test_priorities_outlive_luxid(self, fresh_master):
        running = fresh_master.submit(delay(60))
        fresh_master.until(lambda: fresh_master.file(running).status == "running", "it runs")
        needs = [[running, ["success"]]]
        job_id = fresh_master.submit({**delay(0, depends=needs), "priority": 10}, {**DUMMY, "priority": -10})
        fresh_master.kill("luxid")
        fresh_master.start("luxid")
        assert fresh_master.luxi("QueryJobs", [job_id], ["oppriority"]) == [[[10, -10]]]
        changed = f"Priorities of pending opcodes for job {job_id} have been changed to -7"
        assert fresh_master.luxi("ChangeJobPriority", job_id, -7) == [True, changed]
        fresh_master.kill("luxid")
        fresh_master.start("luxid")
        assert fresh_master.luxi("QueryJobs", [job_id], ["oppriority"]) == [[[-7, -7]]]
        fresh_master.luxi("CancelJob", running, True)

    @pytest.mark.requirement("S2.62", "S2.63")
    def test_a_job_that_ends_while_luxid_and_wconfd_are_down_stands(self, fresh_master):
        job_id = fresh_master.submit({**DUMMY, "result": "done"}, delay(0.5))
        fresh_master.until(lambda: fresh_master.file(job_id).ops[1].status == "running", "it runs")
        process = fresh_master.file(job_id).process_id
        os.kill(process, signal.SIGSTOP)
        fresh_master.kill("luxid")
        fresh_master.kill("wconfd")
        os.kill(process, signal.SIGCONT)
        fresh_master.start("wconfd")
        fresh_master.until(lambda: fresh_master.file(job_id).final, "it ends")
        fresh_master.start("luxid")
        assert fresh_master.luxi("QueryJobs", [job_id], ["status", "opresult"]) == [["success", ["done", None]]]

    @pytest.mark.requirement("S2.62")
    @pytest.mark.parametrize(
        ("place", "opcode"),
        [
            ("job-after-claim", DUMMY),
            ("job-committed-1", {"OP_ID": "OP_TAGS_SET", "kind": "cluster", "name": None, "tags": ["a"]}),
        ],
        ids=["nothing-changed", "committed"],
    )
    def test_a_job_ends_though_luxid_and_wconfd_stay_away(self, fresh_master, place, opcode):
        fresh_master.kill("luxid", signal.SIGTERM)
        fresh_master.start("luxid", GANETI_PAUSE_AT=place)
        job_id = fresh_master.submit(opcode)
        process = stopped_job(fresh_master)
        fresh_master.kill("luxid")
        fresh_master.kill("wconfd")
        os.kill(process, signal.SIGCONT)
        fresh_master.until(lambda: state_of(process) in ("", "Z"), "its process ends", 5.0)
        assert fresh_master.file(job_id).status == "success"
        fresh_master.start("wconfd")
        fresh_master.start("luxid")
        assert fresh_master.luxi("QueryJobs", [job_id], ["status"]) == [["success"]]
        locks = fresh_master.luxi("Query", "lock", ["name", "owner"], None)["data"]
        assert not [name for (_, name), (_, owner) in locks if owner]

    @pytest.mark.requirement("S2.22", "S2.63")
    def test_a_job_that_died_while_luxid_was_down_is_found_dead(self, fresh_master):
        job_id = fresh_master.submit(delay(60))
        fresh_master.until(lambda: fresh_master.file(job_id).status == "running", "it runs")
        pid = fresh_master.file(job_id).process_id
        fresh_master.kill("luxid")
        os.kill(pid, signal.SIGKILL)
        fresh_master.start("luxid")
        file = fresh_master.wait(job_id)
        assert file.status == "error" and f"Job {job_id} died" in file.ops[0].result[1][0]

    def test_an_orderly_stop_lets_jobs_go_on(self, fresh_master):
        job_id = fresh_master.submit(delay(1.0))
        fresh_master.until(lambda: fresh_master.file(job_id).status == "running", "it runs")
        assert fresh_master.kill("luxid", signal.SIGTERM) == 0
        fresh_master.start("luxid")
        assert fresh_master.wait(job_id).status == "success"

    def test_ids_are_never_given_twice(self, fresh_master):
        first = fresh_master.submit(DELAY)
        fresh_master.wait(first)
        assert fresh_master.luxi("ArchiveJob", first) is True
        os.unlink(f"{fresh_master.paths.queue_dir}/serial")
        fresh_master.kill("luxid")
        fresh_master.start("luxid")
        assert fresh_master.submit(DELAY) == first + 1


def remove_the_absent_node(master: Master, job_id: int) -> None:
    """Leave an undo record, as if the job had entered a node just now."""
    record = {"record": 1, "opcode": 0, "attempt": 1, "sentence": "take node2 out again"}
    record["change"] = {"name": "RemoveNode", "fields": {"node_uuid": OFFLINE_UUID}}
    with open(undo_path(master.paths, job_id), "wb") as log:
        log.write(encode_line(record))


def node_names(master: Master) -> list[str]:
    return [name for ((_, name),) in master.luxi("Query", "node", ["name"], None)["data"]]


class TestUndo:
    def running_job(self, master: Master) -> int:
        """It has the lock of the absent node, too, which it reaches only after a minute."""
        job_id = master.submit(delay(60, no_locks=False, on_nodes=[NODE_UUID, OFFLINE_UUID]))
        master.until(lambda: master.file(job_id).status == "running", "it runs")
        return job_id

    def test_a_dead_job_with_records_is_undone_by_its_successor(self, fresh_master):
        job_id = self.running_job(fresh_master)
        waiter = fresh_master.submit(delay(0, no_locks=False, on_nodes=[NODE_UUID], on_master=False))
        remove_the_absent_node(fresh_master, job_id)
        assert len(node_names(fresh_master)) == 2
        os.kill(fresh_master.file(job_id).process_id, signal.SIGKILL)
        file = fresh_master.wait(job_id)
        assert node_names(fresh_master) == ["node1.example.com"], "announced before the view held the last commit"
        assert (file.status, file.attempt) == ("error", 2) and file.position is not None
        assert "its steps were undone" in file.ops[0].result[1][0]
        assert file.ops[0].log[-1][3] == "undone: take node2 out again"
        fresh_master.until(lambda: not os.path.exists(undo_path(fresh_master.paths, job_id)), "the records go")
        waited = fresh_master.wait(waiter).ops[0].exec_timestamp
        assert waited is not None and waited >= file.ops[0].log[-1][1], "its locks were freed before it was undone"

    @pytest.mark.parametrize("place", ["job-forked", "job-locked", "job-greeted", "job-confirmed", "job-step-1"])
    def test_a_successor_that_dies_has_a_successor(self, fresh_master, place):
        job_id = self.running_job(fresh_master)
        remove_the_absent_node(fresh_master, job_id)
        first = fresh_master.file(job_id).process_id
        fresh_master.kill("luxid")
        fresh_master.start("luxid", GANETI_PAUSE_AT=place)
        os.kill(first, signal.SIGKILL)
        killed = stopped_job(fresh_master)
        os.kill(killed, signal.SIGKILL)
        fresh_master.until(lambda: state_of(killed) in ("", "Z"), "it ends")
        os.kill(stopped_job(fresh_master), signal.SIGCONT)
        file = fresh_master.wait(job_id)
        assert (file.status, file.attempt) == ("error", 3)
        assert file.ops[0].log[-1][3] == "undone: take node2 out again"
        assert node_names(fresh_master) == ["node1.example.com"]

    def test_a_job_that_died_with_records_while_luxid_was_down_is_undone(self, fresh_master):
        job_id = self.running_job(fresh_master)
        remove_the_absent_node(fresh_master, job_id)
        fresh_master.kill("luxid")
        os.kill(fresh_master.file(job_id).process_id, signal.SIGKILL)
        fresh_master.start("luxid")
        assert fresh_master.wait(job_id).ops[0].log[-1][3] == "undone: take node2 out again"

    def test_a_job_killed_after_its_last_word_leaves_neither_locks_nor_records(self, fresh_master):
        fresh_master.kill("luxid", signal.SIGTERM)
        fresh_master.start("luxid", GANETI_PAUSE_AT="job-before-end")
        job_id = fresh_master.submit(delay(0, no_locks=False, on_nodes=[NODE_UUID], on_master=False))
        pid = stopped_job(fresh_master)
        remove_the_absent_node(fresh_master, job_id)
        file = fresh_master.file(job_id)
        file.ops[0].status, file.end_timestamp = "success", [1, 0]
        fresh_master.files.write(file, durable=False)
        assert fresh_master.wait(job_id).status == "success"
        os.kill(pid, signal.SIGKILL)
        fresh_master.until(lambda: not os.path.exists(undo_path(fresh_master.paths, job_id)), "the records go")
        fresh_master.until(
            lambda: not fresh_master.luxi("Query", "lock", ["name"], None)["data"], "the locks are freed"
        )
        assert len(node_names(fresh_master)) == 2, "an opcode that succeeded was undone"

    def test_what_cannot_be_undone_is_named_and_holds_nobody_up(self, fresh_master):
        job_id = self.running_job(fresh_master)
        record = {"record": 1, "opcode": 0, "attempt": 1, "sentence": "call nobody", "node": OFFLINE_UUID}
        record |= {"call": "test_delay", "arguments": {"duration": 0}}
        with open(undo_path(fresh_master.paths, job_id), "wb") as log:
            log.write(encode_line(record))
        os.kill(fresh_master.file(job_id).process_id, signal.SIGKILL)
        file = fresh_master.wait(job_id)
        assert (file.status, file.attempt) == ("error", 2)
        sentences = [entry[3] for entry in file.ops[0].log]
        assert any("could not undo: call nobody" in sentence for sentence in sentences), sentences
        (left,) = outstanding_undo(fresh_master.paths)
        assert (left.job_id, left.sentence) == (job_id, "call nobody")
        after = fresh_master.submit(delay(0, no_locks=False, on_nodes=[NODE_UUID], on_master=False))
        assert fresh_master.wait(after).ops[0].exec_timestamp is not None, "its locks were not freed"


class TestQueue:
    def test_drained_queue(self, master):
        assert master.luxi("SetDrainFlag", True) is True
        try:
            assert master.raw_luxi("SubmitJob", [DELAY]) == (False, ["GenericError", ["Queue drained"]])
            assert master.luxi("QueryConfigValues", ["drain_flag", "cluster_name", "nonsense"]) == [
                True,
                "cluster.example.com",
                None,
            ]
            assert master.wait(master.luxi("SubmitJobToDrainedQueue", [DELAY])).status == "success"
        finally:
            master.luxi("SetDrainFlag", False)

    def test_archive(self, master):
        job_id = master.submit(DELAY)
        master.wait(job_id)
        assert master.luxi("ArchiveJob", job_id) is True
        assert master.luxi("ArchiveJob", job_id) is False
        assert os.path.exists(master.files.archive_path(job_id))
        assert master.luxi("QueryJobs", [job_id], ["status", "archived"]) == [["success", True]]
        assert [job_id] not in master.luxi("QueryJobs", None, ["id"])
        old = master.submit(DELAY)
        master.wait(old)
        archived, left = master.luxi("AutoArchiveJobs", -1, 60)
        assert archived >= 1 and left == 0

    def test_many_clients_at_once_each_get_their_id(self, master):
        ids: list[int] = []

        def submit() -> None:
            ids.extend(master.submit({**DUMMY, "comment": "x"}) for _ in range(5))

        threads = [threading.Thread(target=submit) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(ids)) == 40
        assert {master.wait(job_id).status for job_id in ids} == {"success"}


class TestBadInput:
    @pytest.mark.parametrize(
        ("ops", "error"),
        [
            ([], "OpPrereqError"),
            ("nonsense", "OpPrereqError"),
            ([{"OP_ID": "OP_NOT_THERE"}], "OpCodeUnknown"),
            ([{"OP_ID": "OP_TEST_DELAY"}], "OpPrereqError"),
            ([{"OP_ID": "OP_TEST_DELAY", "duration": "long"}], "OpPrereqError"),
            ([{"OP_ID": "OP_TEST_DELAY", "duration": 1, "repeat": -1}], "OpPrereqError"),
            ([{"OP_ID": "OP_TEST_DELAY", "duration": 1, "surprise": 1}], "OpPrereqError"),
            ([delay(0, priority=3)], "OpPrereqError"),
            ([delay(0, depends=[[-1, []]])], "GenericError"),
            ([delay(0, depends=[[99999, []]])], "OpPrereqError"),
            ([delay(0, depends=[[1, ["running"]]])], "OpPrereqError"),
        ],
    )
    def test_jobs_that_cannot_be(self, master, ops, error):
        before = master.files.ids()
        success, result = master.raw_luxi("SubmitJob", ops)
        assert not success and result[0] == error and result[1][0]
        assert master.files.ids() == before

    def test_a_time_that_cannot_be_fails_the_job_and_not_the_call(self, master):
        assert master.wait(master.submit({"OP_ID": "OP_TEST_DELAY", "duration": -1})).status == "error"

    @pytest.mark.parametrize(
        "request_text",
        [
            b"nonsense",
            b"[1,2]",
            b'{"method": 1, "args": []}',
            b'{"method": "NoSuchCall", "args": []}',
            b'{"method": "QueryJobs", "args": {}}',
            b"\xff\xfe",
            b"[" * 100000,
        ],
    )
    def test_requests_that_cannot_be_parsed_end_their_connection_only(self, master, request_text):
        with master.connection() as connection:
            connection._socket.sendall(request_text + b"\x03")
            answer = connection.receive()
            assert answer["success"] is False and answer["result"].startswith("Failed to parse request")
            assert connection._socket.recv(10) == b""
        assert master.luxi("QueryConfigValues", ["cluster_name"]) == ["cluster.example.com"]

    @pytest.mark.parametrize(
        ("method", "arguments"),
        [
            ("QueryJobs", [1]),
            ("QueryJobs", [["x"], ["id"]]),
            ("Query", ["nothing", [], None]),
            ("Query", ["job", ["id"], ["?"]]),
            ("Query", ["job", ["id"], ["==", "nofield", 1]]),
            ("Query", ["job", ["id"], ["=~", "status", "("]]),
            ("QueryNodes", [[], ["name"], True]),
            ("QueryNodes", [[], ["nofield"], False]),
            ("QueryTags", ["star", "x"]),
            ("CancelJob", ["x", False]),
            ("ChangeJobPriority", [1, 99]),
            ("WaitForJobChange", [1]),
            ("SetDrainFlag", ["maybe"]),
            ("ReplaceFilter", [None, 1, [], "WAIT", []]),
            ("PickupJob", [1]),
        ],
    )
    def test_calls_that_make_no_sense_get_an_error_and_the_connection_lives(self, master, method, arguments):
        with master.connection() as connection:
            connection.send({"method": method, "args": arguments})
            answer = connection.receive()
            if (method, arguments) == ("QueryJobs", [["x"], ["id"]]):
                return
            assert answer["success"] is False and isinstance(answer["result"], list), answer
            connection.send({"method": "QueryConfigValues", "args": [["cluster_name"]]})
            assert connection.receive()["success"]

    def test_a_damaged_job_file_keeps_nobody_waiting(self, fresh_master):
        job_id = fresh_master.submit(DELAY)
        fresh_master.wait(job_id)
        fresh_master.kill("luxid")
        with open(fresh_master.files.path(job_id), "w") as file:
            file.write('{"id": 1, "ops": [')
        fresh_master.start("luxid")
        assert os.path.exists(f"{fresh_master.paths.queue_dir}/damaged-job-{job_id}")
        assert fresh_master.wait(fresh_master.submit(DELAY)).status == "success"


class TestStart:
    def test_refusals_have_the_exit_status_of_3_1(self, fresh_master, tmp_path):
        ssconf = fresh_master.paths.ssconf_file("master_node")
        fresh_master.until(lambda: os.path.exists(ssconf), "ssconf is published")
        fresh_master.kill("luxid", signal.SIGTERM)
        for variables, status in (
            ({"GANETI_HOSTNAME": "other.example.com"}, 11),
            ({"GANETI_ROOTDIR": str(tmp_path / "empty")}, 5),
        ):
            command = [sys.executable, "-m", "ganeti.daemons.luxid", "-f"]
            environment = {**fresh_master.environment, **variables}
            done = subprocess.run(command, env=environment, capture_output=True, timeout=WITHIN_S, check=False)
            assert done.returncode == status, done.stderr

    def test_options(self, fresh_master):
        command = [sys.executable, "-m", "ganeti.daemons.luxid", "--no-voting"]
        done = subprocess.run(command, env=fresh_master.environment, capture_output=True, timeout=WITHIN_S, check=False)
        assert done.returncode == 1 and b"--yes-do-it" in done.stderr


class TestPlacement:
    def test_the_worker_answers_and_is_started_again(self, pausing):
        pausing.kill("luxid", signal.SIGTERM)
        luxid = pausing.start("luxid")
        reasons = pausing.luxi(AnswerPlacement.__name__, REQUEST, None, False)["reasons"]
        assert any("is not answering" in line for line in reasons) and any(HOST in line for line in reasons)
        _, worker = children_of(luxid.pid)
        os.kill(worker, signal.SIGKILL)
        assert pausing.luxi(AnswerPlacement.__name__, REQUEST, None, False)["success"] is False
        assert pausing.raw_luxi(AnswerPlacement.__name__, {"type": 5}, None, False)[0] is False
