# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about OS definitions."""

from typing import Any

from ganeti.node.actions.registry import FAST_S, node_call
from ganeti.node.os import definition, runner
from ganeti.node.os.definition import OsStatus
from ganeti.node.state import NodeState


@node_call(timeout_s=FAST_S, changes=False)
async def os_diagnose(node: NodeState) -> list[OsStatus]:
    """All OS definitions found here, those that are shadowed or broken too, in the order of the search path."""
    return definition.find_all(node.paths)


@node_call(timeout_s=FAST_S, changes=False)
async def os_get(node: NodeState, *, name: str) -> OsStatus:
    """The definition that ``OS`` or ``OS+variant`` names; raises `PrerequisiteError` unless it is there and valid."""
    return definition.get(node.paths, name)


@node_call(timeout_s=FAST_S, changes=False)
async def os_validate(
    node: NodeState,
    *,
    name: str,
    params: dict[str, Any],
    force_variant: bool = False,
    required: bool = True,
    checks: list[str] | None = None,
) -> bool:
    """Check that an instance could be installed with this OS and these parameters.

    Raises `PrerequisiteError` for an OS or variant that is not there, `ParameterError` for parameters; without
    *required*, an OS that is not there gives false. The one check there is, and the default, is ``parameters``.
    """
    return await runner.validate(
        node.world,
        name,
        params,
        force_variant=force_variant,
        required=required,
        checks=["parameters"] if checks is None else checks,
    )
