# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about the files that all nodes have alike."""

import msgspec

from ganeti.model.node_calls import NodeRequest


class SharedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file as `upload_file` takes it."""

    path: str
    content: str
    mode: int


class SharedFiles(NodeRequest[list[SharedFile]], frozen=True, kw_only=True):
    """The files here that every node should have: keys, certificates, users; missing ones are left out.

    Those that only candidates have, and those that each node changes for itself, are none of them.
    """


class AdoptClusterName(NodeRequest[None], frozen=True, kw_only=True):
    """The cluster that this node knows as *old* is called *new*: `ssconf` values under that name are taken from now on.

    Harmless where it has been done; refused where the node is of another cluster.
    """

    old: str
    new: str
