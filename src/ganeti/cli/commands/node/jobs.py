# SPDX-License-Identifier: BSD-2-Clause
"""gnt-node migrate and failover: what moves all instances of a node."""

from __future__ import annotations

from ganeti.cli import confirm, jobs
from ganeti.cli.failures import EXIT_CONFIRMATION
from ganeti.cli.invocation import err, out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.cli.invocation import Invocation


EXIT_NOT_FAILED_OVER = 2
"""What 3.1 gives here, and only here, where the question is not answered with yes."""
_KINDS = {"all": "primary or secondary", "primary-only": "primary", "secondary-only": "secondary"}


def _primaries(call: Invocation) -> tuple[str, list[str]]:
    """Give the node's full name and its primary instances."""
    condition = ["|", ["==", "name", call.values["node_name"]]]
    row = call.client.call("Query", "node", ["name", "pinst_list"], condition)["data"][0]
    return row[0][1], row[1][1]


def migrate(call: Invocation) -> int:
    node, names = _primaries(call)
    if not names:
        out(f"No primary instances on node {node}, exiting.")
        return 0
    if not call.get("assume_yes"):
        question = f"Migrate instance(s) {_listed(names)}?"
        confirm.require(question, "give -f to go on without the question.", EXIT_CONFIRMATION)
    opcode = {"OP_ID": "OP_NODE_MIGRATE", **call.parameters("assume_yes"), "node_name": node}
    return jobs.move(call, opcode, "node migration", "migrated")


def evacuate(call: Invocation) -> int:
    """Ask, submit the job that finds the ways out, and wait for the jobs that go them."""
    mode = call.get("mode") or "all"
    if call.get("remote_node") and mode == "all":
        err("New secondary node given (disabling iallocator), hence evacuating secondary instances only.")
        mode = "secondary-only"
    condition = ["|", ["==", "name", call.values["node_name"]]]
    row = call.client.call("Query", "node", ["name", "pinst_list", "sinst_list"], condition)["data"][0]
    node, primaries, secondaries = (value for _, value in row)
    names = (primaries if mode != "secondary-only" else []) + (secondaries if mode != "primary-only" else [])
    if not names:
        err(f"No {_KINDS[mode]} instances on node {node}, exiting.")
        return 0
    if not call.get("assume_yes"):
        question = f"Relocate {_KINDS[mode]} instance(s) {_listed(sorted(set(names)))} from node {node}?"
        confirm.require(question, "give -f to go on without the question.", EXIT_CONFIRMATION)
    opcode = {"OP_ID": call.command.op_id, **call.parameters("assume_yes", "mode"), "node_name": node, "mode": mode}
    return jobs.move(call, opcode, "evacuation", "evacuated")


def failover(call: Invocation) -> int:
    """One job for each primary instance, all submitted together."""
    node, names = _primaries(call)
    if not names:
        err(f"No primary instances on node {node}, exiting.")
        return 0
    if not call.get("assume_yes"):
        question = f"Fail over instance(s) {_listed(names)}?"
        confirm.require(question, "give -f to go on without the question.", EXIT_NOT_FAILED_OVER)
    batch = jobs.Batch(call)
    for name in names:
        opcode = {
            "OP_ID": "OP_INSTANCE_FAILOVER",
            "instance_name": name,
            "ignore_consistency": bool(call.get("ignore_consistency")),
            "iallocator": call.get("iallocator"),
        }
        batch.add(name, [opcode])
    batch.finish()
    failed = sum(1 for ok, _ in batch.results if not ok)
    if failed:
        err(f"There were errors during the failover:\n{failed} error(s) out of {len(names)} instance(s).")
        return 1
    out(f"All {len(names)} instance(s) failed over successfully.")
    return 0


def _listed(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
