# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about incremental backups: of the node that has the disks, and of the one that keeps the backups.

Chunks travel sealed. A chunk without data holds nothing but zeros.
"""

import msgspec

from ganeti.model.node_calls import DAY_S, FAST_S, SLOW_S, NodeRequest
from ganeti.model.node_requests import DiskSpec, InstanceSpec


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    digest: bytes
    data: bytes = b""


class KeptFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What lies in the directory of a backup."""

    instance_uuid: str
    id: str
    manifest: str = ""
    """Empty where it cannot be read."""
    fault: str = ""
    """Why the manifest cannot be read; empty where that is not known, and for one that can."""
    proof: str = ""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    backups: list[KeptFiles] = []
    unfinished: list[tuple[str, str]] = []
    """UUID of the instance and id of what has begun and has not come to its end."""
    shared: str = ""
    """Name of the store where that is not the node's own: other nodes reach the same backups."""
    identity: str = ""
    """The same for all nodes that reach the same backups; empty where that is not known."""


class StoredDisk(msgspec.Struct, frozen=True, kw_only=True):
    """The two files of a disk, as they are."""

    chunks: int
    chunk_bytes: int
    index_bytes: int
    index_sha256: str


class ChainLink(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    generation: int
    disks: int
    """How many there must be: the files of each are there, or the backup is damaged."""
    chunks: list[int] = []
    """Of each disk, as the manifest says; empty where that is not known."""


class BackupList(NodeRequest[Kept], frozen=True, kw_only=True):
    """All backups that this node keeps."""

    answer_within_s = FAST_S
    changes_node = False


class BackupBegin(NodeRequest[str], frozen=True, kw_only=True):
    """Make the unfinished directory of a backup; gives a mark of this power-on for the calls that follow."""

    instance_uuid: str
    id: str
    disks: int


class BackupAppend(NodeRequest[int], frozen=True, kw_only=True):
    """Add chunks, whose numbers only grow; *offset* is what the file has so far. Gives what it has then."""

    instance_uuid: str
    id: str
    disk: int
    chunks: list[Chunk]
    offset: int
    boot: str


class BackupFinish(NodeRequest[list[StoredDisk]], frozen=True, kw_only=True):
    """All chunks are there: have them on disk, and say what there is."""

    answer_within_s = DAY_S
    instance_uuid: str
    id: str
    boot: str


class BackupPublish(NodeRequest[None], frozen=True, kw_only=True):
    """The unfinished backup is one from now on; one that is there gets another manifest and another generation."""

    answer_within_s = SLOW_S
    instance_uuid: str
    id: str
    generation: int
    manifest: str
    boot: str
    """Empty where nothing was left unsynced since a call before."""


class BackupDiscard(NodeRequest[None], frozen=True, kw_only=True):
    """Remove what is unfinished of a backup, if it is there."""

    instance_uuid: str
    id: str


class BackupMerge(NodeRequest[list[StoredDisk]], frozen=True, kw_only=True):
    """Make files of a new generation for the backup *newer*, with what it needs of the one before it."""

    answer_within_s = DAY_S
    instance_uuid: str
    older: ChainLink
    newer: ChainLink
    generation: int
    keeps_zeros: bool
    """Whether something before *older* may have data where it has zeros."""


class BackupRemove(NodeRequest[bool], frozen=True, kw_only=True):
    """Remove a backup; gives whether it was there."""

    answer_within_s = SLOW_S
    instance_uuid: str
    id: str


class BackupNote(NodeRequest[None], frozen=True, kw_only=True):
    """Keep a proof with its backup."""

    instance_uuid: str
    id: str
    proof: str


class BackupStored(NodeRequest[list[StoredDisk]], frozen=True, kw_only=True):
    """What the files of a backup are like, read now."""

    answer_within_s = SLOW_S
    changes_node = False
    instance_uuid: str
    link: ChainLink


class BackupDigests(NodeRequest[bytes], frozen=True, kw_only=True):
    """Digests of *count* chunks, one after the other; *chain* has the newest backup first."""

    changes_node = False
    instance_uuid: str
    chain: list[ChainLink]
    disk: int
    first: int
    count: int


class ChunkPiece(msgspec.Struct, frozen=True, kw_only=True):
    chunks: list[Chunk]
    next: int
    """The first number that has not been looked at."""


class BackupChunks(NodeRequest[ChunkPiece], frozen=True, kw_only=True):
    """The chunks from *first* on, to *end* or as many as one answer holds; those with zeros are left out."""

    changes_node = False
    instance_uuid: str
    chain: list[ChainLink]
    disk: int
    first: int
    end: int


class BackupCheck(NodeRequest[int], frozen=True, kw_only=True):
    """Open the chunks from *first* on, to *end* or as many as some seconds allow; gives the first not looked at."""

    answer_within_s = SLOW_S
    changes_node = False
    instance_uuid: str
    chain: list[ChainLink]
    disk: int
    first: int
    end: int
    key: bytes


class OpenedView(msgspec.Struct, frozen=True, kw_only=True):
    """What a running guest's disks are like at one moment, kept to be read."""

    frozen: bool
    dirty: list[list[tuple[int, int]] | None]
    """Of each disk the chunks (first, count) that may have changed; None where nobody has kept count."""


class BackupOpen(NodeRequest[OpenedView], frozen=True, kw_only=True):
    """Hold the disks of a running guest as they are now; count what changes from now on under *mark*."""

    answer_within_s = SLOW_S
    instance: InstanceSpec
    mark: str
    since: str
    """Mark of the backup before; empty for none."""


class BackupClose(NodeRequest[None], frozen=True, kw_only=True):
    """End what `BackupOpen` began, and all counts but that under the mark *kept*; repeating it does no harm."""

    hypervisor: str
    name: str
    kept: str


class BackupScan(NodeRequest[ChunkPiece], frozen=True, kw_only=True):
    """Chunks that differ from the *known* digests, from *first* on; as many are looked at as there are digests."""

    answer_within_s = SLOW_S
    changes_node = False
    instance: InstanceSpec
    disk: int
    running: bool
    """Read the moment that `BackupOpen` holds."""
    first: int
    known: bytes
    key: bytes


class DiskBytes(NodeRequest[int], frozen=True, kw_only=True):
    """The size of a disk that is open."""

    changes_node = False
    instance: InstanceSpec
    disk: int
    running: bool


class BackupFill(NodeRequest[str], frozen=True, kw_only=True):
    """Write chunks of a backup onto an open disk; *zeroes* from *first* to *end* what is in none of them.

    Gives a mark of this power-on: only a call that *syncs* has everything on disk. One that does not *write* checks
    the chunks, and leaves the disk as it is.
    """

    answer_within_s = SLOW_S
    instance: InstanceSpec
    disk: DiskSpec
    source_uuid: str
    """UUID of the instance that was backed up."""
    source_disk: int
    chunks: list[Chunk]
    first: int
    end: int
    zeroes: bool
    syncs: bool
    writes: bool = True
    key: bytes


class SignOfLife(NodeRequest[str], frozen=True, kw_only=True):
    """What a guest that boots shows of itself: its agent answers, or its console has *words*, as they are.

    Without *words* a line with ``login:`` is one, or one that begins with ``HB`` and a number.

    Empty where it shows nothing yet; raises `HypervisorError` for one that has ended.
    """

    changes_node = False
    hypervisor: str
    name: str
    words: str = ""


class ForgetSigns(NodeRequest[None], frozen=True, kw_only=True):
    """Remove what the console of a guest has shown."""

    hypervisor: str
    name: str
