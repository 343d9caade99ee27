# SPDX-License-Identifier: BSD-2-Clause
"""``hail``: the allocator as a program for the iallocator protocol (spec: htools, 10).

Its argument is the request, or ``-`` for standard input. The cluster is the one of the request, unless ``-t`` or
``--simulate`` name another.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ganeti.tools.htools import loading, report
from ganeti.tools.htools.failures import ToolError
from ganeti.tools.htools.program import run

if TYPE_CHECKING:
    from ganeti.placement.request import Answer, NoFit, Request
    from ganeti.placement.state import ClusterState
    from ganeti.tools.htools.loading import Loaded
    from ganeti.tools.htools.options import Options

STANDARD_INPUT = "-"
_BEFORE, _AFTER = ("pre-ialloc", "before iallocator run"), ("post-ialloc", "after iallocator run")


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer the request; gives the exit status."""
    return run("hail", arguments, answer, takes_arguments=True)


def answer(options: "Options") -> int:
    """Answer the one request of the command line; raises `ParameterError` where no answer can be given."""
    from ganeti.placement.request import ChangeGroup, place
    from ganeti.placement.service import response_to

    if not options.arguments:
        raise ToolError("This program needs an input file.")
    if len(options.arguments) > 1:
        raise ToolError("Only one argument is accepted (the input file)")
    loaded, request, wanted = _read(options)
    if options.verbosity > 1:
        from ganeti.tools.htools.request_record import is_dedicated, named_group

        if is_dedicated(loaded.cluster, request, named_group(wanted)):
            report.complain("Allocation on a dedicated cluster; using lost-allocations metrics.")
    state = loaded.state() if options.save is not None or options.print_nodes is not None else None
    if state is not None:
        _show(state, loaded, "Initial", _BEFORE, state.everyone())
    found = _in_nameless_group(request, wanted) or place(loaded.cluster, request, options=_limits(options))
    if isinstance(request, ChangeGroup):
        from ganeti.tools.htools.request_record import with_records

        found = with_records(loaded.cluster, request, found)
    response, reasons = response_to(request, found)
    if state is not None:
        order = _apply(state, request, found)
        _show(state, loaded, "Final", _AFTER, _nodes_left(state, loaded, request, found, wanted), order)
    _write(response)
    if options.why:
        report.complain(*reasons)
    return 0


def _in_nameless_group(request: "Request", wanted: Mapping[str, Any]) -> "NoFit | None":
    """The answer to who asks for the group with an empty name: there is none; who wants any does not name one."""
    from ganeti.placement.known_names import unknown_element
    from ganeti.placement.request import Allocate, MultiAllocate, NoFit

    several = isinstance(request, MultiAllocate) and request.requests
    if (several or isinstance(request, Allocate)) and wanted.get("group_name") == "":
        return NoFit(str(unknown_element("")))
    return None


def _read(options: "Options") -> "tuple[Loaded, Request, Mapping[str, Any]]":
    """The cluster to work on (the request's own, or the one that the options name), what is asked, and how.

    The request's own is looked at even where another is named, and knows neither measured loads nor that they are to
    be ignored.
    """
    from ganeti.placement.known_names import require_instances, require_known
    from ganeti.placement.reading import read_request
    from ganeti.tools.htools import allocator_input

    path = options.arguments[0]
    if path == STANDARD_INPUT:
        path, data = "<stdin>", sys.stdin.buffer.read()
    else:
        with open(path, "rb") as file:
            data = file.read()
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
        from ganeti.tools.htools.request_record import request_record

        report.complain(f"Received request: {request_record(cluster, request, wanted)}")
    return loaded, request, wanted


def _limits(options: "Options") -> Any:
    from ganeti.placement.request import Options as Limits

    return Limits(
        ignore_soft_errors=options.ignore_soft_errors,
        capacity_checks=options.capacity_checks,
        restrict_to=None if options.restrict_allocation_to is None else tuple(options.restrict_allocation_to),
        why=options.why,
        why_not=options.why,
    )


