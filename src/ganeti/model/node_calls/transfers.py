# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about transfers: the data of a disk on its way to another node, of this cluster or of another.

A transfer is a process of its own on the node (`import-export`) with a directory that tells how far it is. A key is
made for one instance on its way and valid for a day.
"""

import msgspec

from ganeti.model.node_calls import FAST_S, NodeRequest
from ganeti.model.node_requests import InstanceSpec


class TransferKey(msgspec.Struct, frozen=True):
    name: str
    certificate: str
    """PEM, its own authority: the other side trusts this one alone."""


class TransferState(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    running: bool
    connected: bool = False
    received: bool = False
    """Whether all data have come and the OS has ended well with them; the sender does not know yet."""
    sha256: str = ""
    """Of a dump that was received; known with *received*."""
    done_mib: float = 0
    rate_mib: float | None = None
    """MiB in a second, of late."""
    left_s: float | None = None
    percent: float | None = None
    exit_status: int | None = None
    """None while it runs."""
    error: str | None = None


class TransferKeyMake(NodeRequest[TransferKey], frozen=True, kw_only=True):
    """Make a key for one instance on its way."""

    answer_within_s = FAST_S
    name: str
    """Begins with ``x509-``."""
    owner: str
    """Whom it is for: an older key for the same is removed."""
    validity_s: int


class TransferKeyRemove(NodeRequest[None], frozen=True, kw_only=True):
    """Forget a key; one that is gone is no error."""

    answer_within_s = FAST_S
    name: str


class DiskTransfer(msgspec.Struct, frozen=True, kw_only=True):
    """A disk on its way, as one of its two nodes is told of it."""

    name: str
    """Of the transfer on this node."""
    key: str
    authority: str
    """The certificate of the other side, PEM."""
    magic: str
    compress: str
    instance: InstanceSpec
    index: int
    debug: int
    token: str = ""
    """Names the run of the OS's script (`ScriptOutput`)."""
    directory: str = ""
    """Of an export, where a dump or a copy in it has a part."""
    dump: str = ""
    """The dump in it that is sent or written; without it the OS's script reads or fills the disk."""


class TransferReceive(NodeRequest[int], frozen=True, kw_only=True):
    """Wait for the data of a disk; gives the port."""

    transfer: DiskTransfer
    connect_timeout_s: int
    bind: str
    size: int = 0
    """Bytes that a dump takes, where that is known."""


class TransferSend(NodeRequest[None], frozen=True, kw_only=True):
    """Send the data of a disk."""

    transfer: DiskTransfer
    host: str
    port: int
    copied: bool = False
    """The OS reads the copies in the directory (`ExportCopyDisks`)."""


class TransferStates(NodeRequest[list[TransferState]], frozen=True, kw_only=True):
    """How far these transfers are, in the order asked."""

    answer_within_s = FAST_S
    changes_node = False
    names: list[str]


class TransferConfirm(NodeRequest[None], frozen=True, kw_only=True):
    """The instance is kept here: let the sender know that its data have come."""

    answer_within_s = FAST_S
    names: list[str]


class TransferEnd(NodeRequest[None], frozen=True, kw_only=True):
    """End a transfer, wherever it is, and forget it; nothing where there is none."""

    answer_within_s = FAST_S
    name: str
