# SPDX-License-Identifier: BSD-2-Clause
"""What has become of an opcode that did not come to its own end, in words for the job's result. Pure.

Told by the undo log (what is kept, undone, completed) and by the configuration as it is then: never by what usually
happens.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ganeti.base.errors import UNKNOWN_ENTITY, PrerequisiteError
from ganeti.model.objects import Instance, Node
from ganeti.model.view import ConfigView
from ganeti.wire.job_file import JobFile


@dataclass(frozen=True)
class Outcome:
    """What became of the records of an undo log, by their numbers: carried out by this process or by a successor."""

    undone: int = 0
    completed: int = 0
    given_up: int = 0
    settled: bool = False
    """A commit that made the records before it moot has happened."""

    def __str__(self) -> str:
        """A half-sentence; empty where no record was ever dealt with."""
        kept = self.settled or self.completed > 0
        parts = []
        if self.completed:
            parts.append("what it had begun was completed, as its log says")
        elif self.settled:
            parts.append("what it had committed stays")
        if self.undone:
            parts.append(f"its {'later ' if kept else ''}steps were undone, as its log says")
        if self.given_up:
            parts.append(f"{self.given_up} of its steps could not be undone, see `gnt-cluster verify`")
        return ", ".join(parts)


def of_process(job: JobFile, outcome: Outcome) -> str:
    """As an outcome in words; for a process that died and left nothing that is to be undone."""
    if str(outcome):
        return str(outcome)
    return "what it had changed until then stays" if job.begun == job.attempt else "it had changed nothing yet"


def standing(view: ConfigView, opcode: Mapping[str, Any]) -> str:
    """What the configuration says of the object an opcode is about, as a half-sentence; empty where it names none."""
    for kind, noun in (("instance", "instance"), ("node", "node"), ("group", "node group")):
        names = [opcode.get(f"{kind}_uuid"), opcode.get(f"{kind}_name")]
        wanted = [name for name in names if isinstance(name, str) and name]
        if wanted:
            try:
                return _of_object(view, view.find(_KINDS[kind], wanted[0]))
            except PrerequisiteError as err:
                return f"there is no {noun} {wanted[-1]}" if err.code == UNKNOWN_ENTITY else ""
    return ""


_KINDS = {"instance": "instances", "node": "nodes", "group": "nodegroups"}


def _of_object(view: ConfigView, found: Any) -> str:
    if isinstance(found, Instance):
        state = "forthcoming" if found.forthcoming else f"marked {found.admin_state}"
        node = view.get("nodes", found.primary_node)
        return f"instance {found.name} is there, {state}" + (f", on {node.name}" if isinstance(node, Node) else "")
    if isinstance(found, Node):
        flags = (("offline", found.offline), ("drained", found.drained), ("a candidate", found.master_candidate))
        return ", ".join([f"node {found.name} is there", *(word for word, is_so in flags if is_so)])
    return f"node group {found.name} is there"
