# SPDX-License-Identifier: BSD-2-Clause
"""To whom a node has promised itself: one epoch, one holder (`docs/design/copies-and-mastership.md`). A pure machine.

Invariant: the promised epoch never falls, and an epoch whose holder is known keeps that holder. So of two nodes that
ask for the same epoch a node promises to one only, and only one node can have the promises of a majority.

A promise is durable before it is told, and so is the epoch of an append or of a call that raised it (`noded/calls.py`
makes it so). A call of a job names no master: it raises the epoch and leaves the holder
open, which the first record of that epoch fills in. That is safe because no epoch begins without a majority's
promise, or, where a human forced it, without a number nobody else can have.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Promise:
    """The highest epoch a node knows of, and who holds it (the uuid of a node; None if that is not known yet)."""

    epoch: int = 0
    holder: str | None = None

    def would_grant(self, epoch: int) -> bool:
        """Whether *epoch* could be promised to somebody: one promise an epoch, and none for what is over."""
        return epoch > self.epoch

    def grant(self, epoch: int, holder: str) -> "Promise | None":
        """The promise after *holder* asked for *epoch*; None if it is refused and this one stands."""
        return Promise(epoch, holder) if self.would_grant(epoch) else None

    def admit_record(self, epoch: int, master: str) -> "Promise | None":
        """The promise after *master* sent a record or a membership of *epoch*; None if that is refused.

        A higher epoch is raised to: its master has the promises of a majority, among which this node need not be.
        """
        if epoch > self.epoch or (epoch == self.epoch and self.holder is None):
            return Promise(epoch, master)
        return self if (epoch, master) == (self.epoch, self.holder) else None

    def admit_call(self, epoch: int) -> "Promise | None":
        """The promise after a call that changes the node came from *epoch*; None if that epoch is over."""
        if epoch > self.epoch:
            return Promise(epoch)
        return self if epoch == self.epoch else None


def refusal_sentence(promise: Promise, epoch: int) -> str:
    """Why something of *epoch* is refused."""
    holder = f"node {promise.holder}" if promise.holder else "another master"
    if epoch < promise.epoch:
        return f"Epoch {epoch} is over: this node has promised epoch {promise.epoch} to {holder}"
    return f"Epoch {epoch} is promised to {holder}: ask for a higher one"


def established_epoch(*records: tuple[int, int] | None) -> int:
    """The highest epoch of which there is a record (a commit's position, a membership's version); 0 without any."""
    highest = 0
    for record in records:
        if record is not None and record[0] > highest:
            highest = record[0]
    return highest
