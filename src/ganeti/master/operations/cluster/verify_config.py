# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_VERIFY_CONFIG: what can be seen in the configuration and on the master alone."""

from collections.abc import Iterable

from ganeti.base.errors import GanetiError
from ganeti.base.version import RELEASE
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import ErrorCodes, IgnoredErrors, Simulate, Verbose
from ganeti.master.verify import asking, backups, configuration, copies
from ganeti.master.verify.findings import Finding, Report, simulated
from ganeti.model.locks import ALL_GROUPS, ALL_INSTANCES, ALL_NETWORKS, ALL_NODE_RES, ALL_NODES, LockPlan
from ganeti.model.node_calls.replica import ReplicaState
from ganeti.model.node_calls.verify import NodeChecks, NodeVerify
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask, ask_many


@operation("OP_CLUSTER_VERIFY_CONFIG", examples=(Example("cluster-verify-config"),))
class VerifyConfiguration(Operation[bool], frozen=True, kw_only=True):
    """Verify the configuration; gives whether it has no errors."""

    debug_simulate_errors: Simulate = False
    error_codes: ErrorCodes = False
    ignore_errors: IgnoredErrors = []
    verbose: Verbose = False

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(shared=[ALL_INSTANCES, ALL_GROUPS, ALL_NODES, ALL_NODE_RES, ALL_NETWORKS])

    async def execute(self, checked: None, ctx: OperationContext) -> bool:
        report = Report(self.error_codes, self.ignore_errors)

        def tell(title: str, findings: Iterable[Finding]) -> None:
            ctx.log.info(title)
            for line in report.add(findings):
                ctx.log.info(line)

        view = ctx.config.view()
        if self.verbose:
            ctx.log.info(
                f"* Objects: {len(view.groups())} node group(s), {len(view.nodes())} node(s), "
                f"{len(view.instances())} instance(s)"
            )
        damaged = configuration.damaged_jobs(ctx.master.damaged_jobs())
        incomplete = configuration.incomplete_instances(view)
        late = backups.missing(view, ctx.clock.now_s())
        tell("* Verifying cluster config", [*configuration.consistency(view), *incomplete, *damaged, *late])
        tell("* Verifying cluster certificate files", await _certificates(ctx))
        tell("* Verifying copies of the configuration", await _copies(ctx))
        view = ctx.config.view()
        tell("* Verifying hypervisor parameters", configuration.hypervisor_parameters(view, ctx.catalogue))
        tell("* Verifying all nodes belong to an existing group", configuration.dangling(view))
        for line in copies.notes(view):
            ctx.log.info(line)
        if self.debug_simulate_errors:
            tell("* Simulated errors", simulated())
        return report.good


async def _certificates(ctx: OperationContext) -> list[Finding]:
    wanted = asking.certificates()
    master = ctx.config.view().cluster.master_node
    try:
        answer = await ask(ctx.nodes, master, NodeVerify(checks=NodeChecks(filelist=wanted)))
    except GanetiError as err:
        return list(configuration.certificates(None, wanted, str(err)))
    return list(configuration.certificates(answer.filelist or {}, wanted, None))


async def _copies(ctx: OperationContext) -> list[Finding]:
    try:
        found = await ctx.config.copies()
    except GanetiError as err:
        return [copies.unknown(str(err))]
    cluster = ctx.config.view().cluster
    answers = await ask_many(
        ctx.nodes,
        copies.behind(found),
        ReplicaState(
            cluster=cluster.uuid,
            software=RELEASE,
            epoch=found.epoch,
            master=cluster.master_node,
            time_s=ctx.clock.now_s(),
        ),
    )
    words = copies.refused_words(answers)
    return list(copies.findings(ctx.config.view(), found, words, ctx.clock.now_s()))
