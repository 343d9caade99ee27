# SPDX-License-Identifier: BSD-2-Clause
"""Why a job is where it is: one situation each, in whole sentences."""

from dataclasses import replace

import pytest
from tests.fakes.queue_facts import GROUP, NODE, NODE_LOCK, NOW_S, FakeFacts, entry

from ganeti.base.errors import JobLost
from ganeti.master.query import queue_words as words
from ganeti.master.query.queue_facts import Unwritable
from ganeti.master.query.why import DEEPEST, MOST_JOBS
from ganeti.master.queue.dependencies import Dependency
from ganeti.master.queue.filters import Admission
from ganeti.master.queue.state import Phase
from ganeti.model.objects import FilterRule
from ganeti.wire.job_file import timestamp

RULE = "00000000-0000-4000-8000-00000000000f"


@pytest.fixture
def facts():
    return FakeFacts()


def test_waiting_for_a_lock_tells_who_holds_it_and_what_that_one_does(facts):
    facts.running(9, name="db3", progress=["copying memory", 43, 100])
    facts.parked(12, holders=[(NODE_LOCK, 9, "exclusive")])
    assert facts.told(12) == [
        "Job 12 (INSTANCE_STARTUP(web1)) has been queued for 12 s: it waits to lock node node1 (exclusive).",
        "  Its priority is normal (0).",
        "  Node node1 has been locked exclusively for 2 min 10 s by job 9 (INSTANCE_STARTUP(db3)), which has been "
        'running for 2 min 10 s: "copying memory, 43 %".',
    ]


def test_several_holders_and_a_set_of_locks(facts):
    facts.running(8)
    facts.running(9, log=[[1, timestamp(NOW_S - 5), "message", "checking\n disks"]])
    facts.parked(
        12,
        holders=[(NODE_LOCK, 8, "shared"), (f"nodegroup/{GROUP}", 8, "shared"), ("node/[lockset]", 9, "shared")],
        wants={"nodegroup/" + GROUP: "exclusive", NODE_LOCK: "exclusive"},
    )
    told = facts.told(12)
    assert told[0].endswith("it waits to lock group default (exclusive) and node node1 (exclusive).")
    assert told[2:] == [
        "  Group default and node node1 have been locked shared for 2 min 10 s by job 8 (INSTANCE_STARTUP(web1)), "
        "which has been running for 2 min 10 s.",
        "  All nodes have been locked shared for 2 min 10 s by job 9 (INSTANCE_STARTUP(web1)), which has been running "
        'for 2 min 10 s: "checking disks" (said 5 s ago).',
    ]


def test_those_ahead_and_why_they_go_first(facts):
    facts.running(9)
    facts.parked(10, holders=[(NODE_LOCK, 9, "exclusive")], opcodes=[{"priority": -10, "submitted": -10}])
    facts.parked(11, holders=[(NODE_LOCK, 9, "exclusive")], ahead=[(NODE_LOCK, 10, -10)])
    facts.parked(12, holders=[(NODE_LOCK, 9, "exclusive")], ahead=[(NODE_LOCK, 10, -10), (NODE_LOCK, 11, 0)])
    assert facts.told(12)[3:] == [
        "  Ahead of it for node node1 is job 10 (INSTANCE_STARTUP(web1)), which has the better priority, high (-10), "
        "and has been queued for 12 s for the same.",
        "  Ahead of it for node node1 is job 11 (INSTANCE_STARTUP(web1)), which asked first and has been queued for "
        "12 s for the same.",
    ]


def test_those_ahead_wait_for_something_else(facts):
    facts.running(8, name="far")
    facts.running(9)
    facts.parked(10, holders=[("instance/x", 8, "exclusive")])
    facts.parked(12, holders=[(NODE_LOCK, 9, "exclusive")], ahead=[(NODE_LOCK, 10, 0)])
    told = facts.told(12)
    assert told[3].startswith("  Ahead of it") and told[4].startswith("    Instance x has been locked exclusively")
    assert "job 8 (INSTANCE_STARTUP(far)), which has been running" in told[4]


def test_a_holder_that_waits_for_a_slot_itself(facts):
    facts.most_running = 1
    facts.running(8)
    facts.job(9, holds=True)
    facts.order = [9]
    facts.parked(12, holders=[(NODE_LOCK, 9, "exclusive")])
    told = facts.told(12)
    assert (
        "by job 9 (INSTANCE_STARTUP(web1)), which has been queued for 12 s: it has its locks and waits for a slot"
        in told[2]
    )
    assert told[3].startswith("    Job 8 (INSTANCE_STARTUP(web1)) has been running")


