# SPDX-License-Identifier: BSD-2-Clause
"""What a submitted job looks like in its file."""

import pytest

from ganeti.base.errors import PrerequisiteError
from ganeti.master.queue.submission import new_job, read_opcodes


def test_each_opcode_extends_the_reason_trail_it_came_with():
    given = [["gnt:client:gnt-node", "add", 1795187492162024960]]
    opcodes = [{"OP_ID": "OP_NODE_ADD", "reason": given}, {"OP_ID": "OP_TEST_DUMMY"}]
    job = new_job(9, opcodes, 1795187492.417975)
    assert job.ops[0].input["reason"] == [*given, ["gnt:opcode:node_add", "job=9;index=0", 1795187492417975000]]
    assert job.ops[1].input["reason"] == [["gnt:opcode:test_dummy", "job=9;index=1", 1795187492417975000]]
    assert opcodes[0]["reason"] is given and len(given) == 1


@pytest.mark.requirement("S1.79", "S1.80")
def test_three_priorities_can_be_submitted_and_normal_is_the_default():
    now_s = 1.0

    def priority(**given):
        opcodes = [{"OP_ID": "OP_TEST_DELAY", "duration": 0, **given}]
        read_opcodes(opcodes, None, lambda job_id: None)
        return new_job(1, opcodes, now_s).ops[0].priority

    assert [priority(), *(priority(priority=number) for number in (-10, 0, 10))] == [0, -10, 0, 10]
    for number in (-20, -9, 1, 19):
        with pytest.raises(PrerequisiteError, match=f"Priority {number} cannot be submitted"):
            priority(priority=number)
