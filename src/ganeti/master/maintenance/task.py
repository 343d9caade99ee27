# SPDX-License-Identifier: BSD-2-Clause
"""What a round of maintenance consists of, and how its jobs are told from all others (S4.18)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ganeti.base.version import RELEASE

Opcode = dict[str, Any]
SOURCE = "gnt:daemon:maintd"
"""Of the entries in the reasons of every job that the daemon submits."""


@dataclass(frozen=True)
class Task:
    """Jobs that belong together. The first of a job's *depends* counts from it within the task."""

    incidents: Sequence[str]
    """Ids of those it is for; none for repairs of instances, and balancing."""
    about: str
    """Name of the node or instance."""
    why: str
    jobs: Sequence[Sequence[Opcode]]
    moves: Sequence[str] = ()
    """Names of the instances that change their node."""


@dataclass(frozen=True)
class Held:
    """What is not done now, and why."""

    incidents: Sequence[str]
    about: str
    why: str


@dataclass(frozen=True)
class Round:
    """Everything that is submitted at once, what is held back, and incidents with which nothing more can be done."""

    tasks: Sequence[Task] = ()
    held: Sequence[Held] = ()
    stuck: Sequence[str] = ()
    repairs: Sequence["InstanceRepair"] = field(default=())

    def plain(self) -> dict[str, Any]:
        """For those who ask what comes next."""
        return {
            "tasks": [
                {
                    "incidents": list(task.incidents),
                    "about": task.about,
                    "why": task.why,
                    "jobs": [[opcode["OP_ID"] for opcode in job] for job in task.jobs],
                }
                for task in self.tasks
            ],
            "held": [{"incidents": list(each.incidents), "about": each.about, "why": each.why} for each in self.held],
        }


@dataclass(frozen=True)
class InstanceRepair:
    """A task that mends an instance as its tags allow: the tags follow with the numbers of its jobs."""

    instance: str
    """UUID."""
    kind: str
    task: Task | None
    """None where its tags do not allow so much."""


def with_reason(jobs: Sequence[Sequence[Opcode]], task: Task, token: str, now_ns: int) -> list[list[Opcode]]:
    """The jobs with what says that the daemon has submitted them, for which incidents, and in which round."""
    entries = [[SOURCE, uuid, now_ns] for uuid in task.incidents]
    entries.append([SOURCE, f"{task.why} (round {token})", now_ns])
    comment = f"maintenance by ganeti-maintd {RELEASE}"
    return [[{**opcode, "reason": entries, "comment": comment} for opcode in job] for job in jobs]
