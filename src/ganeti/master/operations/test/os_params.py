# SPDX-License-Identifier: BSD-2-Clause
"""Take secret OS parameters and say that they came: for tests that they are never written down."""

from typing import Annotated, Any

from ganeti.base.command import Command
from ganeti.base.errors import ExecutionError
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.parameter import Parameter
from ganeti.ports.context import OperationContext
from ganeti.wire.job_file import REDACTED


@operation(
    "OP_TEST_OS_PARAMS",
    cli=Command("gnt-debug test-osparams", "check that secret OS parameters reach a job, and no file"),
    examples=(Example("os-params", {"osparams_secret": {"word": "secret"}}),),
)
class TestOsParams(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    osparams_secret: Annotated[
        dict[str, Any] | None, Parameter("parameters that are stored nowhere", "--os-parameters-secret", subject="text")
    ] = None

    async def execute(self, checked: Any, ctx: OperationContext) -> None:
        """Raises `ExecutionError` if a parameter came redacted: then it would not be usable either."""
        lost = [name for name, value in (self.osparams_secret or {}).items() if value == REDACTED]
        if lost:
            raise ExecutionError(f"The secret parameters {', '.join(lost)} did not reach the job")
        ctx.log.info(f"{len(self.osparams_secret or {})} secret parameters were received")
