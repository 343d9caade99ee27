# SPDX-License-Identifier: BSD-2-Clause
"""gnt-cluster command and copyfile: what goes to all nodes over ssh, the master last or not at all.

A command runs on one node after the other, as 3.1 promises: one that restarts something must not do so everywhere at
a time, unless that is asked for. A file is copied to several nodes at a time.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

from ganeti.base.paths import Paths
from ganeti.cli import environment
from ganeti.cli.commands.listing import group_name, no_members
from ganeti.cli.failures import Failure, UsageError
from ganeti.cli.invocation import err, out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from ganeti.cli.invocation import Invocation

_LINE = "-" * 48
_COPIES_AT_A_TIME = 10
_MOST_AT_A_TIME = 100
_FIELDS = ["name", "pip", "sip", "offline", "master", "ndp/ssh_port", "group"]


class _Node:
    """One node as a command reaches it."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.name, self.primary_ip, self.secondary_ip, self.offline, self.is_master, port, self.group = values
        self.port = port or 22


def command(call: Invocation) -> int:
    """Run a shell command on each node; its output and exit status are shown, in the order of the nodes."""
    words = call.get("words") or []
    text = " ".join(words)
    if not text.strip():
        raise UsageError("gnt-cluster command needs a command, such as: gnt-cluster command uptime")
    at_a_time = call.get("parallel", 1)
    if not 1 <= at_a_time <= _MOST_AT_A_TIME:
        raise UsageError(f"--parallel must be a number of nodes from 1 to {_MOST_AT_A_TIME}")

    def words_for(node: _Node) -> list[str]:
        return ["ssh", "-n", *_settings(node, "-p"), f"root@{node.name}", text]

    nodes = online_nodes(call)
    for node, done in _on_each(nodes, words_for, at_a_time):
        if call.get("failure_only") and done.returncode == 0:
            continue
        out(_LINE)
        if call.get("show_machine_names"):
            for line in done.stdout.splitlines():
                out(f"{node.name}: {line}")
        else:
            out(f"node: {node.name}")
            out(done.stdout)
        out(f"return code = {done.returncode}")
    return 0


def copyfile(call: Invocation) -> int:
    """Copy a file to the same place on the other nodes."""
    path = call.values["filename"]
    if os.path.isdir(path):
        raise Failure(f"'{path}' is a directory: name the files in it, one at a time")
    if not os.path.isfile(path):
        raise Failure(f"There is no file '{path}' here: name one that is on the master")
    place = os.path.abspath(path)

    def words_for(node: _Node) -> list[str]:
        address = node.secondary_ip if call.get("use_replication_network") else node.name
        target = f"root@{f'[{address}]' if ':' in address else address}:{place}"
        return ["scp", "-p", "-q", *_settings(node, "-P"), "--", place, target]

    status = 0
    others = [node for node in online_nodes(call) if not node.is_master]
    for node, done in _on_each(others, words_for, _COPIES_AT_A_TIME):
        if done.returncode:
            err(f"Copy of file {place} to node {node.name} failed: {done.stdout.strip() or done.returncode}")
            status = 1
    return status


def online_nodes(call: Invocation) -> list[_Node]:
    """Those named, in the group named, or all; without those that are offline."""
    names = call.get("nodes") or []
    rows = call.client.call("Query", "node", _FIELDS, None)["data"]
    found = [_Node([value for _, value in row]) for row in rows]
    if names:
        known = call.client.call("Query", "node", ["name"], ["|", *(["==", "name", name] for name in names)])["data"]
        chosen = {row[0][1] for row in known}
        if len(known) < len(dict.fromkeys(names)):
            raise Failure(f"Not all of {', '.join(names)} are nodes: see gnt-node list")
        found = [node for node in found if node.name in chosen]
    if (word := call.get("nodegroup")) is not None:
        group = group_name(call, word)
        found = [node for node in found if node.group == group]
        if not found:
            raise no_members(group, names)
    for node in found:
        if node.offline:
            err(f"Node {node.name} is offline and left out")
    return [node for node in found if not node.offline]


def _settings(node: _Node, port: str) -> list[str]:
    """The host keys of all nodes are known under the cluster's name."""
    settings = (
        f"GlobalKnownHostsFile={Paths(environment.root()).known_hosts}",
        "UserKnownHostsFile=/dev/null",
        "HashKnownHosts=no",
        "CheckHostIP=no",
        f"HostKeyAlias={environment.ssconf('cluster_name') or ''}",
        "StrictHostKeyChecking=yes",
        "BatchMode=yes",
        "ConnectTimeout=10",
    )
    return [*(word for setting in settings for word in ("-o", setting)), port, str(node.port)]


def _on_each(
    nodes: Sequence[_Node], words_for: Callable[[_Node], list[str]], at_a_time: int
) -> Iterator[tuple[_Node, subprocess.CompletedProcess[str]]]:
    """Run something for each node, and for the master when all others have ended; gives what came of it in order.

    One at a time, the next begins when the caller has shown the last. Whoever interrupts it starts no more.
    """
    sys.stdout.flush()
    others, masters = ([node for node in nodes if bool(node.is_master) == last] for last in (False, True))
    if at_a_time == 1:
        for node in [*others, *masters]:
            yield node, _ssh(words_for(node))
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(at_a_time) as pool:
        try:
            for part in (others, masters):
                running = [(node, pool.submit(_ssh, words_for(node))) for node in part]
                for node, end in running:
                    yield node, end.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _ssh(words: list[str]) -> subprocess.CompletedProcess[str]:
    """Both streams as one text, as they come."""
    try:
        return subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError:
        raise Failure(f"The program '{shlex.quote(words[0])}' is not installed: install openssh-client") from None
