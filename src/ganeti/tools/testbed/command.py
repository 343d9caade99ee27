# SPDX-License-Identifier: BSD-2-Clause
"""``gnt-testbed``: a whole cluster on this machine, to try, test or measure.

    gnt-testbed up DIR [--nodes N] [--hypervisor kvm|fake] [--no-cluster] [--unprivileged] [--package FILE.deb]
                    [--ip 4|6|hybrid]
    gnt-testbed exec DIR NODE COMMAND...        gnt-testbed shell DIR [NODE]        gnt-testbed status DIR
    gnt-testbed kill|start|stop|cont|partition|heal DIR NODE                        gnt-testbed down DIR

kill pulls a node's plug, start switches it on again; stop makes it hang, cont lets it go on; partition cuts it off the
cluster LAN, heal ends that. NODE may be "hub", the wire between the nodes, in exec.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ganeti.base.errors import GanetiError, PrerequisiteError
from ganeti.tools.testbed import bed, cluster, layout, machine, network
from ganeti.tools.testbed.layout import Layout, Node


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; errors are one sentence on standard error and the exit status of their class."""
    options = _parser().parse_args(arguments)
    try:
        act: Callable[[argparse.Namespace], int] = options.act
        return act(options)
    except GanetiError as error:
        print(f"gnt-testbed: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return 130


def _up(options: argparse.Namespace) -> int:
    made = bed.up(
        options.directory,
        options.nodes,
        options.hypervisor,
        options.watcher_interval,
        options.unprivileged,
        _say,
        package=options.package,
        ip=options.ip,
    )
    if not options.no_cluster:
        try:
            cluster.create(made, say=_say)
        except GanetiError:
            _say(f"the nodes are left for a look; end them with gnt-testbed down {made.directory}")
            raise
    _say(f"up; a shell on the first node: {sys.argv[0]} shell {made.directory}")
    return 0


def _down(options: argparse.Namespace) -> int:
    bed.down(layout.load(options.directory))
    return 0


def _exec(options: argparse.Namespace) -> int:
    machine.become(layout.load(options.directory), options.node, [options.program, *options.arguments])


def _shell(options: argparse.Namespace) -> int:
    machine.become(layout.load(options.directory), options.node, ["/bin/bash", "-i"])


def _status(options: argparse.Namespace) -> int:
    found = layout.load(options.directory)
    cut_off = set() if found.unprivileged else network.partitioned(found)
    print(f"{found.directory}: {found.node_count} nodes, hypervisor {found.hypervisor}")
    for node in found.nodes:
        line = f"{node.name:<8} {node.address:<12} {machine.state(found, node)}"
        print(line + (", partitioned" if node.name in cut_off else ""))
    return 0


def _on_node(act: Callable[[Layout, Node], None]) -> Callable[[argparse.Namespace], int]:
    def on_node(options: argparse.Namespace) -> int:
        found = layout.load(options.directory)
        act(found, found.node(options.node))
        return 0

    return on_node


def _partition(found: Layout, node: Node) -> None:
    _set_lan(found, node, up=False)


def _heal(found: Layout, node: Node) -> None:
    _set_lan(found, node, up=True)


def _set_lan(found: Layout, node: Node, up: bool) -> None:
    machine.running_pid(found, node)
    if found.unprivileged:
        raise PrerequisiteError("nodes on loopback addresses have no cable; put the testbed up as root to partition it")
    network.set_lan(found, node, up)


def _say(line: str) -> None:
    print(f"testbed: {line}", flush=True)


NODE_VERBS: dict[str, tuple[Callable[[Layout, Node], None], str]] = {
    "kill": (machine.kill, "pull the plug of a node"),
    "start": (machine.start, "switch a node on again"),
    "stop": (machine.stop, "make everything in a node hang"),
    "cont": (machine.resume, "let a stopped node go on"),
    "partition": (_partition, "cut a node off the cluster LAN"),
    "heal": (_heal, "put it back on the cluster LAN"),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gnt-testbed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")

    def verb(name: str, act: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, help=text, description=text)
        added.set_defaults(act=act)
        added.add_argument("directory", type=Path, metavar="DIR")
        return added

    _add_up_options(verb("up", _up, "put up a testbed in a new directory"))
    verb("status", _status, "show the nodes")
    verb("down", _down, "end a testbed and remove everything it has made")
    run = verb("exec", _exec, "run a command in a node, and end with its exit status")
    run.add_argument("node", metavar="NODE")
    run.add_argument("program", metavar="COMMAND")
    run.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT")
    verb("shell", _shell, "open a shell in a node").add_argument("node", metavar="NODE", nargs="?", default="node1")
    for name, (act, text) in NODE_VERBS.items():
        verb(name, _on_node(act), text).add_argument("node", metavar="NODE")
    return parser


def _add_up_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, default=3, metavar="N", help="number of nodes (3)")
    parser.add_argument("--hypervisor", choices=("kvm", "fake"), default="kvm", help="kvm (the default) or fake")
    parser.add_argument("--no-cluster", action="store_true", help="leave the nodes without a cluster")
    parser.add_argument(
        "--watcher-interval", type=int, default=15, metavar="SECONDS", help="how often cron calls the watcher (15)"
    )
    parser.add_argument("--unprivileged", action="store_true", help="nodes as directories on loopback addresses")
    text = "addresses of the nodes: IPv4, IPv6, or IPv6 with IPv4 for replication (4)"
    parser.add_argument("--ip", choices=layout.IP, default="4", help=text)
    parser.add_argument("--package", type=Path, metavar="FILE", help="run what this Debian package installs (make deb)")


if __name__ == "__main__":
    sys.exit(main())
