# SPDX-License-Identifier: BSD-2-Clause
"""OS parameters of the whole cluster: those that a definition does not know would stop every installation of it."""

from collections.abc import Iterator, Mapping
from typing import Any

from ganeti.master.operations.instance.os.installation import OS_IMAGE
from ganeti.model.node_calls.operating_systems import OsDiagnose, OsStatus
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

_TAKEN_BACK = "default"


async def unknown_parameters(
    ctx: OperationContext, view: ConfigView, *asked: Mapping[str, Mapping[str, Any]]
) -> tuple[list[str], list[str]]:
    """Problems: parameters that definitions on the master do not have. Notes: an OS that is not there may have any."""
    if not any(asked):
        return [], []
    definitions: dict[str, OsStatus] = {}
    for status in await ask(ctx.nodes, view.cluster.master_node, OsDiagnose()):
        definitions.setdefault(status.name, status)
    missing = {name for each in asked for name in each if name.partition("+")[0] not in definitions}
    where = f"is not on {view.node(view.cluster.master_node).name}: its parameters cannot be checked"
    problems = [problem for each in asked for problem in _problems(definitions, each)]
    return problems, [f"OS '{name}' {where}" for name in sorted(missing)]


def _problems(definitions: Mapping[str, OsStatus], asked: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, values in asked.items():
        status = definitions.get(name.partition("+")[0])
        if status is None or not status.valid:
            continue
        known = [parameter.lower() for parameter, _ in status.parameters]
        for parameter, value in values.items():
            if value != _TAKEN_BACK and parameter.lower() not in known and parameter != OS_IMAGE:
                there = f"there are {', '.join(known)}" if known else "it has none"
                yield f"Unknown parameter of OS '{status.name}': {parameter}; {there}"
