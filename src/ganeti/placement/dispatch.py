# SPDX-License-Identifier: BSD-2-Clause
"""Each kind of request to the module that answers it (spec: htools, 10)."""

from ganeti.placement.choose_group import allocate_somewhere
from ganeti.placement.cluster import Cluster
from ganeti.placement.evacuate import node_evacuate
from ganeti.placement.many import multi_allocate
from ganeti.placement.relocate import allocate_secondary, relocate
from ganeti.placement.request import (
    Allocate,
    AllocateSecondary,
    Answer,
    MultiAllocate,
    NodeEvacuate,
    Options,
    Relocate,
    Request,
    RequestError,
)
from ganeti.placement.state import ClusterState


def answer_request(cluster: Cluster, request: Request, options: Options) -> Answer:
    """Answer *request* over *cluster*; raises `RequestError` for what cannot be asked."""
    state = ClusterState(cluster)
    if isinstance(request, Allocate):
        return allocate_somewhere(state, request, options)
    if isinstance(request, Relocate):
        return relocate(state, request, options)
    if isinstance(request, AllocateSecondary):
        return allocate_secondary(state, request, options)
    if isinstance(request, NodeEvacuate):
        return node_evacuate(state, request, options)
    if isinstance(request, MultiAllocate):
        return multi_allocate(state, request, options)
    raise RequestError(f"Requests of kind {type(request).__name__} are not answered")
