# SPDX-License-Identifier: BSD-2-Clause
"""Filled parameters: what holds for an object once every level above it has been asked.

Orders: hypervisor parameters: built-in < cluster < OS on the cluster < instance; backend, NIC: built-in <
cluster profile ``default`` < object; node: built-in < cluster < group < node; policy: cluster < group.
"""

from typing import Any

from ganeti.model.objects import Cluster, Instance, Nic, Node, NodeGroup
from ganeti.model.parameters import BACKEND_PARAMETERS, NIC_PARAMETERS, NODE_PARAMETERS, Parameter, defaults
from ganeti.model.view import ConfigView

PROFILE = "default"
"""The one profile of backend and NIC parameters."""


def os_name(os_type: str) -> str:
    """The OS without its variant (``debian+default`` is a variant of ``debian``)."""
    return os_type.partition("+")[0]


def cluster_hv(cluster: Cluster, hypervisor: str, os_type: str, parameters: tuple[Parameter, ...]) -> dict[str, Any]:
    """Hypervisor parameters an instance of this OS would inherit."""
    filled = defaults(parameters)
    filled.update(cluster.hvparams.get(hypervisor, {}))
    filled.update(cluster.os_hvp.get(os_name(os_type), {}).get(hypervisor, {}))
    if os_type != os_name(os_type):
        filled.update(cluster.os_hvp.get(os_type, {}).get(hypervisor, {}))
    return filled


def instance_hv(cluster: Cluster, instance: Instance, parameters: tuple[Parameter, ...]) -> dict[str, Any]:
    return cluster_hv(cluster, instance.hypervisor, instance.os, parameters) | instance.hvparams


def cluster_be(cluster: Cluster) -> dict[str, Any]:
    return defaults(BACKEND_PARAMETERS) | cluster.beparams.get(PROFILE, {})


def instance_be(cluster: Cluster, instance: Instance) -> dict[str, Any]:
    return cluster_be(cluster) | instance.beparams


def cluster_nic(cluster: Cluster) -> dict[str, Any]:
    return defaults(NIC_PARAMETERS) | cluster.nicparams.get(PROFILE, {})


def nic_params(cluster: Cluster, nic: Nic, group: NodeGroup | None = None) -> dict[str, Any]:
    """NIC parameters; a NIC in a network takes mode and link from the network's connection to the group."""
    if nic.network is not None and group is not None and nic.network in group.networks:
        return defaults(NIC_PARAMETERS) | group.networks[nic.network]
    return cluster_nic(cluster) | nic.nicparams


def os_params(cluster: Cluster, instance: Instance) -> dict[str, Any]:
    filled: dict[str, Any] = dict(cluster.osparams.get(os_name(instance.os), {}))
    if instance.os != os_name(instance.os):
        filled.update(cluster.osparams.get(instance.os, {}))
    return filled | instance.osparams


def private_os_params(cluster: Cluster, instance: Instance) -> dict[str, Any]:
    filled: dict[str, Any] = dict(cluster.osparams_private_cluster.get(os_name(instance.os), {}))
    if instance.os != os_name(instance.os):
        filled.update(cluster.osparams_private_cluster.get(instance.os, {}))
    return filled | instance.osparams_private


def group_nd(cluster: Cluster, group: NodeGroup) -> dict[str, Any]:
    return defaults(NODE_PARAMETERS) | cluster.ndparams | group.ndparams


def node_nd(view: ConfigView, node: Node) -> dict[str, Any]:
    return group_nd(view.cluster, view.group(node.group)) | node.ndparams


def some_exclusive_storage(view: ConfigView) -> bool:
    """Whether nodes may have exclusive storage, so that their physical volumes matter."""
    levels = [view.cluster.ndparams, *(group.ndparams for group in view.groups())]
    levels += [node.ndparams for node in view.nodes()]
    return any(level.get("exclusive_storage") for level in levels)


def group_ipolicy(cluster: Cluster, group: NodeGroup) -> dict[str, Any]:
    return dict(cluster.ipolicy) | group.ipolicy


def group_capacity(cluster: Cluster, group: NodeGroup) -> dict[str, Any]:
    """In what capacity is counted (S1.66), as far as somebody has said it: cluster < group."""
    return {
        name: value
        for given in (cluster.capacity_params, group.capacity_params)
        for name, value in (given or {}).items()
        if value is not None
    }


def disk_params(cluster: Cluster, group: NodeGroup, template: str, parameters: tuple[Parameter, ...]) -> dict[str, Any]:
    return defaults(parameters) | cluster.diskparams.get(template, {}) | group.diskparams.get(template, {})
