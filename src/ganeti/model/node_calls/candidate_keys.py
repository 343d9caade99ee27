# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about what only master candidates have: the authority's key, and root's access to all nodes."""

import msgspec

from ganeti.model.node_calls import FAST_S, NodeRequest


class KeysOfCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """Texts of files that only master candidates have."""

    authority_key: str | None = None
    """Private key of the authority, PEM; null where the file is missing."""
    public_keys: dict[str, list[str]] = {}
    """Keys of root, by UUID of the node."""


class CandidateKeys(NodeRequest[KeysOfCandidate], frozen=True, kw_only=True):
    """What the master has for a new candidate."""

    answer_within_s = FAST_S
    changes_node = False
    asked_by_plans = True


class RootPublicKey(NodeRequest[str | None], frozen=True, kw_only=True):
    """Give the public part of root's own ssh key; null where there is none."""

    answer_within_s = FAST_S
    changes_node = False
    kind: str


class NodeDemoteFromMc(NodeRequest[None], frozen=True, kw_only=True):
    """Remove what a node that is no master candidate must not have; what it does not have is no error.

    *master* is the name of the master as the caller knows it: a former one that has just come back may not know yet.
    """

    answer_within_s = FAST_S
    master: str


class NodeSshKeyAdd(NodeRequest[None], frozen=True, kw_only=True):
    """Let the nodes in *keys* (by uuid) in as root; with *only* no other nodes. Lines that are not ours stay.

    `ganeti_pub_keys` is kept along where it is, and made with *remember*.
    """

    answer_within_s = FAST_S
    keys: dict[str, list[str]]
    remember: bool = False
    only: bool = False


class NodeSshKeyRemove(NodeRequest[None], frozen=True, kw_only=True):
    """Let these nodes (uuids) in no more; unknown ones are no error."""

    answer_within_s = FAST_S
    nodes: list[str]
