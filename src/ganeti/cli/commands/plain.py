# SPDX-License-Identifier: BSD-2-Clause
"""What a command does that only submits its operation: ask, submit, wait."""

from __future__ import annotations

from ganeti.cli import confirm, jobs
from ganeti.cli.failures import EXIT_FAILURE, Failure
from ganeti.cli.infotext import scalar
from ganeti.cli.invocation import out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

_NAMED = ("instance", "node", "group", "network")
_ONLY_HOW = ("force", "auto_promote")
"""Options of modifying commands that change nothing by themselves."""


def submit(call: Invocation, sends: dict[str, Any] | None = None, *, status: int = EXIT_FAILURE) -> int:
    """Send the values as parameters of the command's opcode, after the question that the command asks.

    *sends* are parameters that are sent where no option gives them, *status* is that of a no. With ``--why`` the master
    only says what it would do: nothing is asked, and nothing is changed.
    """
    parameters = dict(call.command.sends) | (sends or {}) | call.parameters("assume_yes")
    if call.get("why"):
        parameters["dry_run"] = True
    else:
        ask(call, status)
    if call.command.modifies:
        return _modify(call, parameters)
    return jobs.run(call, {"OP_ID": call.command.op_id, **parameters})


def ask(call: Invocation, status: int = EXIT_FAILURE) -> None:
    """Ask the command's question, if it has one, with the full name of what it is about; *status* is that of a no."""
    question = next((each for field, each in call.command.confirm_for if call.get(field)), call.command.confirm)
    if not question or call.get("assume_yes") or call.get("force"):
        return
    names = {}
    for argument in call.command.arguments:
        name = call.get(argument.field)
        names[argument.field] = full_name(call, argument.subject, name) if argument.subject in _NAMED and name else name
    confirm.require(question.format(**names), "give -f to go on without the question.", status)


def full_name(call: Invocation, subject: str, name: str) -> str:
    """The whole name of an object; raises `ServerError` where there is none."""
    answer = call.client.call("Query", subject, ["name"], ["|", ["==", "name", name]])
    return str(answer["data"][0][0][1]) if answer["data"] else name


def _modify(call: Invocation, parameters: dict[str, Any]) -> int:
    """At least one parameter must be given; what the master has changed is shown."""
    named = {argument.field for argument in call.command.arguments}
    if not set(parameters) - named - {*_ONLY_HOW}:
        raise Failure(f"Please give at least one of the parameters to change: see '{call.command.line} --help'")
    result = jobs.submit_or_wait(call, {"OP_ID": call.command.op_id, **parameters})
    if result is jobs.SUBMITTED:
        return 0
    if isinstance(result, list) and result:
        names = [str(parameters[field]) for field in named]
        out(" ".join(["Modified", call.command.modifies, *names]))
        for name, value in result:
            out(f" - {name:<5} -> {scalar(value)}")
    return jobs.follow_result(call, result)
