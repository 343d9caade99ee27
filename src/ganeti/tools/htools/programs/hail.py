# SPDX-License-Identifier: BSD-2-Clause
"""``hail``: the allocator as a program for the iallocator protocol (spec: htools, 10).

Its argument is the request, or ``-`` for standard input. The cluster is the one of the request, unless ``-t`` or
``--simulate`` name another.
"""

import sys
from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from ganeti.tools.htools.haskell.endless import read_file, read_stream
from ganeti.tools.htools.haskell.failures import ToolError
from ganeti.tools.htools.loading import sources as loading
from ganeti.tools.htools.printing import report
from ganeti.tools.htools.programs.program import run

if TYPE_CHECKING:
    from ganeti.placement.request.terms import NoFit, Request
    from ganeti.tools.htools.command_line.options import Options
    from ganeti.tools.htools.loading.sources import Loaded
    from ganeti.tools.htools.printing.allocator_states import AllocatorStates

STANDARD_INPUT = "-"
_VERY_VERBOSE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer the request; gives the exit status."""
    return run("hail", arguments, answer, takes_arguments=True)


def answer(options: "Options") -> int:
    """Answer the one request of the command line; raises `ParameterError` where no answer can be given."""
    from ganeti.placement.dispatch import place
    from ganeti.placement.request.terms import ChangeGroup
    from ganeti.placement.service import response_to

    if not options.arguments:
        raise ToolError("This program needs an input file.")
    if len(options.arguments) > 1:
        raise ToolError("Only one argument is accepted (the input file)")
    loaded, request, wanted = _read(options)
    if options.verbosity > 1:
        from ganeti.tools.htools.printing.request_record import is_dedicated, named_group

        if is_dedicated(loaded.cluster, request, named_group(wanted)):
            report.complain("Allocation on a dedicated cluster; using lost-allocations metrics.")
    states = _states(loaded, request, wanted)
    found = _in_nameless_group(request, wanted) or place(loaded.cluster, request, options=_limits(options))
    if isinstance(request, ChangeGroup):
        from ganeti.tools.htools.printing.request_record import with_records

        found = with_records(loaded.cluster, request, found)
    response, reasons = response_to(request, found)
    if states is not None:
        states.show_after(found)
    _write(response)
    if options.why:
        report.complain(*reasons)
    return 0


def _in_nameless_group(request: "Request", wanted: Mapping[str, Any]) -> "NoFit | None":
    """The answer to a request for the group with an empty name: there is none. A request for any group names none.

    To 3.1 a list of no letters is an empty string.
    """
    from ganeti.placement.request.known_names import unknown_element
    from ganeti.placement.request.terms import Allocate, MultiAllocate, NoFit

    several = isinstance(request, MultiAllocate) and request.requests
    if (several or isinstance(request, Allocate)) and wanted.get("group_name") in ("", []):
        return NoFit(str(unknown_element("")))
    return None


def _read(options: "Options") -> "tuple[Loaded, Request, Mapping[str, Any]]":
    """The cluster to work on (the request's own, or the one that the options name), what is asked, and how.

    The request's own is looked at even where another is named, and knows neither measured loads nor that they are to
    be ignored.
    """
    from ganeti.placement.request.known_names import require_instances, require_known
    from ganeti.placement.request.reading import read_request
    from ganeti.tools.htools.loading import allocator_input

    path = options.arguments[0]
    if path == STANDARD_INPUT:
        path, data = "<stdin>", read_stream(sys.stdin.buffer, "<stdin>")
    else:
        data = read_file(path)
    cluster, wanted = allocator_input.read(data, path, static_node_memory_mib=options.static_node_memory_mib)
    require_instances(cluster, wanted)
    request = read_request(wanted)
    require_known(cluster, request)
    plain = copy(options)
    plain.mond, plain.ignore_utilization = None, False
    loaded = loading.prepared(loading.Source(cluster), plain)
    if options.text_data is not None or options.simulate:
        loaded = loading.load(options)
    elif options.mond and not options.ignore_utilization:
        plain.mond, plain.verbosity = options.mond, 0
        loaded = loading.prepared(loading.Source(cluster), plain)
    if options.verbosity > 1:
        from ganeti.tools.htools.printing.request_record import request_record

        report.complain(f"Received request: {request_record(cluster, request, wanted)}")
    if options.verbosity > _VERY_VERBOSE:
        from ganeti.tools.htools.printing.cluster_record import ClusterRecord

        elsewhere = options.text_data is not None or bool(options.simulate)
        record = ClusterRecord(loaded, {} if elsewhere else allocator_input.whole(data, path))
        report.complain(f"Received cluster data: {record.text()}")
    return loaded, request, wanted


def _states(loaded: "Loaded", request: "Request", wanted: Mapping[str, Any]) -> "AllocatorStates | None":
    """What ``-p`` and ``-S`` show, if anybody asks for it; the state before is shown at once."""
    if loaded.options.save is None and loaded.options.print_nodes is None:
        return None
    from ganeti.tools.htools.printing.allocator_states import AllocatorStates

    states = AllocatorStates(loaded, request, wanted)
    states.show_before()
    return states


def _limits(options: "Options") -> Any:
    from ganeti.placement.request.terms import Options as Limits

    return Limits(
        ignore_soft_errors=options.ignore_soft_errors,
        capacity_checks=options.capacity_checks,
        restrict_to=None if options.restrict_allocation_to is None else tuple(options.restrict_allocation_to),
        why=options.why,
        why_not=options.why,
    )


def _write(response: Mapping[str, Any]) -> None:
    from ganeti.wire.iallocator import Response, encode_response

    sys.stdout.buffer.write(encode_response(Response(**response)))
    sys.stdout.flush()
