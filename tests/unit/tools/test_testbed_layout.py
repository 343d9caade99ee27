# SPDX-License-Identifier: BSD-2-Clause
"""A testbed's record on disk, the places it refuses, and the words of its commands."""

import dataclasses

import pytest
from tests.fakes import bed_addresses

from ganeti.base.errors import PrerequisiteError
from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, command, layout
from ganeti.tools.testbed.layout import Layout


@pytest.fixture
def bed(tmp_path):
    return Layout(tmp_path, tmp_path / "checkout", "fake", 3, watcher_interval_s=7)


def test_what_was_saved_is_loaded(bed):
    bed.save()
    assert layout.load(bed.directory) == bed


def test_a_record_with_unknown_keys_is_read(bed):
    bed.save()
    bed.record.write_text(bed.record.read_text().replace("{", '{"later": 1,', 1))
    assert layout.load(bed.directory) == bed


@pytest.mark.parametrize(("content", "said"), [(None, "holds no testbed"), ("{", "cannot be read")])
def test_a_missing_or_broken_record_is_one_sentence(tmp_path, content, said):
    if content is not None:
        (tmp_path / layout.RECORD).write_text(content)
    with pytest.raises(PrerequisiteError, match=said):
        layout.load(tmp_path)


def test_nodes_have_names_and_addresses(bed):
    assert [(node.name, node.address) for node in bed.nodes] == [
        ("node1", "10.77.0.1"),
        ("node2", "10.77.0.2"),
        ("node3", "10.77.0.3"),
    ]
    with pytest.raises(PrerequisiteError, match=r"no node node4 in .*; there are node1, node2, node3"):
        bed.node("node4")


def test_two_testbeds_have_two_tags(bed, tmp_path):
    assert bed.tag != Layout(tmp_path / "other", bed.checkout, "fake", 3).tag


@pytest.mark.parametrize(
    ("name", "count", "said"),
    [
        ("new", 0, "0 nodes asked for"),
        ("new", 51, "from 1 to 50"),
        ("with:colon", 3, "character that mounts cannot take"),
        ("full", 3, "not empty"),
        ("bed", 3, "is a testbed already"),
    ],
)
def test_a_place_that_cannot_be_is_refused(tmp_path, name, count, said):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "bed").mkdir()
    (tmp_path / "bed" / layout.RECORD).touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(PrerequisiteError, match=said):
        layout.check_new(tmp_path / name, count)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_command_says_one_sentence_and_fails(tmp_path, capsys):
    assert command.main(["status", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"gnt-testbed: {tmp_path} holds no testbed; make one with: gnt-testbed up {tmp_path}\n"
    )


def test_options_of_a_node_command_are_its_own():
    options = command._parser().parse_args(["exec", "dir", "node1", "ls", "-l", "--color"])
    assert [options.program, *options.arguments] == ["ls", "-l", "--color"]


@pytest.mark.parametrize("hypervisor", ["fake", "kvm"])
def test_init_gives_parameters_to_the_hypervisor_it_enables(bed, hypervisor):
    words = cluster.init_command(Layout(bed.directory, bed.checkout, hypervisor, 3))
    assert words[:2] == ["gnt-cluster", "init"]
    assert words[-1] == layout.CLUSTER_NAME
    assert words[words.index("--enabled-hypervisors") + 1] == hypervisor
    given = [words[index + 1] for index, word in enumerate(words) if word == "-H"]
    assert [value.partition(":")[0] for value in given] == ([hypervisor] if hypervisor == "kvm" else [])


@pytest.mark.requirement("S1.96", "S1.98")
@pytest.mark.parametrize(
    ("ip", "lan", "everywhere", "words"),
    [
        ("4", "10.77.0.101", "0.0.0.0", []),
        ("6", "fd77::101", "::", ["--primary-ip-version", "6", "-s", "fd77::2"]),
        ("hybrid", "fd77::101", "::", ["--primary-ip-version", "6", "-s", "10.77.0.2"]),
    ],
)
def test_a_testbed_speaks_what_it_is_told(bed, ip, lan, everywhere, words):
    bed = dataclasses.replace(bed, ip=ip)
    assert (bed.lan_address(101), bed.any_address) == (lan, everywhere)
    command = cluster.init_command(bed, "node2")
    assert [word for word in command[command.index("--ipolicy-bounds-specs") + 2 : -1]] == words


def test_tests_with_clusters_speak_what_the_environment_says(monkeypatch):
    monkeypatch.setattr(testbed.up, "__kwdefaults__", dict(testbed.up.__kwdefaults__))
    for asked, ip in (("", "4"), ("4", "4"), ("6", "6"), ("hybrid", "hybrid")):
        monkeypatch.setenv("GANETI_IP", asked)
        bed_addresses.speak_what_is_asked()
        assert testbed.up.__kwdefaults__["ip"] == ip
        skipped = bed_addresses.of_ipv4_alone("it must").mark
        assert skipped.args == (ip != "4",) and skipped.kwargs == {"reason": "IPv4 alone: it must"}
    monkeypatch.setenv("GANETI_IP", "5")
    with pytest.raises(pytest.UsageError, match="write one of 4, 6, hybrid"):
        bed_addresses.speak_what_is_asked()
