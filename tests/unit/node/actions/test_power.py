# SPDX-License-Identifier: BSD-2-Clause
"""Out-of-band programs on the node that runs them."""

from typing import Any

import pytest

from ganeti.base.errors import ExecutionError, ParameterError
from ganeti.node.actions.registry import REGISTRY

PROGRAM = "/usr/sbin/ipmi"


def ask(node: Any, **changes: Any) -> Any:
    given = {"oob_program": PROGRAM, "command": "power-status", "remote_node": "n2.x", "timeout": 20.0} | changes
    return node.call("run_oob", **given)


def test_the_program_gets_command_and_node(node: Any) -> None:
    node.program(PROGRAM, 'echo "$# $1 $2"; echo noise >&2')
    assert ask(node) == "2 power-status n2.x\n"
    assert ask(node, command="power-off", remote_node="n3.x") == "2 power-off n3.x\n"


def test_failures_are_told(node: Any) -> None:
    node.program(PROGRAM, "echo no such board >&2; exit 3")
    with pytest.raises(ExecutionError, match="status 3: no such board"):
        ask(node)
    with pytest.raises(ExecutionError, match=r"/usr/sbin/none"):
        ask(node, oob_program="/usr/sbin/none")
    with pytest.raises(ExecutionError, match="'ipmi' is not a program's full path"):
        ask(node, oob_program="ipmi")


def test_one_that_takes_too_long_is_stopped(node: Any) -> None:
    node.program(PROGRAM, "sleep 600")
    with pytest.raises(ExecutionError, match=r"did not end within 0\.3 seconds and was stopped"):
        ask(node, timeout=0.3)


def test_other_commands_are_refused(node: Any) -> None:
    with pytest.raises(ParameterError, match="Invalid enum value 'power-up'"):
        ask(node, command="power-up")


def test_the_answer_to_a_repeated_call_is_kept() -> None:
    assert REGISTRY["run_oob"].changes, "a node must not be switched twice because an answer was lost"
