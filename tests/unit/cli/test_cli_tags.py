# SPDX-License-Identifier: BSD-2-Clause
"""list-tags, add-tags, remove-tags and search-tags: what they ask of the master daemon, and what they print."""

import io
import sys

import pytest
from fake_master import Failed

OBJECTS = [
    ("gnt-cluster", "", "cluster", ""),
    ("gnt-group", "g1", "nodegroup", "g1"),
    ("gnt-node", "n1", "node", "n1"),
    ("gnt-instance", "i1", "instance", "i1"),
    ("gnt-network", "w1", "network", "w1"),
]


@pytest.mark.parametrize(("program", "word", "kind", "name"), OBJECTS)
def test_tags_are_listed_one_a_line(gnt, master, program, word, kind, name):
    master.answers["QueryTags"] = ["a", "b:c"]
    ran = gnt(f"{program} list-tags {word}")
    assert (ran.status, ran.out, ran.err) == (0, "a\nb:c\n", "")
    assert master.calls("QueryTags") == [[kind, name]]


@pytest.mark.parametrize(("program", "word", "kind", "name"), OBJECTS)
@pytest.mark.parametrize(("verb", "opcode"), [("add", "OP_TAGS_SET"), ("remove", "OP_TAGS_DEL")])
def test_tags_are_changed_by_a_job(gnt, master, program, word, kind, name, verb, opcode):
    master.job()
    ran = gnt(f"{program} {verb}-tags --priority low {word} a b:c")
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    named = {"name": name} if name else {}
    assert master.submitted() == [{"OP_ID": opcode, "kind": kind, "tags": ["a", "b:c"], "priority": 10, **named}]


def test_a_job_need_not_be_waited_for(gnt, master):
    master.job(job_id=21)
    assert gnt("gnt-node add-tags --submit n1 a").err == "JobID: 21\n"
    assert gnt("gnt-node add-tags --submit --print-jobid n1 a").out == "21\n"


def test_tags_of_a_file_come_after_those_of_the_command_line(gnt, master, tmp_path):
    master.job()
    file = tmp_path / "tags"
    file.write_text("b\n\n  c\t\r\nd")
    assert gnt(f"gnt-instance add-tags --from {file} i1 a").status == 0
    assert gnt(f"gnt-cluster remove-tags --from={file}").status == 0
    assert [opcode["tags"] for opcode in master.submitted()] == [["a", "b", "c", "d"], ["b", "c", "d"]]


def test_tags_come_from_standard_input(gnt, master, monkeypatch):
    master.job()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x\ny\n")))
    assert gnt("gnt-cluster add-tags --from -").status == 0
    assert master.submitted()[0]["tags"] == ["x", "y"]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("gnt-cluster add-tags", "No tags to be added: name them, or a file that has them with --from"),
        ("gnt-node remove-tags n1", "No tags to be removed: name them"),
        ("gnt-node add-tags --from /dev/null n1", "No tags to be added"),
        ("gnt-node add-tags --from /no/such n1", "--from: /no/such cannot be read: No such file or directory"),
        ("gnt-node add-tags --from / n1", "--from: / cannot be read: Is a directory"),
        ("gnt-node add-tags", "takes at least 1 argument, not 0"),
        ("gnt-node list-tags", "takes 1 argument, not 0"),
        ("gnt-cluster list-tags x", "takes no arguments, not 1"),
        ("gnt-cluster search-tags", "takes 1 argument, not 0"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence_and_nothing_submitted(gnt, master, line, sentence):
    ran = gnt(line)
    assert (ran.status, ran.out) == (1, "")
    assert sentence in ran.err
    assert master.requests == []


def test_a_file_that_is_no_text(gnt, master, tmp_path):
    file = tmp_path / "tags"
    file.write_bytes(b"\xff\n")
    assert "is not text in UTF-8" in gnt(f"gnt-node add-tags --from {file} n1").err


def test_the_words_of_a_bad_tag_are_those_of_3_1(gnt, master):
    master.job(["TagError", ["Tag 'a b' contains invalid characters"]], status="error")
    ran = gnt("gnt-node add-tags n1", "a b")
    assert (ran.status, ran.err) == (1, "Failure: invalid tag(s) given:\nTag 'a b' contains invalid characters\n")


def test_an_unknown_owner(gnt, master):
    master.answers["QueryTags"] = Failed("OpPrereqError", "Node 'x' not known", "unknown_entity")
    ran = gnt("gnt-node list-tags x")
    assert (ran.status, ran.out) == (1, "")
    assert "error type: unknown_entity, error details:\nNode 'x' not known" in ran.err


def test_matches_are_sorted_and_no_match_is_told_by_the_status(gnt, master):
    master.job([["/nodes/n2", "x"], ["/cluster", "y"], ["/nodes/n1", "z"], ["/cluster", "a"]])
    ran = gnt("gnt-cluster search-tags", "^[a-z]$")
    assert (ran.status, ran.out) == (0, "/cluster a\n/cluster y\n/nodes/n1 z\n/nodes/n2 x\n")
    assert master.submitted() == [{"OP_ID": "OP_TAGS_SEARCH", "pattern": "^[a-z]$"}]
    master.job([])
    ran = gnt("gnt-cluster search-tags nothing")
    assert (ran.status, ran.out, ran.err) == (1, "", "")
