# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_REDIST_CONF: give all nodes the configuration and the files that every node has, from the master."""

import asyncio
from collections.abc import Collection
from typing import Any

from ganeti.base.command import Command, Option
from ganeti.base.errors import NodeTimeoutError, NodeUnreachableError
from ganeti.base.paths import Paths
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.node.hosts import enter_all_hosts
from ganeti.model.locks import ALL_NODES, LockPlan
from ganeti.model.node_calls.files import SharedFile, SharedFiles
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask, ask_many


def _remedies(paths: Paths) -> dict[str, str]:
    """Of the files that are never empty, what makes each anew."""
    renewing = "gnt-cluster renew-crypto"
    return {
        paths.hmac_key: f"{renewing} --new-confd-hmac-key makes a new one",
        paths.cluster_domain_secret: f"{renewing} --new-cluster-domain-secret makes a new one",
        paths.authority_cert: "copy it from another node",
        paths.known_hosts: "copy it from another node",
    }


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

    A node that does not take it is told in a warning; the others get it. A node that does not answer is waited for
    once: its files wait for the next run.
    """

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(shared=[ALL_NODES])

    async def execute(self, checked: Any, ctx: OperationContext) -> None:
        flushed = asyncio.ensure_future(ctx.config.flush())
        try:
            files = await _files_of_master(ctx)
            await enter_all_hosts(ctx, without=await send_shared_files(ctx, files))
            await flushed
        finally:
            flushed.cancel()


async def _files_of_master(ctx: OperationContext) -> list[SharedFile]:
    """What is empty on the master is no loss of the others: it is left out, and a warning says what makes it anew.

    The key under which ssh knows the cluster's nodes is in the configuration, so `known_hosts` is mended at once.
    """
    cluster = ctx.config.view().cluster
    remedies = _remedies(Paths())
    found = {file.path: file for file in await ask(ctx.nodes, cluster.master_node, SharedFiles())}
    path, own = Paths().known_hosts, f"{cluster.cluster_name} "
    is_known = path in found and any(line.startswith(own) for line in found[path].content.splitlines())
    if not is_known and cluster.rsahostkeypub:
        rest = found[path].content if path in found else ""
        mended = SharedFile(
            path=path,
            content=f"{own}ssh-rsa {cluster.rsahostkeypub}\n{rest}",
            mode=0o644,
            encoding=found[path].encoding if path in found else "utf-8",
        )
        await ask(ctx.nodes, cluster.master_node, mended.upload())
        ctx.log.warning(f"File {path} of the master had no key of cluster {cluster.cluster_name}: it has it again")
        found[path] = mended
    for name in [name for name, file in found.items() if name in remedies and not file.content.strip()]:
        ctx.log.warning(f"File {name} of the master is empty and is not sent: {remedies[name]}")
        del found[name]
    return list(found.values())


async def send_shared_files(
    ctx: OperationContext, files: list[SharedFile], *, only: Collection[str] | None = None
) -> set[str]:
    """Replace *files* on all nodes but the master, or on those of *only* (uuids).

    A failure is a warning that says how to go on. A node that does not answer gets no further file, since each would
    be waited for anew; gives the uuids of these nodes.
    """
    view = ctx.config.view()
    wanted = (node for node in view.nodes() if only is None or node.uuid in only)
    others = {node.uuid: node.name for node in wanted if not node.offline}
    others.pop(view.cluster.master_node, None)
    silent: set[str] = set()
    for file in files:
        reached = [uuid for uuid in others if uuid not in silent]
        for answer in await ask_many(ctx.nodes, reached, file.upload()):
            name, err = others[answer.node_uuid], answer.error
            if isinstance(err, NodeUnreachableError | NodeTimeoutError):
                silent.add(answer.node_uuid)
                ctx.log.warning(
                    f"Node {name} does not answer ({err}), its files stay as they are: run gnt-cluster redist-conf "
                    "when it answers"
                )
            elif err is not None:
                ctx.log.warning(
                    f"File {file.path} on node {name} stays as it is ({err}): run gnt-cluster redist-conf when it "
                    "answers"
                )
    return silent
