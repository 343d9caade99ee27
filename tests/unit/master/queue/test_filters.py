# SPDX-License-Identifier: BSD-2-Clause
"""Job filter rules: which decides, what each operator says about a job, and what is refused when a rule is made."""

from typing import Any

import pytest

from ganeti.base.errors import ParameterError
from ganeti.master.queue.filters import Admission, Verdict, check_rule
from ganeti.model.objects import FilterRule
from ganeti.wire.job_file import JobFile, OpcodeEntry

RUN = Verdict("run")
CREATE = {
    "OP_ID": "OP_INSTANCE_CREATE",
    "instance_name": "web1.example.com",
    "disks": [{"size": 1024, "mode": "rw"}, {"size": 2048}],
    "beparams": {"memory": 512},
    "tags": ["blue", "green"],
    "start": True,
    "osparams_secret": {"password": "hunter2"},
    "reason": [["gnt:user", "weekly maintenance", 17], ["gnt:opcode:instance_create", "job=1;index=0", 18]],
}
DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 1.5}


def uuid(number: int) -> str:
    return f"{number:08d}-0000-4000-8000-000000000000"


def rule(number: int = 1, action: Any = "PAUSE", *predicates: Any, priority: int = 0, watermark: int = 0) -> FilterRule:
    return FilterRule(
        uuid=uuid(number), action=action, predicates=list(predicates), priority=priority, watermark=watermark
    )


def job(*opcodes: dict[str, Any], id: int = 7) -> JobFile:
    return JobFile(id=id, ops=[OpcodeEntry(input=opcode) for opcode in opcodes or (CREATE,)])


def said(text: Any) -> dict[str, Any]:
    return {**DELAY, "reason": [["gnt:user", text, 1]]}


def matches(predicate: Any, file: JobFile | None = None, watermark: int = 0) -> bool:
    return Admission([rule(1, "PAUSE", predicate, watermark=watermark)]).of(file or job()).action == "pause"


def test_without_rules_a_job_runs():
    assert Admission([]).of(job()) == RUN
    assert Admission([]).of(JobFile(id=1, ops=[])) == RUN


@pytest.mark.parametrize(
    ("action", "verdict"),
    [
        ("ACCEPT", Verdict("run", (), uuid(1))),
        ("PAUSE", Verdict("pause", (), uuid(1))),
        ("REJECT", Verdict("reject", (), uuid(1))),
        ("CONTINUE", RUN),
        (["RATE_LIMIT", 3], Verdict("run", ((uuid(1), 3),), uuid(1))),
    ],
)
def test_what_actions_mean(action, verdict):
    assert Admission([rule(1, action)]).of(job()) == verdict


def test_the_first_by_priority_then_watermark_then_uuid_decides():
    rules = [
        rule(1, "PAUSE", priority=2, watermark=1),
        rule(4, "REJECT", priority=1, watermark=5),
        rule(3, "ACCEPT", priority=1, watermark=5),
        rule(9, ["RATE_LIMIT", 1], priority=1, watermark=4),
    ]
    decided = []
    while rules:
        verdict = Admission(rules).of(job())
        decided.append(verdict.rule)
        rules = [each for each in rules if each.uuid != verdict.rule]
    assert decided == [uuid(9), uuid(3), uuid(4), uuid(1)]


def test_continue_leaves_the_decision_to_the_next_and_all_predicates_must_match():
    rules = [
        rule(1, "CONTINUE"),
        rule(2, "REJECT", ["jobid", ["==", "id", 7]], ["opcode", ["==", "OP_ID", "OP_TEST_DELAY"]]),
        rule(3, "PAUSE", ["jobid", ["==", "id", 7]], ["opcode", ["==", "OP_ID", "OP_INSTANCE_CREATE"]]),
    ]
    assert Admission(rules).of(job()).rule == uuid(3)
    assert Admission(rules).of(job(DELAY)).rule == uuid(2)
    assert Admission(rules).of(job(id=8)) == RUN