def _show(
    state: "ClusterState",
    loaded: "Loaded",
    when: str,
    parts: tuple[str, str],
    nodes: Sequence[int],
    order: Sequence[int] | None = None,
) -> None:
    """What ``-p`` and ``-S`` ask for, of *nodes*. *order* is that of the instances, None for that in which they came.

    Instances on nodes that are not shown cannot be written: the text would name nodes that it does not have.
    """
    from ganeti.placement.state import NOWHERE

    options, shown = loaded.options, {NOWHERE, *nodes}
    if options.print_nodes is not None:
        from ganeti.tools.htools.tables import node_table

        report.complain("", f"{when} cluster status:")
        report.complain(node_table(state, nodes, options.print_nodes, loaded.alias_of))
    everything = range(len(state.instances)) if order is None else order
    written = [n for n in everything if state.primary_of[n] in shown and state.secondary_of[n] in shown]
    report.save_state(options, state, loaded, parts, (nodes, written))


def _nodes_left(
    state: "ClusterState", loaded: "Loaded", request: "Request", found: "Answer", wanted: Mapping[str, Any]
) -> Sequence[int]:
    """The nodes that 3.1 has left afterwards: of the groups that something new was placed in, if it compared no groups.

    That is where a group is named, and where what is lost decides. All nodes, if nothing new was placed.
    """
    from ganeti.placement.request import Allocate, MultiAllocate, MultiPlacement, Placement
    from ganeti.tools.htools.request_record import is_dedicated, named_group

    chosen: list[str] = []
    if isinstance(request, Allocate | MultiAllocate) and (
        named_group(wanted) is not None or is_dedicated(loaded.cluster, request, None)
    ):
        match found:
            case Placement():
                chosen = list(found.nodes)
            case MultiPlacement():
                chosen = [node for _, nodes in found.placed for node in nodes]
    groups = {state.group_of[number] for number in _numbers(state, chosen)}
    return [number for number in state.everyone() if not groups or state.group_of[number] in groups]


def _apply(state: "ClusterState", request: "Request", found: "Answer") -> list[int] | None:
    """Change *state* as the answer says; gives the order of the instances if the new one does not come last."""
    from ganeti.placement.request import Allocate, AllocateSecondary, Moves, MultiAllocate, MultiPlacement, Placement

    before = range(len(state.instances))
    match found:
        case MultiPlacement():
            wanted = request.requests if isinstance(request, MultiAllocate) else ()
            by_name = {one.instance.name: one.instance for one in wanted}
            for name, nodes in found.placed:
                state.add_instance(by_name[name], *_numbers(state, nodes))
        case Moves():
            numbers = {instance.name: number for number, instance in enumerate(state.instances)}
            for name, _, nodes in found.moved:
                state.move(numbers[name], *_numbers(state, nodes))
        case Placement():
            if isinstance(request, Allocate):
                return [state.add_instance(request.instance, *_numbers(state, found.nodes)), *before]
            if isinstance(request, AllocateSecondary):
                old, new = _mirror(state, request.name, found.nodes[0])
                return [new if number == old else number for number in before]
            _relocate(state, request, found.nodes[0])
    return None


def _mirror(state: "ClusterState", name: str, secondary: str) -> tuple[int, int]:
    """Give an instance that has none a secondary; its old number, at no node now, and its new one."""
    from ganeti.placement.state import NOWHERE
    from ganeti.placement.templates import PAIRED

    number = _number_of(state, name)
    primary = state.primary_of[number]
    state.move(number, NOWHERE)
    mirrored = replace(state.instances[number], template=PAIRED)
    return number, state.add_instance(mirrored, primary, state.node_number[secondary])


def _relocate(state: "ClusterState", request: Any, target: str) -> None:
    """Give the instance of *request* its new node: the secondary if its disks are mirrored."""
    from ganeti.placement.templates import TEMPLATES

    number, node = _number_of(state, request.name), state.node_number[target]
    if TEMPLATES[state.instances[number].template].has_secondary:
        state.move(number, state.primary_of[number], node)
    else:
        state.move(number, node)


def _number_of(state: "ClusterState", name: str) -> int:
    return next(number for number, instance in enumerate(state.instances) if instance.name == name)


def _numbers(state: "ClusterState", nodes: Iterable[str]) -> list[int]:
    return [state.node_number[node] for node in nodes]


def _write(response: Mapping[str, Any]) -> None:
    from ganeti.wire.iallocator import Response, encode_response

    sys.stdout.buffer.write(encode_response(Response(**response)))
    sys.stdout.flush()
