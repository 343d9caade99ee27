# SPDX-License-Identifier: BSD-2-Clause
"""Hook scripts of opcodes, which the master has run here (protocols, section 10)."""

import re

from ganeti.base.errors import ParameterError
from ganeti.base.names import shown
from ganeti.model.node_calls.programs import HooksRunner
from ganeti.node.actions.registry import NORMAL_S, answers
from ganeti.node.local_hooks import run_directory
from ganeti.node.state import NodeState

_PATH = re.compile(r"[a-z0-9-]+")


@answers(HooksRunner, timeout_s=NORMAL_S)
async def hooks_runner(node: NodeState, asked: HooksRunner) -> list[tuple[str, int, str]]:
    path = asked.path
    if not _PATH.fullmatch(path):
        raise ParameterError(f"'{shown(path)}' is not a directory of hooks: write a name such as instance-add")
    return await run_directory(node.world, path, asked.phase, asked.env)
