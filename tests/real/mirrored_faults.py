# SPDX-License-Identifier: BSD-2-Clause
"""What can fail beneath a mirrored disk, and how it is healed."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from tests.real.mirrored_bed import BALLAST, MIRRORD, STORAGE_DAEMON, MirroredBed

from ganeti.tools.testbed import network


@dataclass(frozen=True)
class Struck:
    """What was hit."""

    what: str
    heal: Callable[[], None] = field(default=lambda: None)
    is_done: bool = True
    """Whether nothing is to be healed: the fault has done all it does."""


Strike = Callable[[MirroredBed, str, str], Struck | None]


@dataclass(frozen=True)
class Fault:
    """Gives None where there is nothing to hit now."""

    act: Strike | None

    def strike(self, bed: MirroredBed, primary: str, secondary: str, job: int | None) -> Struck | None:
        """*job* is the process that stands still at the step; it goes on."""
        if self.act is None:
            if job is not None:
                os.kill(job, signal.SIGKILL)
            return Struck("the job is killed") if job is not None else None
        struck = self.act(bed, primary, secondary)
        if struck is not None and job is not None:
            os.kill(job, signal.SIGCONT)
        return struck


def _signal(program: str, at_primary: bool, number: signal.Signals) -> Strike:
    def act(bed: MirroredBed, primary: str, secondary: str) -> Struck | None:
        node = primary if at_primary else secondary
        pids = bed.pids(node, program)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if not pids:
            return None
        if number == signal.SIGKILL:
            return Struck(f"{program} of {node} is killed")
        return Struck(f"{program} of {node} stands still", partial(_go_on, pids), is_done=False)

    return act


def _go_on(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _cut(at_primary: bool) -> Strike:
    def act(bed: MirroredBed, primary: str, secondary: str) -> Struck:
        node = bed.layout.node(primary if at_primary else secondary)
        network.set_lan(bed.layout, node, up=False)
        return Struck(f"{node.name} is cut off", lambda: network.set_lan(bed.layout, node, up=True), is_done=False)

    return act


def _fill(at_primary: bool) -> Strike:
    def act(bed: MirroredBed, primary: str, secondary: str) -> Struck:
        node = primary if at_primary else secondary
        path = bed.storage(node) / BALLAST
        with open(path, "wb", buffering=0) as file:
            for piece in (1024 * 1024, 4096):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(piece))
            with contextlib.suppress(OSError):
                os.fsync(file.fileno())
        return Struck(f"the disk of {node} is full", path.unlink, is_done=False)

    return act


FAULTS = {
    "the job is killed": Fault(None),
    "the primary's MirrorD is killed": Fault(_signal(MIRRORD, True, signal.SIGKILL)),
    "the secondary's MirrorD is killed": Fault(_signal(MIRRORD, False, signal.SIGKILL)),
    "the primary's storage daemon is killed": Fault(_signal(STORAGE_DAEMON, True, signal.SIGKILL)),
    "the secondary's storage daemon is killed": Fault(_signal(STORAGE_DAEMON, False, signal.SIGKILL)),
    "the secondary's MirrorD stands still": Fault(_signal(MIRRORD, False, signal.SIGSTOP)),
    "the secondary's storage daemon stands still": Fault(_signal(STORAGE_DAEMON, False, signal.SIGSTOP)),
    "the primary is cut off": Fault(_cut(True)),
    "the secondary is cut off": Fault(_cut(False)),
    "the primary's disk is full": Fault(_fill(True)),
    "the secondary's disk is full": Fault(_fill(False)),
}
