# SPDX-License-Identifier: BSD-2-Clause
"""OP_TEST_JQUEUE: write log messages while holding a lock, then succeed or fail: for tests of the job queue."""

from typing import Annotated

from ganeti.base.command import PRIORITY, Command
from ganeti.base.errors import ExecutionError
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan, node_lock
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext

MARK = "TESTMSG"
"""Begins each message of a test."""


@operation(
    "OP_TEST_JQUEUE",
    cli=Command(
        "gnt-debug test-jobqueue",
        "check that jobs wait, log, end and fail as they should",
        options=(PRIORITY,),
        handler="debug.queue:test",
        is_job=False,
        parameters=(),
    ),
    examples=(Example("job-queue", {"log_messages": ["one", "two"], "notify_exec": True}),),
)
class TestJobQueue(Operation[bool], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Log the messages in their order; gives true."""

    notify_waitlock: Annotated[bool, Parameter("log a message when the locks are there")] = False
    notify_exec: Annotated[bool, Parameter("log a message when the work begins")] = False
    log_messages: Annotated[list[Text], Parameter("messages to log")] = []
    fail: Annotated[bool, Parameter("fail at the end")] = False

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(exclusive=[node_lock(view.cluster.master_node)])

    async def execute(self, checked: None, ctx: OperationContext) -> bool:
        stages = [word for word, told in (("waitlock", self.notify_waitlock), ("exec", self.notify_exec)) if told]
        for message in (*stages, *self.log_messages):
            ctx.log.info(f"{MARK} {message}")
        if self.fail:
            raise ExecutionError("This job was asked to fail")
        return True
