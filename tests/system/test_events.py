# SPDX-License-Identifier: BSD-2-Clause
"""`Subscribe` with real daemons: what happens is told, once and in order, through restarts of either daemon."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.master_daemons import HOST, NODE_UUID, Master, running_master

from ganeti.master.events.lock_mirror import LockMirror
from ganeti.system.livelock import LiveLock
from ganeti.wire.framing_sync import connect

pytestmark = pytest.mark.daemons
DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 0.02, "on_master": True}
RULE: list[Any] = [None, 5, [["jobid", [">", "id", 100000]]], "PAUSE", []]
KINDS = ["config", "job", "lock", "node"]


@pytest.fixture
def master(tmp_path):
    with running_master(tmp_path / "root") as found:
        yield found


@contextlib.contextmanager
def subscribed(master: Master, *args: Any):
    """A stream: gives its answer, and a function that gives the next event."""
    with master.connection(20.0) as connection:
        connection.send({"method": "Subscribe", "args": list(args)})
        answer = connection.receive()
        assert answer["success"], answer
        yield answer["result"], connection.receive


def until(receive, condition) -> list[dict[str, Any]]:
    """The events up to and including the first that meets *condition*."""
    events = []
    while not events or not condition(events[-1]):
        events.append(receive())
    return events


def archived(job_id: int):
    return lambda event: event.get("what") == "archived" and event["id"] == job_id


def run_jobs(master: Master) -> int:
    """Two jobs, one of them cancelled, a filter rule, and an end that can be waited for; gives the id of the last."""
    first = master.submit(DELAY)
    master.wait(first)
    master.luxi("ReplaceFilter", *RULE)
    last = master.submit({**DELAY, "depends": [[first, ["success"]]], "priority": 10})
    master.wait(last)
    master.luxi("ArchiveJob", first)
    master.luxi("ArchiveJob", last)
    return last


def test_the_life_of_a_job_is_told(master):
    with subscribed(master, ["job"]) as (answer, receive):
        assert answer["kinds"] == ["job"]
        longer = {**DELAY, "duration": 0.2}  # that it runs is written for jobs of more than 40 ms
        job = master.submit(longer, longer)
        master.wait(job)
        master.luxi("ArchiveJob", job)
        events = until(receive, archived(job))
    assert {(event["event"], event["id"]) for event in events} == {("job", job)}
    assert events[0]["what"] == "submitted" and events[0]["summary"] == ["TEST_DELAY(0.2)"] * 2
    statuses = [event["status"] for event in events if event["what"] == "status"]
    assert statuses[-1] == "success" and "running" in statuses
    was = [event["was"] for event in events if event["what"] == "status"]
    assert was == ["queued", *statuses[:-1]]


def test_from_every_position_the_rest_follows(master):
    with subscribed(master, KINDS) as (answer, receive):
        last = run_jobs(master)
        events = until(receive, archived(last))
    assert {event["event"] for event in events} == {"config", "job", "lock"}
    positions = [answer["position"], *(event["position"] for event in events)]
    assert len(set(positions)) == len(positions)
    for index, position in enumerate(positions[:-1]):
        for kinds in (KINDS, ["job", "config"]):
            with subscribed(master, kinds, position) as (again, receive):
                assert again["position"] == position
                wanted = [event for event in events[index:] if event["event"] in kinds]
                assert [receive() for _ in wanted] == wanted


def test_a_position_of_another_life_begins_with_a_snapshot(master):
    with subscribed(master, None) as (answer, _):
        position = answer["position"]
    job = master.submit(DELAY)
    master.wait(job)
    master.kill("luxid", signal.SIGTERM)
    master.start("luxid")
    with subscribed(master, None, position) as (answer, receive):
        snapshot = receive()
        assert snapshot["event"] == "snapshot" and snapshot["position"] == answer["position"]
        assert snapshot["job"] == [[job, "success", None, None]]
        assert ["nodes", NODE_UUID, HOST, 1] in snapshot["config"]["objects"]
        assert {node["name"]: node["role"] for node in snapshot["node"]}[HOST] == "M"
        assert snapshot["lock"] == {"held": [], "waiting": []}
        second = master.submit(DELAY)
        events = until(receive, lambda event: event.get("status") == "success")
        assert next(event for event in events if event["event"] == "job")["id"] == second


def test_the_configuration_is_followed_through_a_restart(master):
    with subscribed(master, ["config"]) as (answer, receive):
        position = answer["position"]
        uuids = [master.luxi("ReplaceFilter", *RULE)]
        first = receive()
    uuids += [master.luxi("ReplaceFilter", *RULE) for _ in range(3)]
    master.kill("luxid", signal.SIGKILL)
    master.start("luxid")
    with subscribed(master, ["config"], first["position"]) as (answer, receive):
        missed = [receive() for _ in range(3)]
        uuids.append(master.luxi("ReplaceFilter", *RULE))
        live = receive()
    assert [event["put"][0][1] for event in (first, *missed, live)] == uuids
    commits = [event["commit"] for event in (first, *missed, live)]
    assert commits == [[commits[0][0], commits[0][1] + step] for step in range(5)]
    with subscribed(master, ["config"], missed[0]["position"]) as (_, receive):
        assert [receive()["commit"] for _ in range(3)] == commits[2:]
    with subscribed(master, ["config"], position) as (_, receive):
        assert receive()["commit"] == commits[0]


def test_locks_are_told_as_wconfd_has_them(master):
    """A table kept from a snapshot and the changes after it is WConfD's own, also after it was restarted."""
    with subscribed(master, ["lock"], None, {"snapshot": True}) as (_, receive):
        assert receive()["lock"] == {"held": [], "waiting": []}
        job = master.submit({**DELAY, "duration": 600})
        granted = until(receive, lambda event: event["what"] == "granted" and "job_" in event["client"][1])[-1]
        assert granted["client"][0] == job and granted["locks"] == {"cluster/BGL": "shared"}
        with subscribed(master, ["lock"], None, {"snapshot": True}) as (_, second):
            assert second()["lock"]["held"] == [["cluster/BGL", [[granted["client"], "shared"]]]]
        master.kill("wconfd", signal.SIGKILL)
        master.start("wconfd")
        table = until(receive, lambda event: event["what"] == "table")[-1]
        assert table["held"] == [["cluster/BGL", [[granted["client"], "shared"]]]]
        master.luxi("CancelJob", job, True)
        freed = until(receive, lambda event: event["what"] == "freed")[-1]
        assert freed["client"][0] == job


