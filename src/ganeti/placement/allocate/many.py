# SPDX-License-Identifier: BSD-2-Clause
"""Several new instances in one request, each placed on the result of the former (spec: htools, 10)."""

from dataclasses import replace

from ganeti.placement.allocate import dedicated
from ganeti.placement.allocate.choose_group import find_group, find_somewhere
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.placement.request.terms import MultiAllocate, MultiPlacement, NoFit, Options, Placement


def multi_allocate(state: ClusterState, request: MultiAllocate, options: Options) -> MultiPlacement | NoFit:
    """Place all; one that fits nowhere is listed, but without a named group it fails the request, as in 3.1."""
    placed: list[tuple[str, tuple[str, ...]]] = []
    failed: list[tuple[str, str]] = []
    for one in request.requests:
        found, group = find_somewhere(state, replace(one, group=request.group), options)
        if isinstance(found, Placement):
            nodes = [state.node_number[name] for name in found.nodes]
            state.add_instance(one.instance, nodes[0], nodes[1] if len(nodes) > 1 else NOWHERE)
            placed.append((one.instance.name, found.nodes))
        elif request.group and group is not None and not found.hopeless:
            failed.append((one.instance.name, _reason(state, request.group, found)))
        else:
            return found
    info = f"{len(failed)} instances failed to allocate and {len(placed)} were allocated successfully"
    return MultiPlacement(tuple(placed), tuple(failed), info)


def _reason(state: ClusterState, group_name: str, found: NoFit) -> str:
    """3.1 leaves the group out of the sentence about dedicated nodes."""
    group = find_group(state, group_name)
    if group is None or not dedicated.applies(state, [group]):
        return found.info
    return found.info.partition("): ")[2]
