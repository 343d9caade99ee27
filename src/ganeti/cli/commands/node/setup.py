# SPDX-License-Identifier: BSD-2-Clause
"""gnt-node add: make the machine a node over ssh, then let the cluster take it in (protocols, section 25)."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli.commands.bootstrap_calls import begin_joining, offer_token, take_up_token
from ganeti.cli.failures import Failure, ServerError
from ganeti.cli.infotext import scalar
from ganeti.cli.invocation import err, out
from ganeti.cli.values import RESET, read_int

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.commands.bootstrap_calls import AnyJoining
    from ganeti.cli.invocation import Invocation


SSH_PORT = 22
_OWN_OPTIONS = ("readd", "no_ssh_key_check", "force_join", "no_node_setup", "verbose", "port", "timeout")


def add(call: Invocation) -> int:
    name = call.values["node_name"]
    readd = bool(call.get("readd"))
    cluster_name = _check_membership(call, name, readd)
    if readd and (call.get("ndparams") or call.get("group")):
        err("Group and node parameters stay as they are when a node is added again: use 'gnt-node modify'")
    join_options = {
        "node_name": name,
        "cluster_name": cluster_name,
        "readd": readd,
        "force_join": bool(call.get("force_join")),
        "node_setup": not call.get("no_node_setup"),
        "ssh_key_check": not call.get("no_ssh_key_check"),
        "ssh_port": _ssh_port(call),
        "verbose": bool(call.get("verbose")),
        "debug": bool(call.get("debug")),
    }
    joining = begin_joining(join_options)
    try:
        # What the master would refuse, it shall refuse before the machine is changed.
        jobs.ask(call, {**opcode(call), "dry_run": True})
        joining.set_up()
        return _take_in(call, joining)
    finally:
        joining.close()


def _take_in(call: Invocation, joining: AnyJoining) -> int:
    """Ask the cluster to take in the machine, which is set up, and tell it how that ended."""
    joining.asks_cluster()
    try:
        status = jobs.run(call, opcode(call))
    except ServerError as error:
        if _is_no_node(call, call.values["node_name"], bool(call.get("readd")), error):
            joining.take_back()
        raise
    joining.keep()
    return status


def _is_no_node(call: Invocation, name: str, readd: bool, error: ServerError) -> bool:
    """Whether the job left the machine outside: one that failed late, or is lost, may have taken it in before."""
    if readd:
        return error.name == "OpPrereqError"
    return error.name != "JobLost" and not _is_member(call, name)


def token(call: Invocation) -> int:
    """Wait for the machine that comes with the token, then have the cluster take it in."""
    _check_membership(call, call.values["node_name"], bool(call.get("readd")))
    jobs.ask(call, {**opcode(call), "dry_run": True})
    call.client.close()  # until the machine has come
    options = {
        "node_name": call.values["node_name"],
        "node_setup": not call.get("no_node_setup"),
        "port": call.get("port"),
        "timeout": call.get("timeout"),
    }
    joining = offer_token(options, lambda line: out(f"Run on {options['node_name']}, as root:\n  {line}"))
    try:
        return _take_in(call, joining)
    finally:
        joining.close()


def join_cluster(call: Invocation) -> int:
    """Take this machine into a cluster; a token that is not among the arguments is read from standard input."""
    given = call.get("token")
    if not given:
        import sys

        if sys.stdin.isatty():
            sys.stderr.write("Token: ")
            sys.stderr.flush()
        given = sys.stdin.readline()
    if take_up_token(call.values["master"], given):
        out("This machine is a node of the cluster now")
    else:
        out("This machine is set up; the master has not reported how its job ended: look there, with gnt-node list")
    return 0


def opcode(call: Invocation) -> dict[str, Any]:
    return {
        "OP_ID": "OP_NODE_ADD",
        "readd": bool(call.get("readd")),
        "node_setup": not call.get("no_node_setup"),
        **call.parameters(*_OWN_OPTIONS),
    }


def _ssh_port(call: Invocation) -> int:
    given = (call.get("ndparams") or {}).get("ssh_port", RESET)
    return SSH_PORT if given == RESET else read_int("--node-parameters: ssh_port", str(given))


def _check_membership(call: Invocation, name: str, readd: bool) -> str:
    """Refuse early what the operation would refuse after the machine has been changed; gives the cluster's name."""
    member = _is_member(call, name)
    if member and not readd:
        raise Failure(f"Node {name} already in the cluster - please retry with '--readd'")
    if readd and not member:
        raise Failure(f"Node {name} not in the cluster - please retry without '--readd'")
    cluster_name: str = call.client.call("QueryConfigValues", ["cluster_name"])[0]
    return cluster_name


def _is_member(call: Invocation, name: str) -> bool:
    answer = call.client.call("Query", "node", ["name"], None)
    names = [scalar(row[0][1]) for row in answer["data"]]
    return any(known == name or known.startswith(name + ".") for known in names)
