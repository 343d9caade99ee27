# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_VERIFY: makes the jobs that verify the configuration and each group."""

from typing import Annotated, Any

from ganeti.base.command import DRY_RUN, PRIORITY, Command, Option
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master.operation import Example, Operation, SubmitJobs, operation
from ganeti.master.operations.cluster.verify_config import VerifyConfiguration
from ganeti.master.operations.cluster.verify_group import VerifyGroup
from ganeti.master.operations.parameters import (
    ErrorCodes,
    IgnoredErrors,
    Simulate,
    SkippedChecks,
    Text,
    Verbose,
    VerifyClutter,
)
from ganeti.master.parameter import Parameter
from ganeti.master.verify.findings import CODES
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext

COMMENT = "Submitted by OP_CLUSTER_VERIFY"
OPTIONAL_CHECKS = ("nplusone_mem", "hvparam_assessment")


@operation(
    "OP_CLUSTER_VERIFY",
    cli=Command(
        "gnt-cluster verify",
        "verify the configuration and all groups",
        options=(
            Option(("--no-nplus1-mem",), "no_nplus1_mem", "flag", "do not check the memory for failures of nodes"),
            Option(
                ("--no-hv-param-assessment",), "no_hvparam_assessment", "flag", "do not assess hypervisor parameters"
            ),
            DRY_RUN,
            PRIORITY,
        ),
        handler="cluster.info:verify",
        is_job=False,
    ),
    examples=(Example("cluster-verify"),),
)
class VerifyCluster(Operation[None], frozen=True, kw_only=True):
    """Verify the cluster, or one group of it."""

    debug_simulate_errors: Simulate = False
    error_codes: ErrorCodes = False
    skip_checks: SkippedChecks = []
    ignore_errors: IgnoredErrors = []
    verbose: Verbose = False
    group_name: Annotated[
        Text | None, Parameter("this group only", "-g", "--node-group", subject="group", metavar="GROUP")
    ] = None
    verify_clutter: VerifyClutter = False

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> list[str]:
        """Give the names of the groups to verify."""
        for code in self.ignore_errors:
            if code not in CODES:
                raise PrerequisiteError(f"Unknown error code '{code}': there are {', '.join(CODES)}", WRONG_INPUT)
        for name in self.skip_checks:
            if name not in OPTIONAL_CHECKS:
                raise PrerequisiteError(
                    f"The check '{name}' cannot be skipped: these can: {', '.join(OPTIONAL_CHECKS)}", WRONG_INPUT
                )
        if self.group_name is not None:
            return [view.find_group(self.group_name).uuid]
        return [group.uuid for group in sorted(view.groups(), key=lambda group: group.name)]

    async def execute(self, checked: list[str], ctx: OperationContext) -> SubmitJobs:
        shared: dict[str, Any] = {
            "debug_simulate_errors": self.debug_simulate_errors,
            "error_codes": self.error_codes,
            "ignore_errors": self.ignore_errors,
            "verbose": self.verbose,
            "comment": COMMENT,
            "priority": self.priority,
        }
        jobs: list[list[Operation[Any]]] = []
        if self.group_name is None:
            jobs.append([VerifyConfiguration(**shared)])
        for number, group in enumerate(checked, 1):
            depends = [[-number, []]] if self.group_name is None else None
            verify = VerifyGroup(
                group_name=group,
                skip_checks=self.skip_checks,
                verify_clutter=self.verify_clutter,
                depends=depends,
                **shared,
            )
            jobs.append([verify])
        return SubmitJobs(jobs)
