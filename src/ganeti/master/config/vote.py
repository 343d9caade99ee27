# SPDX-License-Identifier: BSD-2-Clause
"""Who is master, by vote of the master candidates: asked before the master's daemons serve (protocols, section 1).

The votes are what each candidate's ssconf says. Silence is no vote, so a candidate that cannot be reached helps
nobody; this node's own vote counts for itself.
"""

from collections.abc import Mapping
from enum import Enum


class Verdict(Enum):
    ELECTED = "a majority names this node"
    REJECTED = "a majority names another node"
    OPEN = "no majority has answered"


def count_votes(votes: Mapping[str, str | None], own_name: str) -> Verdict:
    """*votes* holds for each other candidate the master it names, None for silence."""
    total = len(votes) + 1
    for_me = 1 + sum(name == own_name for name in votes.values())
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
