# SPDX-License-Identifier: BSD-2-Clause
"""How many more instances fit into a node group, as it was counted (S1.70, S1.71)."""

from typing import Any, NamedTuple


class Capacity(NamedTuple):
    """What was counted for one group: its entry of S1.70, and when, in seconds since the epoch."""

    result: dict[str, Any]
    counted_at: float
