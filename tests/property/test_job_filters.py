# SPDX-License-Identifier: BSD-2-Clause
"""Named laws of job filters over random rules and jobs.

FirstMatchDecides   the verdict is that of a naive evaluation: try rules in order, truth as 0, ½, 1
OrderIsTheRules     in which order the rules are given makes no difference
ContinueIsNothing   a rule CONTINUE, wherever it stands, changes no verdict
RefusedIsNothing    a rule that is refused at the door changes no verdict, and whatever is said, nothing crashes
HeldIsExplained     a verdict that may hold a job back comes with a sentence that names the rule, others with none
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.fakes.thoroughness import examples

from ganeti.base.errors import ParameterError
from ganeti.master.queue.filters import Admission, Verdict, check_rule
from ganeti.model.objects import FilterRule
from ganeti.wire.job_file import JobFile, OpcodeEntry

LAW = settings(max_examples=examples(100, quick=40))
UNKNOWN = 0.5
VALUES: list[Any] = [None, True, False, 0, 1, 2, 1.0, "", "a", "ab", "1", [], [1], ["a", 1], {}, {"a": 1}]
KEYS = ["a", "b", "c.a", "c.0", "c.1.a", "absent"]
ORDER = {
    "<": lambda have, want: have < want,
    "<=": lambda have, want: have <= want,
    ">": lambda have, want: have > want,
    ">=": lambda have, want: have >= want,
}
PATTERNS = {
    "^a": lambda text: text.startswith("a"),
    "b$": lambda text: text.endswith("b"),
    "1": lambda text: "1" in text,
}
EQUAL = ["==", "=", "!="]
values = st.sampled_from(VALUES)


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(lambda part: ["!", part], inner),
            st.builds(lambda sign, parts: [sign, *parts], st.sampled_from("&|"), st.lists(inner, max_size=3)),
        ),
        max_leaves=5,
    )


def comparison(signs: list[str], names: list[str], wanted: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(st.sampled_from(signs), st.sampled_from(names), wanted).map(list)


all_signs = [*EQUAL, *ORDER]
of_opcodes = nested(
    st.one_of(
        comparison(all_signs, KEYS, values),
        comparison(["=~"], KEYS, st.sampled_from(sorted(PATTERNS))),
        comparison(["=[]"], KEYS, values),
        st.tuples(st.just("?"), st.sampled_from(KEYS)).map(list),
    )
)
of_job_ids = nested(comparison(all_signs, ["id"], st.integers(1, 4) | st.just("watermark")))
of_reasons = nested(comparison(all_signs, ["source", "reason", "timestamp"], st.sampled_from(["a", "b", 1, 2])))
predicates = st.one_of(
    st.tuples(st.just("opcode"), of_opcodes),
    st.tuples(st.just("jobid"), of_job_ids),
    st.tuples(st.just("reason"), of_reasons),
).map(list)
actions = st.sampled_from(["ACCEPT", "PAUSE", "REJECT", "CONTINUE", ["RATE_LIMIT", 1], ["RATE_LIMIT", 7]])
rule_shapes = st.builds(
    FilterRule,
    uuid=st.just(""),
    watermark=st.integers(0, 3),
    priority=st.integers(0, 2),
    predicates=st.lists(predicates, max_size=2),
    action=actions,
)


def uuid(number: int) -> str:
    return f"{number:08d}-0000-4000-8000-000000000000"


def numbered(shapes: list[FilterRule]) -> list[FilterRule]:
    return [replace(shape, uuid=uuid(index)) for index, shape in enumerate(shapes)]


rules = st.lists(rule_shapes, max_size=5).map(numbered)
trails = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.sampled_from(["a", "b", "rate-limit:2:k", "rate-limit:1:k", "rate-limit:0:k"]),
        st.integers(0, 2),
    ).map(list),
    max_size=2,
)
opcodes = st.fixed_dictionaries(
    {"a": values, "b": values},
    optional={"c": st.sampled_from([[1, {"a": "ab"}], {"a": "a", "0": 2}, []]), "reason": trails},
)
jobs = st.builds(
    lambda job_id, inputs: JobFile(id=job_id, ops=[OpcodeEntry(input=each) for each in inputs]),
    st.integers(1, 4),
    st.lists(opcodes, max_size=3),
)
json = st.recursive(
    values | st.sampled_from(["&", "|", "!", "?", "==", "jobid", "opcode", "reason", "id", "RATE_LIMIT"]),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)


# The reference: as plain as can be


def kind(value: Any) -> str:
    if isinstance(value, bool):
        return "truth"
    return "number" if isinstance(value, int | float) else type(value).__name__


def equal(have: Any, want: Any) -> float:
    if have is None or want is None:
        return float(have is None and want is None)
    return float(have == want) if kind(have) == kind(want) else UNKNOWN


def look_up(value: Any, path: list[str]) -> Any:
    for step in path:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def truth(qfilter: Any, fields: Any, watermark: int) -> float:
    sign, *rest = qfilter
    if sign in ("&", "|"):
        return (min if sign == "&" else max)(
            [truth(part, fields, watermark) for part in rest], default=float(sign == "&")
        )
    if sign == "!":
        return 1 - truth(rest[0], fields, watermark)
    have = look_up(fields, rest[0].split("."))
    if sign == "?":
        return float(bool(have))
    want = watermark if rest[1] == "watermark" else rest[1]
    if sign in EQUAL:
        found = equal(have, want)
        return 1 - found if sign == "!=" else found
    if sign == "=~":
        return float(PATTERNS[want](have)) if isinstance(have, str) else UNKNOWN
    if sign == "=[]":
        return float(any(equal(item, want) == 1 for item in have)) if isinstance(have, list) else UNKNOWN
    comparable = kind(have) == kind(want) and kind(have) in ("number", "str")
    return float(ORDER[sign](have, want)) if comparable else UNKNOWN


def rows(what: str, file: JobFile) -> list[Any]:
    if what == "jobid":
        return [{"id": file.id}]
    if what == "opcode":
        return [entry.input for entry in file.ops]
    trail = [item for entry in file.ops for item in entry.input.get("reason", [])]
    return [dict(zip(("source", "reason", "timestamp"), item, strict=True)) for item in trail]


def limits_said(file: JobFile) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows("reason", file):
        if row["reason"] in ("rate-limit:1:k", "rate-limit:2:k"):
            found["rate-limit:k"] = min(int(row["reason"][11]), found.get("rate-limit:k", 9))
    return found


def naive(given_rules: list[FilterRule], file: JobFile) -> Verdict:
    limits = tuple(limits_said(file).items())
    for rule in sorted(given_rules, key=lambda each: (each.priority, each.watermark, each.uuid)):
        matched = all(
            any(truth(qfilter, row, rule.watermark) == 1 for row in rows(what, file))
            for what, qfilter in rule.predicates
        )
        if not matched or rule.action == "CONTINUE":
            continue
        if isinstance(rule.action, list):
            return Verdict("run", ((rule.uuid, rule.action[1]), *limits), rule.uuid)
        words: dict[str, Any] = {"ACCEPT": "run", "PAUSE": "pause", "REJECT": "reject"}
        return Verdict(words[rule.action], limits, rule.uuid)
    return Verdict("run", limits)


@LAW
@given(rules, jobs)
def test_first_match_decides(given_rules, file):
    for rule in given_rules:
        check_rule(rule)
    assert Admission(given_rules).of(file) == naive(given_rules, file)


@LAW
@given(rules, jobs, st.randoms(use_true_random=False))
def test_order_is_the_rules(given_rules, file, random):
    shuffled = list(given_rules)
    random.shuffle(shuffled)
    assert Admission(shuffled).of(file) == Admission(given_rules).of(file)


@LAW
@given(rules, rule_shapes, jobs)
def test_continue_is_nothing(given_rules, shape, file):
    added = replace(shape, uuid=uuid(99), action="CONTINUE")
    assert Admission([*given_rules, added]).of(file) == Admission(given_rules).of(file)


@LAW
@given(rules, jobs, json, st.lists(json, max_size=2), st.integers(0, 2))
def test_refused_is_nothing(given_rules, file, action, said, priority):
    odd = FilterRule(uuid=uuid(99), priority=priority, action=action, predicates=said)
    with_it = Admission([*given_rules, odd])
    try:
        check_rule(odd)
    except ParameterError as refusal:
        assert str(refusal)
        assert with_it.of(file) == Admission(given_rules).of(file)
    assert with_it.explain(file) is None or str(file.id) in str(with_it.explain(file))


@LAW
@given(json, json)
def test_odd_jobs_crash_nothing(value, reason):
    file = JobFile(id=1, ops=[OpcodeEntry(input={"a": value, "reason": reason, "x_secret": value})])
    rule = FilterRule(uuid=uuid(1), action="PAUSE", predicates=[["opcode", ["==", "a", value]], ["reason", ["&"]]])
    assert Admission([rule]).of(file).action in ("run", "pause")


@LAW
@given(rules, jobs)
def test_held_is_explained(given_rules, file):
    admission = Admission(given_rules)
    verdict, sentence = admission.of(file), admission.explain(file)
    assert (sentence is None) == (verdict.action == "run" and not verdict.limits)
    if verdict.rule is not None and (verdict.action != "run" or verdict.rule in dict(verdict.limits)):
        assert sentence is not None and verdict.rule in sentence
