# SPDX-License-Identifier: BSD-2-Clause
"""OP_TEST_JQUEUE: messages in order, under the lock of the master's node, then success or failure."""

from __future__ import annotations

import pytest
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import ExecutionError
from ganeti.master.operations.test.job_queue import TestJobQueue
from ganeti.model.locks import node_lock


def test_messages_in_order_and_failure_at_the_end() -> None:
    ctx = FakeContext(configuration(), catalogue())
    operation = TestJobQueue(notify_waitlock=True, notify_exec=True, log_messages=["a", "b"])
    assert run(operation, ctx) is True
    assert ctx.lines == ["TESTMSG waitlock", "TESTMSG exec", "TESTMSG a", "TESTMSG b"]
    view = ctx.config.view()
    assert str(node_lock(view.cluster.master_node)) in str(operation.locks(view))
    with pytest.raises(ExecutionError, match="asked to fail"):
        run(TestJobQueue(log_messages=["c"], fail=True), ctx)
    assert ctx.lines[-1] == "TESTMSG c"
