# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about the files that all nodes have alike."""

from typing import Literal

import msgspec

from ganeti.model.node_calls import NodeRequest

FileEncoding = Literal["utf-8", "latin-1"]
"""How the bytes of a file become the text of a call: what is no UTF-8 has a character for each byte."""


class SharedFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file as `upload_file` takes it."""

    path: str
    content: str
    mode: int
    encoding: FileEncoding = "utf-8"

    def upload(self) -> "UploadFile":
        """The call that makes the file the same on another node."""
        return UploadFile(path=self.path, content=self.content, mode=self.mode, encoding=self.encoding)


class SharedFiles(NodeRequest[list[SharedFile]], frozen=True, kw_only=True):
    """The files here that every node should have: keys, certificates, users; missing ones are left out.

    Those that only candidates have, and those that each node changes for itself, are none of them.
    """

    changes_node = False
    asked_by_plans = True


class AdoptClusterName(NodeRequest[None], frozen=True, kw_only=True):
    """The cluster that this node knows as *old* is called *new*: `ssconf` values under that name are taken from now on.

    Harmless where it has been done; refused where the node is of another cluster.
    """

    old: str
    new: str


class UploadFile(NodeRequest[None], frozen=True, kw_only=True):
    """Replace one of the known files in one step; raises `ParameterError` for any other path or a wider mode."""

    path: str
    content: str
    mode: int
    encoding: FileEncoding = "utf-8"


class EtcHostsModify(NodeRequest[None], frozen=True, kw_only=True):
    """Enter names at their addresses into `/etc/hosts`; null takes a name out.

    Raises `ParameterError`, and `ExecutionError` where the file cannot be replaced.
    """

    entries: dict[str, str | None]


class WriteSsconfFiles(NodeRequest[None], frozen=True, kw_only=True):
    """Write `ssconf_KEY` files; unchanged ones are left alone. Another cluster's values are refused.

    *position* is that of the configuration they are of. A call that was long on its way, and given up by who sent it,
    must not bring back what a newer one has replaced.
    """

    values: dict[str, str]
    position: tuple[int, int] | None = None


class DifferingSsconf(NodeRequest[list[str]], frozen=True, kw_only=True):
    """Which of these ssconf values are missing here, or have another SHA-256 than is given."""

    changes_node = False
    digests: dict[str, str]