def test_a_holder_that_is_no_job_has_ended_or_is_the_job_itself(facts):
    facts.ended_job(3, "success")
    facts.parked(12, holders=[(NODE_LOCK, name, "exclusive") for name in ("watcher", 3, 4, 12)])
    assert [line.split(" by ")[1] for line in facts.told(12)[2:]] == [
        "watcher, which is no job.",
        "job 3 (INSTANCE_STARTUP(web1)), which ended with success 3 min ago, after 5 s.",
        "job 4, which is not in the queue any more.",
        "an earlier process of the same job.",
    ]


def test_locks_just_granted(facts):
    facts.job(12, Phase.PARKED)
    assert facts.told(12)[0].endswith("has been queued for 12 s: it has just got the locks it waited for.")
    facts.parked(13)
    assert facts.told(13)[-1] == "  Nobody holds these locks any more: it gets them now."


def test_wconfd_is_silent(facts):
    facts.waits = {12: None, 13: None, 14: None}
    facts.job(12, Phase.PARKED)
    facts.job(13, Phase.PARKED, blockers=[9, "watcher"])
    facts.job(14, Phase.PARKED, blockers=[9])
    silence = (
        "has been queued for 12 s: who holds what it waits for cannot be said, since ganeti-wconfd does not answer"
    )
    assert facts.told(12)[0].endswith(f"{silence}.")
    assert facts.told(13)[0].endswith(f"{silence}; the last in its way were job 9 and watcher.")
    assert facts.told(14)[0].endswith(f"{silence}; the last in its way was job 9.")


def test_a_thousand_ahead_are_not_all_told(facts):
    facts.running(1)
    longest = FakeFacts()
    longest.parked(1, holders=[(NODE_LOCK, 1, "exclusive")], ahead=[(NODE_LOCK, other, 0) for other in range(2, 1002)])
    wait = longest.waits[1]
    for job_id in range(2, 1002):
        facts.parked(job_id)
        facts.waits[job_id] = replace(wait, ahead=wait.ahead[: job_id - 2])
    told = facts.told(1001)
    assert len(told) < 12
    assert told[-1] == "  There are 994 more requests ahead of it: see 'gnt-debug locks'."


def test_waiting_for_a_slot(facts):
    facts.most_running = 7
    for job_id in range(1, 8):
        facts.running(job_id)
    facts.job(20)
    facts.job(21)
    facts.order = [21, 20]
    told = facts.told(20)
    assert told[0] == (
        "Job 20 (INSTANCE_STARTUP(web1)) has been queued for 12 s: it waits for a slot, as 7 jobs have a process and 7 "
        "may; 1 job goes before it."
    )
    assert told[2] == "  Job 1 (INSTANCE_STARTUP(web1)) has been running for 2 min 10 s."
    assert told[-1] == "  There are 2 more jobs with a process: see 'gnt-job list --running'."
    assert facts.told(21)[0].endswith("7 may; it is next.")


def test_a_slot_is_free(facts):
    facts.job(20)
    assert facts.told(20)[0].endswith("has been queued for 12 s: its turn has come.")


def test_no_job_is_started(facts):
    facts.held_back = True
    facts.job(20)
    assert "no job is started now, since the process that starts jobs is away" in facts.told(20)[0]


def test_a_full_disk_is_named_with_the_time_and_the_remedy(facts):
    facts.unwritable = Unwritable("/var/lib/ganeti/queue", "No space left on device", NOW_S - 70)
    facts.held_back = True
    facts.job(20)
    lack = "for 1 min 10 s the files of the queue could not be written (No space left on device)"
    remedy = "see that the file system of /var/lib/ganeti/queue has room and can be written."
    assert facts.told(20)[0].endswith(f"has been queued for 12 s: no job is started; {lack}: {remedy}")
    facts.running(21)
    facts.stuck_jobs[21] = facts.unwritable
    assert facts.told(21) == [f"Job 21 (INSTANCE_STARTUP(web1)) waits to write down what it has done: {lack}: {remedy}"]


def test_dependencies_down_to_what_runs(facts):
    facts.running(1)
    facts.job(2, depends=[Dependency(1, frozenset())])
    facts.job(3, depends=[Dependency(2, frozenset({"success"})), Dependency(1, frozenset({"error", "success"}))])
    assert facts.told(3) == [
        "Job 3 (INSTANCE_STARTUP(web1)) has been queued for 12 s: it waits for other jobs to end.",
        "  Its priority is normal (0).",
        "  It goes on when this one has ended with success: job 2 (INSTANCE_STARTUP(web1)) has been queued for 12 s: "
        "it waits for other jobs to end.",
        "    It goes on when this one has ended: job 1 (INSTANCE_STARTUP(web1)) has been running for 2 min 10 s.",
        "  It goes on when this one has ended with error or success: job 1 (INSTANCE_STARTUP(web1)): see above.",
    ]


