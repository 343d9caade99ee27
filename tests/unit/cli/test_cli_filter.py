# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-filter: what they ask of the master daemon, and what they print."""

import pytest
from fake_master import Failed

UUID = "00000001-0000-4000-8000-000000000000"
FIELDS = ["uuid", "watermark", "priority", "predicates", "action", "reason_trail"]


def sent(master):
    """The arguments of ReplaceFilter, with the reason trail without its times."""
    [[*arguments, trail]] = master.calls("ReplaceFilter")
    assert all(isinstance(stamp, int) for _, _, stamp in trail)
    return arguments, [entry[:2] for entry in trail]


def test_add_prints_the_uuid_and_sends_the_usual_values(gnt, master):
    master.answers["ReplaceFilter"] = UUID
    ran = gnt("gnt-filter add")
    assert (ran.status, ran.out, ran.err) == (0, f"{UUID}\n", "")
    assert sent(master) == ([None, 0, [], "CONTINUE"], [["gnt:client:gnt-filter", "add"]])


def test_add_sends_what_was_said(gnt, master):
    master.answers["ReplaceFilter"] = UUID
    predicates = '--predicates=[["jobid", [">", "id", "watermark"]]]'
    assert gnt("gnt-filter add --priority=5 --reason=why", predicates, "--action=RATE_LIMIT 3").status == 0
    arguments, trail = sent(master)
    assert arguments == [None, 5, [["jobid", [">", "id", "watermark"]]], ["RATE_LIMIT", 3]]
    assert trail == [["gnt:user", "why"], ["gnt:client:gnt-filter", "add"]]


def test_replace_names_the_rule_and_sends_the_rest_anew(gnt, master):
    master.answers["ReplaceFilter"] = UUID
    ran = gnt(f"gnt-filter replace --action PAUSE {UUID}")
    assert (ran.status, ran.out) == (0, f"{UUID}\n")
    assert sent(master)[0] == [UUID, 0, [], "PAUSE"]


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("PAUSE", "PAUSE"),
        (" RATE_LIMIT  12 ", ["RATE_LIMIT", 12]),
        ("RATE_LIMIT x", ["RATE_LIMIT", "x"]),
        ("RATE_LIMIT " + "9" * 5000, ["RATE_LIMIT", "9" * 5000]),
        ("RATE_LIMIT", "RATE_LIMIT"),
        ("RATE_LIMIT 1 2", "RATE_LIMIT 1 2"),
        ("nonsense", "nonsense"),
        ("", ""),
    ],
)
def test_actions_as_people_write_them(gnt, master, text, action):
    master.answers["ReplaceFilter"] = UUID
    gnt("gnt-filter add", "--action", text)
    assert sent(master)[0][3] == action


@pytest.mark.parametrize("words", ["add --predicates=[x", "add --priority=high", "delete", "replace --action PAUSE"])
def test_words_that_make_no_sense_are_refused_here(gnt, master, words):
    ran = gnt(f"gnt-filter {words}")
    assert ran.status in (1, 2) and ran.err and not ran.out
    assert not master.requests


def test_a_refusal_is_told(gnt, master):
    master.answers["ReplaceFilter"] = Failed("ParameterError", "'WAIT' is not an action of a filter rule")
    ran = gnt("gnt-filter add --action=WAIT")
    assert (ran.status, ran.out) == (1, "")
    assert "'WAIT' is not an action" in ran.err


def test_delete(gnt, master):
    master.answers["DeleteFilter"] = None
    ran = gnt(f"gnt-filter delete {UUID}")
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    assert master.calls("DeleteFilter") == [[UUID]]
    master.answers["DeleteFilter"] = Failed("OpPrereqError", "There is no filter rule 'x'", "unknown_entity")
    assert gnt("gnt-filter delete x").status == 1


def test_info(gnt, master):
    master.answers["QueryFilters"] = [[UUID, 3, 0, [["jobid", [">", "id", 2]]], ["RATE_LIMIT", 1], []]]
    ran = gnt("gnt-filter info")
    assert ran.status == 0
    assert ran.out == (
        f"UUID: {UUID}\n"
        "  Watermark: 3\n"
        "  Priority: 0\n"
        "  Predicates: [['jobid', ['>', 'id', 2]]]\n"
        "  Action: ['RATE_LIMIT', 1]\n"
        "  Reason trail: []\n"
    )
    assert gnt(f"gnt-filter info {UUID}").status == 0
    assert master.calls("QueryFilters") == [[[], FIELDS], [[UUID], FIELDS]]


def test_info_of_a_rule_that_is_not_there_is_an_error(gnt, master):
    master.answers["QueryFilters"] = [[UUID, 3, 0, [], "PAUSE", []]]
    ran = gnt(f"gnt-filter info {UUID} nope")
    assert (ran.status, ran.err) == (1, "There is no filter rule 'nope': see 'gnt-filter list' for those there are\n")
    assert ran.out.startswith(f"UUID: {UUID}\n")


def test_list_of_no_rules_is_that_of_the_peer(gnt, master):
    titles = ["UUID", "Watermark", "Priority", "Predicates", "Action", "ReasonTrail"]
    fields = [
        {"name": name, "title": title, "kind": "other", "doc": ""} for name, title in zip(FIELDS, titles, strict=True)
    ]
    master.answers["Query"] = {"fields": fields, "data": []}
    assert gnt("gnt-filter list").out == "UUID Watermark Priority Predicates Action ReasonTrail\n"
    gnt(f"gnt-filter list -o +uuid {UUID}")
    assert master.calls("Query") == [
        ["filter", FIELDS, None],
        ["filter", [*FIELDS, "uuid"], ["|", ["==", "uuid", UUID]]],
    ]


def test_list_fields(gnt, master):
    master.answers["QueryFields"] = {
        "fields": [{"name": "watermark", "title": "Watermark", "kind": "other", "doc": "Highest job ID"}]
    }
    assert gnt("gnt-filter list-fields --no-headers --separator=|").out == "watermark|Custom|Watermark|Highest job ID\n"
    assert master.calls("QueryFields") == [["filter", []]]
