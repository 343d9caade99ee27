# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_QUERY_DATA: everything about instances, disks' state included (opcodes, "result shapes")."""

from typing import Annotated, Any

from ganeti.base.command import PRIORITY, Command, Option
from ganeti.base.natural import natural_key
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.instance.disks.described_disks import NOT_ASKED, describe
from ganeti.master.operations.instance.live_states import LiveState, ask_live
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model import inheritance
from ganeti.model.locks import ALL_INSTANCES, LockPlan, instance_lock
from ganeti.model.objects import Instance, Nic
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@operation(
    "OP_INSTANCE_QUERY_DATA",
    cli=Command(
        "gnt-instance info",
        "show details of instances",
        aliases=("show",),
        arguments=("instances",),
        options=(
            Option(("--all",), "all", "flag", "every instance"),
            Option(("--roman",), "roman", "flag", "roman numerals"),
            PRIORITY,
        ),
        handler="instance.info:info",
        is_job=False,
    ),
    rapi="GET /2/instances/[instance_name]/info",
    examples=(Example("query-data", {"use_locking": True, "instances": []}, before=("create",)),),
)
class QueryInstanceData(Operation[dict[str, Any]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Give full data of instances; *static* asks no node."""

    use_locking: Annotated[bool, Parameter("hold the instances still meanwhile")] = False
    instances: Annotated[
        list[Text], Parameter("names of instances; all without any", subject="instance", metavar="instance-name")
    ] = []
    static: Annotated[bool, Parameter("only what the configuration knows; asks no node", "-s", "--static")] = False

    def locks(self, view: ConfigView) -> LockPlan:
        if not self.use_locking:
            return LockPlan()
        if not self.instances:
            return plan(shared=[ALL_INSTANCES])
        return plan(shared=[instance_lock(view.find_instance(name).name) for name in self.instances])

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> list[str]:
        if self.instances:
            return [view.find_instance(name).uuid for name in self.instances]
        return [instance.uuid for instance in sorted(view.instances(), key=lambda one: natural_key(one.name))]

    async def execute(self, checked: list[str], ctx: OperationContext) -> dict[str, Any]:
        live = {} if self.static else await ask_live(ctx, checked)
        view = ctx.config.view()
        result: dict[str, Any] = {}
        for uuid in checked:
            instance = view.instance(uuid)
            result[instance.name] = _describe(view, ctx, instance, live.get(uuid))
        return result


def _run_state(instance: Instance, state: LiveState | None) -> str | None:
    if state is None:
        return None
    if state.guest is not None:
        return "up"
    return "offline" if instance.admin_state == "offline" else "down"


def _describe(view: ConfigView, ctx: OperationContext, instance: Instance, state: LiveState | None) -> dict[str, Any]:
    """*state* is null where the primary node was not asked, or has not answered: whether the guest runs is unknown."""
    cluster = view.cluster
    group = view.group(view.node(instance.primary_node).group)
    secondaries = [view.node(uuid) for uuid in view.secondary_nodes(instance)]
    parameters = ctx.catalogue.hypervisor(instance.hypervisor).parameters
    own = {parameter.name for parameter in parameters if not parameter.cluster_only}
    filled = inheritance.instance_hv(cluster, instance, parameters)
    statuses = () if state is None else state.disks
    if len(statuses) != len(instance.disks):  # without locks: a disk came or went after the nodes were asked
        statuses = (NOT_ASKED,) * len(instance.disks)
    return {
        "name": instance.name,
        "uuid": instance.uuid,
        "config_state": instance.admin_state,
        "run_state": _run_state(instance, state),
        "pnode": view.node(instance.primary_node).name,
        "pnode_group_uuid": group.uuid,
        "pnode_group_name": group.name,
        "snodes": [[node.name] for node in secondaries],
        "snodes_group_uuids": [node.group for node in secondaries],
        "snodes_group_names": [view.group(node.group).name for node in secondaries],
        "os": instance.os,
        "nics": [_describe_nic(view, nic) for nic in instance.nics],
        "disk_template": view.disk_template(instance),
        "disks": [
            describe(view, instance, disk, states)
            for disk, states in zip(view.instance_disks(instance), statuses, strict=True)
        ],
        "hypervisor": instance.hypervisor,
        "network_port": instance.network_port,
        "hv_instance": instance.hvparams,
        "hv_actual": {name: value for name, value in filled.items() if name in own},
        "be_instance": instance.beparams,
        "be_actual": inheritance.instance_be(cluster, instance),
        "os_instance": instance.osparams,
        "os_actual": inheritance.os_params(cluster, instance),
        "serial_no": instance.serial_no,
        "mtime": instance.mtime,
        "ctime": instance.ctime,
    }


def _describe_nic(view: ConfigView, nic: Nic) -> list[Any]:
    filled = inheritance.nic_params(view.cluster, nic)
    network = view.network(nic.network) if nic.network else None
    info = network.to_plain() if network else None
    return [
        nic.name,
        nic.uuid,
        nic.ip,
        nic.mac,
        filled["mode"],
        filled["link"],
        filled["vlan"],
        network.name if network else None,
        info,
    ]
