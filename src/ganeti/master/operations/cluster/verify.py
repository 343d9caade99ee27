# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_VERIFY: makes the jobs that verify the configuration and each group."""

from typing import Annotated, Any

import msgspec

from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master.operation import Operation, SubmitJobs, operation
from ganeti.master.operations.cluster.verify_config import VerifyConfiguration
from ganeti.master.operations.cluster.verify_group import VerifyGroup
from ganeti.master.verify.findings import CODES
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext

COMMENT = "Submitted by OP_CLUSTER_VERIFY"
OPTIONAL_CHECKS = ("nplusone_mem", "hvparam_assessment")
Names = Annotated[list[str], msgspec.Meta(description="names, none twice")]


@operation("OP_CLUSTER_VERIFY")
class VerifyCluster(Operation[None], frozen=True, kw_only=True):
    """Verify the cluster, or one group of it."""

    debug_simulate_errors: bool = False
    error_codes: bool = False
    skip_checks: Names = []
    ignore_errors: Names = []
    verbose: bool = False
    group_name: str | None = None
    verify_clutter: bool = False

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
