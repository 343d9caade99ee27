# SPDX-License-Identifier: BSD-2-Clause
"""Fields of node groups (rapi, section 4)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ganeti.base.natural import natural_key
from ganeti.master.query.fields import (
    JOINED,
    NUMBER,
    OTHER,
    PAIRS,
    TEXT,
    Field,
    QueryWorld,
    Resource,
    StoredRows,
    stored_fields,
    table,
)
from ganeti.master.query.parameter_fields import node_parameters
from ganeti.model import inheritance
from ganeti.model.objects import NodeGroup


@dataclass
class GroupRow:
    group: NodeGroup
    world: QueryWorld

    @cached_property
    def node_names(self) -> list[str]:
        return sorted((node.name for node in self.world.members.get(self.group.uuid, ())), key=natural_key)

    @cached_property
    def instance_names(self) -> list[str]:
        nodes = self.world.members.get(self.group.uuid, ())
        return sorted((name for node in nodes for name in self.world.primaries.get(node.uuid, ())), key=natural_key)

    @cached_property
    def node_parameters(self) -> dict[str, Any]:
        return inheritance.group_nd(self.world.view.cluster, self.group)

    @property
    def disk_parameters(self) -> dict[str, Any]:
        templates = self.world.catalogue.templates
        return {
            name: inheritance.disk_params(self.world.view.cluster, self.group, name, traits.parameters)
            for name, traits in templates.items()
        }


GROUPS = Resource(
    "group",
    "name",
    table(
        [
            Field(
                "alloc_policy",
                "AllocPolicy",
                TEXT,
                "Whether new instances go here: preferred, last_resort or unallocable",
                lambda r: r.group.alloc_policy,
            ),
            Field(
                "capacity_params",
                "CapacityParameters",
                OTHER,
                "What capacity is counted in, with values of the cluster",
                lambda r: inheritance.group_capacity(r.world.view.cluster, r.group),
            ),
            Field(
                "custom_capacity_params",
                "CustomCapacityParameters",
                OTHER,
                "What capacity is counted in, as set on the group itself",
                lambda r: r.group.capacity_params or {},
            ),
            Field(
                "custom_diskparams",
                "CustomDiskParameters",
                OTHER,
                "Disk parameters set on the group itself",
                lambda r: r.group.diskparams,
            ),
            Field(
                "custom_ipolicy",
                "CustomInstancePolicy",
                OTHER,
                "Limits for instances set on the group itself",
                lambda r: r.group.ipolicy,
            ),
            Field(
                "custom_ndparams",
                "CustomNDParams",
                OTHER,
                "Node parameters set on the group itself",
                lambda r: r.group.ndparams,
            ),
            Field("diskparams", "DiskParameters", OTHER, "Disk parameters in effect", lambda r: r.disk_parameters),
            Field(
                "ipolicy",
                "InstancePolicy",
                OTHER,
                "Limits for instances in effect",
                lambda r: inheritance.group_ipolicy(r.world.view.cluster, r.group),
            ),
            Field("name", "Group", TEXT, "Name of the node group", lambda r: r.group.name),
            Field(
                "ndparams",
                "NDParams",
                OTHER,
                "Node parameters in effect",
                lambda r: r.node_parameters,
                shown=PAIRS,
            ),
            *node_parameters(lambda r: r.node_parameters),
            Field("node_cnt", "Nodes", NUMBER, "How many nodes", lambda r: len(r.node_names)),
            Field("node_list", "NodeList", OTHER, "Names of the nodes", lambda r: r.node_names, shown=JOINED),
            Field(
                "pinst_cnt",
                "Instances",
                NUMBER,
                "How many instances have their primary node here",
                lambda r: len(r.instance_names),
            ),
            Field(
                "pinst_list",
                "InstanceList",
                OTHER,
                "Names of the instances that have their primary node here",
                lambda r: r.instance_names,
                shown=JOINED,
            ),
            *stored_fields(lambda r: r.group, "node group"),
        ]
    ),
    "Group",
    rows=StoredRows("nodegroups", GroupRow),
    plain_call="QueryGroups",
    columns="name node_cnt pinst_cnt alloc_policy ndparams",
    program="gnt-group",
    listed_as="list node groups",
)
