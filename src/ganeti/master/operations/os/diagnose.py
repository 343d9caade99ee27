# SPDX-License-Identifier: BSD-2-Clause
"""OP_OS_DIAGNOSE: which operating systems the nodes can install, and whether all agree."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from ganeti.base.command import PRIORITY, Command, Option
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.base.natural import natural_key
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.parameters import Fields
from ganeti.master.parameter import Parameter
from ganeti.model.objects import Cluster
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import NodeAnswer

Found = dict[str, Any]
"""One node's word about one definition, as the node call `os_diagnose` gives it."""


@dataclass
class OsSummary:
    """What all nodes say about an OS."""

    name: str
    nodes: dict[str, list[Found]] = field(default_factory=dict)
    """By the uuid of the node; the first of several definitions counts."""

    def _counting(self) -> list[Found]:
        return [found[0] for found in self.nodes.values() if found]

    @property
    def valid(self) -> bool:
        return all(self.nodes.values()) and all(found["valid"] for found in self._counting())

    @property
    def variants(self) -> list[str]:
        return [name for name in self._common("variants") if isinstance(name, str)]

    @property
    def parameters(self) -> list[list[str]]:
        return self._common("parameters")

    @property
    def api_versions(self) -> list[int]:
        return self._common("api_versions")

    @property
    def trusted(self) -> bool:
        return all(found["trusted"] for found in self._counting())

    def _common(self, key: str) -> list[Any]:
        """What all nodes have, in the order of the first."""
        if not self.valid:
            return []
        first, *others = self._counting()
        return [item for item in first[key] if all(item in other[key] for other in others)]

    def node_status(self) -> dict[str, list[list[Any]]]:
        """By node: [path, valid, message, variants, parameters, API versions, trusted] of each definition."""
        keys = ("path", "valid", "message", "variants", "parameters", "api_versions", "trusted")
        return {node: [[found[key] for key in keys] for found in all_found] for node, all_found in self.nodes.items()}


FIELDS: dict[str, Callable[[OsSummary, Cluster], Any]] = {
    "name": lambda summary, cluster: summary.name,
    "valid": lambda summary, cluster: summary.valid,
    "variants": lambda summary, cluster: _visible_variants(summary, cluster),
    "parameters": lambda summary, cluster: summary.parameters,
    "api_versions": lambda summary, cluster: summary.api_versions,
    "node_status": lambda summary, cluster: summary.node_status(),
    "hidden": lambda summary, cluster: summary.name in cluster.hidden_os,
    "blacklisted": lambda summary, cluster: summary.name in cluster.blacklisted_os,
    "trusted": lambda summary, cluster: summary.trusted,
}


def _visible_variants(summary: OsSummary, cluster: Cluster) -> list[str]:
    """Variants that are not hidden or blacklisted by themselves."""
    unwanted = {*cluster.hidden_os, *cluster.blacklisted_os}
    return [variant for variant in summary.variants if f"{summary.name}+{variant}" not in unwanted]


def summarize(answers: list[NodeAnswer]) -> dict[str, OsSummary]:
    """Bring the nodes' answers together, by name of the OS; nodes without an answer do not count."""
    given = [answer for answer in answers if answer.error is None]
    names = sorted({found["name"] for answer in given for found in answer.value if found["name"]}, key=natural_key)
    return {
        name: OsSummary(
            name,
            {answer.node_uuid: [found for found in answer.value if found["name"] == name] for answer in given},
        )
        for name in names
    }


@operation(
    "OP_OS_DIAGNOSE",
    cli=Command(
        "gnt-os list",
        "list the operating systems that can be installed, with their variants",
        options=(Option(("--no-headers",), "no_headers", "flag", "no line of titles"), PRIORITY),
        handler="os_list:list_valid",
        is_job=False,
    ),
    examples=(Example("os-diagnose", {"output_fields": ["name"], "names": []}),),
)
class DiagnoseOs(Operation[list[list[Any]]], frozen=True, kw_only=True):
    """Compare the OS definitions of all nodes; rows of the fields asked for."""

    output_fields: Fields
    names: Annotated[list[str], Parameter("OSes to tell about; all without it", subject="os")] = []

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> None:
        for name in self.output_fields:
            if name not in FIELDS:
                raise PrerequisiteError(
                    f"Unknown output field '{name}': there are {', '.join(sorted(FIELDS))}", WRONG_INPUT
                )

    async def execute(self, checked: None, ctx: OperationContext) -> list[list[Any]]:
        view = ctx.config.view()
        nodes = [node.uuid for node in view.nodes() if node.vm_capable and not node.offline]
        cluster = view.cluster
        answers = await ctx.nodes.call_many(nodes, "os_diagnose")
        for answer in answers:
            if answer.error is not None:
                ctx.log.warning(f"No word about operating systems: {answer.error}")
        summaries = summarize(answers)
        wanted = [summaries[name] for name in summaries if not self.names or name in self.names]
        return [[FIELDS[name](summary, cluster) for name in self.output_fields] for summary in wanted]
