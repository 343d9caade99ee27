# SPDX-License-Identifier: BSD-2-Clause
"""What an allocation has reserved for a job: room on nodes that neither configuration nor nodes show yet (D13)."""

import msgspec

from ganeti.model.templates import NO_DISKS


class Reservation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Room for one instance; *nodes* are uuids, primary first. Disk is what it takes on each of them."""

    instance: str
    nodes: list[str]
    memory_mib: int
    disk_mib: int = 0
    vcpus: int = 0
    spindle_use: int = 1
    spindles: int | None = None
    disk_template: str = NO_DISKS
    tags: list[str] = []


class Reservations(msgspec.Struct, frozen=True, kw_only=True):
    """All reservations at one moment: *serial* counts how many were ever made, *position* is that of the configuration.

    An instance that the configuration holds at that position needs no reservation any more.
    """

    serial: int
    position: tuple[int, int]
    held: list[tuple[int | str, Reservation]]
    """Who holds it (job id, or name of a piece of work), and what."""
