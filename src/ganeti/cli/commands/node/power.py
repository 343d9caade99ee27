# SPDX-License-Identifier: BSD-2-Clause
"""gnt-node power and health."""

from __future__ import annotations

from ganeti.cli import confirm, jobs
from ganeti.cli.commands import plain
from ganeti.cli.commands.listing import nodes_meant
from ganeti.cli.failures import EXIT_USAGE, Failure
from ganeti.cli.tabular import print_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ganeti.cli.invocation import Invocation

_ACTIONS = ("on", "off", "cycle", "status")
_HARD = ("off", "cycle")
_NORMAL = 0
_WORDS = {2: "(nodata)", 3: "(unavail)"}
"""Where there is no answer: the program failed, or the node has none."""


def power(call: Invocation) -> int:
    """Switching off marks the nodes offline before, in the same job."""
    action = call.values["action"]
    if action not in _ACTIONS:
        raise Failure(f"power subcommand {action} not supported: use one of {', '.join(_ACTIONS)}")
    names = nodes_meant(call, "node_names")
    if action in _HARD:
        if not names:
            raise Failure(f"Please provide at least one node for this command: which are to be switched {action}?")
        if not call.get("assume_yes"):
            question = confirm.listing("nodes", names, f"power {action}")
            confirm.require(question, "give -f to go on without the question.")
    marking: list[dict[str, Any]] = []
    if action == "off" and not call.get("ignore_status"):
        promotes = {"auto_promote": bool(call.get("auto_promote"))}
        marking = [{"OP_ID": "OP_NODE_SET_PARAMS", "node_name": name, "offline": True, **promotes} for name in names]
    rows = jobs.submit_or_wait(call, *marking, _opcode(call, f"power-{action}", names))
    return 0 if rows is jobs.SUBMITTED else _print(call, rows, _power_words)


def powercycle(call: Invocation) -> int:
    """Without a yes the status is 2, as in 3.1."""
    return plain.submit(call, status=EXIT_USAGE)


def health(call: Invocation) -> int:
    return _print(
        call, jobs.submit_or_wait(call, _opcode(call, "health", nodes_meant(call, "node_names"))), _health_words
    )


def _opcode(call: Invocation, command: str, names: list[str]) -> dict[str, Any]:
    given = call.parameters("action", "assume_yes", "auto_promote", "no_headers", "separator", "group")
    return {"OP_ID": call.command.op_id, "command": command, **given, "node_names": names}


def _power_words(answer: Any) -> list[str]:
    if isinstance(answer, dict):
        return ["powered" if answer.get("powered") else "unpowered"]
    return ["invoked"]


def _health_words(answer: Any) -> list[str]:
    return [f"{item}={state}" for item, state in answer or []]


def _print(call: Invocation, rows: Any, words: Callable[[Any], list[str]]) -> int:
    """A line for each node, and for each further word about it; one without an answer makes the command fail."""
    lines, failed = [], False
    for (_, name), (status, answer) in rows:
        known = status == _NORMAL
        failed = failed or not known
        texts = (words(answer) if known else [_WORDS.get(status, "(unknown)")]) or [""]
        lines += [[name if number == 0 else "", text] for number, text in enumerate(texts)]
    headers = not call.get("no_headers")
    print_table(["Node", "Status"], [False, False], lines, headers=headers, separator=call.get("separator"))
    return 1 if failed else 0
