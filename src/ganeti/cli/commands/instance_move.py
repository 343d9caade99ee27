# SPDX-License-Identifier: BSD-2-Clause
"""gnt-instance migrate, failover and remove: what asks before it acts on one instance."""

from __future__ import annotations

from ganeti.cli import confirm, jobs
from ganeti.cli.failures import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation


def migrate(call: Invocation) -> int:
    parameters = migration_parameters(call)
    if call.get("why"):
        return jobs.run(call, {"OP_ID": "OP_INSTANCE_MIGRATE", **parameters, "dry_run": True})
    if call.get("cleanup"):
        _ask(
            call,
            "Instance {} will be recovered from an interrupted migration. This may change where it runs. Continue?",
        )
    else:
        _ask(
            call,
            "Instance {} will be migrated. If something goes wrong in the hypervisor, the guest may stop. Continue?",
        )
    return jobs.run(call, {"OP_ID": "OP_INSTANCE_MIGRATE", **parameters})


def migration_parameters(call: Invocation) -> dict[str, Any]:
    """Check and translate what migrations of one instance and of a whole node have in common."""
    check_target(call)
    parameters = call.parameters("assume_yes", "non_live")
    if call.get("non_live"):
        if call.get("mode"):
            raise UsageError("--non-live and --migration-mode exclude each other: keep the second")
        parameters["mode"] = "non-live"
    return parameters


def check_target(call: Invocation) -> None:
    if call.get("target_node") and call.get("iallocator"):
        raise UsageError("-n and -I exclude each other: name a node or an allocator")


def failover(call: Invocation) -> int:
    check_target(call)
    if call.get("why"):
        return jobs.run(call, {"OP_ID": "OP_INSTANCE_FAILOVER", **call.parameters("assume_yes"), "dry_run": True})
    if call.get("cleanup"):
        _ask(
            call, "Instance {} will be recovered from an interrupted failover. This may change where it runs. Continue?"
        )
    else:
        _ask(call, "Failover will happen to instance {}: it is stopped and started on another node. Continue?")
    return jobs.run(call, {"OP_ID": "OP_INSTANCE_FAILOVER", **call.parameters("assume_yes")})


def remove(call: Invocation) -> int:
    _ask(call, "This will remove the instance {} and all data on its disks. Continue?")
    return jobs.run(call, {"OP_ID": "OP_INSTANCE_REMOVE", **call.parameters("assume_yes")})


def _ask(call: Invocation, question: str) -> None:
    """Ask about the instance, after making sure that there is such an instance."""
    if call.get("assume_yes"):
        return
    name = call.values["instance_name"]
    answer = call.client.call("Query", "instance", ["name"], ["|", ["==", "name", name]])
    full_name = answer["data"][0][0][1] if answer["data"] else name
    confirm.require(question.format(full_name), "give -f to go on without the question.")
