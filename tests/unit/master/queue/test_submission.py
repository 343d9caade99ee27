# SPDX-License-Identifier: BSD-2-Clause
"""What a submitted job looks like in its file."""

from ganeti.master.queue.submission import new_job


def test_each_opcode_extends_the_reason_trail_it_came_with():
    given = [["gnt:client:gnt-node", "add", 1795187492162024960]]
    opcodes = [{"OP_ID": "OP_NODE_ADD", "reason": given}, {"OP_ID": "OP_TEST_DUMMY"}]
    job = new_job(9, opcodes, 1795187492.417975)
    assert job.ops[0].input["reason"] == [*given, ["gnt:opcode:node_add", "job=9;index=0", 1795187492417975000]]
    assert job.ops[1].input["reason"] == [["gnt:opcode:test_dummy", "job=9;index=1", 1795187492417975000]]
    assert opcodes[0]["reason"] is given and len(given) == 1
