# SPDX-License-Identifier: BSD-2-Clause
"""OP_OOB_COMMAND: ask about nodes, or switch their power, where the nodes themselves cannot be asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from ganeti.base.command import ASSUME_YES, NODE_GROUP, PRINT_JOBID, PRIORITY, SUBMIT, Argument, Command, Option
from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, GanetiError, PrerequisiteError
from ganeti.base.natural import natural_key
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import NodeUuids, Text
from ganeti.master.parameter import Parameter
from ganeti.master.query.fields import Status
from ganeti.model import inheritance
from ganeti.model.configuration import Draft
from ganeti.model.locks import ALL_NODES, LockPlan, node_lock
from ganeti.model.node_calls.programs import RunOob
from ganeti.model.objects import Node
from ganeti.model.power import ALARMING, CYCLE, HEALTH, OFF, ON, STATUS, Answer, PowerCommand, read_answer
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

_CALL_MARGIN_S = 10.0
Row = list[tuple[int, Any]]


class SetNodePower(Change, frozen=True, kw_only=True):
    """Note that a node's power is on, or off."""

    node_uuid: str
    powered: bool

    def apply(self, draft: Draft) -> None:
        node = draft.node(self.node_uuid)
        if node.powered != self.powered:
            draft.put("nodes", replace(node, powered=self.powered))


@dataclass(frozen=True)
class Target:
    """A node and its program; none where it has no out-of-band access."""

    node: Node
    program: str


_OF_TABLES = (
    Option(("--no-headers",), "no_headers", "flag", "no line of titles"),
    Option(("--separator",), "separator", help="between columns, which are then not padded", metavar="TEXT"),
    NODE_GROUP,
)


