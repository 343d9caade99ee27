# SPDX-License-Identifier: BSD-2-Clause
"""How many more instances fit into a node group: in what that is counted, and what was (S1.66, S1.70, S1.71)."""

from typing import Annotated, Any, NamedTuple

import msgspec

Amount = Annotated[int, msgspec.Meta(ge=0)]
Spec = tuple[Amount, Amount, Amount]
"""Memory and disk in MiB, virtual CPUs."""
Ratio = Annotated[float, msgspec.Meta(gt=0)]
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]


class Capacity(NamedTuple):
    """What was counted for one group: its entry of S1.70, and when, in seconds since the epoch."""

    result: dict[str, Any]
    counted_at: float


class CapacityParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The parameters of S1.66 as the cluster or a node group has them; None leaves one to the next level.

    *max_inst_spec* is the largest size; *default_template* the disk template; *max_cpu_ratio* virtual to physical
    processors; *max_disk_usage* the share of a node's disk that may be used.
    """

    max_inst_spec: Spec | None = None
    default_template: str | None = None
    max_cpu_ratio: Ratio | None = None
    max_disk_usage: Share | None = None

    def plain(self) -> dict[str, Any] | None:
        """What is written into the configuration; None where nothing is said."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        if self.max_inst_spec is not None:
            found["max_inst_spec"] = list(self.max_inst_spec)
        return found or None
