# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about OS definitions."""

from ganeti.model.node_calls.operating_systems import OsDiagnose, OsGet, OsStatus, OsValidate
from ganeti.node.actions.registry import FAST_S, answers
from ganeti.node.os import definition, runner
from ganeti.node.state import NodeState


@answers(OsDiagnose, timeout_s=FAST_S, changes=False)
async def os_diagnose(node: NodeState, asked: OsDiagnose) -> list[OsStatus]:
    return definition.find_all(node.paths)


@answers(OsGet, timeout_s=FAST_S, changes=False)
async def os_get(node: NodeState, asked: OsGet) -> OsStatus:
    """Raises `PrerequisiteError` unless it is there and valid."""
    return definition.get(node.paths, asked.name)


@answers(OsValidate, timeout_s=FAST_S, changes=False)
async def os_validate(node: NodeState, asked: OsValidate) -> OsStatus:
    """Raises `PrerequisiteError` for an OS or variant that is not there, `ParameterError` for parameters."""
    return await runner.validate(node.world, asked.name, asked.params, force_variant=asked.force_variant)
