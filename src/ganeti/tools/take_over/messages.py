# SPDX-License-Identifier: BSD-2-Clause
"""What the master's part and the part on each node tell each other, as JSON over ssh."""

import msgspec

from ganeti.model.node_requests import DiskSpec
from ganeti.model.objects import Plain

BEFORE, TAKEN, NO_NODE = "before", "taken", "none"
"""Whose a node's data are: those of an earlier Ganeti, those of this program, or there are none."""


class Guest(msgspec.Struct, frozen=True, kw_only=True):
    """An instance whose primary node this is."""

    name: str
    uuid: str
    hypervisor: str
    network_port: int | None = None
    tags: list[str] = []
    disks: list[DiskSpec] = []
    plain_disks: list[Plain] = []
    """The same in the form of `config.data`."""


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """Asks what is there; nothing is changed."""

    back: bool = False
    """Whether it is about the way back."""
    cluster_name: str
    hypervisors: list[str] = []
    guests: list[Guest] = []
    systems: list[str] = []
    """Names of operating systems, without their variants, that instances have."""


class SurveyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    release: str
    state: str
    running: list[str] = []
    """Guests of this node that run."""
    problems: list[str] = []
    """What a take-over cannot be done with."""
    remarks: list[str] = []
    """What needs care."""
    old_digest: str = ""
    """Of the certificate that the node had before, as Ganeti 3.0 writes it; empty where none is kept."""


class Take(msgspec.Struct, frozen=True, kw_only=True):
    """Makes the data of a node those of this program; its daemons have been stopped."""

    guests: list[Guest] = []
    files: dict[str, str] = {}
    """Name in the data directory to content."""


class GiveBack(msgspec.Struct, frozen=True, kw_only=True):
    """Makes the data of a node those of Ganeti 3.0 again; its daemons have been stopped."""

    guests: list[Guest] = []
    files: dict[str, str] = {}


class Done(msgspec.Struct, frozen=True, kw_only=True):
    guests: list[str] = []
    """Those taken over or given back as they run."""
