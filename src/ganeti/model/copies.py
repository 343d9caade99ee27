# SPDX-License-Identifier: BSD-2-Clause
"""Who has copies of the configuration and the queue, as WConfD tells it (answer of `replicationState`).

A copy is *in sync* when nothing is acknowledged before it is on that node's disk too; only such a node may take the
cluster over.
"""

from typing import Any, Literal

import msgspec

from ganeti.base.errors import GanetiError
from ganeti.model.membership import Membership

MASTER: Literal["master"] = "master"
IN_SYNC: Literal["in-sync"] = "in-sync"
CATCHING_UP: Literal["catching-up"] = "catching-up"
BEHIND: Literal["behind"] = "behind"
AWAY: Literal["away"] = "away"

_REASONS = {
    "epoch": "another master was promised",
    "cluster": "copy of another cluster",
    "software": "other software",
    "clock": "clock is wrong",
    "disk": "disk is full or fails",
    "damaged": "copy is damaged",
    "master": "acts as master itself",
}
"""Why a node takes no records, by the word it refuses them with."""


class Copy(msgspec.Struct, frozen=True, kw_only=True):
    """The copy of one master candidate."""

    state: Literal["master", "in-sync", "catching-up", "behind", "away"]
    position: tuple[int, int] | None = None
    """(epoch, serial) of the last record that is known to be on its disk."""
    reason: str = ""
    """Why it is behind or away: a word of a refusal, or a sentence."""
    since_s: float = 0.0
    """Since when it is in this state, in seconds since the epoch; 0 where that is not known."""

    @property
    def in_sync(self) -> bool:
        return self.state in (MASTER, IN_SYNC)

    @property
    def why(self) -> str:
        """The reason in words for people; empty where there is none."""
        return _REASONS.get(self.reason, self.reason)

    @property
    def words(self) -> str:
        """Value of the node field `sync_state`."""
        return f"{self.state}: {self.why}" if self.state == BEHIND and self.why else self.state


class Copies(msgspec.Struct, frozen=True, kw_only=True):
    """Of all master candidates, by uuid."""

    epoch: int
    membership: Membership
    position: tuple[int, int]
    nodes: dict[str, Copy]

    @property
    def in_sync(self) -> list[str]:
        """Uuids of the nodes that have everything, the master among them."""
        return [uuid for uuid, copy in self.nodes.items() if copy.in_sync]


def read_copies(answer: Any) -> Copies:
    """Take the answer of WConfD; raises `GanetiError` where it is none."""
    try:
        return msgspec.convert(answer, Copies)
    except msgspec.ValidationError as err:
        raise GanetiError(
            f"The configuration daemon gave an answer about the copies that cannot be read: {err}"
        ) from err


def position_text(position: tuple[int, int] | None) -> str | None:
    """``epoch.serial``."""
    return None if position is None else f"{position[0]}.{position[1]}"
