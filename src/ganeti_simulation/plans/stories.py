# SPDX-License-Identifier: BSD-2-Clause
"""The story of a scenario: which sentences of a simulation matter, how they are written down, and compared.

A scenario is a file: what it shows in comments, a plan, a line `---`, and the story the plan must give. A story is a
paragraph for each step of the plan. It has neither times nor process numbers, and within a paragraph the order says
nothing: what happens at two machines at once may come either way, and other code draws other delays.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ganeti_simulation.plans.plan import Plan, parse

RULE: Final = "---"
_DAEMONS = tuple(
    re.compile(pattern)
    for pattern in (
        r"The copy at node \S+ (?:was|is left out|is damaged)",
        r"This node is not the master any more",
        r"Node \S+ has the configuration again",
        r"Epoch \d+ begins",
        r"epoch \d+ promised",
        r"node \S+ is the master from epoch",
        r"ganeti-wconfd does not run",
        r"job \d+\.\d+ step \d+: \w+ committed",
        r"job \d+ (?:has|is|was|ended|died|goes|will)\b",
        r"instance \S+ (?:started|stopped|removed|had|has|was|is|arrived|did not arrive|goes)\b",
        r"migration of instance",
        r"master IP \S+ is",
    )
)
"""What daemons log about mastership, copies, commits, jobs and guests."""
_SHORTER: Final = (
    (re.compile(r"00000000-0000-4000-8000-0{10}(\d\d)"), lambda match: f"node{int(match[1])}"),
    (re.compile(r"\.example\.com\b"), ""),
    (re.compile(r"/(ganeti-[a-z]+|[a-z]+)\[\d+\]"), r" \1"),
    (re.compile(r"\b(job \d+)\.\d+ step \d+"), r"\1"),
    (re.compile(r" \(\d+ put, \d+ removed\)"), ""),
    (re.compile(r"Membership\(version=\((\d+), (\d+)\), members=\(([^)]*?),?\)\)"), r"members \3"),
    (re.compile(r"'(node\d+)'"), r"\1"),
    (re.compile(r"\b\d+\.\d+ seconds"), "some seconds"),
    (re.compile(r"; no answer from node\d+$"), ""),  # who starts may or may not have its own node daemon yet
    (re.compile(r"\b[1-9]\d{6}(?=\b)"), "FORCED"),
    (re.compile(r"(Node \S+) (?:did not answer the call \S+|cannot be reached:) .*"), r"\1 does not answer"),
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UUID"),
)
_RAN: Final = re.compile(r"\bjob \d+(?:: \w+ committed| ended with success)")


@dataclass(frozen=True)
class Scenario:
    """*head* is the text above the rule, as written."""

    head: str
    plan: Plan
    story: tuple[str, ...] | None = None
    """None where there is no rule."""

    def with_story(self, story: Sequence[str]) -> str:
        """The text of the file with another story."""
        return "\n".join([self.head.rstrip("\n"), RULE, *story]) + "\n"


def read_scenario(text: str) -> Scenario:
    """Raises `PlanError`."""
    head, found, story = (f"{text}\n").partition(f"\n{RULE}\n")
    lines = tuple(line.rstrip() for line in story.splitlines() if line.strip())
    return Scenario(head, parse(head), lines if found else None)


class Story:
    """Listens to a simulation; `lines` are what is worth telling of it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._begun = False
        self._paragraph: dict[str, None] = {}

    def hear(self, now_s: float, who: str, sentence: str) -> None:
        if who == "plan":
            self._begun = True
            self._paragraph.clear()
            self.lines.append(sentence)
        elif self._begun and _matters(who, sentence):
            line = _shorter(f"  {who}: {sentence}")
            if line not in self._paragraph:
                self._paragraph[line] = None
                self.lines.append(line)


def _matters(who: str, sentence: str) -> bool:
    if "/" not in who:
        return True
    plain = sentence.removeprefix(" - ").removeprefix("WARNING: ").removeprefix("ERROR: ")
    return any(pattern.match(plain) for pattern in _DAEMONS)


def _shorter(line: str) -> str:
    for pattern, replacement in _SHORTER:
        line = pattern.sub(replacement, line)
    return line


def tells_of_jobs(story: Sequence[str]) -> bool:
    """Whether a job has done something in it."""
    return any(_RAN.search(line) for line in story)


def differences(wanted: Sequence[str], told: Sequence[str]) -> list[str]:
    """What of a story is missing or new, paragraph by paragraph, in sentences; none if it is the same story."""
    found: list[str] = []
    theirs, ours = _paragraphs(wanted), _paragraphs(told)
    for index in range(max(len(theirs), len(ours))):
        head, lines = theirs[index] if index < len(theirs) else ("", [])
        our_head, our_lines = ours[index] if index < len(ours) else ("", [])
        if head != our_head:
            return [*found, f"after {index} steps '{our_head}' came, and the file has '{head}'"]
        found += [f"'{head}': no longer told:{line}" for line in sorted(set(lines) - set(our_lines))]
        found += [f"'{head}': told now:{line}" for line in sorted(set(our_lines) - set(lines))]
    return found


def _paragraphs(lines: Sequence[str]) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if not line.startswith(" "):
            found.append((line, []))
        elif found:
            found[-1][1].append(line)
    return found
