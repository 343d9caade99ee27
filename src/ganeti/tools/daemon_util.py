# SPDX-License-Identifier: BSD-2-Clause
"""`daemon-util`: starts, stops and checks the daemons of this node (protocols, section 1)."""

import os
import sys
from collections.abc import Callable, Sequence

from ganeti.base.errors import EXIT_NOT_MASTER
from ganeti.tools.node_daemons import MASTER_DAEMONS, Node, Refused
from ganeti.tools.start_master import start_master

USAGE = """\
Usage: daemon-util ACTION [ARGUMENTS]
  start NAME [-- ARGUMENTS]            start a daemon
  stop NAME                            stop a daemon
  check NAME                           exit 0 if the daemon runs
  check-and-start NAME [-- ARGUMENTS]  start the daemon unless it runs
  start-master [-- ARGUMENTS]          the daemons of the master; arguments of those that hold a vote
  stop-master
  start-all, stop-all                  all daemons of this node
  rotate-logs NAME, rotate-all-logs    have log files opened again
  check-config                         exit 0 if this node is part of a cluster
  check-exitcode STATUS                exit 0 if a daemon's exit status is no failure
  is-daemon-name NAME                  exit 0 if there is such a daemon
  list-start-daemons, list-stop-daemons
  reload-ssh-keys                      have sshd read its host keys again
"""


def start_daemons(node: Node, names: Sequence[str]) -> int:
    """Start several in order; a refusal because this node is not the master is no failure.

    Nor is it one if a node learns while it starts that another is the master now. Its node daemon ends what it has of a
    master, each with the word that says so, and only then has the new master's name written.
    """
    worst = 0
    for name in names:
        if node.command(name) is None or (name in MASTER_DAEMONS and not node.is_master()):
            continue
        status = node.start(name)
        if name in MASTER_DAEMONS and (status == EXIT_NOT_MASTER or (status and not node.is_master())):
            break  # the others would wait for this one
        if not is_good(status):
            print(f"daemon-util: {name} did not start (exit status {status})", file=sys.stderr)
            worst = 1
    return worst


def stop_daemons(node: Node, names: Sequence[str]) -> int:
    worst = 0
    for name in reversed(names):
        if node.command(name) is not None and node.stop(name):
            print(f"daemon-util: {name} did not stop", file=sys.stderr)
            worst = 1
    return worst


def is_good(status: int) -> bool:
    return status in (0, EXIT_NOT_MASTER)


def _start(node: Node, words: Sequence[str]) -> int:
    return node.start(node.known(_name(words)), _arguments(words))


def _stop(node: Node, words: Sequence[str]) -> int:
    return node.stop(node.known(_name(words)))


def _check(node: Node, words: Sequence[str]) -> int:
    return 0 if node.is_running(node.known(_name(words))) else 1


def _start_all(node: Node, words: Sequence[str]) -> int:
    if _check_config(node, words):
        return 1
    return start_daemons(node, node.daemons())


def _rotate_all(node: Node, words: Sequence[str]) -> int:
    return max([node.rotate_logs(name) for name in node.daemons()], default=0)


def _check_config(node: Node, words: Sequence[str]) -> int:
    missing = node.missing_files()
    for path in missing:
        print(f"daemon-util: {path} is missing: this node is not part of a cluster", file=sys.stderr)
    if node.is_of_another():
        print(
            f"daemon-util: {node.paths.data_dir} has the data of an earlier Ganeti: once this package is installed on "
            "all nodes, run /usr/lib/ganeti/tools/take-over check on the master",
            file=sys.stderr,
        )
        return 1
    return 1 if missing else 0


def _check_exit_status(node: Node, words: Sequence[str]) -> int:
    if len(words) != 1 or not words[0].isdigit():
        raise Refused("check-exitcode needs one exit status, such as 0")
    if int(words[0]) == EXIT_NOT_MASTER:
        print("not master")
    return 0 if is_good(int(words[0])) else 1


def _is_daemon_name(node: Node, words: Sequence[str]) -> int:
    return 0 if _name(words) in node.daemons() else 1


def _print_names(names: Sequence[str]) -> int:
    for name in names:
        print(name)
    return 0


def _name(words: Sequence[str]) -> str:
    if not words or words[0] == "--":
        raise Refused("Name the daemon, such as ganeti-noded")
    return words[0]


def _arguments(words: Sequence[str]) -> list[str]:
    return _given(words[1:])


def _given(words: Sequence[str]) -> list[str]:
    return list(words[1:] if words and words[0] == "--" else words)


ACTIONS: dict[str, Callable[[Node, Sequence[str]], int]] = {
    "start": _start,
    "stop": _stop,
    "check": _check,
    "check-and-start": _start,
    "start-master": lambda node, words: start_master(node, MASTER_DAEMONS, _given(words)),
    "stop-master": lambda node, words: stop_daemons(node, MASTER_DAEMONS),
    "start-all": _start_all,
    "stop-all": lambda node, words: stop_daemons(node, node.daemons()),
    "rotate-logs": lambda node, words: node.rotate_logs(node.known(_name(words))),
    "rotate-all-logs": _rotate_all,
    "check-config": _check_config,
    "check-exitcode": _check_exit_status,
    "is-daemon-name": _is_daemon_name,
    "list-start-daemons": lambda node, words: _print_names(node.daemons()),
    "list-stop-daemons": lambda node, words: _print_names(node.daemons()[::-1]),
    "reload-ssh-keys": lambda node, words: node.reload_ssh_keys(),
}


def run(words: Sequence[str], node: Node) -> int:
    """Do one action; gives the exit status."""
    if not words or words[0] in ("-h", "--help"):
        print(USAGE, end="")
        return 0 if words else 1
    action = ACTIONS.get(words[0].replace("_", "-"))
    if action is None:
        known = ", ".join(ACTIONS)
        print(f"daemon-util: there is no action '{words[0]}': give one of {known}", file=sys.stderr)
        return 1
    try:
        return action(node, words[1:])
    except (Refused, OSError) as err:
        print(f"daemon-util: {err}", file=sys.stderr)
        return 1


def main() -> int:
    return run(sys.argv[1:], Node(os.path.dirname(os.path.realpath(sys.argv[0]))))
