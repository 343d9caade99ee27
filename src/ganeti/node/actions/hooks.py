# SPDX-License-Identifier: BSD-2-Clause
"""Hook scripts of opcodes, which the master has run here (protocols, section 10)."""

import re

from ganeti.base.errors import ParameterError
from ganeti.base.names import shown
from ganeti.model.node_calls.programs import HooksPresent, HooksRunner, Phase
from ganeti.node.actions.registry import answers
from ganeti.node.local_hooks import phases_present, run_directory
from ganeti.node.state import NodeState

_PATH = re.compile(r"[a-z0-9-]+")


@answers(HooksRunner)
async def hooks_runner(node: NodeState, asked: HooksRunner) -> list[tuple[str, int, str]]:
    _check(asked.path)
    return await run_directory(node.world, asked.path, asked.phase, asked.env)


@answers(HooksPresent)
async def hooks_present(node: NodeState, asked: HooksPresent) -> list[Phase]:
    _check(asked.path)
    return phases_present(node.world.paths, asked.path)


def _check(path: str) -> None:
    if not _PATH.fullmatch(path):
        raise ParameterError(f"'{shown(path)}' is not a directory of hooks: write a name such as instance-add")
