# SPDX-License-Identifier: BSD-2-Clause
"""Who is master, by vote of the master candidates: asked before the master's daemons serve (protocols, section 1).

The vote of a candidate is the master its ssconf names, unless it has promised itself to a later epoch: then it is whom
it promised. So a former master is told by each of those that made another one, and a new master is named by those who
promised, before any ssconf can name it. One that names itself and has promised nothing as late as the epoch of the
asking node is a former master that slept through the change: it knows of nothing later, so it is no vote against (a
master of a later epoch would have promised that to itself). Silence is no vote, and the node that asks is asked as
well.
"""

from collections.abc import Mapping
from enum import Enum

from ganeti.model.node_calls.replica import CopyAnswer

ANOTHER = "another node"
"""Named by one who has promised a later epoch to it does not know whom."""


class Verdict(Enum):
    ELECTED = "a majority names this node"
    REJECTED = "a majority names another node"
    OPEN = "no majority has answered"


def vote_of(answer: CopyAnswer, voter: str, me: str, own_epoch: int, names: Mapping[str, str]) -> str | None:
    """Whom the candidate *voter* names. *me* is who asks (both UUIDs), *own_epoch* that of its configuration.

    *names* has the name of each node by its UUID.
    """
    if answer.promised > own_epoch and answer.holder != me:
        return names.get(answer.holder or "", ANOTHER)
    if answer.promised >= own_epoch and answer.holder == me:
        return names[me]
    if answer.refused:
        return None
    slept = answer.names == names.get(voter) and answer.promised < own_epoch
    return names[me] if slept else answer.names or None


def count_votes(votes: Mapping[str, str | None], own_name: str) -> Verdict:
    """*votes* holds for each candidate, this node too, the master it names; None for silence."""
    total = len(votes)
    for_me = sum(name == own_name for name in votes.values())
    against = sum(name is not None and name != own_name for name in votes.values())
    if 2 * for_me > total:
        return Verdict.ELECTED
    return Verdict.REJECTED if 2 * against > total else Verdict.OPEN


def explain(votes: Mapping[str, str | None], own_name: str) -> str:
    """The votes in words, for the one who must decide now."""
    silent = sorted(node for node, name in votes.items() if name is None)
    others = sorted(f"{node} names {name}" for node, name in votes.items() if name not in (None, own_name))
    parts = [f"no answer from {', '.join(silent)}"] if silent else []
    return "; ".join([*others, *parts]) or f"all name {own_name}"
