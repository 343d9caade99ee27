# SPDX-License-Identifier: BSD-2-Clause
"""Which steps that a failed job could not undo have become moot by what other jobs have done since. Pure.

A step about a guest or its disks on one node is moot once a later job has brought that instance to a state of its own
there: has started, stopped or moved it, or removed it altogether. So is every step on a node that is gone.
"""

from collections.abc import Sequence

from ganeti.master.queue.undo import FailedUndo
from ganeti.model.objects import Instance
from ganeti.model.view import ConfigView
from ganeti.wire.job_file import SUCCESS, JobFile

_ABOUT_STATE = frozenset(
    {
        "instance_disks_assemble",
        "instance_disks_shutdown",
        "instance_finalize_migration_dst",
        "instance_shutdown",
        "instance_start",
    }
)
"""Node calls after which a guest runs or not, and its disks are open or closed."""
_BRINGS_TO_A_STATE = frozenset(
    {
        "OP_INSTANCE_ACTIVATE_DISKS",
        "OP_INSTANCE_DEACTIVATE_DISKS",
        "OP_INSTANCE_FAILOVER",
        "OP_INSTANCE_MIGRATE",
        "OP_INSTANCE_MOVE",
        "OP_INSTANCE_REBOOT",
        "OP_INSTANCE_REMOVE",
        "OP_INSTANCE_SHUTDOWN",
        "OP_INSTANCE_STARTUP",
    }
)


def made_moot(given_up: Sequence[FailedUndo], failed: JobFile, later: JobFile, view: ConfigView) -> list[int]:
    """Numbers of the records of *failed* that nobody need carry out any more, now that *later* has ended."""
    return [item.number for item in given_up if _is_gone(item, view) or _is_settled(item, failed, later, view)]


def _is_gone(item: FailedUndo, view: ConfigView) -> bool:
    return bool(item.node) and view.get("nodes", item.node) is None


def _is_settled(item: FailedUndo, failed: JobFile, later: JobFile, view: ConfigView) -> bool:
    """The later job held the lock of the instance, which the failed one had until its end."""
    if item.call not in _ABOUT_STATE or failed.end_timestamp is None:
        return False
    for entry in later.ops:
        begun = entry.exec_timestamp
        if (
            entry.status == SUCCESS
            and begun is not None
            and begun >= failed.end_timestamp
            and entry.input.get("OP_ID") in _BRINGS_TO_A_STATE
            and _names(entry.input.get("instance_name"), item.instance_name)
        ):
            instance = view.get("instances", item.instance_uuid)
            return not isinstance(instance, Instance) or item.node in view.instance_nodes(instance)
    return False


def _names(asked: object, name: str) -> bool:
    """Instances may be asked for without their domain."""
    return bool(asked) and (asked == name or name.startswith(f"{asked}."))
