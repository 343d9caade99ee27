# SPDX-License-Identifier: BSD-2-Clause
"""Node calls of a live migration, in their order."""

from typing import Any

import msgspec

from ganeti.model.node_calls import SLOW_S, URGENT_S, NodeRequest
from ganeti.model.node_requests import InstanceSpec


class MigrationTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how a source reaches an incoming guest; the key travels over mutual TLS only."""

    address: str = ""
    port: int = 0
    key: str = ""
    """One-time pre-shared key, hexadecimal; never logged."""
    data: dict[str, Any] = {}


class MigrationStatus(msgspec.Struct, frozen=True, kw_only=True):
    status: str
    """``none``, ``active``, ``pre-switchover``, ``device``, ``completed``, ``failed``, ``cancelled``."""
    transferred_ram: int = 0
    total_ram: int = 0
    downtime_ms: int | None = None
    error: str = ""


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """How a migration nobody looks after any more has ended."""

    settled: bool
    """True: the guest lives on at the target. False: it is back, or stays, here, or has ended here meanwhile."""
    status: str


class Finalized(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the guest is here for good: what is to follow then may be completed."""

    settled: bool


class InstanceMigratable(NodeRequest[None], frozen=True, kw_only=True):
    """Raises `HypervisorError` when the guest cannot be migrated away from here."""

    changes_node = False
    instance: InstanceSpec


class MigrationInfo(NodeRequest[dict[str, Any]], frozen=True, kw_only=True):
    """What the target must copy from how the guest runs here."""

    changes_node = False
    instance: InstanceSpec


class AcceptInstance(NodeRequest[MigrationTarget], frozen=True, kw_only=True):
    """Start the incoming side, listening on *address*; on failure nothing of it is left."""

    instance: InstanceSpec
    info: dict[str, Any]
    address: str


class InstanceMigrate(NodeRequest[None], frozen=True, kw_only=True):
    """Begin to send a guest; `instance_get_migration_status` tells how it goes."""

    instance: InstanceSpec
    target: MigrationTarget
    live: bool


class InstanceGetMigrationStatus(NodeRequest[MigrationStatus], frozen=True, kw_only=True):
    """How far the sending of a guest is: told when it sends no more, or after *within_s* seconds (at most 1)."""

    answer_within_s = URGENT_S
    changes_node = False
    instance: InstanceSpec
    within_s: float = 0.0


class MigrationContinue(NodeRequest[None], frozen=True, kw_only=True):
    """Switch over: the guest stops here and goes on at the target."""

    instance: InstanceSpec


class MigrationHandOver(NodeRequest[None], frozen=True, kw_only=True):
    """On the source, at its switchover: let the target's copies of the disks be the ones that are written."""

    instance: InstanceSpec


class MigrationTakeOver(NodeRequest[None], frozen=True, kw_only=True):
    """On the target, after the source has handed over."""

    instance: InstanceSpec


class MigrationCancel(NodeRequest[MigrationStatus], frozen=True, kw_only=True):
    """Return to running here; ``completed`` when it is too late for that."""

    instance: InstanceSpec


class InstanceFinalizeMigrationDst(NodeRequest[Finalized], frozen=True, kw_only=True):
    """On the target: the guest stays for good, or is ended and cleaned up.

    Without *success*, any node that does not run the guest may be told: what it held of the disks is free then. With
    *may_have_ended* a guest that is gone since it arrived, with this node's power perhaps, is like any that has ended.
    """

    instance: InstanceSpec
    success: bool
    may_have_ended: bool = False


class InstanceFinalizeMigrationSrc(NodeRequest[None], frozen=True, kw_only=True):
    """On the source: what is left of the guest goes, or it runs on here."""

    answer_within_s = SLOW_S
    instance: InstanceSpec
    success: bool


class MigrationResolve(NodeRequest[Resolution], frozen=True, kw_only=True):
    """On the source, after a job's death: either the guest is at the target, or it runs here again."""

    answer_within_s = SLOW_S
    instance: InstanceSpec
