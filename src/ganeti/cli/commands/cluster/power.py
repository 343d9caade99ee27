# SPDX-License-Identifier: BSD-2-Clause
"""gnt-cluster epo: stop what runs on nodes and switch them off, or switch them on and start it again."""

from __future__ import annotations

import socket
import time

from ganeti.base.paths import NODED_PORT
from ganeti.cli import confirm, jobs
from ganeti.cli.failures import Failure, UsageError
from ganeti.cli.invocation import err, out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ganeti.cli.invocation import Invocation

REACHABLE_WITHIN_S = 900.0
_LOOK_EVERY_S = 1.0
PAUSE_S, SHORT_PAUSE_S = 7 * 86400.0, 3600.0
"""How long the watcher is paused where all nodes are switched off, and where it goes on when some are."""
_FIELDS = ["name", "pip", "master", "offline", "powered", "pinst_list", "sinst_list", "group"]


class _Node:
    """One node as the command sees it."""

    def __init__(self, row: Sequence[Any]) -> None:
        values = [value for _, value in row]
        self.name, self.address, self.is_master, self.offline, self.powered, primaries, secondaries, self.group = values
        self.instances = [*(primaries or []), *(secondaries or [])]

    @property
    def has_program(self) -> bool:
        """Its recorded power is known only where a program can switch it."""
        return self.powered is not None


def epo(call: Invocation) -> int:
    """The master's instances are stopped, too; the master itself stays on, to switch the others on again."""
    nodes = _nodes(call)
    instances = _running(call, nodes)
    verb = "power on" if call.get("on") else "power off"
    if not call.get("assume_yes"):
        question = confirm.listing("nodes", [node.name for node in nodes], verb)
        confirm.require(question, "give -f to go on without the question.")
    return _switch_on(call, nodes, instances) if call.get("on") else _switch_off(call, nodes, instances)


def _nodes(call: Invocation) -> list[_Node]:
    names, everything, groups = call.get("names") or [], call.get("all"), call.get("groups")
    if everything and (groups or names):
        raise UsageError("--all takes neither names nor --groups: give one of them", 1)
    if not names and not everything:
        raise UsageError("Name the nodes, or node groups with --groups, or give --all", 1)
    field = "group" if groups else "name"
    condition = None if everything else ["|", *(["==", field, name] for name in names)]
    found = [_Node(row) for row in call.client.call("Query", "node", _FIELDS, condition)["data"]]
    if not found or (not groups and not everything and len(found) < len(set(names))):
        what = "node group" if groups else "node"
        raise Failure(f"There is no such {what} among {', '.join(names)}: see 'gnt-{what.split()[-1]} list'")
    if empty := [name for name in names if groups and name not in {node.group for node in found}]:
        raise Failure(f"No node is in a node group {' or '.join(empty)}: see 'gnt-group list'")
    return found


def _running(call: Invocation, nodes: Sequence[_Node]) -> list[str]:
    """Instances on the nodes that should run."""
    names = {name for node in nodes for name in node.instances}
    rows = call.client.call("Query", "instance", ["name", "admin_state"], None)["data"] if names else []
    return [name for (_, name), (_, state) in rows if name in names and state == "up"]


def _switch_off(call: Invocation, nodes: Sequence[_Node], instances: Sequence[str]) -> int:
    """The watcher is paused: it would start at once what stops, and nodes would lose their power under their guests."""
    before_s, everything = _paused_until(call), bool(call.get("all"))
    until_s = max(time.time() + (PAUSE_S if everything else SHORT_PAUSE_S), before_s or 0.0)
    call.client.call("SetWatcherPause", until_s)
    if everything:
        out(
            f"The watcher is paused until {time.ctime(until_s)}, so that the instances stay stopped: 'gnt-cluster epo "
            "--on' and 'gnt-cluster watcher continue' end that"
        )
    try:
        return _stop_and_switch_off(call, nodes, instances)
    finally:
        if not everything:  # what is on nodes that are off, and so marked offline, is not started
            _pause_again(call, before_s)