@pytest.mark.parametrize(
    "qfilter",
    [
        ["==", "OP_ID", "OP_INSTANCE_CREATE"],
        ["=", "disks.0.size", 1024],
        ["==", "disks.1.size", 2048.0],
        ["!=", "disks.1.size", 1024],
        ["<", "beparams.memory", 513],
        ["<=", "beparams.memory", 512],
        [">", "beparams.memory", 511.5],
        [">=", "beparams.memory", 512],
        ["<", "instance_name", "web2"],
        ["=~", "instance_name", r"^web\d\."],
        ["=[]", "tags", "green"],
        ["?", "start"],
        ["?", "beparams.memory"],
        ["==", "start", True],
        ["==", "tags", ["blue", "green"]],
        ["==", "disks.0", {"mode": "rw", "size": 1024}],
        ["!", ["?", "nothing"]],
        ["==", "nothing.at.all", None],
        ["==", "disks.2.size", None],
        ["!=", "instance_name", None],
        ["!=", "nothing", "something"],
        ["&"],
        ["&", ["?", "start"], ["!", ["=[]", "tags", "red"]]],
        ["|", ["==", "start", "yes"], ["?", "start"]],
        ["|", ["?", "nothing"], ["&", ["?", "start"], ["?", "tags"]]],
        ["==", "reason.0.1", "weekly maintenance"],
    ],
)
def test_opcode_filters_that_match(qfilter):
    assert matches(["opcode", qfilter])
    assert matches(["opcode", qfilter], job(DELAY, CREATE)) and not matches(["opcode", ["!", qfilter]])


@pytest.mark.parametrize(
    "qfilter",
    [
        ["==", "OP_ID", 5],
        ["!=", "OP_ID", 5],
        ["<", "OP_ID", 5],
        ["==", "start", 1],
        [">", "start", False],
        [">=", "nothing", 0],
        ["=~", "beparams.memory", "5"],
        ["=[]", "instance_name", "web1"],
        ["=~", "nothing", "."],
        ["<", "tags", ["z"]],
        ["&", ["?", "start"], ["==", "OP_ID", 5]],
        ["|", ["?", "nothing"], ["==", "OP_ID", 5]],
    ],
)
def test_nothing_is_said_about_values_of_different_types(qfilter):
    assert not matches(["opcode", qfilter]) and not matches(["opcode", ["!", qfilter]])


def test_empty_or_has_no_part_that_matches():
    assert not matches(["opcode", ["|"]]) and matches(["opcode", ["!", ["|"]]])


def test_one_opcode_must_match_the_whole_filter():
    both = ["&", ["==", "OP_ID", "OP_TEST_DELAY"], ["?", "instance_name"]]
    assert not matches(["opcode", both], job(DELAY, CREATE))
    assert matches(["opcode", both], job(CREATE, {**DELAY, "instance_name": "web1"}))


def test_secrets_cannot_be_found_out_by_a_filter():
    assert not matches(["opcode", ["==", "osparams_secret.password", "hunter2"]])
    assert matches(["opcode", ["?", "osparams_secret.password"]])
    planned = job({"OP_ID": "OP_PLAN", "operation": CREATE})
    assert not matches(["opcode", ["==", "operation.osparams_secret.password", "hunter2"]], planned)
    assert matches(["opcode", ["==", "operation.osparams_secret.password", "<redacted>"]], planned)
    assert not matches(["opcode", ["==", "operation", CREATE]], planned)


@pytest.mark.parametrize(
    ("qfilter", "expected"),
    [
        (["==", "id", 7], True),
        (["<=", "id", 7], True),
        ([">", "id", 7], False),
        ([">", "id", "watermark"], True),
        (["<=", "id", "watermark"], False),
        (["!", ["<=", "id", "watermark"]], True),
        (["|", ["==", "id", 1], ["==", "id", 7]], True),
    ],
)
def test_job_ids_and_the_watermark(qfilter, expected):
    assert matches(["jobid", qfilter], watermark=6) is expected
    assert not matches(["jobid", [">", "id", "watermark"]], watermark=7)


