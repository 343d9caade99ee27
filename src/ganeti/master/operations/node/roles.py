# SPDX-License-Identifier: BSD-2-Clause
"""The role of a node (candidate, regular, drained, offline) and what a request for flags makes of it. Pure."""

from dataclasses import dataclass

from msgspec.structs import replace

from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.master.operations.node.candidates import counts, hosted_instances, wants_another
from ganeti.model.objects import Node
from ganeti.model.view import ConfigView

ROLE_FLAGS = ("master_candidate", "drained", "offline")
"""At most one of them is true."""


@dataclass(frozen=True)
class Flags:
    """The flags asked for; None for those that are not."""

    master_candidate: bool | None = None
    drained: bool | None = None
    offline: bool | None = None
    master_capable: bool | None = None
    vm_capable: bool | None = None

    def roles(self) -> dict[str, bool | None]:
        return {name: getattr(self, name) for name in ROLE_FLAGS}


@dataclass(frozen=True)
class Decision:
    """The node as it will be, and sentences about what follows from the request."""

    node: Node
    notes: list[str]
    demoted: bool
    """It was a candidate and is none any more: others may have to take its place."""
    comes_online: bool


def decide(view: ConfigView, node: Node, flags: Flags, *, auto_promote: bool) -> Decision:
    """Give what *flags* make of *node*; raises `PrerequisiteError` for what cannot be."""
    if sum(value is True for value in flags.roles().values()) > 1:
        raise PrerequisiteError(
            "Can't set the node into more than one state at the same time: it is candidate, drained or offline",
            WRONG_INPUT,
        )
    _check_master(view, node, flags)
    _check_capabilities(view, node, flags)
    notes: list[str] = []
    master_capable = node.master_capable if flags.master_capable is None else flags.master_capable
    changed = replace(
        node,
        master_capable=master_capable,
        vm_capable=node.vm_capable if flags.vm_capable is None else flags.vm_capable,
        **_roles(view, node, flags, master_capable, notes),
    )
    if changed.master_candidate and not master_capable:
        raise PrerequisiteError(
            f"Node {node.name} is not master capable, cannot make it a master candidate: add --master-capable yes",
            WRONG_STATE,
        )
    demoted = node.master_candidate and not changed.master_candidate
    if demoted and not auto_promote:
        _check_pool(view, node)
    return Decision(changed, notes, demoted, node.offline and not changed.offline)


def _roles(view: ConfigView, node: Node, flags: Flags, master_capable: bool, notes: list[str]) -> dict[str, bool]:
    now = {name: bool(getattr(node, name)) for name in ROLE_FLAGS}
    wanted = flags.roles()
    for name, value in wanted.items():
        if value is False and not now[name]:
            notes.append(f" - INFO: Ignoring request to unset flag {name}, already unset")
    raised = next((name for name, value in wanted.items() if value is True), None)
    if raised is not None:
        return {name: name == raised for name in ROLE_FLAGS}
    result = {name: now[name] and wanted[name] is not False for name in ROLE_FLAGS}
    if not master_capable and result["master_candidate"]:
        notes.append(" - INFO: Demoting from master candidate")
        result["master_candidate"] = False
    freed = (now["drained"] and not result["drained"]) or (now["offline"] and not result["offline"])
    gained = flags.master_capable is True and not node.master_capable
    idle = not any(result.values())
    if (freed or gained) and idle and master_capable and wants_another(view, node.uuid):
        notes.append(" - INFO: Auto-promoting node to master candidate")
        result["master_candidate"] = True
    return result


def _check_master(view: ConfigView, node: Node, flags: Flags) -> None:
    if node.uuid != view.cluster.master_node:
        return
    if flags.master_candidate is False or flags.drained or flags.offline:
        raise PrerequisiteError(
            f"The master role can be changed only via master-failover: {node.name} is the master", WRONG_INPUT
        )
    if flags.master_capable is False:
        raise PrerequisiteError(
            f"The node {node.name} is the master: its master_capable flag cannot be unset", WRONG_INPUT
        )


def _check_capabilities(view: ConfigView, node: Node, flags: Flags) -> None:
    if flags.vm_capable is False:
        hosted = hosted_instances(view, node.uuid)
        if hosted:
            names = ", ".join(sorted({instance.name for instance in hosted})[:5])
            raise PrerequisiteError(
                f"Node {node.name} hosts instances ({names}), cannot unset vm_capable: move them first", WRONG_STATE
            )


def _check_pool(view: ConfigView, node: Node) -> None:
    there, wanted = counts(view, [node.uuid])
    if there < wanted:
        raise PrerequisiteError(
            "Not enough master candidates, please pass auto promote option to allow promotion (--auto-promote): "
            f"{there} would be left, there should be {wanted}",
            WRONG_STATE,
        )
