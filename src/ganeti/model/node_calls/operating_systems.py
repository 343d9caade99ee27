# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about OS definitions: the directories of scripts that install instances (protocols, section 8)."""

from typing import Any

import msgspec

from ganeti.model.node_calls import FAST_S, NodeRequest

KNOWN_VERSIONS = (20, 15, 10)
"""Of the interface between nodes and scripts, the newest first."""


class OsStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One directory of an OS definition as it was found."""

    name: str
    path: str
    valid: bool
    message: str = ""
    """Why it is not valid, as sentences."""
    variants: list[str] = []
    parameters: list[tuple[str, str]] = []
    """Name and description."""
    api_versions: list[int] = []
    trusted: bool = True
    """Whether its create script runs on the node; without that, a helper guest runs it."""

    @property
    def api_version(self) -> int:
        """The newest version that both sides know."""
        return max(set(self.api_versions) & set(KNOWN_VERSIONS))


class OsDiagnose(NodeRequest[list[OsStatus]], frozen=True, kw_only=True):
    """All definitions on the node, those that are shadowed or broken too, in the order of the search path."""

    answer_within_s = FAST_S
    changes_node = False
    asked_by_plans = True


class OsGet(NodeRequest[OsStatus], frozen=True, kw_only=True):
    """The definition that ``OS`` or ``OS+variant`` names."""

    answer_within_s = FAST_S
    changes_node = False
    asked_by_plans = True
    name: str


class OsValidate(NodeRequest[OsStatus], frozen=True, kw_only=True):
    """The definition that *name* means, once name, variant and parameters have been checked."""

    answer_within_s = FAST_S
    changes_node = False
    asked_by_plans = True
    name: str
    params: dict[str, Any]
    force_variant: bool = False
