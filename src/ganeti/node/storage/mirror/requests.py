# SPDX-License-Identifier: BSD-2-Clause
"""What ganeti-mirrord is asked: by the node daemon over a Unix socket, and by its like on the other node over TLS.

One JSON object a line, answered by one: the result, or `Refusal`. `Connect` comes from the primary's storage daemon to
that of the other node, which asks its ganeti-mirrord; once it is answered the connection carries the bytes of NBD.
"""

import msgspec

PORT = 1818
PRIMARY, SECONDARY = "primary", "secondary"
HANDED, INCOMING = "handed", "incoming"
"""During the switchover of a migration: the source that does not write any more, and the target that will."""
CLOSED = "closed"


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was not carried out."""

    error: str


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one copy; it lies beside the image, and outlives a loss of power.

    A copy of a higher *generation* is newer. *clean*: nothing was written since both copies were known to be equal.
    """

    generation: int = 0
    valid: bool = False
    clean: bool = False


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A disk that is in use on this node."""

    uuid: str
    image: str
    role: str
    owner: str = ""
    generation: int = 0
    """Of the newest copy that the configuration knows of."""
    export: str = ""
    """The name under which its storage daemon shows the disk: a guest of a former primary knows another one."""
    rate_kib: int = 0
    """KiB in a second that making the other copy equal may take; 0 is without a limit."""
    peer: str = ""
    """Name of the other node."""
    address: str = ""
    session: str = ""
    """New each time a copy is opened as secondary: after a loss of power it is another one."""
    marked: int = -1
    """The generation that the other node's copy was last told it has."""
    marked_session: str = ""
    """The session of the other node's copy then."""
    lost_to: str = ""
    """The node that was made primary while this one was, too: a guest of *owner* that still runs here has no disk."""


class Open(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Use a disk as primary or secondary; answered when the guest may be started."""

    disk: Opened


class Close(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    uuid: str


class HandOver(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """On the source, whose guest has stopped: stop writing, the target comes next."""

    uuid: str


class TakeOver(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """On the target: from now on what is written here goes to the source."""

    uuid: str


class TakeBack(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """On the source, where the guest goes on."""

    uuid: str


class Steal(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Make this node's copy the newest one, with at least this generation: the other node is dead."""

    uuid: str
    image: str
    generation: int = 0


class Resize(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An open disk has this size from now on; a guest that has it open sees the size after it connects again."""

    uuid: str
    size: int


class AsFile(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Show an open disk as a file, for programs that cannot use its socket."""

    uuid: str


class Inspect(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How a disk is: answered by `Inspect`'s `State`."""

    uuid: str
    image: str


class State(msgspec.Struct, frozen=True, kw_only=True):
    """A copy as this node knows it; *percent* while the other node's copy is made equal."""

    role: str
    kept: Kept
    session: str = ""
    in_sync: bool = False
    serves: bool = True
    """Whether its storage daemon runs; a disk that is closed needs none."""
    connected: bool = False
    percent: float | None = None
    seconds_left: int | None = None
    speed_kib: int | None = None
    export: str = ""


class AskPeer(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Between the nodes: how is your copy? Answered by `State`."""

    uuid: str


class Mark(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From the primary: this is what your copy is now."""

    uuid: str
    kept: Kept


class Yield(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From a source that takes its guest back: follow again."""

    uuid: str


class Connect(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From the primary: the bytes after the answer are for your copy, unless it has a higher generation.

    Answered when nothing more of earlier connections can be written.
    """

    uuid: str
    generation: int
    session: str = ""
    """Of the copy that the primary has marked: bytes for another one, made anew meanwhile, are refused."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """Carried out; *path* where there is one, and of an open disk the name of its export."""

    path: str = ""
    export: str = ""


OwnRequest = Open | Close | HandOver | TakeOver | TakeBack | Steal | Resize | AsFile | Inspect
PeerRequest = AskPeer | Mark | Yield | Connect
