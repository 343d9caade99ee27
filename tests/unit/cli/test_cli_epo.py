# SPDX-License-Identifier: BSD-2-Clause
"""gnt-cluster epo: what is stopped, switched and started, and in which order."""

import pytest


def _node(name, *, master=False, offline=False, powered=True, instances=()):
    values = [name, "127.0.0.1", master, offline, powered, list(instances), [], "green"]
    return [[0 if value is not None else 3, value] for value in values]


def _cluster(master, *nodes, states=()):
    instances = [[[0, name], [0, state]] for name, state in states]

    def query(what, fields, condition):
        return {"fields": [], "data": instances if what == "instance" else list(nodes)}

    master.answers["Query"] = query
    master.job(None)
    master.answers["SubmitManyJobs"] = lambda jobs: [[True, 14] for _ in jobs]
    pause = [None]
    master.answers["QueryConfigValues"] = lambda names: list(pause)
    master.answers["SetWatcherPause"] = lambda until: pause.__setitem__(0, until)


def test_what_runs_is_stopped_before_its_nodes_and_the_master_stays_on(gnt, master):
    _cluster(
        master,
        _node("n1", master=True, instances=["web1"]),
        _node("n2", instances=["web2", "web3"]),
        _node("n3", powered=None),
        states=[("web1", "up"), ("web2", "up"), ("web3", "down"), ("web4", "up")],
    )
    ran = gnt("gnt-cluster epo -f --all --shutdown-timeout 2m --oob-timeout 9")
    assert (ran.status, "Node n1 is the master and stays on" in ran.out) == (1, True)
    assert "Node n3 stays on: set its node parameter oob_program first" in ran.err
    methods = [method for method, _ in master.requests]
    assert methods.index("SetWatcherPause") < methods.index("SubmitManyJobs"), "it would start again what is stopped"
    assert [until is None for (until,) in master.calls("SetWatcherPause")] == [False]
    assert "'gnt-cluster epo --on' and 'gnt-cluster watcher continue' end that" in ran.out
    stop = {"OP_ID": "OP_INSTANCE_SHUTDOWN", "no_remember": True, "timeout": 120}
    assert master.submitted() == [
        {**stop, "instance_name": "web1"},
        {**stop, "instance_name": "web2"},
        {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "n2", "offline": True, "auto_promote": True},
        {"OP_ID": "OP_OOB_COMMAND", "command": "power-off", "node_names": ["n2"], "timeout": 9},
    ]


def test_nodes_are_back_before_anything_is_started(gnt, master, monkeypatch):
    monkeypatch.setattr("ganeti.cli.commands.cluster.power._answers", lambda address: True)
    _cluster(master, _node("n2", offline=True, powered=False, instances=["web2"]), states=[("web2", "up")])
    assert gnt("gnt-cluster epo -f --on --groups --power-delay 0.5 green").status == 0
    assert master.calls("Query")[0][2] == ["|", ["==", "group", "green"]]
    assert master.submitted() == [
        {"OP_ID": "OP_OOB_COMMAND", "command": "power-on", "node_names": ["n2"], "power_delay": 0.5},
        {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "n2", "offline": False, "auto_promote": True},
        {"OP_ID": "OP_INSTANCE_STARTUP", "no_remember": True, "instance_name": "web2"},
    ]


def test_all_groups_that_are_named_must_have_nodes(gnt, master):
    _cluster(master, _node("n2"))
    ran = gnt("gnt-cluster epo -f --groups green gren")
    assert (ran.status, ran.err) == (1, "No node is in a node group gren: see 'gnt-group list'\n")
    assert not master.submitted()


def test_the_watcher_goes_on_when_some_nodes_are_off_and_when_all_are_back(gnt, master, monkeypatch):
    _cluster(master, _node("n2", instances=["web2"]), states=[("web2", "up")])
    assert gnt("gnt-cluster epo -f n2").status == 0
    assert [until is None for (until,) in master.calls("SetWatcherPause")] == [False, True]
    master.answers["QueryConfigValues"] = lambda names: [2e9]
    monkeypatch.setattr("ganeti.cli.commands.cluster.power._answers", lambda address: True)
    assert "The watcher is no longer paused." in gnt("gnt-cluster epo -f --on --all").out
    assert master.calls("SetWatcherPause")[-1] == [None]


def test_a_node_that_does_not_come_back_stays_offline_and_nothing_starts(gnt, master, monkeypatch):
    monkeypatch.setattr("ganeti.cli.commands.cluster.power.REACHABLE_WITHIN_S", 0.0)
    monkeypatch.setattr("ganeti.cli.commands.cluster.power._answers", lambda address: False)
    _cluster(master, _node("n2", offline=True, instances=["web2"]), states=[("web2", "up")])
    ran = gnt("gnt-cluster epo -f --on n2")
    assert (ran.status, master.submitted()) == (1, [])
    assert "Node n2 does not answer after 0 seconds: it stays marked offline" in ran.err
    assert "no instance was started" in ran.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "Name the nodes, or node groups with --groups, or give --all"),
        ("--all n1", "--all takes neither names nor --groups"),
        ("--all --groups", "--all takes neither names nor --groups"),
        ("-f moon", "There is no such node among moon: see 'gnt-node list'"),
        ("-f --groups moon", "There is no such node group among moon: see 'gnt-group list'"),
        ("n1", "There is no terminal to ask on"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_submitted(gnt, master, words, sentence):
    _cluster(master, *([_node("n1")] if "moon" not in words else []))
    ran = gnt(f"gnt-cluster epo {words}")
    assert (ran.status, master.submitted()) == (1, [])
    assert sentence in ran.err
