# SPDX-License-Identifier: BSD-2-Clause
"""The life of a job drawn from the queue machine's own table, for `docs/design/job-life.md`. Pure.

Only arrows that lead somewhere else are drawn; what an event does to a job that stays where it is, the table says.
"""

from ganeti.master.queue.state import Phase
from ganeti.master.queue.transitions import TRANSITIONS

BEGIN = "<!-- job life: made by `python -m ganeti.tools.job_life`, do not edit -->"
END = "<!-- end of job life -->"

_MEANING = {
    Phase.QUEUED: "ready, or kept back by a dependency, a filter or a rate limit",
    Phase.ASKING: "has a slot; WConfD is asked for its locks",
    Phase.PARKED: "its request waits in WConfD; no slot, no process",
    Phase.ANNOUNCED: "its file names LuxiD's lock file; the spawner forks",
    Phase.STARTED: "confirmed; the file is the process's",
    Phase.ENDED: "result on disk",
}


def diagram() -> str:
    """The phases, their meaning, and which event leads from one to the other, as a Mermaid state diagram."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {Phase.QUEUED}: submitted, durable"]
    lines += [f"    {phase}: {phase} ({meaning})" for phase, meaning in _MEANING.items()]
    arrows: dict[tuple[Phase, Phase], list[str]] = {}
    for (phase, event), transition in TRANSITIONS.items():
        for target in transition.to:
            if target is not phase:
                arrows.setdefault((phase, target), []).append(event.__name__)
    lines += [f"    {source} --> {target}: {', '.join(events)}" for (source, target), events in arrows.items()]
    return "\n".join([*lines, f"    {Phase.ENDED} --> [*]", "```"])


def redrawn(text: str) -> str:
    """*text* with the drawing between its marks renewed; raises `ValueError` if it has no marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the text has no place for the life of a job")
    return f"{before}{BEGIN}\n{diagram()}\n{END}{after}"
