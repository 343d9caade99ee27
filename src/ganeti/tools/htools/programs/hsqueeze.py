# SPDX-License-Identifier: BSD-2-Clause
"""``hsqueeze``: which nodes can be switched off, or must be switched on (spec: htools, 14)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ganeti.tools.htools.haskell.failures import ToolError
from ganeti.tools.htools.printing import report
from ganeti.tools.htools.programs import commands, program

if TYPE_CHECKING:
    from ganeti.placement.balance.squeeze import Plan
    from ganeti.placement.cluster.picture import Cluster
    from ganeti.placement.kernel.state import ClusterState
    from ganeti.tools.htools.command_line.options import Options
    from ganeti.tools.htools.loading.sources import Loaded
    from ganeti.tools.htools.programs.execution import JobSet, Opcode

LOUD = 2
NOTHING, ONLINE, OFFLINE = "nothing", "online", "offline"
_SWITCH_TIMEOUT_S, _BETWEEN_NODES_S = 60, 2
_TITLES = {NOTHING: "'No action'", ONLINE: "'Nodes to online'", OFFLINE: "'Nodes to offline'"}
_WHEN = {
    NOTHING: "after hsqueeze doing nothing",
    ONLINE: "after hsqueeze expansion",
    OFFLINE: "after hsqueeze run",
}


@dataclass(frozen=True)
class Decision:
    """What is to be done: *kind* is one of `NOTHING`, `ONLINE`, `OFFLINE`."""

    kind: str
    plan: "Plan"


def squeeze_cluster(options: "Options") -> int:
    """Load the cluster, decide, and tell or do it; gives the exit status."""
    from ganeti.tools.htools.loading.sources import load

    loaded = load(options)
    decision = _decide(options, loaded)
    state = decision.plan.state
    if options.headers:
        print(_TITLES[decision.kind])
    for node in decision.plan.nodes:
        print(state.name_of(node))
    if options.verbosity >= LOUD and not decision.plan.enough:
        print("Onlining all nodes will not yield enough capacity")
    if options.print_commands:
        _give_commands(decision, loaded, options.commands_file)
    _execute(options, decision)
    part = (state.everyone(), range(len(state.instances)))
    report.save_state(options, state, loaded, ("squeezed", _WHEN[decision.kind]), part, decision.plan.steps)
    return 0


def _decide(options: "Options", loaded: "Loaded") -> Decision:
    from ganeti.placement.balance import squeeze

    squeezing = squeeze.Squeezing(loaded.cluster, _builder(loaded), loaded.movable)
    state = squeezing.start
    candidates = squeeze.offline_candidates(state, loaded.masters)
    standby = squeeze.online_candidates(state)
    report.save_state(options, state, loaded, ("original", "before hsqueeze run"))
    if options.verbosity >= LOUD:
        print(f"Offline candidates: {_names(state, candidates)}")
        print(f"Online candidates: {_names(state, standby)}")
    standard = loaded.cluster.policy.standard
    least = squeeze.spare_instance(standard, options.minimal_resources)
    if not squeezing.fits(state, least):
        return Decision(ONLINE, squeezing.switch_on(standby, least))
    plan = squeezing.switch_off(candidates, squeeze.spare_instance(standard, options.target_resources))
    return Decision(OFFLINE if plan.nodes else NOTHING, plan)


def _builder(loaded: "Loaded") -> "Callable[[Cluster], ClusterState]":
    from dataclasses import replace

    return lambda cluster: replace(loaded, cluster=cluster).state()


def _names(state: "ClusterState", nodes: Sequence[int]) -> str:
    return ",".join(state.name_of(node) for node in nodes)


def _give_commands(decision: Decision, loaded: "Loaded", path: str | None) -> None:
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            text = commands.script_of(command_lines(decision, loaded, check=True))
            file.write(text.rstrip("\n") if decision.kind == NOTHING else text)  # as 3.1 does
        print(f"The commands have been written to file '{path}'")
        return
    print("\nCommands to run:")
    for line in command_lines(decision, loaded):
        print(f"  {line}")


def command_lines(decision: Decision, loaded: "Loaded", *, check: bool = False) -> list[str]:
    """What carries out the decision; with *check* a script stops between jobs when it is asked to."""
    from ganeti.placement.balance.squeeze import STANDBY_TAG
    from ganeti.placement.balance.steps import job_sets

    if decision.kind == NOTHING:
        return ["echo Nothing to do"]
    state = decision.plan.state

    def alias(name: str) -> str:  # 3.1 shortens the names of nodes here, but not those of instances
        return loaded.alias_of(name) if name in state.node_number else name

    moves = commands.command_lines(state, job_sets(decision.plan.steps), alias, check=check)
    names = [alias(state.name_of(node)) for node in decision.plan.nodes]
    if decision.kind == ONLINE:
        return ["echo Power Commands", *(f"  gnt-node power -f on {name}" for name in names), *moves]
    return [
        *moves,
        *("", "echo Tagging Commands", *(f"  gnt-node add-tags {name} {STANDBY_TAG}" for name in names)),
        *("", "echo Power Commands", *(f"  gnt-node power -f off {name}" for name in names)),
    ]


def job_sets(decision: Decision) -> "list[JobSet]":
    """What carries out the decision by jobs: each node is tagged before any is switched off, as 3.0 does it."""
    from ganeti.placement.balance import steps as moves
    from ganeti.placement.balance.squeeze import STANDBY_TAG
    from ganeti.tools.htools.programs.execution import JobSet, job_set

    state = decision.plan.state
    names = [state.name_of(node) for node in decision.plan.nodes]
    moving = [job_set(state, steps, "Moving instances") for steps in moves.job_sets(decision.plan.steps)]
    if not names:
        return moving
    if decision.kind == ONLINE:
        return [JobSet("Powering on nodes", [_switch(names, decision.kind)]), *moving]
    tag = {"OP_ID": "OP_TAGS_SET", "kind": "node", "tags": [STANDBY_TAG]}
    tagging = [JobSet(f"Tagging node {name} with standby", [[tag | {"name": name}]]) for name in names]
    return [*moving, *tagging, JobSet("Powering off nodes", [_switch(names, decision.kind)])]


def _switch(names: list[str], kind: str) -> "list[Opcode]":
    """The job that tells the cluster of nodes that come or go, and has their power switched.

    A node that was switched off must be on before the master takes it for online; 3.0 asks too early, and fails.
    """
    off = kind == OFFLINE
    flags = {"force": False, "offline": off, "auto_promote": False}
    telling = [{"OP_ID": "OP_NODE_SET_PARAMS", "node_name": name, **flags} for name in names]
    how = {"timeout": _SWITCH_TIMEOUT_S, "ignore_status": False, "power_delay": _BETWEEN_NODES_S}
    power = {"OP_ID": "OP_OOB_COMMAND", "node_names": names, "command": "power-off" if off else "power-on", **how}
    return [*telling, power] if off else [power, *telling]


def _execute(options: "Options", decision: Decision) -> None:
    """Carry out the decision with ``-X``; where nothing is to be done nothing is asked for."""
    if not options.execute or decision.kind == NOTHING:
        return
    if options.luxi is None:
        raise ToolError("hsqueeze: Execution of commands possible only on LUXI")
    from ganeti.tools.htools.programs import execution

    verb = "condensing" if decision.kind == OFFLINE else "expanding"
    origin = execution.Origin("hsqueeze", f"{verb} by {len(decision.plan.nodes)} nodes", named=False)
    execution.execute(options.luxi, job_sets(decision), origin)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit status."""
    return program.run("hsqueeze", arguments, squeeze_cluster)
