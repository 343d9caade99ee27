# SPDX-License-Identifier: BSD-2-Clause
"""The command line of `move-instance`, and its run: several instances side by side, each by itself."""

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

from ganeti.base.errors import GanetiError, ParameterError
from ganeti.tools.move_instance.cluster import PORT, Access, Cluster
from ganeti.tools.move_instance.moving import Move
from ganeti.tools.move_instance.request import MoveRequest

NAME = "move-instance"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    stop = threading.Event()

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        print(f"{NAME}: stopping; the jobs are cancelled and undo what they have begun", file=sys.stderr)
        stop.set()

    try:
        _check(options)
        wanted = _wanted(options)
        trace = _trace if options.debug else _nothing
        source, destination = (Cluster(_access(options, side), stop, trace) for side in ("src", "dest"))
    except (GanetiError, OSError) as err:
        print(f"{NAME}: {err}", file=sys.stderr)
        return 1
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask_to_stop)

    def move(name: str) -> bool:
        try:
            Move(
                source,
                destination,
                name,
                wanted,
                stop,
                _nothing if options.quiet and not options.verbose else _say,
                opportunistic_tries=options.opportunistic_tries,
                opportunistic_delay_s=options.opportunistic_delay,
            ).run()
        except GanetiError as err:
            print(f"{NAME}: {name} was not moved: {err}", file=sys.stderr, flush=True)
            return False
        print(f"{name} is on {destination.name} now", flush=True)
        return True

    with ThreadPoolExecutor(max_workers=options.parallel) as workers:
        results = list(workers.map(move, options.instances))
    return 0 if all(results) else 1


def _say(text: str) -> None:
    print(text, flush=True)


def _trace(text: str) -> None:
    print(f"{NAME}: {text}", file=sys.stderr, flush=True)


def _nothing(text: str) -> None:
    pass


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=NAME, description="Move instances from one cluster to another.")
    parser.add_argument("source", metavar="SOURCE-CLUSTER", help="name or address of the cluster that has them")
    parser.add_argument("destination", metavar="DEST-CLUSTER", help="name or address of the cluster that gets them")
    parser.add_argument("instances", nargs="+", metavar="INSTANCE")
    for prefix, words in (("src", "of the source"), ("dest", "of the destination (as of the source)")):
        parser.add_argument(f"--{prefix}-rapi-port", type=int, metavar="PORT", help=f"remote API {words}")
        parser.add_argument(f"--{prefix}-ca-file", metavar="FILE", help=f"certificate that signs the API's, {words}")
        parser.add_argument(f"--{prefix}-username", metavar="NAME", help=f"user {words}")
        parser.add_argument(
            f"--{prefix}-password-file", metavar="FILE", help=f"file with that user's password, {words}"
        )
    parser.add_argument("--dest-instance-name", default="", metavar="NAME", help="its name there (one instance only)")
    parser.add_argument("--dest-primary-node", default="", metavar="NODE", help="its node there (one instance only)")
    parser.add_argument("--dest-secondary-node", default="", metavar="NODE", help="its secondary (one instance only)")
    parser.add_argument("--dest-disk-template", default="", metavar="TEMPLATE", help="its disks there (as they are)")
    parser.add_argument("-I", "--iallocator", default="", metavar="NAME", help="allocator there (the cluster's own)")
    parser.add_argument("-B", "--backend-parameters", action="append", default=[], metavar="KEY=VALUE,…")
    parser.add_argument("-H", "--hypervisor-parameters", action="append", default=[], metavar="KEY=VALUE,…")
    parser.add_argument("-O", "--os-parameters", action="append", default=[], metavar="KEY=VALUE,…")
    parser.add_argument(
        "--net", action="append", default=[], metavar="N:KEY=VALUE,…", help="what a NIC is to have there"
    )
    parser.add_argument("--compress", default="none", help="none, or a tool that both clusters have enabled (none)")
    parser.add_argument("-p", "--parallel", type=int, default=1, metavar="NUMBER", help="how many side by side (1)")
    parser.add_argument("--opportunistic-tries", type=int, default=0, metavar="NUMBER", help="first on free nodes (0)")
    parser.add_argument("--opportunistic-delay", type=float, default=1.0, metavar="SECONDS", help="between these (1)")
    parser.add_argument("--keep-source-instance", action="store_true", help="the source keeps it, and runs it again")
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing but the end")
    parser.add_argument("-d", "--debug", action="store_true", help="tell each request, too")
    parser.add_argument("-v", "--verbose", action="store_true", help="say all the same what happens")
    return parser


