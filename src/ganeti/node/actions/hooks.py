# SPDX-License-Identifier: BSD-2-Clause
"""Hook scripts of opcodes, which the master has run here (protocols, section 10)."""

import re

from ganeti.base.errors import ParameterError
from ganeti.base.names import shown
from ganeti.node.actions.registry import NORMAL_S, node_call
from ganeti.node.local_hooks import Phase, run_directory
from ganeti.node.state import NodeState

_PATH = re.compile(r"[a-z0-9-]+")


@node_call(timeout_s=NORMAL_S)
async def hooks_runner(node: NodeState, *, path: str, phase: Phase, env: dict[str, str]) -> list[tuple[str, int, str]]:
    """Run the scripts of one directory in order of their names; gives (script, 0 skipped 1 failed 2 done, output).

    *env* is the whole environment but PATH. All scripts run, also after one has failed.
    """
    if not _PATH.fullmatch(path):
        raise ParameterError(f"'{shown(path)}' is not a directory of hooks: write a name such as instance-add")
    return await run_directory(node.world, path, phase, env)
