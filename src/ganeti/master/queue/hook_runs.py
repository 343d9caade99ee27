# SPDX-License-Identifier: BSD-2-Clause
"""Hook scripts around an operation: where they run, what a failure means (protocols 10)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ganeti.base.errors import GanetiError, HooksAbort, NodeTimeoutError, NodeUnreachableError
from ganeti.master.hook_environment import config_update_environment, post_environment, pre_environment
from ganeti.master.operation import Hooks, Operation
from ganeti.model.node_calls.programs import HooksRunner, Phase
from ganeti.model.view import ConfigView
from ganeti.ports.context import JobLogPort, OperationContext
from ganeti.ports.luxid import NodesWithHooks
from ganeti.ports.nodes import ask_many

_FAILED = 1
_ASK_S: Final = 5.0
"""How long LuxiD may take to say which nodes have hooks; then all are called."""
_FRESH_S: Final = 1.0
"""How long its answer counts: a script that somebody installs while an operation is at work is run after it."""


class HookRunner:
    """The hooks of one operation; without a declaration only `config-update` can run."""

    def __init__(
        self, operation: Operation[Any], hooks: Hooks | None, context: OperationContext, log: JobLogPort
    ) -> None:
        self._operation = operation
        self._hooks = hooks
        self._context = context
        self._log = log
        self._present: tuple[float, Mapping[str, Sequence[str]]] | None = None
        """When nodes other than the master have said which phases have scripts, and what they said."""

    async def run_pre(self) -> None:
        """Run the pre hooks; one that fails aborts the operation, an unreachable node does not."""
        hooks = self._hooks
        if hooks is None or not hooks.pre_nodes:
            return
        called = await self._nodes_to_call(hooks.path, "pre", hooks.pre_nodes)
        if not called:
            return
        env = pre_environment(self._view(), self._operation.op_id, hooks)
        failed = await self._run(hooks.path, "pre", env, called)
        if failed:
            raise HooksAbort(failed)

    async def run_post(self) -> None:
        """Run the post hooks; failures are only logged."""
        if self._hooks is not None:
            await self.run_post_on(self._hooks.post_nodes)

    async def run_post_on(self, nodes: Sequence[str]) -> None:
        """Run the post hooks on these nodes: while an operation acts, on one that will be gone when it has ended."""
        hooks = self._hooks
        if hooks is None or not nodes:
            return
        try:
            called = await self._nodes_to_call(hooks.path, "post", nodes)
            if not called:
                return
            env = post_environment(self._view(), self._operation.op_id, hooks, self._context.catalogue)
        except GanetiError as err:  # what is done is done: nobody may undo it for the sake of its hooks
            self._log.warning(f"post hooks of {hooks.path} could not be run: {err}")
            return
        for node, script, output in await self._run(hooks.path, "post", env, called):
            self._log.warning(f"hook {script} failed on node {node}: {output}")

    async def run_config_update(self) -> None:
        """Tell the master's `config-update` hooks that the configuration was written."""
        hooks = self._hooks or Hooks("config-update", "CLUSTER", "")
        view = self._view()
        master = view.cluster.master_node
        env = config_update_environment(view, self._operation.op_id, hooks) | {"GANETI_HOOKS_PATH": "config-update"}
        called = await self._nodes_to_call("config-update", "post", [master])
        for _, script, output in await self._run("config-update", "post", env, called):
            self._log.warning(f"hook {script} failed: {output}")

    def _view(self) -> ConfigView:
        return self._context.config.view()

    async def _nodes_to_call(self, path: str, phase: Phase, nodes: Sequence[str]) -> list[str]:
        """Those that are online and have something to run, as far as they say."""
        view = self._view()
        online = [uuid for uuid in dict.fromkeys(nodes) if not getattr(view.get("nodes", uuid), "offline", False)]
        return await self._with_scripts(path, phase, online, view.cluster.master_node)

    async def _run(self, path: str, phase: Phase, env: dict[str, str], called: Sequence[str]) -> list[list[str]]:
        """Give [node name, script, output] of what failed."""
        if not called:
            return []
        view = self._view()
        names = {uuid: getattr(view.get("nodes", uuid), "name", uuid) for uuid in called}
        self._present = None  # a script may install others
        failed: list[list[str]] = []
        for answer in await ask_many(self._context.nodes, called, HooksRunner(path=path, phase=phase, env=env)):
            name = names[answer.node_uuid]
            if isinstance(answer.error, NodeUnreachableError | NodeTimeoutError):
                self._log.warning(f"{phase} hooks of {path} could not be run on node {name}: {answer.error}")
            elif answer.error is not None:
                failed.append([name, path, str(answer.error)])
            else:
                failed += [[name, item[0], item[2]] for item in answer.value if item[1] == _FAILED]
        return failed

    async def _with_scripts(self, path: str, phase: Phase, nodes: Sequence[str], master: str) -> list[str]:
        """Leave out the nodes that have nothing to run: most have no hooks, and to call them costs a connection."""
        called: set[str] = set()
        if master in nodes and phase in self._context.master.hook_phases(path):
            called.add(master)
        if others := [uuid for uuid in nodes if uuid != master]:
            present = await self._phases_present(path, others)
            called.update(uuid for uuid in others if phase in present.get(uuid, (phase,)))
        return [uuid for uuid in nodes if uuid in called]

    async def _phases_present(self, path: str, nodes: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """What nodes say themselves; one that does not say is missing."""
        now_s = self._context.clock.now_s()
        if self._present is not None and 0 <= now_s - self._present[0] < _FRESH_S:
            return self._present[1]
        try:
            async with asyncio.timeout(_ASK_S):
                present = await self._context.luxid.ask(NodesWithHooks(path, list(nodes)), patience_s=0.0)
        except (GanetiError, TimeoutError):  # then they are called
            return {}
        self._present = now_s, present
        return present