@pytest.mark.parametrize(
    ("qfilter", "expected"),
    [
        (["==", "source", "gnt:user"], True),
        (["==", "reason", "weekly maintenance"], True),
        ([">", "timestamp", 17], True),
        ([">", "timestamp", 18], False),
        (["&", ["==", "source", "gnt:user"], ["==", "timestamp", 18]], False),
        (["&", ["==", "source", "gnt:user"], ["==", "timestamp", 17]], True),
        (["==", "timestamp", "17"], False),
    ],
)
def test_one_entry_of_a_reason_trail_must_match(qfilter, expected):
    assert matches(["reason", qfilter]) is expected
    assert matches(["reason", qfilter], job(DELAY, CREATE)) is expected
    assert not matches(["reason", qfilter], job(DELAY))


@pytest.mark.parametrize("trail", [None, 5, "text", [], [5], [["a", "b"]], [[1, 2, 3]], {"a": 1}])
def test_odd_reason_trails_match_nothing(trail):
    file = job({**DELAY, "reason": trail})
    assert not matches(["reason", ["!=", "reason", "x"]], file)
    assert Admission([]).of(file) == RUN


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("rate-limit:2:backup", (("rate-limit:backup", 2),)),
        ("rate-limit:2:a:b c", (("rate-limit:a:b c", 2),)),
        ("rate-limit:0:backup", ()),
        ("rate-limit:-1:backup", ()),
        ("rate-limit:x:backup", ()),
        ("rate-limit::backup", ()),
        ("rate-limit:3", ()),
        ("rate-limit:²:backup", ()),
        ("rate-limit:" + "9" * 5000 + ":backup", ()),
        (" rate-limit:2:backup", ()),
        ("please rate-limit:2:backup", ()),
        (None, ()),
    ],
)
def test_ad_hoc_limits(text, limits):
    assert Admission([]).of(job(said(text))).limits == limits


def test_ad_hoc_limits_of_all_opcodes_hold_beside_the_rule():
    file = job(said("rate-limit:2:a"), said("rate-limit:3:b"), said("rate-limit:1:a"), said("rate-limit:5:a"))
    expected = (("rate-limit:a", 1), ("rate-limit:b", 3))
    assert Admission([]).of(file) == Verdict("run", expected)
    assert Admission([rule(1, ["RATE_LIMIT", 4])]).of(file).limits == ((uuid(1), 4), *expected)
    assert Admission([rule(1, "PAUSE")]).of(file) == Verdict("pause", expected, uuid(1))


FAULTS = [
    (["opcode"], "is not a predicate"),
    ("jobid", "is not a predicate"),
    (["node", ["==", "name", "n1"]], "no predicate 'node'"),
    (["jobid", ["==", "ID", 1]], "has no field 'ID'"),
    (["jobid", ["==", "id", "12"]], "compared with a number"),
    (["jobid", ["==", "id", True]], "compared with a number"),
    (["jobid", ["=~", "id", "1"]], "'=~' cannot be used"),
    (["jobid", ["?", "id"]], "'?' cannot be used"),
    (["reason", ["=~", "reason", "."]], "'=~' cannot be used"),
    (["reason", ["=[]", "reason", "."]], "'=[]' cannot be used"),
    (["reason", ["==", "text", "."]], "has no field 'text'"),
    (["opcode", ["~", "OP_ID", "."]], "'~' cannot be used"),
    (["opcode", ["=~", "OP_ID", "("]], "not a regular expression"),
    (["opcode", ["=~", "OP_ID", "(a+)+$"]], "a repetition within a repetition"),
    (["opcode", ["=~", "OP_ID", 5]], "must be text"),
    (["opcode", ["==", "OP_ID"]], "is not a filter"),
    (["opcode", ["!", ["?", "a"], ["?", "b"]]], "is not a filter"),
    (["opcode", None], "is not a filter"),
    (["opcode", {}], "is not a filter"),
    (["opcode", []], "is not a filter"),
]


@pytest.mark.parametrize(("predicate", "sentence"), FAULTS)
def test_a_malformed_predicate_is_refused_and_matches_nothing(predicate, sentence):
    with pytest.raises(ParameterError) as refused:
        check_rule(rule(1, "PAUSE", predicate))
    assert sentence in str(refused.value)
    assert not matches(predicate)


