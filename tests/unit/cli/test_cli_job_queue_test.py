# SPDX-License-Identifier: BSD-2-Clause
"""gnt-debug test-jobqueue: what the queue says is held against what was asked; a fault is one sentence."""

import pytest

MANY = [f"message {number}" for number in range(100)]


class Queue:
    """Answers as a queue does whose faults are given: values that it tells instead."""

    def __init__(self, **faults):
        self.faults = faults
        self.jobs = []

    def submit(self, opcodes):
        self.jobs.append(opcodes)
        return len(self.jobs)

    def follow(self, job_id, fields, *_):
        opcode = self.jobs[job_id - 1][0]
        words = ["waitlock", "exec"] if opcode.get("notify_exec") else []
        words = self.faults.get("messages", [*words, *opcode.get("log_messages", [])])
        log = [[number, [0, 0], "message", f"TESTMSG {word}"] for number, word in enumerate(words, 1)]
        return [[self._status(job_id)], log]

    def query(self, jobs, fields):
        [job_id] = jobs
        failed = self._status(job_id) == "error"
        ends = ["success", "error", "error"] if failed else ["success"]
        error = ["OpExecError", ["asked to fail"]]
        values = {
            "status": self._status(job_id),
            "opstatus": ends,
            "opresult": [True, error, error] if failed else [True],
            "opend": [[20, 0]],
            "opexec": [self.faults.get("starts", [20, 0])],
        }
        return [[values[field] for field in fields]]

    def _status(self, job_id):
        fails = any(opcode.get("fail") for opcode in self.jobs[job_id - 1])
        return self.faults.get("failing", "error") if fails else "success"


@pytest.fixture
def queue(master):
    def prepare(**faults):
        queue = Queue(**faults)
        master.answers["SubmitJob"] = queue.submit
        master.answers["WaitForJobChange"] = queue.follow
        master.answers["QueryJobs"] = queue.query
        master.answers["QueryClusterInfo"] = {"master": "n1"}
        return queue

    return prepare


def test_a_queue_that_works(gnt, queue):
    jobs = queue().jobs
    ran = gnt("gnt-debug test-jobqueue")
    assert (ran.status, ran.out.splitlines()[-1]) == (0, "The job queue works")
    assert jobs[0][0]["log_messages"] == MANY
    assert jobs[2][0]["on_nodes"] == ["n1"] and jobs[2][0]["no_locks"] is False


@pytest.mark.parametrize(
    ("faults", "sentence"),
    [
        ({"messages": ["exec", *MANY]}, "The messages of job 1 should be"),
        ({"failing": "success"}, "Job 2 ended well, but was asked to fail: see 'gnt-job info 2'"),
        ({"starts": [19, 0]}, "Job 4 ran while job 3 held its lock: see 'gnt-job info 3 4'"),
    ],
)
def test_a_fault_is_told(gnt, queue, faults, sentence):
    queue(**faults)
    ran = gnt("gnt-debug test-jobqueue")
    assert ran.status == 1
    assert sentence in ran.err
