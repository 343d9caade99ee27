# SPDX-License-Identifier: BSD-2-Clause
"""Node parameters and recorded states as they may be set for one node."""

from collections.abc import Mapping
from typing import Any

from ganeti.base.errors import ParameterError
from ganeti.master.operations.cluster import inherited_parameters
from ganeti.model.objects import Node
from ganeti.model.parameters import NODE_PARAMETERS, accept_all, apply_changes
from ganeti.model.traits import Catalogue

GROUP_ONLY = ("exclusive_storage",)
State = Mapping[str, Any] | None


def node_parameters(old: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Give *old* with *changes*; raises `ParameterError` for what is wrong or belongs to the group."""
    for name in GROUP_ONLY:
        if name in changes:
            raise ParameterError(f"Node parameter '{name}' can only be set for the cluster or a group")
    return apply_changes(old, accept_all(NODE_PARAMETERS, changes, "node"))


def recorded_states(old: Node | None, hv_state: State, disk_state: State, catalogue: Catalogue) -> dict[str, Any]:
    """Give what becomes of the states recorded for node *old*, of those that are given; raises `ParameterError`."""
    given = {"hv_state_static": hv_state, "disk_state_static": disk_state}
    changes = inherited_parameters.read({name: values for name, values in given.items() if values}, catalogue)
    return {
        name: inherited_parameters.merged(getattr(old, name, None) or {}, change) for name, change in changes.items()
    }
