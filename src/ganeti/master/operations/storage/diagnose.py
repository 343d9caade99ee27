# SPDX-License-Identifier: BSD-2-Clause
"""OP_EXT_STORAGE_DIAGNOSE: which providers of external storage the nodes have, and whether all agree."""

from typing import Annotated, Any

from ganeti.base.command import PRIORITY, Command
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.base.names import shown
from ganeti.base.natural import natural_key
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.parameters import Fields, Text
from ganeti.master.parameter import Parameter
from ganeti.model.node_calls.storage import ExtstorageDiagnose, ProviderStatus
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask_many

FIELDS = ("name", "node_status", "nodegroup_status", "parameters")
ByNode = dict[str, list[ProviderStatus]]
"""By UUID of the node: the definitions of one provider, of which the first counts."""


@operation(
    "OP_EXT_STORAGE_DIAGNOSE",
    cli=(
        Command(
            "gnt-storage diagnose",
            "show what each node says of each provider of external storage",
            options=(PRIORITY,),
            handler="storage_info:diagnose",
            is_job=False,
            parameters=(),
        ),
        Command(
            "gnt-storage info",
            "show the parameters that providers of external storage take",
            options=(PRIORITY,),
            handler="storage_info:info",
            is_job=False,
            parameters=(),
        ),
    ),
    examples=(Example("storage-diagnose", {"output_fields": ["name"]}),),
)
class DiagnoseStorage(Operation[list[list[Any]]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Compare the providers of all nodes; rows of the fields asked for, in natural order of names."""

    output_fields: Fields
    names: Annotated[list[Text], Parameter("providers to tell about; all without it")] = []

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> None:
        for field in self.output_fields:
            if field not in FIELDS:
                raise PrerequisiteError(f"Unknown field '{shown(field)}': there are {', '.join(FIELDS)}", WRONG_INPUT)

    async def execute(self, checked: None, ctx: OperationContext) -> list[list[Any]]:
        view = ctx.config.view()
        nodes = [node.uuid for node in view.nodes() if node.vm_capable and not node.offline]
        given: ByNode = {}
        for answer in await ask_many(ctx.nodes, nodes, ExtstorageDiagnose()):
            if answer.error is not None:
                ctx.log.warning(f"No word about external storage: {answer.error}")
            else:
                given[answer.node_uuid] = answer.value
        names = sorted({each.name for found in given.values() for each in found}, key=natural_key)
        wanted = [name for name in names if not self.names or name in self.names]
        return [self._row(view, name, _of_name(given, name)) for name in wanted]

    def _row(self, view: ConfigView, name: str, nodes: ByNode) -> list[Any]:
        values = {
            "name": name,
            "node_status": {view.node(uuid).name: [_told(each) for each in found] for uuid, found in nodes.items()},
            "nodegroup_status": _groups(view, nodes),
            "parameters": _parameters(nodes),
        }
        return [values[field] for field in self.output_fields]


def _of_name(given: ByNode, name: str) -> ByNode:
    return {uuid: [each for each in found if each.name == name] for uuid, found in given.items()}


def _told(each: ProviderStatus) -> list[Any]:
    return [each.path, not each.fault, each.fault, each.parameters]


def _usable(found: list[ProviderStatus]) -> bool:
    return bool(found) and not found[0].fault


def _groups(view: ConfigView, nodes: ByNode) -> dict[str, bool]:
    """Whether all nodes of a group that have answered can use it."""
    status: dict[str, bool] = {}
    for uuid, found in nodes.items():
        group = view.group(view.node(uuid).group).name
        status[group] = status.get(group, True) and _usable(found)
    return status


def _parameters(nodes: ByNode) -> list[tuple[str, str]]:
    """Those that all nodes know, where all can use it; in the order of the first node."""
    if not nodes or not all(map(_usable, nodes.values())):
        return []
    first, *others = [found[0].parameters for found in nodes.values()]
    return [each for each in first if all(each in other for other in others)]
