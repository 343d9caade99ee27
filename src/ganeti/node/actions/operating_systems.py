# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about OS definitions."""

from ganeti.model.node_calls.operating_systems import OsDiagnose, OsGet, OsStatus, OsValidate
from ganeti.model.node_calls.scripts import Said, ScriptEnd, ScriptOutput
from ganeti.node import runs
from ganeti.node.actions.registry import answers
from ganeti.node.os import definition, output, runner
from ganeti.node.state import NodeState


@answers(OsDiagnose)
async def os_diagnose(node: NodeState, asked: OsDiagnose) -> list[OsStatus]:
    return definition.find_all(node.paths)


@answers(OsGet)
async def os_get(node: NodeState, asked: OsGet) -> OsStatus:
    """Raises `PrerequisiteError` unless it is there and valid."""
    return definition.get(node.paths, asked.name)


@answers(OsValidate)
async def os_validate(node: NodeState, asked: OsValidate) -> OsStatus:
    """Raises `PrerequisiteError` for an OS or variant that is not there, `ParameterError` for parameters."""
    return await runner.validate(node.world, asked.name, asked.params, force_variant=asked.force_variant)


@answers(ScriptOutput)
async def script_output(node: NodeState, asked: ScriptOutput) -> Said:
    """Lines of a script that runs."""
    del node
    return (output.rest if asked.is_over else output.said)(asked.token, asked.offset)


@answers(ScriptEnd)
async def script_end(node: NodeState, asked: ScriptEnd) -> None:
    """End a script that runs, with all that it has started."""
    del node
    await runs.end(asked.token)
