# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_VERIFY_CONFIG: what can be seen in the configuration and on the master alone."""

from collections.abc import Iterable

from ganeti.base.errors import GanetiError
from ganeti.base.paths import Paths
from ganeti.master.operation import Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.verify import configuration
from ganeti.master.verify.findings import Finding, Report, simulated
from ganeti.model.locks import ALL_GROUPS, ALL_INSTANCES, ALL_NETWORKS, ALL_NODE_RES, ALL_NODES, LockPlan
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@operation("OP_CLUSTER_VERIFY_CONFIG")
class VerifyConfiguration(Operation[bool], frozen=True, kw_only=True):
    """Verify the configuration; gives whether it has no errors."""

    debug_simulate_errors: bool = False
    error_codes: bool = False
    ignore_errors: list[str] = []
    verbose: bool = False

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(shared=[ALL_INSTANCES, ALL_GROUPS, ALL_NODES, ALL_NODE_RES, ALL_NETWORKS])

    async def execute(self, checked: None, ctx: OperationContext) -> bool:
        report = Report(self.error_codes, self.ignore_errors)

        def tell(title: str, findings: Iterable[Finding]) -> None:
            ctx.log.info(title)
            for line in report.add(findings):
                ctx.log.info(line)

        view = ctx.config.view()
        tell("* Verifying cluster config", configuration.consistency(view))
        tell("* Verifying cluster certificate files", await _certificates(ctx))
        view = ctx.config.view()
        tell("* Verifying hypervisor parameters", configuration.hypervisor_parameters(view, ctx.catalogue))
        tell("* Verifying all nodes belong to an existing group", configuration.dangling(view))
        if self.debug_simulate_errors:
            tell("* Simulated errors", simulated())
        return report.good


async def _certificates(ctx: OperationContext) -> list[Finding]:
    paths = Paths()
    wanted = [paths.server_cert, paths.client_cert, paths.authority_cert]
    master = ctx.config.view().cluster.master_node
    try:
        answer = await ctx.nodes.call(master, "node_verify", checks={"filelist": wanted})
    except GanetiError as err:
        return list(configuration.certificates(None, wanted, str(err)))
    return list(configuration.certificates(answer.get("filelist", {}), wanted, None))
