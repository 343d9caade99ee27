# SPDX-License-Identifier: BSD-2-Clause
"""How many master candidates must agree, the master counted among them.

Invariant: ``take_over_quorum(n) + shrink_quorum(n) > n``, so a new master has asked a node that knows of every
copy that was taken out of the set in sync. With two candidates the master may take the other one out alone, since
nobody takes over without its promise.

Who takes over counts the candidates of its own copy. While they change, that may be the former set or the new one; so
they change by one node at a time, and then any two majorities of the two sets meet. A master that has taken over does
not know whether others have its set already: until it does, it lets more than half know.
"""

from collections.abc import Iterable, Sequence


def take_over_quorum(candidates: int) -> int:
    """Promises that a new epoch needs: more than half."""
    return candidates // 2 + 1


def shrink_quorum(candidates: int, former_is_known: bool = True) -> int:
    """Candidates that must know, durably, that a copy is left out before anything is acknowledged without it.

    Where some member may still have another set of candidates, one node larger or smaller and not known, it takes half
    of the nodes of an even number and one more.
    """
    return (candidates + 1) // 2 if former_is_known else take_over_quorum(candidates)


def may_shrink(accepted: Iterable[str], candidate_sets: Iterable[Sequence[str]], former_is_known: bool = True) -> bool:
    """Whether *accepted* are enough under every one of the sets.

    A change of the candidates counts for a new master once its copy has the change. So until every member has
    it, both what was and what will be must agree.
    """
    known = frozenset(accepted)
    return all(
        sum(node in known for node in candidates) >= shrink_quorum(len(candidates), former_is_known)
        for candidates in candidate_sets
    )
