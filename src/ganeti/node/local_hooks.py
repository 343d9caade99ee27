# SPDX-License-Identifier: BSD-2-Clause
"""Hook scripts of this machine: running one directory of them, and those that no opcode runs (protocols, section 10).

The cluster's address and the watcher have hooks of their own, which run where they act: `master-ip-turnup`,
`master-ip-turndown` and `watcher`. What they are told of the cluster is what ssconf says here.
"""

import os
import re
import stat
from collections.abc import Mapping

from ganeti.base.errors import CommandError, HooksAbort
from ganeti.base.paths import Paths
from ganeti.model.node_calls.programs import Phase
from ganeti.ports.node_world import NodeWorld
from ganeti.system.ssconf import ssconf

HOOKS_VERSION = "2"
SKIPPED, FAILED, SUCCEEDED = 0, 1, 2
PHASES: tuple[Phase, ...] = ("pre", "post")
SCRIPT_TIMEOUT_S = 600.0
_SCRIPT = re.compile(r"[a-zA-Z0-9_-]+")
_DATA_DIR = "/var/lib/ganeti"

Results = list[tuple[str, int, str]]
"""Of each script: directory and name, how it ended, what it said."""


async def run_directory(
    world: NodeWorld, path: str, phase: Phase, env: Mapping[str, str], timeout_s: float = SCRIPT_TIMEOUT_S
) -> Results:
    """Run the scripts of one directory in order of their names, also after one has failed.

    *env* is the whole environment but PATH; each script may take *timeout_s*.
    """
    name = f"{path}-{phase}.d"
    directory = f"{world.paths.hooks_dir}/{name}"
    return [
        (f"{name}/{script}", *await _run(world, f"{directory}/{script}", script, env, timeout_s))
        for script in scripts_in(world.paths, path, phase)
    ]


def scripts_in(paths: Paths, path: str, phase: Phase) -> list[str]:
    """Names of whatever lies in the directory, sorted; empty where there is none."""
    try:
        return sorted(os.listdir(f"{paths.hooks_dir}/{path}-{phase}.d"))
    except (FileNotFoundError, NotADirectoryError):
        return []


def phases_present(paths: Paths, path: str) -> list[Phase]:
    """The phases whose directories hold anything, or cannot be read: running them shows why."""
    return [phase for phase in PHASES if _has_scripts(paths, path, phase)]


def _has_scripts(paths: Paths, path: str, phase: Phase) -> bool:
    try:
        return bool(scripts_in(paths, path, phase))
    except OSError:
        return True


class OwnHooks:
    """The hooks of one act of this machine that is no opcode's; *env* is what is told of it."""

    def __init__(
        self,
        world: NodeWorld,
        path: str,
        op_code: str,
        env: Mapping[str, str],
        *,
        may_refuse: bool = True,
        timeout_s: float = SCRIPT_TIMEOUT_S,
    ) -> None:
        """Unless they *may_refuse*, a pre hook that fails is only told in the log."""
        self._world = world
        self._path = path
        self._op_code = op_code
        self._env = dict(env)
        self._may_refuse = may_refuse
        self._timeout_s = timeout_s

    async def run_pre(self) -> None:
        """Raises `HooksAbort` where a script fails that may refuse the act."""
        failed = await self._run("pre", self._env)
        if failed and self._may_refuse:
            raise HooksAbort([("", script, output) for script, output in failed])

    async def run_post(self) -> None:
        await self._run("post", self._env | {f"POST_{key}": value for key, value in self._env.items()})

    async def _run(self, phase: Phase, env: Mapping[str, str]) -> list[tuple[str, str]]:
        if not scripts_in(self._world.paths, self._path, phase):
            return []
        told = {
            "HOOKS_VERSION": HOOKS_VERSION,
            "HOOKS_PHASE": phase,
            "HOOKS_PATH": self._path,
            "CLUSTER": ssconf(self._world.paths, "cluster_name"),
            "MASTER": ssconf(self._world.paths, "master_node"),
            "DATA_DIR": _DATA_DIR,
        }
        if self._op_code:
            told["OP_CODE"] = self._op_code
        whole = {f"GANETI_{key}": value for key, value in (told | dict(env)).items()}
        results = await run_directory(self._world, self._path, phase, whole, self._timeout_s)
        failed = [(script, output.strip()) for script, status, output in results if status == FAILED]
        for script, output in failed:
            self._world.log(f"hook {script} failed: {' / '.join(output.splitlines())}")
        return failed


async def _run(world: NodeWorld, path: str, script: str, env: Mapping[str, str], timeout_s: float) -> tuple[int, str]:
    if not _SCRIPT.fullmatch(script) or not _executable(path):
        return SKIPPED, ""
    try:
        done = await world.run([path], env=env, cwd="/", timeout_s=timeout_s, check=False, leaves_background=True)
    except CommandError as err:
        return FAILED, str(err)
    return (SUCCEEDED if done.status == 0 else FAILED), done.output


def _executable(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)
    except OSError:
        return False
