# SPDX-License-Identifier: BSD-2-Clause
"""The steps by which an instance gets to nodes of another node group (S1.29-S1.32). Pure.

A mirrored instance gets its secondary node there, changes the roles of its nodes, and gets another secondary node
there. In between its two nodes are in different groups: only these steps may bring that about, and where one fails,
the instance stays so until the move is completed or taken back.
"""

from collections.abc import Sequence
from typing import Any

from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.master.operations.instance.existing import require_one_group
from ganeti.master.operations.instance.moving.move_target import check_target, network_fault, require_movable
from ganeti.model.objects import Instance, Node
from ganeti.model.placement_requests import ChangeGroup
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView

Opcode = dict[str, Any]
_REPLACE, _MIGRATE = "OP_INSTANCE_REPLACE_DISKS", "OP_INSTANCE_MIGRATE"


def groups_of(view: ConfigView, instance: Instance) -> list[str]:
    """UUIDs of the node groups that an instance has nodes in, that of its primary node first."""
    return list(dict.fromkeys(view.node(uuid).group for uuid in view.instance_nodes(instance)))


def is_split(view: ConfigView, instance: Instance) -> bool:
    """Whether a move to another group was interrupted."""
    return len(groups_of(view, instance)) > 1


def question(view: ConfigView, instances: Sequence[Instance], targets: Sequence[str]) -> ChangeGroup:
    """What an allocator is asked: a group (UUID) without the networks of an instance is no target of that instance.

    Raises `PrerequisiteError` where no target is left for one of them.
    """
    unsuitable: dict[str, list[str]] = {}
    for instance in instances:
        faults = {uuid: fault for uuid in targets if (fault := network_fault(view, instance, view.group(uuid)))}
        if len(faults) == len(targets):
            raise PrerequisiteError("; ".join(faults.values()), WRONG_STATE)
        if faults:
            unsuitable[instance.name] = list(faults)
    nobodys = set(targets).intersection(*unsuitable.values()) if len(unsuitable) == len(instances) else set()
    named = [uuid for uuid in targets if uuid not in nobodys]
    return ChangeGroup(instances=[each.name for each in instances], target_groups=named, unsuitable=unsuitable)


def as_step(opcode: Opcode, *, early_release: bool) -> Opcode:
    """An allocator's *opcode* as a step of a move between groups."""
    if opcode.get("OP_ID") != _REPLACE:
        return opcode
    return opcode | {"early_release": early_release, "between_groups": True}


def joined(view: ConfigView, instance: Instance, group: str, allocator: str) -> list[Opcode]:
    """The steps after which a split instance has both nodes in *group*, one of those that it is in."""
    steps = [] if view.node(instance.primary_node).group == group else [_migrate(instance, None)]
    values = {"mode": "replace_new_secondary", "iallocator": allocator}
    return [*steps, {"OP_ID": _REPLACE, "instance_name": instance.name, **values}]


def steps_to(view: ConfigView, catalogue: Catalogue, instance: Instance, nodes: Sequence[Node]) -> list[Opcode]:
    """The steps to the primary and, where disks are mirrored, the secondary node; raises `PrerequisiteError`."""
    require_movable(view, catalogue, instance, "moved")
    _check_named(view, catalogue, instance, nodes)
    primary, *others = nodes
    if not others:
        return [_migrate(instance, primary)]
    steps = []
    here, other = instance.primary_node, view.secondary_nodes(instance)[0]
    if here != primary.uuid:
        if other != primary.uuid:
            steps.append(_replace(instance, primary))
        steps.append(_migrate(instance, None))
        other = here
    if other != others[0].uuid:
        steps.append(_replace(instance, others[0]))
    return steps


def check_steps(view: ConfigView, jobs: Sequence[Sequence[Opcode]]) -> None:
    """Refuse, before anything is copied, nodes whose group does not suit the instance; raises `PrerequisiteError`."""
    for opcode in (opcode for job in jobs for opcode in job):
        named = opcode.get("remote_node") or opcode.get("target_node")
        if not named or "instance_name" not in opcode:
            continue
        node, instance = view.find_node(named), view.find_instance(opcode["instance_name"])
        if node.group != view.node(instance.primary_node).group:
            check_target(view, instance, node.uuid, ignore_ipolicy=bool(opcode.get("ignore_ipolicy")))


def _check_named(view: ConfigView, catalogue: Catalogue, instance: Instance, nodes: Sequence[Node]) -> None:
    template = catalogue.template(view.disk_template(instance))
    if len(nodes) != template.node_count:
        words = "a primary and a secondary node: write -n PRIMARY:SECONDARY" if template.node_count > 1 else "one node"
        raise PrerequisiteError(f"{instance.name} ({template.name}) needs {words}", WRONG_INPUT)
    if len({node.uuid for node in nodes}) < len(nodes):
        raise PrerequisiteError(
            f"Primary and secondary node are both {nodes[0].name}: name two nodes, or one copy is lost with the other",
            WRONG_INPUT,
        )
    require_one_group(view, [node.uuid for node in nodes])
    for node in nodes:
        if not node.usable_for_instances:
            word = "offline" if node.offline else "drained" if node.drained else "not vm_capable"
            raise PrerequisiteError(f"Node {node.name} is {word}: choose another node", WRONG_STATE)


def _migrate(instance: Instance, target: Node | None) -> Opcode:
    opcode = {"OP_ID": _MIGRATE, "instance_name": instance.name, "allow_failover": True}
    return opcode | ({"target_node": target.name} if target is not None else {})


def _replace(instance: Instance, target: Node) -> Opcode:
    return {
        "OP_ID": _REPLACE,
        "instance_name": instance.name,
        "mode": "replace_new_secondary",
        "remote_node": target.name,
    }
