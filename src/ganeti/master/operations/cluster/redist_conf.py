# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_REDIST_CONF: give all nodes the configuration and the files that every node has, from the master."""

from collections.abc import Collection
from typing import Any

from ganeti.base.command import Command, Option
from ganeti.base.errors import GanetiError
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.node.hosts import enter_all_hosts
from ganeti.model.locks import ALL_NODES, LockPlan
from ganeti.model.node_calls.files import SharedFile, SharedFiles, UploadFile
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask, ask_many


@operation(
    "OP_CLUSTER_REDIST_CONF",
    cli=Command(
        "gnt-cluster redist-conf",
        "give all nodes the configuration and the files every node has",
        options=(Option(("--yes-do-it",), "assume_yes", "flag", "for scripts of 3.1: nothing is asked here"),),
    ),
    rapi="PUT /2/redistribute-config",
    examples=(Example("redist-conf"),),
)
class RedistributeConfiguration(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Send what nodes should have by now: `ssconf`, certificates, keys, names of hosts.

    A node that does not take it is told in a warning; the others get it.
    """

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(shared=[ALL_NODES])

    async def execute(self, checked: Any, ctx: OperationContext) -> None:
        await ctx.config.flush()
        await send_shared_files(ctx, await ask(ctx.nodes, ctx.config.view().cluster.master_node, SharedFiles()))
        await enter_all_hosts(ctx)


async def send_shared_files(
    ctx: OperationContext, files: list[SharedFile], *, only: Collection[str] | None = None
) -> None:
    """Replace *files* on all nodes but the master, or on those of *only* (uuids).

    A failure is a warning that says how to go on.
    """
    view = ctx.config.view()
    wanted = (node for node in view.nodes() if only is None or node.uuid in only)
    others = {node.uuid: node.name for node in wanted if not node.offline}
    others.pop(view.cluster.master_node, None)
    for file in files:
        for answer in await ask_many(
            ctx.nodes, list(others), UploadFile(path=file.path, content=file.content, mode=file.mode)
        ):
            if isinstance(answer.error, GanetiError):
                ctx.log.warning(
                    f"File {file.path} on node {others[answer.node_uuid]} stays as it is ({answer.error}): run "
                    "gnt-cluster redist-conf when it answers"
                )
