# SPDX-License-Identifier: BSD-2-Clause
"""Steps that a failed job could not undo are moot once a later job has brought the instance to a state there."""

from typing import Any

import pytest
from tests.fakes.sample_cluster import add_instance, configuration

from ganeti.master.queue.left_behind import made_moot
from ganeti.master.queue.undo import UndoLog, record_line
from ganeti.ports.context import UndoNodeCall
from ganeti.wire.job_file import ERROR, SUCCESS, JobFile, OpcodeEntry


def log(call: str = "instance_disks_shutdown", node: str = "uuid-node1", name: str = "web1") -> UndoLog:
    arguments = {"instance": {"name": name, "uuid": f"uuid-{name}"}}
    record = UndoNodeCall("close the disks", node, call, arguments)
    return UndoLog([record_line(1, 0, 1, record), {"given_up": 1, "reason": "no answer"}])


def job(op_id: str = "OP_INSTANCE_STARTUP", at_s: int = 200, status: str = SUCCESS, name: str = "web1") -> JobFile:
    entry = OpcodeEntry(input={"OP_ID": op_id, "instance_name": name}, status=status, exec_timestamp=(at_s, 0))
    return JobFile(id=2, ops=[entry], end_timestamp=(at_s + 1, 0))


FAILED = JobFile(id=1, ops=[], end_timestamp=(100, 0))


@pytest.fixture
def view() -> Any:
    found = configuration()
    add_instance(found, "web1")
    return found


@pytest.mark.parametrize("op_id", ["OP_INSTANCE_STARTUP", "OP_INSTANCE_SHUTDOWN", "OP_INSTANCE_MIGRATE"])
def test_a_later_job_that_brings_the_instance_to_a_state_makes_it_moot(view: Any, op_id: str) -> None:
    assert made_moot(log().given_up(), FAILED, job(op_id), view) == [1]


@pytest.mark.parametrize(
    ("undo", "later"),
    [
        (log(), job(at_s=99)),
        (log(), job(status=ERROR)),
        (log(), job("OP_TAGS_SET")),
        (log(), job(name="web2")),
        (log(node="uuid-node2"), job()),
        (log(call="export_end"), job()),
    ],
    ids=["before its end", "failed", "another matter", "another instance", "another node", "another kind of step"],
)
def test_any_other_leaves_it(view: Any, undo: UndoLog, later: JobFile) -> None:
    assert made_moot(undo.given_up(), FAILED, later, view) == []


def test_a_removal_makes_it_moot_on_every_node(view: Any) -> None:
    view.remove("instances", "uuid-web1")
    assert made_moot(log(node="uuid-node2").given_up(), FAILED, job("OP_INSTANCE_REMOVE"), view) == [1]


def test_steps_on_a_node_that_is_gone_are_moot_whatever_they_are(view: Any) -> None:
    undo = log(call="export_end", node="uuid-gone")
    assert made_moot(undo.given_up(), FAILED, job("OP_NODE_REMOVE"), view) == [1]