def test_a_pausing_filter_rule(facts):
    predicate = ["opcode", ["==", "OP_ID", "OP_INSTANCE_STARTUP"]]
    rule = FilterRule(uuid=RULE, priority=3, predicates=[predicate], action="PAUSE")
    facts.view.put("filters", RULE, rule)
    facts.admission = Admission([rule])
    facts.job(5, held_by=f"filter rule {RULE} pauses it")
    told = facts.told(5)
    assert told[0].endswith("has been queued for 12 s: it is kept back by a filter rule.")
    assert f"filter rule {RULE} with priority 3 says PAUSE" in told[2]
    assert told[3] == '  The rule reads: PAUSE for jobs with ["opcode",["==","OP_ID","OP_INSTANCE_STARTUP"]].'
    assert len(told) == 4


def test_the_reason_of_a_rule_is_told(facts):
    trail = [["gnt:user", "storage is being\nreplaced", 1], ["gnt:client:gnt-filter", "add", 2]]
    rule = FilterRule(uuid=RULE, action="PAUSE", reason_trail=trail)
    facts.view.put("filters", RULE, rule)
    facts.admission = Admission([rule])
    facts.job(5, held_by=f"filter rule {RULE} pauses it")
    assert facts.told(5)[-1] == '  It was made with the reason "storage is being replaced".'


def test_a_rule_that_is_just_gone(facts):
    facts.job(5, held_by="filter rule U pauses it")
    assert facts.told(5)[0].endswith("it is kept back, as filter rule U pauses it.")


def test_a_rate_limit_and_who_uses_it(facts):
    rule = FilterRule(uuid=RULE, action=["RATE_LIMIT", 1])
    facts.view.put("filters", RULE, rule)
    facts.admission = Admission([rule])
    facts.running(1, name="db3")
    facts.job(5, held_by="1 jobs run under the rate limit")
    assert facts.told(5)[0].endswith("has been queued for 12 s: it is kept back by a rate limit.")
    assert facts.told(5)[3:] == [
        "  The rule reads: RATE_LIMIT 1 for all jobs.",
        "  The limit of 1 is used up by job 1 (INSTANCE_STARTUP(db3)), which has been running for 2 min 10 s.",
    ]


def test_a_limit_by_reason_counts_only_its_own_key(facts):
    for job_id, key in ((1, "backup"), (2, "other"), (5, "backup")):
        job = facts.job(job_id, Phase.QUEUED if job_id == 5 else Phase.STARTED)
        job.file.ops[0].input["reason"] = [["gnt:user", f"rate-limit:1:{key}", 1]]
    facts.jobs[5].held_by = "1 jobs run"
    told = facts.told(5)
    assert "with the key 'backup' run at a time" in told[2]
    assert told[3].startswith("  The limit of 1 is used up by job 1 (") and len(told) == 4


@pytest.mark.parametrize(
    ("phase", "opcode", "says"),
    [
        (Phase.ASKING, {}, "has a slot and has been asking for its locks for 12 s."),
        (Phase.ANNOUNCED, {}, "has been getting its process for 12 s."),
        (Phase.STARTED, {}, "has had a process for 12 s and prepares its work."),
        (Phase.STARTED, {"status": "waiting"}, "has had a process for 12 s and prepares its work."),
        (
            Phase.STARTED,
            {"status": "canceling"},
            "is being stopped; its process began 12 s ago.",
        ),
        (Phase.STARTED, {"status": "running"}, "has been running for 12 s."),
    ],
)
def test_other_phases(facts, phase, opcode, says):
    facts.job(1, phase, opcodes=[opcode])
    assert facts.told(1)[0] == f"Job 1 (INSTANCE_STARTUP(web1)) {says}"


def test_a_process_that_waits_for_locks(facts):
    facts.running(2)
    job = facts.parked(1, holders=[(NODE_LOCK, 2, "exclusive")], opcodes=[{"status": "waiting"}])
    job.phase = Phase.STARTED
    told = facts.told(1)
    assert told[0].endswith("has had a process for 12 s: it waits to lock node node1 (exclusive).")
    assert "by job 2" in told[1]


def test_a_job_of_several_opcodes_and_one_that_undoes(facts):
    ops = [{"status": "success"}, {"status": "running", "name": "web2", "exec_timestamp": timestamp(NOW_S - 70)}, {}]
    job = facts.job(1, Phase.STARTED, opcodes=ops)
    assert facts.told(1) == ["Job 1 (INSTANCE_STARTUP(web2)) has been running opcode 2 of 3 for 1 min 10 s."]
    job.file.deaths = 1
    assert "died in the midst of its work; a new process has been undoing what it left for 12 s." in facts.told(1)[0]


