# SPDX-License-Identifier: BSD-2-Clause
"""gnt-instance reinstall: which instances, which OS, and the one question before their data are lost; and rename."""

import pytest


@pytest.fixture
def answers(monkeypatch):
    """What is typed, and what was shown."""
    typed, shown = [], []
    monkeypatch.setattr(
        "ganeti.cli.confirm._answer", lambda prompt: shown.append(prompt) or (typed.pop(0) if typed else None)
    )
    return typed, shown


def submitted(master):
    return [
        (opcode["instance_name"], opcode.get("os_type")) for opcode in master.submitted() if "instance_name" in opcode
    ]


def test_one_is_asked_about_unless_force_is_given(gnt, master, answers):
    typed, shown = answers
    master.job()
    master.answers["SubmitManyJobs"] = lambda jobs: [[True, 14] for _ in jobs]
    ran = gnt("gnt-instance reinstall web1")
    assert (ran.status, master.submitted()) == (1, [])
    assert "all data on its disks will be lost. Continue? There is no terminal to ask on: give --force" in ran.err
    typed += ["?", "y"]
    assert gnt("gnt-instance reinstall web1").status == 0
    assert "y - yes, go on" in shown[-1]
    assert gnt("gnt-instance reinstall -f -o noop -O a=b --os-parameters-secret s=t web2").status == 0
    first, second = master.submitted()
    assert first == {"OP_ID": "OP_INSTANCE_REINSTALL", "instance_name": "web1"}
    assert second == {
        "OP_ID": "OP_INSTANCE_REINSTALL",
        "instance_name": "web2",
        "os_type": "noop",
        "osparams": {"a": "b"},
        "osparams_secret": {"s": "t"},
    }


def test_several_are_asked_about_together_though_force_is_given(gnt, master, answers):
    typed, shown = answers
    master.job()
    master.answers["SubmitManyJobs"] = lambda jobs: [[True, 14] for _ in jobs]
    typed.append("n")
    ran = gnt("gnt-instance reinstall -f -o noop a b")
    assert (ran.status, ran.err) == (1, "Nothing was done.\n")
    assert "on the disks of these instances will be lost" in shown[0]
    assert "Affected instances:\n  a\n  b\n" in shown[0]
    assert gnt("gnt-instance reinstall --force-multiple -o noop a b").status == 0
    assert submitted(master) == [("a", "noop"), ("b", "noop")]


def test_the_os_is_chosen_from_a_list(gnt, master, answers):
    typed, shown = answers
    master.job([["debian", ["trixie", "bookworm"], True, False, False], ["noop", [], True, False, False]])
    master.answers["SubmitManyJobs"] = lambda jobs: [[True, 14] for _ in jobs]
    typed += ["7", "1"]
    assert gnt("gnt-instance reinstall -f --select-os web1").status == 0
    assert shown[0].startswith("  0: debian+trixie\n  1: debian+bookworm\n  2: noop\nNumber of the OS")
    assert shown[1].startswith("'7' is no number from 0 to 2\n")
    assert submitted(master)[-1] == ("web1", "debian+bookworm")
    typed.append("x")
    assert gnt("gnt-instance reinstall -f --select-os web1").err == "Nothing was done.\n"
    assert "name it" in gnt("gnt-instance reinstall -f --select-os web1").err
    assert gnt("gnt-instance reinstall -f --select-os -o noop web1").status != 0


@pytest.mark.parametrize("options", ["", "-f ", "--no-name-check --no-ip-check --force "])
def test_a_renaming_says_the_new_name(gnt, master, options):
    """``-f`` is an option of 3.0, which asks where the name is not checked."""
    master.job("web2.example.com")
    ran = gnt(f"gnt-instance rename {options}web1 web2")
    assert (ran.status, ran.out) == (0, "Instance 'web1' renamed to 'web2.example.com'\n")
    (opcode,) = master.submitted()
    assert (opcode["instance_name"], opcode["new_name"]) == ("web1", "web2")
    assert not {"force", "assume_yes"} & opcode.keys()


def test_a_renaming_that_is_not_waited_for_says_no_name(gnt, master):
    master.job()
    assert gnt("gnt-instance rename --submit web1 web2").out == ""
