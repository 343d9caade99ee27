# SPDX-License-Identifier: BSD-2-Clause
"""Hook scripts around an operation: their environment, where they run, what a failure means (protocols 10)."""

from collections.abc import Sequence
from typing import Any

from ganeti.base.errors import HooksAbort, NodeTimeoutError, NodeUnreachableError
from ganeti.master.operation import Hooks, Operation
from ganeti.ports.context import JobLogPort, OperationContext

HOOKS_VERSION = "2"
_FAILED = 1
_DATA_DIR = "/var/lib/ganeti"


class HookRunner:
    """The hooks of one operation; without a declaration only `config-update` can run."""

    def __init__(
        self, operation: Operation[Any], hooks: Hooks | None, context: OperationContext, log: JobLogPort
    ) -> None:
        self._operation = operation
        self._hooks = hooks
        self._context = context
        self._log = log

    async def run_pre(self) -> None:
        """Run the pre hooks; one that fails aborts the operation, an unreachable node does not."""
        hooks = self._hooks
        if hooks is None or not hooks.pre_nodes:
            return
        failed = await self._run(hooks.path, "pre", self._env(hooks, "pre"), hooks.pre_nodes)
        if failed:
            sentences = [f"node {node}, script {script}: {output}" for node, script, output in failed]
            raise HooksAbort(f"Hooks refused the operation: {'; '.join(sentences)}", failed)

    async def run_post(self) -> None:
        """Run the post hooks; failures are only logged."""
        hooks = self._hooks
        if hooks is None or not hooks.post_nodes:
            return
        env = self._env(hooks, "post")
        env |= {f"GANETI_POST_{key}": value for key, value in (hooks.post_env or hooks.env).items()}
        for node, script, output in await self._run(hooks.path, "post", env, hooks.post_nodes):
            self._log.warning(f"hook {script} failed on node {node}: {output}")

    async def run_config_update(self) -> None:
        """Tell the master's `config-update` hooks that the configuration was written."""
        hooks = self._hooks or Hooks("config-update", "CLUSTER", "")
        master = self._context.config.view().cluster.master_node
        env = self._env(hooks, "post") | {"GANETI_HOOKS_PATH": "config-update"}
        for _, script, output in await self._run("config-update", "post", env, [master]):
            self._log.warning(f"hook {script} failed: {output}")

    def _env(self, hooks: Hooks, phase: str) -> dict[str, str]:
        view = self._context.config.view()
        master = view.get("nodes", view.cluster.master_node)
        env = {
            "HOOKS_VERSION": HOOKS_VERSION,
            "HOOKS_PHASE": phase,
            "HOOKS_PATH": hooks.path,
            "CLUSTER": view.cluster.cluster_name,
            "MASTER": getattr(master, "name", ""),
            "OP_CODE": self._operation.op_id,
            "OBJECT_TYPE": hooks.object_type,
            "DATA_DIR": _DATA_DIR,
        }
        if hooks.target:
            env["OP_TARGET"] = hooks.target
        return {f"GANETI_{key}": str(value) for key, value in (env | dict(hooks.env)).items()}

    async def _run(self, path: str, phase: str, env: dict[str, str], nodes: Sequence[str]) -> list[list[str]]:
        """Give [node name, script, output] of what failed."""
        view = self._context.config.view()
        names = {uuid: getattr(view.get("nodes", uuid), "name", uuid) for uuid in nodes}
        online = [uuid for uuid in dict.fromkeys(nodes) if not getattr(view.get("nodes", uuid), "offline", False)]
        failed: list[list[str]] = []
        for answer in await self._context.nodes.call_many(online, "hooks_runner", path=path, phase=phase, env=env):
            name = names[answer.node_uuid]
            if isinstance(answer.error, NodeUnreachableError | NodeTimeoutError):
                self._log.warning(f"{phase} hooks of {path} could not be run on node {name}: {answer.error}")
            elif answer.error is not None:
                failed.append([name, path, str(answer.error)])
            else:
                failed += [[name, item[0], item[2]] for item in answer.value if item[1] == _FAILED]
        return failed
