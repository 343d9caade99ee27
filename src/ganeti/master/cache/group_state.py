# SPDX-License-Identifier: BSD-2-Clause
"""What is known of one node group, as `OP_UPDATE_NODE_GROUP_CACHE` gives it (S1.39, S1.40, S1.54). Pure."""

from collections.abc import Sequence
from typing import Any

from ganeti.master.query.fields import Resource
from ganeti.master.query.instance_rows import InstanceRow
from ganeti.master.query.nodes import NodeRow
from ganeti.master.query.running import cell
from ganeti.model.objects import NodeGroup

NODE_FIELDS = ("offline", "bootid", "mtotal", "mnode", "mfree", "ctotal", "cnos", "dtotal", "dfree")
INSTANCE_FIELDS = ("pnode", "status", "oper_ram")
_VALUE = 1

Plain = dict[str, Any]


def group_state(
    group: NodeGroup,
    nodes: Sequence[NodeRow],
    instances: Sequence[InstanceRow],
    node_resource: Resource,
    instance_resource: Resource,
) -> Plain:
    """Plain values of the fields above by name, null where there is none; sizes in MiB.

    Only the group's nodes were asked: an instance whose guest runs in another group is said to be down.
    """
    return {
        "group": {"name": group.name, "uuid": group.uuid},
        "nodes": {row.node.name: _values(node_resource, NODE_FIELDS, row) for row in nodes},
        "instances": {row.instance.name: _values(instance_resource, INSTANCE_FIELDS, row) for row in instances},
    }


def _values(resource: Resource, names: Sequence[str], row: Any) -> Plain:
    return {name: cell(resource.fields[name], row)[_VALUE] for name in names}
