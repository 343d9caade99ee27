# SPDX-License-Identifier: BSD-2-Clause
"""Changes of the configuration that the operations on nodes make."""

from typing import cast

from msgspec.structs import replace

from ganeti.base.errors import ALREADY_EXISTS, WRONG_STATE, PrerequisiteError
from ganeti.model.configuration import Draft
from ganeti.model.node_calls.certificates import RENEWED
from ganeti.model.objects import Node
from ganeti.ports.config import Change


class AddNode(Change, frozen=True, kw_only=True):
    """Enter a new node; it is not a candidate yet."""

    node: Node

    def apply(self, draft: Draft) -> None:
        if draft.uuid_by_name("nodes", self.node.name) is not None:
            raise PrerequisiteError(f"Node {self.node.name} is already in the configuration", ALREADY_EXISTS)
        draft.put("nodes", self.node)


class ReplaceNode(Change, frozen=True, kw_only=True):
    """Give a node other attributes, all of them; with *certificate_digest* it is a candidate known by that."""

    node: Node
    certificate_digest: str | None = None

    def apply(self, draft: Draft) -> None:
        old = draft.node(self.node.uuid)
        if old.name != self.node.name:
            raise PrerequisiteError(f"Node {old.name} cannot be renamed to {self.node.name}", WRONG_STATE)
        # Tags and serial may have been changed since the sender looked: they stay.
        new = replace(self.node, tags=old.tags, serial_no=old.serial_no, ctime=old.ctime, mtime=old.mtime)
        if new != old:
            draft.put("nodes", new)
        set_candidate_certificate(draft, new, self.certificate_digest)


class RemoveNode(Change, frozen=True, kw_only=True):
    """Take a node out of the configuration; an unknown one is no error (it serves as undo)."""

    node_uuid: str

    def apply(self, draft: Draft) -> None:
        node = cast("Node | None", draft.get("nodes", self.node_uuid))
        if node is None:
            return
        set_candidate_certificate(draft, replace(node, master_candidate=False), None)
        draft.remove("nodes", self.node_uuid)


class PromoteNode(Change, frozen=True, kw_only=True):
    """Make a node a master candidate."""

    node_uuid: str
    certificate_digest: str

    def apply(self, draft: Draft) -> None:
        node = draft.node(self.node_uuid)
        if node.offline or node.drained or not node.master_capable:
            raise PrerequisiteError(f"Node {node.name} cannot become a master candidate in its state", WRONG_STATE)
        promoted = replace(node, master_candidate=True)
        if promoted != node:
            draft.put("nodes", promoted)
        set_candidate_certificate(draft, promoted, self.certificate_digest)


def set_candidate_certificate(draft: Draft, node: Node, digest: str | None) -> None:
    """Keep the list of certificates that node daemons obey: those of candidates, no others."""
    cluster = draft.cluster
    certificates = dict(cluster.candidate_certs)
    if not node.master_candidate:
        for name in (node.uuid, node.uuid + RENEWED):
            certificates.pop(name, None)
    elif digest is not None:
        certificates[node.uuid] = digest
    if certificates != cluster.candidate_certs:
        draft.put("cluster", replace(cluster, candidate_certs=certificates))