def nested(depth: int, innermost: Any, *before: Any) -> Any:
    value = innermost
    for _ in range(depth):
        value = [*before, value]
    return value


@pytest.mark.parametrize(
    ("predicate", "sentence"),
    [
        (["opcode", nested(5000, ["?", "start"], "!")], "nested"),
        (["opcode", ["==", "tags", nested(5000, 1)]], "nested"),
        (["opcode", ["==", nested(50_000, 1), 1]], "is not a filter"),
    ],
)
def test_what_is_nested_too_deep_is_refused_and_matches_nothing(predicate, sentence):
    with pytest.raises(ParameterError, match=sentence):
        check_rule(rule(1, "PAUSE", predicate))
    assert not matches(predicate)


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        ("STOP", "'STOP' is not an action"),
        ("pause", "'pause' is not an action"),
        (5, "'5' is not an action"),
        (["PAUSE"], "is not an action"),
        ("RATE_LIMIT", "RATE_LIMIT needs how many"),
        (["RATE_LIMIT"], "RATE_LIMIT needs how many"),
        (["RATE_LIMIT", 0], "RATE_LIMIT needs how many"),
        (["RATE_LIMIT", True], "RATE_LIMIT needs how many"),
        (["RATE_LIMIT", "3"], "RATE_LIMIT needs how many"),
        (["RATE_LIMIT", 1, 2], "RATE_LIMIT needs how many"),
    ],
)
def test_an_unknown_action_is_refused_and_decides_nothing(action, sentence):
    with pytest.raises(ParameterError) as refused:
        check_rule(rule(1, action))
    assert sentence in str(refused.value)
    assert Admission([rule(1, action), rule(2, "PAUSE")]).of(job()).rule == uuid(2)


def test_what_else_is_refused():
    for wrong in (rule(priority=-1), FilterRule(uuid="mine"), rule(1, "PAUSE", *[["opcode", ["&"]]] * 101)):
        with pytest.raises(ParameterError):
            check_rule(wrong)


def test_explanations_read_as_sentences():
    explain = Admission([rule(1, "PAUSE", ["jobid", ["<", "id", 10]], priority=3)]).explain
    assert explain(job()) == (
        f"Job 7 is held: filter rule {uuid(1)} with priority 3 says PAUSE (see 'gnt-filter info {uuid(1)}')"
    )
    assert explain(job(id=10)) is None
    assert Admission([rule(1, "ACCEPT")]).explain(job()) is None
    assert Admission([rule(1, ["RATE_LIMIT", 1])]).explain(job(said("rate-limit:2:a"))) == (
        f"Job 7 may have to wait: filter rule {uuid(1)} with priority 0 lets at most 1 job that match it run at a time"
        f" (see 'gnt-filter info {uuid(1)}'); its reason 'rate-limit:2:a' lets at most 2 jobs with the key 'a' run at"
        " a time"
    )


@pytest.mark.parametrize("action", ["PAUSE", "REJECT"])
def test_a_job_that_has_begun_is_not_stopped_half_way(action):
    file = JobFile(id=1, ops=[OpcodeEntry(input={"OP_ID": "OP_TEST_DUMMY"}) for _ in range(2)])
    rule = FilterRule(uuid=f"{0:032x}", watermark=0, priority=0, predicates=[], action=action)
    admission = Admission([rule])
    assert admission.of(file).action == action.lower()
    file.ops[0].status = "success"
    assert admission.of(file).action == "run"


def test_a_rejection_names_the_rule_and_why_it_was_made():
    file = JobFile(id=1, ops=[OpcodeEntry(input={"OP_ID": "OP_TEST_DUMMY"})])
    trail = [["gnt:user", "moving house", 1], ["gnt:client:gnt-filter", "add", 2]]
    rule = FilterRule(uuid="U", watermark=0, priority=0, predicates=[], action="REJECT", reason_trail=trail)
    assert Admission([rule]).rejection(file) == "Job rejected by the filter rule U (moving house)"