def test_a_table_kept_by_changes_alone_is_the_one_wconfd_has(master):
    """Four owners take, wait for, give up and free the same locks, many times over."""
    chance = random.Random(7)
    livelocks = Path(master.paths.livelock_dir)
    with contextlib.ExitStack() as ending, subscribed(master, ["lock"], None, {"snapshot": True}) as (_, receive):
        mirror = LockMirror()
        mirror.load(**receive()["lock"])
        locks = [LiveLock(str(livelocks / f"job_{number:06}_1")) for number in range(900, 905)]
        for lock in locks:
            ending.callback(lock.remove)
        *owners, marker = [[900 + index, lock.path, os.getpid()] for index, lock in enumerate(locks)]
        wconfd = ending.enter_context(connect(master.paths.wconfd_socket, 20.0))

        def call(method: str, *args: Any) -> dict[str, Any]:
            wconfd.send({"method": method, "args": args})
            answer: dict[str, Any] = wconfd.receive()
            return answer

        succeeded = 0
        for _ in range(300):
            owner, names = chance.choice(owners), chance.sample(["node/a", "node/b", "node/c"], chance.randint(1, 3))
            request = [[name, chance.choice(["shared", "exclusive", "release"])] for name in names]
            succeeded += call(
                *chance.choice(
                    [
                        ("tryUpdateLocks", owner, request),
                        ("updateLocksWaiting", owner, chance.randint(-5, 5), request),
                        ("updateLocksWaiting", owner, chance.randint(-5, 5), request),
                        ("cancelLockRequest", owner),
                        ("intersectLocks", owner, names),
                        ("downGradeLocksLevel", owner, "node"),
                        ("freeLocks", owner),
                    ]
                )
            )["success"]
        assert succeeded > 100
        held, (_, waiting) = (call(name)["result"] for name in ("listAllLocksOwners", "listLocksWaitingStatus"))
        call("tryUpdateLocks", marker, [["node/end", "shared"]])
        for event in until(receive, lambda event: event.get("client", [0])[0] == marker[0])[:-1]:
            mirror.change(event["what"], event["client"], event["locks"])
    kept = mirror.state()
    assert [[lock, sorted(owners)] for lock, owners in kept["held"]] == [[lock, sorted(o)] for lock, o in sorted(held)]
    assert sorted(owner for _, owner, _ in kept["waiting"]) == sorted(owner for _, owner, _ in waiting)


