# SPDX-License-Identifier: BSD-2-Clause
"""Hook scripts (protocols, section 10)."""

import os
import re
import stat
from typing import Literal

from ganeti.base.errors import CommandError, ParameterError
from ganeti.node.actions.registry import NORMAL_S, node_call
from ganeti.node.state import NodeState

SKIPPED, FAILED, SUCCEEDED = 0, 1, 2
_SCRIPT = re.compile(r"[a-zA-Z0-9_-]+")
_PATH = re.compile(r"[a-z0-9-]+")
SCRIPT_TIMEOUT_S = 600.0


@node_call(timeout_s=NORMAL_S)
async def hooks_runner(
    node: NodeState, *, path: str, phase: Literal["pre", "post"], env: dict[str, str]
) -> list[tuple[str, int, str]]:
    """Run the scripts of one directory in order of their names; gives (script, 0 skipped 1 failed 2 done, output).

    *env* is the whole environment but PATH. All scripts run, also after one has failed.
    """
    if not _PATH.fullmatch(path):
        raise ParameterError(f"'{path}' is not a directory of hooks: write a name such as instance-add")
    name = f"{path}-{phase}.d"
    directory = f"{node.paths.hooks_dir}/{name}"
    try:
        scripts = sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [(f"{name}/{script}", *await _run(node, f"{directory}/{script}", script, env)) for script in scripts]


async def _run(node: NodeState, path: str, script: str, env: dict[str, str]) -> tuple[int, str]:
    if not _SCRIPT.fullmatch(script) or not _executable(path):
        return SKIPPED, ""
    try:
        done = await node.world.run([path], env=env, cwd="/", timeout_s=SCRIPT_TIMEOUT_S, check=False)
    except CommandError as err:
        return FAILED, str(err)
    return (SUCCEEDED if done.status == 0 else FAILED), done.output


def _executable(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)
    except OSError:
        return False
