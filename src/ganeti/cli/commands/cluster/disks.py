# SPDX-License-Identifier: BSD-2-Clause
"""gnt-cluster verify-disks and repair-disk-sizes: one job a node group, so that no group waits for another."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli.invocation import err, out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.cli.invocation import Invocation


def repair_sizes(call: Invocation) -> int:
    """Instances of several groups have a job for each group; with a name that no instance has, one job judges all."""
    named = call.get("instances") or []
    condition = ["|", *(["==", "name", name] for name in named)] if named else None
    groups: dict[str, list[str]] = {}
    for (_, name), (_, group) in call.client.call("Query", "instance", ["name", "pnode.group"], condition)["data"]:
        groups.setdefault(group or "", []).append(name)
    given = call.parameters("instances")
    known = {name for names in groups.values() for name in names}
    if len(groups) < 2 or not known.issuperset(named):
        return jobs.run(call, {"OP_ID": call.command.op_id, "instances": named, **given})
    batch = jobs.Batch(call)
    for group, names in sorted(groups.items()):
        batch.add(f"group {group}", [{"OP_ID": call.command.op_id, "instances": names, **given}])
    return batch.finish()


def verify(call: Invocation) -> int:
    """Tell what the jobs of the groups find; disks that only need to be opened are opened, one job an instance."""
    batch = jobs.Batch(call)
    for ok, job in jobs.submit_or_wait(call, {"OP_ID": call.command.op_id, **call.parameters()})["jobs"]:
        batch.adopt(bool(ok), job)
    status = batch.finish()
    opening = jobs.Batch(call)
    told = [found for ok, found in batch.results if ok]
    if told and status == 0 and not any(part for results in told for part in results):
        out("No disks need to be activated.")
    for results in told:
        faults, closed, lost = results
        for node, fault in sorted(faults.items()):
            err(f"Node {node} does not say what disks it has: {fault}")
            status = 1
        for instance in closed:
            out(f"Activating disks for instance '{instance}'")
            activate = {"OP_ID": "OP_INSTANCE_ACTIVATE_DISKS", "instance_name": instance}
            opening.add(f"disks of {instance}", [activate])
        for instance, disks in sorted(lost.items()):
            err(f"Instance {instance} has lost disks; gnt-instance recreate-disks makes them anew, empty:")
            for node, disk in disks:
                err(f"  {disk} on node {node}")
            status = 1
    return max(status, opening.finish())
