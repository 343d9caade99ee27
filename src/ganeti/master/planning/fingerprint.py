# SPDX-License-Identifier: BSD-2-Clause
"""The fingerprint of a plan: of the operation, and of all in the configuration that its locks let it rely on.

A submission may name it, in an entry of its opcode's reason trail. The engine compares under the opcode's locks, so
what was compared cannot change before the opcode acts.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from ganeti.base.errors import WRONG_STATE, PrerequisiteError
from ganeti.master.operation import Operation
from ganeti.model.locks import LockPlan, is_set_lock, lock_order
from ganeti.model.view import ConfigView

SOURCE: Final = "gnt:plan"
"""Source of the reason trail's entry that holds the fingerprint."""
_NOT_PART: Final = ("reason", "priority", "depends", "comment", "dry_run", "debug_level", "why")
_KINDS: Final = {"nodegroup": "nodegroups", "node": "nodes", "node-res": "nodes", "network": "networks"}
_EVERYTHING: Final = ("cluster", "nodegroups", "nodes", "networks", "instances", "disks")
_SECRETS: Final = ("_private", "_secret")
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def fingerprint(operation: Operation[Any], view: ConfigView) -> str:
    """Give the fingerprint of the operation and what it stands on now; all see it, so it tells no secret."""
    parameters = {name: value for name, value in operation.to_plain().items() if name not in _NOT_PART}
    seen = sorted(set(_relied_on(view, operation.locks(view))))
    return hashlib.sha256(_ENCODER.encode([without_secrets(parameters), seen])).hexdigest()[:32]


def is_fingerprint(text: str) -> bool:
    """Whether a plan could have it."""
    return re.fullmatch("[0-9a-f]{32}", text) is not None


def require(operation: Operation[Any], view: ConfigView) -> None:
    """Raises `PrerequisiteError` if the operation follows a plan and what that relied on has changed."""
    wanted = expected(operation.reason)
    if wanted is not None and wanted != fingerprint(operation, view):
        raise PrerequisiteError(
            "The cluster has changed since this was planned, or the operation is another one: make a new plan",
            WRONG_STATE,
        )


def expected(trail: Sequence[Any]) -> str | None:
    """Give the fingerprint that a reason trail names."""
    found = [entry[1] for entry in trail if isinstance(entry, list | tuple) and len(entry) > 1 and entry[0] == SOURCE]
    return str(found[-1]) if found else None


def without_plan(trail: Sequence[Any]) -> list[Any]:
    """Give the trail for jobs that a planned one makes: they are no part of its plan."""
    return [entry for entry in trail if not (isinstance(entry, list | tuple) and entry[:1] in ([SOURCE], (SOURCE,)))]


def without_secrets(value: Any) -> Any:
    """Give *value* with the names alone of what is in private and secret parameters, however deep they are.

    A short secret could be guessed from a digest that it is part of.
    """
    if isinstance(value, list | tuple):
        return [without_secrets(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _names(each) if any(word in str(key) for word in _SECRETS) else without_secrets(each)
        for key, each in value.items()
    }


def _names(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _names(each) for key, each in value.items()}
    return None


def _relied_on(view: ConfigView, plan: LockPlan) -> Iterator[tuple[str, str, int]]:
    """Kind, uuid and serial number of the objects that are locked, and of the instances on locked nodes."""
    locks = plan.shared | plan.exclusive
    nodes = {lock.partition("/")[2] for lock in locks if lock.partition("/")[0] in ("node", "node-res")}
    if not nodes or any(is_set_lock(lock) for lock in locks):
        for kind in _EVERYTHING:
            yield from (_seen(kind, uuid, view) for uuid in view.uuids(kind))
        return
    for lock in locks:
        word, _, name = lock.partition("/")
        if word in _KINDS and lock_order(lock)[1]:
            yield _seen(_KINDS[word], name, view)
        elif word == "instance" and (uuid := view.uuid_by_name("instances", name)) is not None:
            yield _seen("instances", uuid, view)
    for instance in view.instances():
        if nodes.intersection(view.instance_nodes(instance)):
            yield _seen("instances", instance.uuid, view)


def _seen(kind: str, uuid: str, view: ConfigView) -> tuple[str, str, int]:
    return kind, uuid, getattr(view.get(kind, uuid), "serial_no", 0)
