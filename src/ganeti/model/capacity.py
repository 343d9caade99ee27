# SPDX-License-Identifier: BSD-2-Clause
"""How many more instances fit into a node group: in what that is counted, and what was (S1.66, S1.70, S1.71)."""

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

Spec = tuple[int, int, int]
"""Memory and disk in MiB, virtual CPUs."""
LARGEST_AMOUNT = 2**53
"""No size is larger: up to there every program that reads JSON has whole numbers."""
_LEAST = {"memory": 1, "disk": 0, "vcpus": 1}
Ratio = Annotated[float, msgspec.Meta(gt=0)]
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]


def spec_fault(spec: Sequence[int]) -> str:
    """What is wrong with a size, in one sentence; nothing if it can be counted in."""
    for (name, least), amount in zip(_LEAST.items(), spec, strict=True):
        if not least <= amount <= LARGEST_AMOUNT:
            return (
                f"The max_inst_spec {list(spec)} has a {name} of {amount}: give memory and disk in MiB and"
                f" the number of vcpus, each at most {LARGEST_AMOUNT}, memory and vcpus at least 1"
            )
    return ""


class Capacity(NamedTuple):
    """What was counted for one group: its entry of S1.70, and when, in seconds since the epoch.

    *why* is a sentence that says why nothing fits, where nothing does and the allocator said it.
    """

    result: dict[str, Any]
    counted_at: float
    why: str = ""


class CapacityParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The parameters of S1.66 as the cluster or a node group has them; None leaves one to the next level.

    *max_inst_spec* is the largest size; *default_template* the disk template; *max_cpu_ratio* virtual to physical
    processors; *max_disk_usage* the share of a node's disk that may be used.
    """

    max_inst_spec: Spec | None = None
    default_template: str | None = None
    max_cpu_ratio: Ratio | None = None
    max_disk_usage: Share | None = None

    def __post_init__(self) -> None:
        if self.max_inst_spec is not None and (fault := spec_fault(self.max_inst_spec)):
            raise ValueError(fault)

    def plain(self) -> dict[str, Any] | None:
        """What is written into the configuration; None where nothing is said."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        if self.max_inst_spec is not None:
            found["max_inst_spec"] = list(self.max_inst_spec)
        return found or None
