# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_CONSOLE: how to reach the console of a running instance."""

from typing import Any

import msgspec

from ganeti.base.command import PRIORITY, Command, Option
from ganeti.base.errors import WRONG_STATE, PrerequisiteError
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.instance.existing import instance_and_nodes, require_online
from ganeti.master.operations.parameters import InstanceName, InstanceUuid
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.instances import InstanceConsoleInfo, InstanceInfo
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask


@operation(
    "OP_INSTANCE_CONSOLE",
    summary_field="instance_name",
    cli=Command(
        "gnt-instance console",
        "connect to the console",
        arguments=("instance_name",),
        options=(Option(("--show-cmd",), "show_command", "flag", "print the command instead of running it"), PRIORITY),
        handler="instance.console:console",
        is_job=False,
        needs_root=True,
    ),
    rapi="GET /2/instances/[instance_name]/console",
    examples=(Example("console", {"instance_name": "one.example.com"}, before=("create",)),),
)
class InstanceConsole(Operation[dict[str, Any]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Give the console object of an instance (protocols, section 20)."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None

    def locks(self, view: ConfigView) -> LockPlan:
        return instance_and_nodes(view, self.instance_uuid or self.instance_name, shared=True)

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> InstanceSpec:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        require_online(view, instance.primary_node, f"fail {instance.name} over to another node")
        return instance_spec(view, ctx.catalogue, instance)

    async def execute(self, checked: InstanceSpec, ctx: OperationContext) -> dict[str, Any]:
        running = await ask(ctx.nodes, checked.primary_node_uuid, InstanceInfo(instance=checked))
        if running is None:
            raise PrerequisiteError(
                f"Instance {checked.name} is not running: start it with gnt-instance startup {checked.name}",
                WRONG_STATE,
            )
        console = await ask(ctx.nodes, checked.primary_node_uuid, InstanceConsoleInfo(instance=checked))
        described: dict[str, Any] = msgspec.to_builtins(console)
        return described