def _stop_and_switch_off(call: Invocation, nodes: Sequence[_Node], instances: Sequence[str]) -> int:
    timeout_s = call.get("shutdown_timeout")
    given = {} if timeout_s is None else {"timeout": timeout_s}
    stop = {"OP_ID": "OP_INSTANCE_SHUTDOWN", "no_remember": True, **given}
    if _batch(call, {name: [{**stop, "instance_name": name}] for name in instances}):
        raise Failure("Not all instances have stopped, and no node was switched off: see the jobs, then try again")
    done = {}
    for node in nodes:
        if node.is_master:
            out(f"Node {node.name} is the master and stays on")
        elif not node.has_program:
            err(f"Node {node.name} stays on: set its node parameter oob_program first")
        else:
            mark = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": node.name, "offline": True, "auto_promote": True}
            power = {"OP_ID": "OP_OOB_COMMAND", "command": "power-off", "node_names": [node.name], **_oob(call)}
            done[node.name] = [power] if node.offline else [mark, power]
    missing = any(not node.has_program and not node.is_master for node in nodes)
    return _batch(call, done) or int(missing)


def _switch_on(call: Invocation, nodes: Sequence[_Node], instances: Sequence[str]) -> int:
    names = [node.name for node in nodes if node.has_program and not node.powered]
    delay_s = call.get("power_delay")
    given = {} if delay_s is None else {"power_delay": delay_s}
    power = {"OP_ID": "OP_OOB_COMMAND", "command": "power-on", "node_names": names, **_oob(call), **given}
    if names and _batch(call, {"power": [power]}):
        raise Failure("Not all nodes were switched on: see the job, then try again")
    offline = [node for node in nodes if node.offline]
    silent = _wait_for(offline)
    marks = {
        node.name: [{"OP_ID": "OP_NODE_SET_PARAMS", "node_name": node.name, "offline": False, "auto_promote": True}]
        for node in offline
        if node not in silent
    }
    for node in silent:
        err(f"Node {node.name} does not answer after {REACHABLE_WITHIN_S:.0f} seconds: it stays marked offline")
    if _batch(call, marks) or silent:
        raise Failure("Not all nodes are back, and no instance was started: bring them back, then try again")
    start = {"OP_ID": "OP_INSTANCE_STARTUP", "no_remember": True}
    status = _batch(call, {name: [{**start, "instance_name": name}] for name in instances})
    if _paused_until(call) is not None:
        call.client.call("SetWatcherPause", None)
        out("The watcher is no longer paused.")
    return status


def _pause_again(call: Invocation, until_s: float | None) -> None:
    still = until_s is not None and until_s > time.time()
    call.client.call("SetWatcherPause", until_s if still else None)


def _paused_until(call: Invocation) -> float | None:
    found: float | None = call.client.call("QueryConfigValues", ["watcher_pause"])[0]
    return found


def _oob(call: Invocation) -> dict[str, Any]:
    timeout_s = call.get("oob_timeout")
    return {} if timeout_s is None else {"timeout": timeout_s}


def _batch(call: Invocation, opcodes: dict[str, list[dict[str, Any]]]) -> int:
    """One job for each entry, all at once; gives the exit status."""
    batch = jobs.Batch(call)
    for name, job in opcodes.items():
        batch.add(name, job)
    return batch.finish() if opcodes else 0


def _wait_for(nodes: Sequence[_Node]) -> list[_Node]:
    """Wait until the node daemons take connections; gives the nodes where that took too long."""
    deadline, silent = time.monotonic() + REACHABLE_WITHIN_S, list(nodes)
    while silent and time.monotonic() < deadline:
        silent = [node for node in silent if not _answers(node.address)]
        if silent:
            time.sleep(_LOOK_EVERY_S)
    return silent


def _answers(address: str) -> bool:
    try:
        socket.create_connection((address, NODED_PORT), _LOOK_EVERY_S).close()
    except OSError:
        return False
    return True
