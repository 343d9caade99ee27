# SPDX-License-Identifier: BSD-2-Clause
"""Repairs by tags: what is printed, submitted and tagged. Debian's harep was seen to do the same with each cluster."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.luxi_master import GROUP, FakeMaster, fake_master, instance, node

from ganeti.master.maintenance import repair_tags
from ganeti.tools.htools.programs import execution, harep

P = repair_tags.PREFIX
U, V = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
FIX = f"{P}fix-storage"
PENDING = f"{P}pending:fix-storage:{U}:1700000000:52"
DONE = f"{P}result:fix-storage:{U}:1700000000:success:52"
FAILED = f"{P}result:fix-storage:{U}:1700000000:failure:53"
RULE = "---------------------\nInstance status count\n---------------------\n"
NOW = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}(?=:[0-9]{10}:)|:[0-9]{10}(?=:)")


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaster]:
    monkeypatch.setattr(execution, "_FIRST_POLL_S", 0.001)
    nodes = [node("n1.x"), node("n2.x"), node("n3.x", offline=True), node("n4.x", drained=True)]
    with fake_master(tmp_path / "socket", nodes) as found:
        yield found


def run(master: FakeMaster, capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    """Run harep; gives what it prints, with new ids and times replaced by `ID` and `NOW`."""
    assert harep.main([f"-L{master.path}", *words]) == status
    said = capsys.readouterr()
    kept = (U, V, ":1700000000")
    found = NOW.sub(
        lambda match: match[0] if match[0] in kept else ":NOW" if match[0][0] == ":" else "ID", said.out
    ).replace(":17000000", ":OLD")
    return found if status == 0 else found + said.err.rpartition("\n\n")[2]


def opcodes(master: FakeMaster) -> list[list[str]]:
    return [[opcode["OP_ID"] for opcode in job] for jobs in master.submitted for job in jobs]


@pytest.mark.parametrize(
    ("place", "allowed", "kind", "name", "submitted"),
    [
        (("n1.x", "n3.x"), "fix-storage", "fix-storage", "ArFixStorage", ["OP_INSTANCE_REPLACE_DISKS"]),
        (("n1.x", "n4.x"), "migrate", "fix-storage", "ArFixStorage", ["OP_INSTANCE_REPLACE_DISKS"]),
        (("n3.x", "n1.x"), "failover", "failover", "ArFailover", ["OP_INSTANCE_FAILOVER"]),
        (
            ("n3.x", "n4.x"),
            *("reinstall", "reinstall", "ArReinstall"),
            ["OP_INSTANCE_RECREATE_DISKS", "OP_INSTANCE_REINSTALL"],
        ),
        (
            ("n3.x", ""),
            "reinstall",
            "reinstall",
            "ArReinstall",
            ["OP_INSTANCE_RECREATE_DISKS", "OP_INSTANCE_REINSTALL"],
        ),
    ],
)
def test_a_repair(
    master: FakeMaster,
    capsys: pytest.CaptureFixture[str],
    place: tuple[str, str],
    allowed: str,
    kind: str,
    name: str,
    submitted: list[str],
) -> None:
    master.instances = [instance("i.x", *place, tags=[P + allowed])]
    assert run(master, capsys, "--reason=why") == (
        f"Executing {name} repair on i.x\n>>> Adding the following tag to i.x:\n"
        f'"{P}pending:{kind}:ID:NOW:101"\n{RULE}Pending repair: 1\n'
    )
    assert opcodes(master) == [["OP_TEST_DELAY", *submitted], ["OP_TAGS_SET"]]
    for job in (job for jobs in master.submitted for job in jobs):
        for opcode in job:
            assert opcode["comment"] == "automated repairs by harep (ganeti) version 3.1.0"
            assert opcode["reason"][0][:2] == ["harep", "why"]
    assert master.submitted[0][0][0]["duration"] == 10
    assert master.submitted[1][0][0] | {"tags": 0, "comment": 0, "reason": 0} == {
        "OP_ID": "OP_TAGS_SET",
        "kind": "instance",
        "name": "i.x",
        "priority": 0,
        "tags": 0,
        "comment": 0,
        "reason": 0,
    }


def test_opcodes_of_each_repair(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    master.instances = [
        instance("a.x", "n1.x", "n3.x", tags=[P + "reinstall"]),
        instance("b.x", "n3.x", "n1.x", tags=[P + "reinstall"]),
        instance("c.x", "n3.x", "", tags=[P + "reinstall"]),
    ]
    said = run(master, capsys, "--dry-run", "--job-delay=0")
    assert [line for line in said.splitlines() if line.startswith("jobs: ")] == [
        'jobs: [[{"OP_ID":"OP_INSTANCE_REPLACE_DISKS","instance_name":"a.x","early_release":false,'
        '"ignore_ipolicy":false,"mode":"replace_new_secondary","disks":[],"iallocator":"hail"}]]',
        'jobs: [[{"OP_ID":"OP_INSTANCE_FAILOVER","instance_name":"b.x","shutdown_timeout":120,'
        '"ignore_consistency":false,"ignore_ipolicy":false,"cleanup":false}]]',
        'jobs: [[{"OP_ID":"OP_INSTANCE_RECREATE_DISKS","instance_name":"c.x","disks":[],"nodes":[],'
        '"iallocator":"hail"},{"OP_ID":"OP_INSTANCE_REINSTALL","instance_name":"c.x","force_variant":false}]]',
    ]
    assert said.count("pending:") == 3
    assert said.endswith("Pending repair: 3\n")
    assert master.submitted == []


@pytest.mark.parametrize(
    ("tags", "line"),
    [
        ([], "Not repairing i.x because it's in state ArNotEnabled"),
        ([f"{P}foo", "x"], "Not repairing i.x because it's in state ArNotEnabled"),
        ([FIX, f"{P}suspend"], "Not repairing i.x because it's in state ArSuspended Forever"),
        (
            [FIX, f"{P}suspend:1000", f"{P}suspend:2999999999"],
            "Not repairing i.x because it's in state ArSuspended (Until Sat Jan 24 05:19:59 UTC 2065)",
        ),
    ],
)
def test_what_is_left_alone(master: FakeMaster, capsys: pytest.CaptureFixture[str], tags: list[str], line: str) -> None:
    master.instances = [
        instance("i.x", "n1.x", "n3.x", tags=tags),
        instance("fine.x", "n1.x", "n2.x", tags=[FIX]),
        instance("shared.x", "n3.x", disk_template="sharedfile", tags=[FIX]),
    ]
    assert run(master, capsys) == f"{line}\n{RULE}Healthy: 3\n"
    assert master.submitted == []


def test_more_than_is_allowed(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    old = f"{P}result:failover:{U}:1700000000:enoperm:"
    master.instances = [instance("i.x", "n3.x", "n1.x", tags=[FIX, old])]
    assert run(master, capsys) == (
        "Not performing a repair of type ArFailover on i.x because only repairs up to ArFixStorage are allowed\n"
        f'>>> Adding the following tag to i.x:\n"{P}result:failover:ID:NOW:enoperm:"\n'
        f'>>> Removing the following tags from i.x:\n"{old.replace(":17000000", ":OLD")}"\n{RULE}Needs repair: 1\n'
    )
    assert opcodes(master) == [["OP_TAGS_SET"], ["OP_TAGS_DEL"]]


@pytest.mark.parametrize(
    ("statuses", "word", "result"),
    [
        (("success", "success"), "Healthy", "success"),
        (("success", "error"), "Failure", "failure"),
        (("canceled", "success"), "Failure", "failure"),
        ((None, "success"), "Failure", "failure"),
    ],
)
def test_a_repair_that_has_ended(
    master: FakeMaster, capsys: pytest.CaptureFixture[str], statuses: tuple[str, str], word: str, result: str
) -> None:
    pending = f"{PENDING}+51"
    master.instances = [instance("i.x", "n1.x", "n2.x", tags=[FIX, pending])]
    master.statuses = {52: [statuses[0]], 51: [statuses[1]]}
    assert run(master, capsys) == (
        f'Moving i.x from "Pending repair" to "{word}"\n'
        f'>>> Adding the following tag to i.x:\n"{P}result:fix-storage:{U}:NOW:{result}:52+51"\n'
        f'>>> Removing the following tags from i.x:\n"{pending.replace(":17000000", ":OLD")}"\n{RULE}{word}: 1\n'
    )
    assert master.arguments_of("QueryJobs")[0] == [[52, 51], ["status"]]
    assert opcodes(master) == [["OP_TAGS_SET"], ["OP_TAGS_DEL"]]


def test_a_repair_that_goes_on(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    master.instances = [instance("i.x", "n1.x", "n3.x", tags=[FIX, PENDING])]
    master.statuses = {52: ["running"]}
    assert run(master, capsys) == f"{RULE}Pending repair: 1\n"
    assert master.submitted == []


def test_what_a_repair_has_changed_since_the_cluster_was_read_is_seen(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends between the question for the cluster and that for its jobs: what was read before is out of date."""
    broken = instance("i.x", "n3.x", "n4.x", tags=[f"{P}reinstall", PENDING])
    master.instances = [broken, instance("gone.x", "n1.x", "n3.x", tags=[FIX])]

    def look(arguments: list[Any]) -> tuple[bool, Any]:
        master.instances = [broken | {"pnode": "n1.x", "snodes": ["n2.x"]}]
        return True, [["success"] for _ in arguments[0]]

    master.answers["QueryJobs"] = look
    said = run(master, capsys)
    assert 'Moving i.x from "Pending repair" to "Healthy"' in said and "Executing" not in said
    assert said.endswith(f"{RULE}Healthy: 1\n")
    assert opcodes(master) == [["OP_TAGS_SET"], ["OP_TAGS_DEL"]]


