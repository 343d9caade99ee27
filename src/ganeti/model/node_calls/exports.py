# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about exports: directories with the dumps of an instance's disks and a `config.ini`.

A *directory* is named relative to the node's directory of exports. One whose name ends in `UNFINISHED` is no export
yet.
"""

import msgspec

from ganeti.model.node_calls import DAY_S, FAST_S, SLOW_S, NodeRequest
from ganeti.model.node_requests import InstanceSpec

UNFINISHED = ".new"
EXPORTED = ".export"
"""Name of the snapshot that an export reads; users' cannot begin with a dot."""


class Dumped(msgspec.Struct, frozen=True, kw_only=True):
    """A dump that was written here."""

    boot: str = ""
    """A mark of this power-on."""
    sha256: str = ""
    """Checksum of the whole dump."""


class ExportDump(NodeRequest[Dumped], frozen=True, kw_only=True):
    """Have the OS write the dump of one disk."""

    answer_within_s = DAY_S
    instance: InstanceSpec
    index: int
    directory: str
    dump: str
    debug: int
    token: str = ""
    """Names the run of the script (`ScriptOutput`)."""
    copied: bool = False
    """Read what `ExportCopyDisks` or `ExportSnapshotDisks` has made."""


class ExportCopyDisks(NodeRequest[None], frozen=True, kw_only=True):
    """Copy the disks of a running guest, as of one moment, into a directory of an export."""

    answer_within_s = DAY_S
    instance: InstanceSpec
    directory: str
    token: str = ""
    """Names the run, so that `ExportEndCopies` can end it."""


class ExportSnapshotDisks(NodeRequest[None], frozen=True, kw_only=True):
    """Keep the disks of a stopped instance as they are, all or none of them, for its OS to read while it runs again.

    An older snapshot for an export is replaced.
    """

    answer_within_s = SLOW_S
    instance: InstanceSpec
    directory: str


class ExportRemoveSnapshots(NodeRequest[None], frozen=True, kw_only=True):
    """Remove what `ExportSnapshotDisks` has kept; what is gone is no error."""

    answer_within_s = SLOW_S
    instance: InstanceSpec


class ExportEndCopies(NodeRequest[None], frozen=True, kw_only=True):
    """End the copying of the disks of a guest, and what is left of it; a run that has not begun never will."""

    takes_slot = False
    hypervisor: str
    name: str
    token: str = ""
    """That of `ExportCopyDisks`."""


class ExportDumpSizes(NodeRequest[list[int]], frozen=True, kw_only=True):
    """The sizes of these dumps in bytes; one that is missing is an error."""

    answer_within_s = FAST_S
    changes_node = False
    asked_by_plans = True
    directory: str
    dumps: list[str]


class ExportDamagedDumps(NodeRequest[list[str]], frozen=True, kw_only=True):
    """Names of those dumps that are not as they were written. All are read, up to the first damaged one."""

    answer_within_s = DAY_S
    changes_node = False
    directory: str
    dumps: dict[str, str]
    """The SHA-256 of each, by its name."""
    token: str = ""
    """Names the run (`ExportProgress`, `ScriptEnd`)."""


class ExportProgress(NodeRequest[int], frozen=True, kw_only=True):
    """Bytes that the run with *token* has written (`ExportDump`) or read (`ExportDamagedDumps`)."""

    answer_within_s = FAST_S
    changes_node = False
    token: str


class ExportFinish(NodeRequest[None], frozen=True, kw_only=True):
    """What lies in the unfinished directory of *name* is its export from now on, in place of an older one.

    One that has not all *dumps*, or is not there, is an error, and the older one stays.
    """

    answer_within_s = SLOW_S
    name: str
    config: str
    """Text of its `config.ini`."""
    boot: str
    """The mark of `ExportDump`; empty where transfers brought the dumps, which they have synced."""
    dumps: dict[str, int]
    """The size of each in bytes, by its name."""


class ExportDiscard(NodeRequest[None], frozen=True, kw_only=True):
    """Remove the unfinished directory of *name*, if it is there."""

    name: str


class ExportList(NodeRequest[list[str]], frozen=True, kw_only=True):
    """Names of the exports kept here."""

    answer_within_s = FAST_S
    changes_node = False
    asked_by_plans = True


class ExportInfo(NodeRequest[str], frozen=True, kw_only=True):
    """Text of the `config.ini` of an export."""

    answer_within_s = FAST_S
    changes_node = False
    asked_by_plans = True
    directory: str


class ExportRemove(NodeRequest[bool], frozen=True, kw_only=True):
    """Remove the export of *name*; gives whether there was one."""

    name: str


class ImportDump(NodeRequest[None], frozen=True, kw_only=True):
    """Have the OS fill one disk from a dump that this node keeps."""

    answer_within_s = DAY_S
    instance: InstanceSpec
    index: int
    directory: str
    dump: str
    debug: int
    token: str = ""
    """Names the run of the script (`ScriptOutput`)."""
