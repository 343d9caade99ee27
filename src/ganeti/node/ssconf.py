# SPDX-License-Identifier: BSD-2-Clause
"""Of which configuration the ssconf of this node is.

Two write it: the master sends it, and a candidate's copy publishes it. Both learn of the same change at times of their
own, and what comes late must not bring back what a newer one has replaced.
"""


class NewestSsconf:
    """In one run of the node daemon; the caller holds the lock of ssconf."""

    def __init__(self) -> None:
        self._cluster = ""
        self._position = (0, 0)

    def admit(self, cluster: str, position: tuple[int, int]) -> bool:
        """Whether values of this position may be written now: none of the same cluster are newer."""
        if cluster == self._cluster and position < self._position:
            return False
        self._cluster, self._position = cluster, position
        return True
