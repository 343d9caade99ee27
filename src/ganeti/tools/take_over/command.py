# SPDX-License-Identifier: BSD-2-Clause
"""`take-over`: has this program go on managing a running cluster of Ganeti 3.0 or 3.1, or gives it back."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, GanetiError
from ganeti.base.terminal import SPEAKER
from ganeti.bootstrap.machine import Machine
from ganeti.tools.take_over.cluster_part import ClusterPart, Plan, sentences
from ganeti.tools.take_over.messages import GiveBack, Survey, Take
from ganeti.tools.take_over.node_part import NodePart
from ganeti.tools.take_over.placement_preview import placement_preview
from ganeti.tools.take_over.shadow import shadow

NAME = "take-over"
_NODE_ACTIONS = ("survey", "take", "give-back", "start", "stop")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    root = os.environ.get("GANETI_ROOTDIR", "").rstrip("/")
    machine = Machine(root, os.environ.get("GANETI_HOSTNAME", ""), lambda _: None)
    try:
        if os.geteuid() and options.action != "shadow":
            raise GanetiError("this changes keys and daemons: run it as root")
        return _ACTIONS[options.action](machine, options)
    except (GanetiError, OSError) as err:
        print(f"{os.environ.get(SPEAKER, NAME)}: {err}", file=sys.stderr)
        return 1
    except UNREADABLE_JSON as err:
        print(f"{os.environ.get(SPEAKER, NAME)}: the input cannot be read: {err}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=NAME, description="Take a running cluster of Ganeti 3.0 or 3.1 over, or give it back. Guests run on."
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("check", help="ask all nodes, say what would be done, change nothing")
    actions.add_parser("begin", help="take the cluster over and start the daemons of all nodes")
    back = actions.add_parser("back", help="end the daemons and make everything Ganeti 3.0's again")
    back.add_argument("--dry-run", action="store_true", help="ask all nodes, say what would be done, change nothing")
    copy = actions.add_parser(
        "shadow", help="check a copy of another cluster's data: show what a take-over would change"
    )
    copy.add_argument("directory", help="copy of /var/lib/ganeti of the master")
    copy.add_argument("--text-data", default="", metavar="FILE", help="what hscan says of that cluster")
    node = actions.add_parser("node", help="the part on one node, which the master runs over ssh")
    node.add_argument("step", choices=_NODE_ACTIONS)
    return parser


def _check(machine: Machine, options: argparse.Namespace) -> int:
    plan = ClusterPart(machine).plan()
    _show(plan)
    print("Nothing was changed. Next: take-over begin" if not plan.problems else "This must be put right first.")
    return 1 if plan.problems else 0


def _begin(machine: Machine, options: argparse.Namespace) -> int:
    part = ClusterPart(machine)
    plan = part.plan()
    guests = part.begin(plan, _say)
    print(f"The cluster is taken over; {len(guests)} guests run on: {', '.join(guests) or 'none'}")
    print("Next: gnt-cluster queue undrain; gnt-cluster verify; gnt-cluster watcher continue")
    return 0


def _back(machine: Machine, options: argparse.Namespace) -> int:
    part = ClusterPart(machine)
    plan = part.plan_back()
    if options.dry_run:
        _show(plan)
        print("Nothing was changed because of --dry-run")
        return 1 if plan.problems else 0
    guests = part.back(plan, _say)
    print(f"The cluster is given back; {len(guests)} guests run on: {', '.join(guests) or 'none'}")
    print("Next, on every node: install the packages of Ganeti 3.0 again, then start its daemons")
    return 0


def _shadow(machine: Machine, options: argparse.Namespace) -> int:
    lines, refused = shadow(options.directory)
    lines += ["", *(placement_preview(options.text_data) if options.text_data else _UNKNOWN_PLACEMENT)]
    print("\n".join(lines))
    return 1 if refused else 0


def _node(machine: Machine, options: argparse.Namespace) -> int:
    part, text = NodePart(machine), sys.stdin.buffer.read()
    if options.step == "survey":
        answer: msgspec.Struct = part.survey(msgspec.json.decode(text, type=Survey))
    elif options.step == "take":
        answer = part.take(msgspec.json.decode(text, type=Take))
    elif options.step == "give-back":
        answer = part.give_back(msgspec.json.decode(text, type=GiveBack))
    else:
        part.start() if options.step == "start" else part.stop()
        return 0
    sys.stdout.write(msgspec.json.encode(answer).decode())
    return 0


def _show(plan: Plan) -> None:
    for name, seen in plan.surveys.items():
        print(f"{name}: release {seen.release}, {len(seen.running)} guests run: {', '.join(seen.running) or 'none'}")
    lines = sentences("What changes in the configuration:", plan.changes)
    lines += sentences("What needs care:", plan.cares) + sentences("What speaks against it:", plan.problems)
    print("\n".join(lines))


def _say(sentence: str) -> None:
    print(sentence, flush=True)


_UNKNOWN_PLACEMENT = (
    "What placement would say:",
    "  - unknown: the configuration does not have the sizes of the nodes. Run hscan on that cluster, and give the "
    "file that it writes with --text-data",
)
_ACTIONS: dict[str, Callable[[Machine, argparse.Namespace], int]] = {
    "check": _check,
    "begin": _begin,
    "back": _back,
    "shadow": _shadow,
    "node": _node,
}

if __name__ == "__main__":
    sys.exit(main())