WRONG: list[tuple[list[Any], str]] = [
    ([["bogus"]], "not kinds of events: name some of config, job, lock, node"),
    ([[]], "not kinds of events"),
    (["job"], "not kinds of events"),
    ([None, "bogus"], "not a position of the event stream"),
    ([None, 7], "not a position of the event stream"),
    ([None, None, {"bogus": 1}], "snapshot"),
    ([None, None, {"snapshot": 1}], "snapshot"),
    ([None, None, None, None], "0 to 3 arguments"),
]


def test_a_wrong_subscription_is_refused_and_the_connection_goes_on(master):
    with master.connection() as connection:
        for args, words in WRONG:
            connection.send({"method": "Subscribe", "args": args})
            answer = connection.receive()
            assert answer["success"] is False and words in str(answer["result"])
        connection.send({"method": "QueryConfigValues", "args": [["cluster_name"]]})
        assert connection.receive()["result"] == ["cluster.example.com"]


def command(master: Master, *words: str) -> subprocess.Popen[str]:
    program = "import sys; from ganeti.cli.main import run; sys.exit(run('gnt-debug'))"
    return subprocess.Popen(
        [sys.executable, "-c", program, "events", *words],
        env={**os.environ, **master.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def lines_until(process: subprocess.Popen[str], word: str) -> list[str]:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if word in line:
            return lines
    raise AssertionError(f"{word} not in {lines}, {process.stderr and process.stderr.read()}")


def test_the_command_says_events_until_interrupted_and_through_a_restart(master):
    process = command(master, "--kinds=job,config", "--snapshot")
    try:
        assert "0 jobs, 0 of them unfinished" in lines_until(process, "What is there now")[0]
        job = master.submit(DELAY)
        text = "".join(lines_until(process, "has ended: success"))
        assert f"Job {job} was submitted with priority 0: TEST_DELAY(0.02)" in text
        master.kill("luxid", signal.SIGKILL)
        master.start("luxid")
        lines_until(process, "What is there now")
        uuid = master.luxi("ReplaceFilter", *RULE)
        assert f"changed filter {uuid}" in lines_until(process, "Configuration")[-1]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 0
        assert "Continue with --from=" in err and "Traceback" not in err
    finally:
        process.kill()
        process.communicate()


def test_the_command_continues_from_a_position_with_json(master):
    with subscribed(master, ["job"]) as (answer, receive):
        job = master.submit(DELAY)
        wanted = until(receive, lambda event: event.get("status") == "success")
    process = command(master, "--kinds=job", f"--from={answer['position']}", "--json")
    try:
        assert [json.loads(line) for line in lines_until(process, '"success"')] == wanted
        assert wanted[0]["id"] == job
    finally:
        process.kill()
        process.communicate()
    wrong = command(master, "--from=bogus")
    assert wrong.communicate(timeout=20)[1] == (
        "Failure: wrong parameter: 'bogus' is not a position of the event stream: give one back as it came, or null\n"
    )
    assert wrong.returncode == 1
    wrong = command(master, "--kinds=job,bogus")
    assert "there are config, job, lock, node" in wrong.communicate(timeout=20)[1]
    assert wrong.returncode == 2
