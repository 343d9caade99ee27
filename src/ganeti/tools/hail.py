# SPDX-License-Identifier: BSD-2-Clause
"""``hail``: the allocator as a program for the iallocator protocol (spec: htools, 10).

hail [OPTION...] FILE        FILE is the request, or - for standard input
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

VERSION_TEXT = "hail (ganeti) version 3.1.0"
STATIC_NODE_MEMORY_MIB = 4096


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"Command line error: {message}", file=sys.stderr)
        self.print_usage(sys.stderr)
        raise SystemExit(2)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="hail", usage="hail [OPTION...] FILE", allow_abbrev=False)
    add = parser.add_argument
    add("-V", "--version", action="store_true", help="show the version of the program")
    add("-v", "--verbose", action="count", default=0, help="increase the verbosity level")
    add("--ignore-dynu", action="store_true", help="accepted; requests carry no measured load")
    add("--ignore-soft-errors", action="store_true", help="ignore any soft restrictions")
    add("--no-capacity-checks", action="store_true", help="disable capacity checks (like global N+1 redundancy)")
    add("--restrict-allocation-to", metavar="NODE,...", help="restrict allocations to the given set of nodes")
    add("--static-kvm-node-memory", metavar="N", type=int, default=STATIC_NODE_MEMORY_MIB, help="node memory in MiB")
    add("--why", action="store_true", help="say on standard error why each other node was not chosen")
    add("files", nargs="*", metavar="FILE", help=argparse.SUPPRESS)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer the request; gives the exit status."""
    options = _parser().parse_args(arguments)
    if options.version:
        print(VERSION_TEXT)
        return 0
    if not options.files:
        return _fail("This program needs an input file.")
    if len(options.files) > 1:
        return _fail("Only one argument is accepted (the input file)")
    return _answer(options, options.files[0])


def _fail(message: str) -> int:
    print(f"Error: {message}", file=sys.stderr)
    return 1


def _answer(options: argparse.Namespace, path: str) -> int:
    from ganeti.base.errors import ParameterError
    from ganeti.placement.request import Options
    from ganeti.placement.service import answer_with_reasons
    from ganeti.wire.iallocator import Response, decode_message, encode_response

    restrict = options.restrict_allocation_to
    chosen = Options(
        ignore_soft_errors=options.ignore_soft_errors,
        capacity_checks=not options.no_capacity_checks,
        restrict_to=tuple(restrict.split(",")) if restrict else None,
    )
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        message = decode_message(data)
        found, reasons = answer_with_reasons(
            message, options=chosen, static_node_memory_mib=options.static_kvm_node_memory
        )
    except OSError as error:
        return _fail(f"{path}: {error.strerror}")
    except ParameterError as error:
        return _fail(str(error))
    sys.stdout.buffer.write(encode_response(Response(**found)))
    sys.stdout.flush()
    if options.why:
        for reason in reasons:
            print(reason, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