def _check(options: argparse.Namespace) -> None:
    """Raises `ParameterError` before anybody is asked."""
    of_one = ("dest_instance_name", "dest_primary_node", "dest_secondary_node")
    given = [f"--{name.replace('_', '-')}" for name in of_one if getattr(options, name)]
    if len(options.instances) > 1 and given:
        raise ParameterError(f"{given[0]} is for one instance, not for {len(options.instances)}: move them one by one")
    if len(set(options.instances)) < len(options.instances):
        raise ParameterError("An instance is named twice")
    if options.dest_primary_node and options.iallocator:
        raise ParameterError("Give either --iallocator or --dest-primary-node, not both")
    if options.dest_secondary_node and not options.dest_primary_node:
        raise ParameterError("--dest-secondary-node needs --dest-primary-node")
    if options.opportunistic_tries and options.dest_primary_node:
        raise ParameterError("--opportunistic-tries is about an allocator's choice: leave --dest-primary-node out")
    if options.opportunistic_tries < 0 or options.opportunistic_delay < 0 or options.parallel < 1:
        raise ParameterError("--opportunistic-tries and --opportunistic-delay are 0 or more, --parallel 1 or more")
    same = options.source == options.destination and options.dest_rapi_port in (None, options.src_rapi_port)
    if same and not options.dest_instance_name:
        raise ParameterError("Source and destination are the same cluster: use gnt-instance move")


def _wanted(options: argparse.Namespace) -> MoveRequest:
    return MoveRequest(
        name=options.dest_instance_name,
        primary=options.dest_primary_node,
        secondary=options.dest_secondary_node,
        allocator=options.iallocator,
        template=options.dest_disk_template,
        compress=options.compress,
        beparams=_pairs(options.backend_parameters, "-B"),
        hvparams=_pairs(options.hypervisor_parameters, "-H"),
        osparams=_pairs(options.os_parameters, "-O"),
        nics=_nics(options.net),
        keeps_source=options.keep_source_instance,
    )


def _pairs(texts: Sequence[str], option: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in (pair for text in texts for pair in text.split(",") if pair):
        key, equals, value = pair.partition("=")
        if not equals:
            raise ParameterError(f"{option} {pair} must be KEY=VALUE")
        found[key] = int(value) if value.isdigit() else {"true": True, "false": False}.get(value.lower(), value)
    return found


def _nics(texts: Sequence[str]) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for text in texts:
        number, colon, values = text.partition(":")
        if not number.isdigit() or not colon:
            raise ParameterError(f"--net {text} must be N:KEY=VALUE,…, with the number of the NIC")
        found[int(number)] = {key: str(value) for key, value in _pairs([values], "--net").items()}
    return found


def _access(options: argparse.Namespace, prefix: str) -> Access:
    """What is not said of the destination is as of the source. Raises `ParameterError` for a password's file."""

    def value(name: str) -> Any:
        given = getattr(options, f"{prefix}_{name}")
        return getattr(options, f"src_{name}") if given is None else given

    password = ""
    if path := value("password_file"):
        try:
            with open(path, encoding="utf-8") as file:
                password = file.readline().rstrip("\n")
        except (OSError, UnicodeDecodeError) as err:
            raise ParameterError(f"The password file {path} cannot be read: {getattr(err, 'strerror', err)}") from err
    host = options.source if prefix == "src" else options.destination
    return Access(host, value("rapi_port") or PORT, value("ca_file") or "", value("username") or "", password)


if __name__ == "__main__":
    sys.exit(main())
