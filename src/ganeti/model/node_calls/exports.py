# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about exports: directories with the dumps of an instance's disks and a `config.ini`.

A *directory* is named relative to the node's directory of exports. One whose name ends in `UNFINISHED` is no export
yet, or holds dumps on their way to an import.
"""

import msgspec

from ganeti.model.node_calls import NodeRequest
from ganeti.model.node_requests import InstanceSpec

UNFINISHED = ".new"


class DumpPiece(msgspec.Struct, frozen=True, kw_only=True):
    """Some bytes of a dump; without any, all before *offset* has been looked at."""

    offset: int
    data: bytes = b""
    size: int
    """Of the whole, in bytes."""


class ExportDump(NodeRequest[str], frozen=True, kw_only=True):
    """Have the OS write the dump of one disk; gives a mark of this power-on."""

    instance: InstanceSpec
    index: int
    directory: str
    dump: str
    debug: int


class ExportRead(NodeRequest[DumpPiece], frozen=True, kw_only=True):
    """The first piece of a dump at or after *offset* that is not empty."""

    directory: str
    dump: str
    offset: int
    compression: int
    """Level of zlib, 0 for none."""


class ExportCopyBegin(NodeRequest[str], frozen=True, kw_only=True):
    """Make room for a dump of *size* bytes; gives a mark of this power-on."""

    directory: str
    dump: str
    size: int


class ExportCopyWrite(NodeRequest[int], frozen=True, kw_only=True):
    """Write a piece; gives the offset after it."""

    directory: str
    dump: str
    offset: int
    data: bytes
    compressed: bool
    boot: str


class ExportFinish(NodeRequest[None], frozen=True, kw_only=True):
    """What lies in the unfinished directory of *name* is its export from now on, in place of an older one."""

    name: str
    config: str
    """Text of its `config.ini`."""
    boot: str


class ExportDiscard(NodeRequest[None], frozen=True, kw_only=True):
    """Remove the unfinished directory of *name*, if it is there."""

    name: str


class ExportList(NodeRequest[list[str]], frozen=True, kw_only=True):
    """Names of the exports kept here."""


class ExportInfo(NodeRequest[str], frozen=True, kw_only=True):
    """Text of the `config.ini` of an export."""

    directory: str


class ExportRemove(NodeRequest[bool], frozen=True, kw_only=True):
    """Remove the export of *name*; gives whether there was one."""

    name: str


class ImportDump(NodeRequest[None], frozen=True, kw_only=True):
    """Have the OS fill one disk from a dump; *boot* is the mark of `ExportCopyBegin` where it was copied here."""

    instance: InstanceSpec
    index: int
    directory: str
    dump: str
    boot: str
    debug: int