def test_a_job_that_was_handed_back(facts):
    job = facts.job(1, opcodes=[{"status": "success"}, {}, {}])
    job.file.start_timestamp = timestamp(NOW_S - 100)
    assert facts.told(1)[2] == (
        "  It has done 1 of its 3 opcodes and gave its place and its locks back; it goes on when its turn comes."
    )
    job.file.deaths = 2
    assert facts.told(1)[2] == "  A process of it died in the midst of its work: the next one undoes what it left."


@pytest.mark.parametrize(
    ("submitted", "now", "says"),
    [
        (0, 0, "Its priority is normal (0)."),
        (-10, -10, "Its priority is high (-10)."),
        (0, -3, "Its priority is -3; it was normal (0) when it was submitted, and has risen since"),
        (0, 10, "Its priority is low (10); it was normal (0) when it was submitted, and somebody has changed it."),
    ],
)
def test_the_priority_and_how_it_came_about(facts, submitted, now, says):
    facts.job(1, opcodes=[{"priority": now, "submitted": submitted}])
    assert facts.told(1)[1].strip().startswith(says)


@pytest.mark.parametrize(
    ("status", "result", "says"),
    [
        ("success", None, "ended with success 3 min ago, after 5 s."),
        ("error", ["OpExecError", ["no such\nnode."]], "failed 3 min ago: no such node."),
        ("error", "damaged", "failed 3 min ago."),
        ("canceled", ["JobCanceled", ["Job canceled by request"]], "was canceled 3 min ago: Job canceled by request."),
    ],
)
def test_ended_jobs(facts, status, result, says):
    facts.ended_job(7, status, result)
    assert facts.told(7) == [f"Job 7 (INSTANCE_STARTUP(web1)) {says}"]


def test_a_failed_job_is_named_by_the_opcode_that_failed(facts):
    facts.ended_job(7, "error", ["OpExecError", ["no"]])
    facts.files[7].ops[:0] = [entry(name="first", status="success")]
    facts.files[7].ops.append(entry(name="last", status="error", result=["OpExecError", ["not done"]]))
    assert facts.told(7) == ["Job 7 (INSTANCE_STARTUP(web1)) failed 3 min ago: no."]


def test_an_unknown_job(facts):
    with pytest.raises(JobLost, match="Job 99 not found"):
        facts.told(99)


def test_a_job_without_opcodes(facts):
    facts.job(1, opcodes=[])
    facts.job(2, Phase.STARTED, opcodes=[])
    assert facts.told(1)[0] == "Job 1 has been queued for 12 s: its turn has come."
    assert facts.told(2) == ["Job 2 has been running for 12 s."]


def test_a_long_chain_ends(facts):
    for job_id in range(1, 100):
        facts.job(job_id, depends=[Dependency(job_id + 1, frozenset())])
    told = facts.told(1)
    assert told[-1].strip() == f"'gnt-job why {DEEPEST + 1}' tells more."
    assert len(told) == DEEPEST + 3


def test_a_circle_ends(facts):
    facts.parked(1, holders=[(NODE_LOCK, 2, "exclusive")])
    facts.parked(2, holders=[("instance/a", 1, "exclusive")])
    assert len(facts.told(1)) == 3


def test_a_broad_tree_ends(facts):
    for job_id in range(1, 5000):
        facts.job(job_id, depends=[Dependency(5 * job_id + number, frozenset()) for number in range(5)])
    told = facts.told(1)
    assert len(told) < 3 * MOST_JOBS
    assert [line.strip() for line in told].count("And so on: more jobs are involved than can be shown.") == 1


@pytest.mark.parametrize(
    ("length_s", "said"),
    [
        (-1, "less than a second"),
        (0.9, "less than a second"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3661, "1 h 1 min"),
        (86400, "1 day"),
        (90000, "1 day 1 h"),
        (86460, "1 day"),
        (200000, "2 days 7 h"),
    ],
)
def test_lengths_of_time(length_s, said):
    assert words.span(length_s) == said


@pytest.mark.parametrize(
    ("lock", "said"),
    [
        ("cluster/BGL", "the cluster"),
        ("cluster/[lockset]", "the whole cluster"),
        ("cluster/config", "the configuration"),
        ("instance/web1", "instance web1"),
        ("instance/[lockset]", "all instances"),
        (NODE_LOCK, "node node1"),
        (f"node-res/{NODE}", "the resources of node node1"),
        (f"nodegroup/{GROUP}", "group default"),
        ("network/gone", "network gone"),
        ("nonsense", "nonsense"),
    ],
)
def test_names_of_locks(facts, lock, said):
    assert words.lock_words(lock, facts.view) == said


def test_many_locks_are_counted(facts):
    locks = {f"instance/i{number}": "shared" for number in range(9)}
    assert words.locks_wanted(locks, facts.view).endswith("instance i3 (shared) and 5 more")