def test_what_was_repaired_may_break_again(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    master.instances = [instance("i.x", "n1.x", "n3.x", tags=[FIX, PENDING])]
    said = run(master, capsys, "--job-delay=0")
    assert said.index("Moving i.x") < said.index("Executing ArFixStorage repair on i.x")
    assert opcodes(master) == [
        *(["OP_TAGS_SET"], ["OP_TAGS_DEL"]),
        *(["OP_INSTANCE_REPLACE_DISKS"], ["OP_TAGS_SET"], ["OP_TAGS_DEL"]),
    ]


@pytest.mark.parametrize(
    "tags",
    [
        [FAILED],
        [DONE, f"{P}result:fix-storage:{V}:1700000009:failure:54"],
        [f"{P}result:fix-storage:{V}:1700000009:success:54", FAILED],
        [FAILED, f"{P}suspend"],
    ],
)
def test_a_failure_stays(master: FakeMaster, capsys: pytest.CaptureFixture[str], tags: list[str]) -> None:
    master.instances = [instance("i.x", "n1.x", "n3.x", tags=[FIX, *tags])]
    assert run(master, capsys) == f"{RULE}Failure: 1\n"
    assert master.submitted == []


def test_a_repair_begun_before_another_ended(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    newer = f"{P}result:fix-storage:{V}:1700000009:success:55"
    master.instances = [instance("i.x", "n1.x", "n3.x", tags=[FIX, newer, PENDING])]
    assert run(master, capsys, status=1) == (
        "Error: when parsing auto-repair tags: An unfinished repair was found in instance i.x: found tag"
        f' "{newer}", but older pending tag "{PENDING}" exists.\n'
    )


def test_all_tags_of_former_repairs_go(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    """Also one that an interrupted run has left beside its result: with it the next repair would never be found."""
    tags = [f"{P}result:failover:{V}:1600000000:enoperm:", PENDING, DONE]
    master.instances = [instance("i.x", "n1.x", "n3.x", tags=[FIX, *tags])]
    run(master, capsys)
    assert master.submitted[-1][0][0]["tags"] == [DONE, PENDING, tags[0]]


@pytest.mark.parametrize("tag", ["pending:nonsense", f"pending:fix-storage:{U}:x:52", f"result:foo:{U}:1:success:5"])
def test_tags_that_cannot_be_read_count_for_nothing(tag: str) -> None:
    assert repair_tags.state("i.x", [P + tag]) == repair_tags.State()


def test_the_nearest_tags_decide(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    master.info["tags"] = [f"{P}suspend"]
    master.groups = [GROUP | {"tags": [f"{P}reinstall", f"{P}failover"]}]
    master.instances = [
        instance("a.x", "n1.x", "n3.x"),
        instance("b.x", "n3.x", "n1.x", tags=[FIX]),
        instance("c.x", "n1.x", "n3.x", tags=[f"{P}suspend:1000"]),
    ]
    said = run(master, capsys, "--dry-run")
    assert "Executing ArFixStorage repair on a.x" in said
    assert "only repairs up to ArFixStorage are allowed" in said
    assert "Executing ArFixStorage repair on c.x" in said
    master.groups = [GROUP]
    assert "Not repairing a.x because it's in state ArSuspended Forever" in run(master, capsys, "--dry-run")


def test_a_tag_that_cannot_be_set(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    master.instances = [instance(f"{name}.x", "n1.x", "n3.x", tags=[FIX]) for name in "ab"]
    master.statuses = {102: ["error"]}
    said: Any = run(master, capsys, status=1)
    assert said.endswith("Error: The following jobs failed: 102=>error\n")
    assert len(master.submitted) == 2


@pytest.mark.parametrize(("left", "status"), [([], 0), ([PENDING], 1)])
def test_tags_that_somebody_else_has_removed_are_no_failure(
    master: FakeMaster, capsys: pytest.CaptureFixture[str], left: list[str], status: int
) -> None:
    """The maintenance daemon changes them, too, where it repairs instances."""
    master.instances = [instance("i.x", "n1.x", "n2.x", tags=[FIX, PENDING])]
    master.statuses = {102: ["error"]}
    master.tags["instance", "i.x"] = [FIX, *left]
    said = run(master, capsys, status=status)
    assert ("The following jobs failed: 102=>error" in said) == bool(left)


def test_a_repair_that_is_refused_has_failed_and_the_others_go_on(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    """3.0 ends there, and at each later run again; what the master daemon does not know it will not know tomorrow."""
    master.instances = [instance("a.x", "n1.x", "n3.x", tags=[FIX]), instance("b.x", "n3.x", "n1.x", tags=[FIX])]

    def submit(arguments: list[Any]) -> tuple[bool, Any]:
        known = all(opcode["OP_ID"].startswith("OP_TAGS") for opcode in arguments[0][0])
        return True, [[True, 101] if known else [False, "Opcode X is not known here"]]

    master.answers["SubmitManyJobs"] = submit
    assert run(master, capsys) == (
        "Executing ArFixStorage repair on a.x\nThe master daemon refuses that: Opcode X is not known here\n"
        f'>>> Adding the following tag to a.x:\n"{P}result:fix-storage:ID:NOW:failure:"\n'
        "Not performing a repair of type ArFailover on b.x because only repairs up to ArFixStorage are allowed\n"
        f'>>> Adding the following tag to b.x:\n"{P}result:failover:ID:NOW:enoperm:"\n'
        f"{RULE}Failure: 1\nNeeds repair: 1\n"
    )
    assert opcodes(master) == [["OP_TEST_DELAY", "OP_INSTANCE_REPLACE_DISKS"], ["OP_TAGS_SET"], ["OP_TAGS_SET"]]


def test_a_queue_that_takes_no_jobs_is_no_failed_repair(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    master.instances = [instance("a.x", "n1.x", "n3.x", tags=[FIX])]
    master.answers["SubmitManyJobs"] = lambda _: (False, ["JobQueueDrainError", ["Job queue is drained"]])
    assert run(master, capsys, status=1).endswith("Error: Job queue is drained\n")
    assert len(master.submitted) == 1


def test_no_master_daemon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert harep.main([f"-L{tmp_path}/socket"]) == 1
    assert capsys.readouterr().err.startswith("Error: failed to load data, aborting: Cannot connect to ")
