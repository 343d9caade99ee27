# SPDX-License-Identifier: BSD-2-Clause
"""Out-of-band commands: whom they concern, what is refused, what is remembered of a node's power."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import ExecutionError, PrerequisiteError
from ganeti.master.operation import decode
from ganeti.master.operations import load
from ganeti.model.locks import ALL_NODES, BGL, LockPlan

load()
PROGRAM = "/usr/sbin/ipmi"
NO_PROGRAM = [3, None]
NO_DATA = [2, None]


def make(nodes: int = 3, answer: str = "", *, without: tuple[str, ...] = (), **flags: Any) -> FakeContext:
    """A cluster whose nodes have a program, but for those *without*; *flags* hold for all but the master."""
    config = configuration(nodes)
    for node in config.nodes():
        parameters = {} if node.name in without else {"oob_program": PROGRAM}
        changes = flags if node.name != "node1" else {}
        config.put("nodes", node.uuid, replace(node, ndparams=parameters, **changes))
    ctx = FakeContext(config, catalogue())
    ctx.nodes.handlers["run_oob"] = lambda name, **arguments: answer
    return ctx


def out_of_band(command: str, *names: str, **values: Any) -> Any:
    return decode({"OP_ID": "OP_OOB_COMMAND", "command": command, "node_names": list(names), **values})


def rows(ctx: FakeContext, command: str, *names: str, **values: Any) -> Any:
    """What a client gets."""
    return msgspec.json.decode(msgspec.json.encode(run(out_of_band(command, *names, **values), ctx)))


def powered(ctx: FakeContext) -> dict[str, bool]:
    return {node.name: node.powered for node in ctx.config.view().nodes()}


def test_nodes_are_switched_off_through_the_master_and_that_is_noted() -> None:
    ctx = make(offline=True, master_candidate=False)
    asked: list[Any] = []
    ctx.nodes.handlers["run_oob"] = lambda name, **arguments: asked.append((name, arguments)) or "ignored"
    assert rows(ctx, "power-off", "node3", "node2", timeout=7) == [[[0, "node2"], [0, None]], [[0, "node3"], [0, None]]]
    rest = {"oob_program": PROGRAM, "command": "power-off", "timeout": 7.0}
    assert asked == [("node1", {**rest, "remote_node": name}) for name in ("node2", "node3")]
    assert powered(ctx) == {"node1": True, "node2": False, "node3": False}
    assert ctx.time_s == 1000.0
    assert ctx.lines == []


def test_nodes_come_on_one_after_the_other() -> None:
    ctx = make(4, without=("node2",), offline=True, master_candidate=False, powered=False)
    assert [row[1] for row in rows(ctx, "power-on", power_delay=5.5)] == [[0, None], NO_PROGRAM, [0, None], [0, None]]
    assert ctx.time_s == 1000.0 + 2 * 5.5
    assert powered(ctx) == {"node1": True, "node2": False, "node3": True, "node4": True}


def test_what_is_asked_changes_nothing() -> None:
    ctx = make(answer='{"powered": true}')
    assert rows(ctx, "power-status", "node2") == [[[0, "node2"], [0, {"powered": True}]]]
    assert rows(ctx, "power-cycle", "node2") == [[[0, "node2"], [0, None]]]
    assert [line for line in ctx.story if line.startswith("commit")] == []
    assert ctx.lines == []


def test_a_record_that_is_wrong_is_told() -> None:
    ctx = make(answer='{"powered": false}')
    rows(ctx, "power-status", "node2")
    assert ctx.lines == [
        "Node node2 is recorded as powered on, and is powered off: 'gnt-node modify --node-powered' corrects the record"
    ]


def test_health_warns_of_what_needs_a_person() -> None:
    ctx = make(answer='[["disk", "OK"], ["fan", "WARNING"], ["psu", "CRITICAL"], ["x", "UNKNOWN"]]')
    assert rows(ctx, "health", "node1") == [
        [[0, "node1"], [0, [["disk", "OK"], ["fan", "WARNING"], ["psu", "CRITICAL"], ["x", "UNKNOWN"]]]]
    ]
    assert ctx.lines == [
        "Item 'fan' on node 'node1' has status 'WARNING'",
        "Item 'psu' on node 'node1' has status 'CRITICAL'",
    ]


def test_a_program_that_fails_for_one_node_does_not_stop_the_others() -> None:
    ctx = make(offline=True, master_candidate=False)

    def answer(name: str, remote_node: str, **arguments: Any) -> str:
        if remote_node == "node2":
            raise ExecutionError("no such board")
        return ""

    ctx.nodes.handlers["run_oob"] = answer
    assert [row[1] for row in rows(ctx, "power-off", "node2", "node3")] == [NO_DATA, [0, None]]
    assert powered(ctx) == {"node1": True, "node2": True, "node3": False}
    assert ctx.lines == ["Out-of-band command power-off failed for node node2: no such board"]


def test_an_answer_that_is_none() -> None:
    ctx = make(answer="on")
    assert rows(ctx, "power-status", "node2") == [[[0, "node2"], NO_DATA]]
    assert ctx.lines[0].startswith("The answer of /usr/sbin/ipmi about node node2 is not valid: it printed 'on' (")


def test_nodes_are_told_in_natural_order_and_once() -> None:
    ctx = make(11, answer='{"powered": true}')
    names = [row[0][1] for row in rows(ctx, "power-status", "node11", "node2", "node10", "node2")]
    assert names == ["node2", "node10", "node11"]
    assert [row[0][1] for row in rows(ctx, "power-status", "ignored", node_uuids=["uuid-node3"])] == ["node3"]


@pytest.mark.parametrize("command", ["power-off", "power-cycle"])
def test_without_names_all_nodes_are_meant_but_the_master(command: str) -> None:
    ctx = make(offline=True, master_candidate=False)
    assert [row[0][1] for row in rows(ctx, command)] == ["node2", "node3"]
    assert powered(ctx)["node1"]
    locks = LockPlan.of(shared=[BGL], exclusive=["node/uuid-node2", "node/uuid-node3"])
    assert out_of_band(command).locks(ctx.config.view()) == locks


@pytest.mark.parametrize("command", ["power-on", "power-status", "health"])
def test_without_names_all_nodes_are_asked(command: str) -> None:
    view = make().config.view()
    assert out_of_band(command).locks(view) == LockPlan.of(shared=[BGL], exclusive=[ALL_NODES])
    only = LockPlan.of(shared=[BGL], exclusive=["node/uuid-node2"])
    assert out_of_band(command, "node2").locks(view) == only


@pytest.mark.parametrize(
    ("values", "without", "sentence"),
    [
        (
            {"command": "power-off", "node_names": ["node2", "node3"]},
            (),
            "Cannot power off node2, node3, not marked offline: use 'gnt-node modify --offline=yes' first",
        ),
        (
            {"command": "power-off", "node_names": ["node1"], "ignore_status": True},
            (),
            "power-off is not allowed on the master node node1: use '/usr/sbin/ipmi power-off node1' if you want",
        ),
        (
            {"command": "power-cycle", "node_names": ["node1"]},
            ("node1",),
            "power-cycle is not allowed on the master node node1: it has no out-of-band program either",
        ),
        ({"command": "power-status", "node_names": ["x"]}, (), "Node 'x' not known"),
        ({"command": "power-up"}, (), "'command': it cannot be 'power-up': use health, power-cycle, power-off"),
        ({}, (), "the parameter 'command' is missing"),
        ({"command": "health", "timeout": 0}, (), "parameter 'timeout': it must be 1 or more"),
        ({"command": "health", "power_delay": -1.0}, (), "parameter 'power_delay': it must be 0 or more"),
        ({"command": "health", "node_names": [""]}, (), "it must not be empty"),
    ],
)
def test_what_is_refused(values: dict[str, Any], without: tuple[str, ...], sentence: str) -> None:
    ctx = make(without=without)
    with pytest.raises(PrerequisiteError) as caught:
        run(decode({"OP_ID": "OP_OOB_COMMAND", **values}), ctx)
    assert sentence in str(caught.value)
    assert ctx.story == []


def test_what_runs_can_be_switched_off_by_who_insists() -> None:
    ctx = make()
    assert rows(ctx, "power-off", "node2", ignore_status=True) == [[[0, "node2"], [0, None]]]
    assert not powered(ctx)["node2"]


def test_it_is_written_as_it_came() -> None:
    plain = {"OP_ID": "OP_OOB_COMMAND", "command": "health", "node_names": ["node1"]}
    assert plain.items() <= decode(plain).to_plain().items()
    assert decode(plain).summary() == "OOB_COMMAND"
