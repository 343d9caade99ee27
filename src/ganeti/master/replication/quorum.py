# SPDX-License-Identifier: BSD-2-Clause
"""How many master candidates must agree, the master counted among them.

Invariant: ``take_over_quorum(n) + shrink_quorum(n) > n``, so whoever takes over has asked a node that knows of every
copy that was taken out of the set in sync. With two candidates the master may take the other one out alone, since
nobody takes over without its promise.
"""


def take_over_quorum(candidates: int) -> int:
    """Promises that a new epoch needs: more than half."""
    return candidates // 2 + 1


def shrink_quorum(candidates: int) -> int:
    """Candidates that must know, durably, that a copy is left out before anything is acknowledged without it."""
    return (candidates + 1) // 2
