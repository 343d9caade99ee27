# SPDX-License-Identifier: BSD-2-Clause
"""Node parameters as they may be set for one node."""

from collections.abc import Mapping
from typing import Any

from ganeti.base.errors import ParameterError
from ganeti.model.parameters import NODE_PARAMETERS, accept_all, apply_changes

GROUP_ONLY = ("exclusive_storage",)


def node_parameters(old: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Give *old* with *changes*; raises `ParameterError` for what is wrong or belongs to the group."""
    for name in GROUP_ONLY:
        if name in changes:
            raise ParameterError(f"Node parameter '{name}' can only be set for the cluster or a group")
    return apply_changes(old, accept_all(NODE_PARAMETERS, changes, "node"))
