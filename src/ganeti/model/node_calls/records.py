# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about the flight recorder."""

from ganeti.model.node_calls import FAST_S, NodeRequest

Line = tuple[float, str]
"""When, in seconds since 1970, and what happened."""


class FlightRecordRead(NodeRequest[list[Line]], frozen=True, kw_only=True):
    """What this node's daemons have recorded since *since_s* about one of *about*, or about all if that is empty.

    The newest *most* lines, the oldest first.
    """

    answer_within_s = FAST_S
    changes_node = False
    about: list[str]
    since_s: float
    most: int
