# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about transfers: the data of a disk on its way to a node of another cluster, or from one.

A transfer is a process of its own on the node (`import-export`) with a directory that tells how far it is. A key is
made for one instance on its way and valid for a day.
"""

import msgspec

from ganeti.model.node_calls import NodeRequest
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

    name: str
    """Begins with ``x509-``."""
    owner: str
    """Whom it is for: an older key for the same is removed."""
    validity_s: int


class TransferKeyRemove(NodeRequest[None], frozen=True, kw_only=True):
    """Forget a key; one that is gone is no error."""

    name: str


class TransferReceive(NodeRequest[int], frozen=True, kw_only=True):
    """Wait for the data of a disk, which the OS then imports; gives the port."""

    name: str
    key: str
    authority: str
    """The certificate of the sender, PEM."""
    magic: str
    compress: str
    connect_timeout_s: int
    bind: str
    instance: InstanceSpec
    index: int
    debug: int


class TransferSend(NodeRequest[None], frozen=True, kw_only=True):
    """Send the data of a disk, as the OS exports it."""

    name: str
    key: str
    authority: str
    magic: str
    compress: str
    host: str
    port: int
    instance: InstanceSpec
    index: int
    debug: int
    directory: str = ""
    """Of an unfinished export, where something is read from there."""
    dump: str = ""
    """A dump in it that is sent instead of what the OS exports."""
    copied: bool = False
    """The OS reads the copies in it."""


class TransferStates(NodeRequest[list[TransferState]], frozen=True, kw_only=True):
    """How far these transfers are, in the order asked."""

    names: list[str]


class TransferConfirm(NodeRequest[None], frozen=True, kw_only=True):
    """The instance is kept here: let the sender know that its data have come."""

    names: list[str]


class TransferEnd(NodeRequest[None], frozen=True, kw_only=True):
    """End a transfer, wherever it is, and forget it; nothing where there is none."""

    name: str
