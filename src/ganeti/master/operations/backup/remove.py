# SPDX-License-Identifier: BSD-2-Clause
"""OP_BACKUP_REMOVE: remove the export of an instance from every node; the instance itself may be gone."""

from dataclasses import dataclass
from typing import Annotated

from ganeti.base.command import Command
from ganeti.base.errors import UNKNOWN_ENTITY, PrerequisiteError
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.instance.wanted.creation_input import check_name
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import InstanceUuid
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan, instance_lock
from ganeti.model.node_calls.exports import ExportList
from ganeti.model.node_calls.exports import ExportRemove as RemoveFromNode
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask, ask_many

_EXAMPLE = {"instance_name": "one.example.com"}


@dataclass(frozen=True)
class Found:
    keepers: list[str]
    """UUIDs of the nodes that keep an export of the instance."""
    silent: list[str]
    """Sentences about nodes that could not say."""


@operation(
    "OP_BACKUP_REMOVE",
    summary_field="instance_name",
    cli=Command(
        "gnt-backup remove",
        "remove the exports of an instance, which may be gone itself",
        arguments=("instance_name",),
    ),
    examples=(Example("remove-export", _EXAMPLE, before=("create-on-file-stopped", "export-stopped")),),
)
class RemoveExport(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Remove the exports of an instance from all nodes."""

    instance_name: Annotated[
        str,
        Parameter("name of the instance, the full one if it is gone", subject="new name", metavar="instance-name"),
    ]
    instance_uuid: InstanceUuid = None

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(exclusive=[instance_lock(self._name(view))])

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Found:
        name = self._name(view)
        nodes = [node.uuid for node in view.nodes() if not node.offline]
        answers = await ask_many(ctx.nodes, nodes, ExportList())
        return Found(
            [answer.node_uuid for answer in answers if answer.error is None and name in answer.value],
            [f"node {view.node(answer.node_uuid).name}: {answer.error}" for answer in answers if answer.error],
        )

    def check(self, view: ConfigView, facts: Found, ctx: OperationContext) -> Found:
        return facts

    async def execute(self, checked: Found, ctx: OperationContext) -> None:
        name = self._name(ctx.config.view())
        for sentence in checked.silent:
            ctx.log.warning(f"An export of {name} may be left on {sentence}")
        if not checked.keepers:
            ctx.log.warning(f"No node keeps an export of {name}: give the full name of an instance that is gone")
        for uuid in checked.keepers:
            await ask(ctx.nodes, uuid, RemoveFromNode(name=name))

    def _name(self, view: ConfigView) -> str:
        """The full name; that of an instance that is gone is taken as it is."""
        if self.instance_uuid is not None:
            return view.find_instance(self.instance_uuid).name
        try:
            return view.find_instance(self.instance_name).name
        except PrerequisiteError as err:
            if err.code != UNKNOWN_ENTITY:
                raise
            return check_name(self.instance_name)
