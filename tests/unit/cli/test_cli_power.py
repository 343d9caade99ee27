# SPDX-License-Identifier: BSD-2-Clause
"""gnt-node power and health: what they submit, and what they print."""

import pytest

ROWS = [[[0, "n1.x"], [0, None]], [[0, "n2.x"], [0, None]]]


def test_nodes_are_marked_offline_before_they_are_switched_off(gnt, master):
    master.job(ROWS)
    ran = gnt("gnt-node power -f --auto-promote off n1 n2")
    assert (ran.status, ran.out) == (0, "Node Status\nn1.x invoked\nn2.x invoked\n")
    mark = {"OP_ID": "OP_NODE_SET_PARAMS", "offline": True, "auto_promote": True}
    assert master.submitted() == [
        *({**mark, "node_name": name} for name in ("n1", "n2")),
        {"OP_ID": "OP_OOB_COMMAND", "command": "power-off", "node_names": ["n1", "n2"]},
    ]
    assert len(master.calls("SubmitJob")) == 1


def test_whoever_ignores_the_status_does_not_mark(gnt, master):
    master.job(ROWS)
    gnt("gnt-node power -f --ignore-status --oob-timeout 9 --priority high off n1")
    assert master.submitted() == [
        {
            "OP_ID": "OP_OOB_COMMAND",
            "command": "power-off",
            "node_names": ["n1"],
            "ignore_status": True,
            "timeout": 9,
            "priority": -10,
        }
    ]


@pytest.mark.parametrize("words", ["on", "on n1", "status", "-f cycle n1"])
def test_what_is_submitted(gnt, master, words):
    master.job(ROWS)
    assert gnt(f"gnt-node power --power-delay 0.5 {words}").status == 0
    action, *names = words.removeprefix("-f ").split()
    assert master.submitted() == [
        {"OP_ID": "OP_OOB_COMMAND", "command": f"power-{action}", "node_names": names, "power_delay": 0.5}
    ]


def test_the_state_of_each_node_is_a_line_and_a_missing_one_a_failure(gnt, master):
    master.job([[[0, "n1.x"], [0, {"powered": True}]], [[0, "n2.x"], [0, {"powered": False}]]])
    ran = gnt("gnt-node power status")
    assert (ran.status, ran.out) == (0, "Node Status\nn1.x powered\nn2.x unpowered\n")
    master.job([[[0, "n1.x"], [2, None]], [[0, "n2.x"], [3, None]]])
    ran = gnt("gnt-node power --no-headers --separator=| status")
    assert (ran.status, ran.out) == (1, "n1.x|(nodata)\nn2.x|(unavail)\n")


def test_health_has_a_line_for_each_item(gnt, master):
    master.job(
        [[[0, "n1.x"], [0, [["disk", "OK"], ["fan", "WARNING"]]]], [[0, "n2.x"], [0, []]], [[0, "n3.x"], [3, None]]]
    )
    ran = gnt("gnt-node health --oob-timeout 5")
    assert (ran.status, ran.out) == (1, "Node Status\nn1.x disk=OK\n     fan=WARNING\nn2.x \nn3.x (unavail)\n")
    assert master.submitted() == [{"OP_ID": "OP_OOB_COMMAND", "command": "health", "node_names": [], "timeout": 5}]


def test_a_job_need_not_be_waited_for(gnt, master):
    master.job(ROWS, job_id=33)
    assert gnt("gnt-node power --submit on n1").err == "JobID: 33\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("power up n1", "power subcommand up not supported: use one of on, off, cycle, status"),
        ("power off", "Please provide at least one node for this command"),
        ("power -f cycle", "Please provide at least one node for this command"),
        ("power", "takes at least 1 argument, not 0"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_submitted(gnt, master, words, sentence):
    ran = gnt(f"gnt-node {words}")
    assert (ran.status, ran.out) == (1, "")
    assert sentence in ran.err
    assert master.requests == []


def test_switching_off_asks(gnt, master, monkeypatch):
    asked = []
    monkeypatch.setattr("ganeti.cli.confirm.ask", lambda question: asked.append(question) or False)
    ran = gnt("gnt-node power off n1 n2")
    assert (ran.status, ran.err) == (1, "Nothing was done.\n")
    assert asked[0].startswith("The power off will operate on 2 nodes.")
    assert master.requests == []