@operation(
    "OP_OOB_COMMAND",
    cli=(
        Command(
            "gnt-node power",
            "switch nodes on or off by their out-of-band programs, or ask whether they are on",
            arguments=(Argument("action", "on|off|cycle|status"), "node_names"),
            options=(
                Option(
                    ("--auto-promote",),
                    "auto_promote",
                    "flag",
                    "promote other nodes if candidates become too few",
                ),
                ASSUME_YES,
                *_OF_TABLES,
                SUBMIT,
                PRINT_JOBID,
                PRIORITY,
            ),
            handler="node.power:power",
            is_job=False,
        ),
        Command(
            "gnt-node health",
            "ask the out-of-band programs of nodes for their health",
            arguments=("node_names",),
            options=(*_OF_TABLES, PRIORITY),
            parameters=("timeout",),
            handler="node.power:health",
            is_job=False,
        ),
    ),
    examples=(
        Example(
            "power-off",
            {"node_names": ["node3.example.com"], "command": "power-off"},
            before=(
                {
                    "OP_ID": "OP_NODE_SET_PARAMS",
                    "node_name": "node3.example.com",
                    "force": True,
                    "offline": True,
                    "ndparams": {"oob_program": "/usr/sbin/power"},
                },
            ),
        ),
        Example("power-status", {"node_names": ["node3.example.com"], "command": "power-status"}),
    ),
)
class OutOfBandCommand(Operation[list[Row]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Run a command of nodes' out-of-band programs; gives (status, name) and (status, answer) of each node."""

    node_names: Annotated[
        list[Text], Parameter("names of nodes; all without any", subject="node", metavar="node-name")
    ] = []
    node_uuids: NodeUuids = None
    command: Annotated[PowerCommand, Parameter("what is asked of the nodes' programs")]
    timeout: Annotated[
        int,
        msgspec.Meta(ge=1, le=3600),
        Parameter("how long a program may take, in seconds", "--oob-timeout", metavar="SECONDS"),
    ] = 60
    ignore_status: Annotated[
        bool, Parameter("switch off what is not marked offline, and do not mark it", "--ignore-status")
    ] = False
    power_delay: Annotated[
        float,
        msgspec.Meta(ge=0),
        Parameter("between one node switched on and the next, in seconds", "--power-delay", metavar="SECONDS"),
    ] = 2.0

    def locks(self, view: ConfigView) -> LockPlan:
        if not self._named and self.command not in (OFF, CYCLE):
            return plan(exclusive=[ALL_NODES])
        return plan(exclusive=[node_lock(node.uuid) for node in self._nodes(view)])

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> list[Target]:
        targets = [Target(node, inheritance.node_nd(view, node)["oob_program"]) for node in self._nodes(view)]
        if self.command in (OFF, CYCLE):
            for target in targets:
                self._check_master(view, target)
        if self.command == OFF and not self.ignore_status:
            _check_offline(targets)
        return targets

    async def execute(self, checked: list[Target], ctx: OperationContext) -> list[Row]:
        rows: list[Row] = []
        switched_on = False
        for target in checked:
            status, answer = Status.UNAVAILABLE, None
            if target.program:
                if switched_on:  # what draws the most current does so at first: not all at once
                    await ctx.clock.sleep(self.power_delay)
                status, answer = await self._ask(target, ctx)
                switched_on = self.command == ON and status == Status.NORMAL
            rows.append([(Status.NORMAL, target.node.name), (status, answer)])
        return rows

    @property
    def _named(self) -> Sequence[str]:
        return self.node_uuids or self.node_names

    def _nodes(self, view: ConfigView) -> list[Node]:
        """The nodes meant, each once, in natural order; all where none is named, but no master is to be switched."""
        if self._named:
            found = {node.uuid: node for node in map(view.find_node, self._named)}
        else:
            spared = view.cluster.master_node if self.command in (OFF, CYCLE) else None
            found = {node.uuid: node for node in view.nodes() if node.uuid != spared}
        return sorted(found.values(), key=lambda node: natural_key(node.name))

    def _check_master(self, view: ConfigView, target: Target) -> None:
        if target.node.uuid != view.cluster.master_node:
            return
        way = f"use '{target.program} {self.command} {target.node.name}' if you want to do it regardless"
        raise PrerequisiteError(
            f"{self.command} is not allowed on the master node {target.node.name}: "
            f"{way if target.program else 'it has no out-of-band program either'}",
            WRONG_INPUT,
        )

    async def _ask(self, target: Target, ctx: OperationContext) -> tuple[Status, Answer]:
        node = target.node
        try:
            text = await ask(
                ctx.nodes,
                ctx.config.view().cluster.master_node,
                RunOob(
                    oob_program=target.program, command=self.command, remote_node=node.name, timeout=float(self.timeout)
                ),
                deadline_s=self.timeout + _CALL_MARGIN_S,
            )
        except GanetiError as err:
            ctx.log.warning(f"Out-of-band command {self.command} failed for node {node.name}: {err}")
            return Status.NODATA, None
        try:
            answer = read_answer(self.command, text)
        except GanetiError as err:
            ctx.log.warning(f"The answer of {target.program} about node {node.name} is not valid: {err}")
            return Status.NODATA, None
        await self._note(node, answer, ctx)
        return Status.NORMAL, answer

    async def _note(self, node: Node, answer: Answer, ctx: OperationContext) -> None:
        """Keep what is known of the node's power from now on, and warn of what needs a person."""
        if self.command in (ON, OFF):
            await ctx.config.commit(SetNodePower(node_uuid=node.uuid, powered=self.command == ON), settles=True)
        elif self.command == STATUS and isinstance(answer, dict) and answer["powered"] != node.powered:
            ctx.log.warning(
                f"Node {node.name} is recorded as {_word(node.powered)}, and is {_word(answer['powered'])}: "
                "'gnt-node modify --node-powered' corrects the record"
            )
        elif self.command == HEALTH and isinstance(answer, list):
            for item, status in answer:
                if status in ALARMING:
                    ctx.log.warning(f"Item '{item}' on node '{node.name}' has status '{status}'")


def _check_offline(targets: Sequence[Target]) -> None:
    on = [target.node.name for target in targets if not target.node.offline]
    if on:
        raise PrerequisiteError(
            f"Cannot power off {', '.join(on[:5])}{' …' if on[5:] else ''}, not marked offline: use 'gnt-node modify "
            "--offline=yes' first, or --ignore-status",
            WRONG_STATE,
        )


def _word(powered: bool) -> str:
    return "powered on" if powered else "powered off"
