# SPDX-License-Identifier: BSD-2-Clause
"""Log, answer, fail or submit jobs as told: for tests of the job queue."""

from typing import Annotated, Any

from ganeti.base.errors import ExecutionError, PrerequisiteError
from ganeti.master.operation import Example, Operation, SubmitJobs, decode, operation
from ganeti.master.parameter import Parameter
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@operation(
    "OP_TEST_DUMMY",
    examples=(Example("dummy", {"result": "it", "messages": ["m"], "fail": False, "submit_jobs": None}),),
)
class TestDummy(Operation[Any], frozen=True, kw_only=True, forbid_unknown_fields=True):
    result: Annotated[Any, Parameter("what it gives", subject="text")] = None
    messages: Annotated[Any, Parameter("a list of what it says in its log", subject="text")] = None
    fail: Annotated[Any, Parameter("true, or the sentence it fails with", subject="text")] = None
    submit_jobs: Annotated[Any, Parameter("a list of jobs it submits", subject="text")] = None

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> list[list[Operation[Any]]]:
        if self.messages is not None and not isinstance(self.messages, list):
            raise PrerequisiteError("Parameter 'messages' must be a list of messages")
        if self.submit_jobs is not None and not isinstance(self.submit_jobs, list):
            raise PrerequisiteError("Parameter 'submit_jobs' must be a list of jobs, each a list of opcodes")
        return [[decode(opcode) for opcode in job] for job in self.submit_jobs or []]

    async def execute(self, checked: list[list[Operation[Any]]], ctx: OperationContext) -> Any:
        for message in self.messages or []:
            ctx.log.info(str(message))
        if self.fail:
            raise ExecutionError("This is a test failure" if self.fail is True else str(self.fail))
        if checked:
            return SubmitJobs(checked)
        return self.result
