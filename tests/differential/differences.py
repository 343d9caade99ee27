# SPDX-License-Identifier: BSD-2-Clause
"""What differs between two outcomes, once what 3.1 is known to do otherwise than 3.0.2 is left out."""

import difflib
import re
from collections.abc import Callable

from tests.differential.cases import Case
from tests.differential.execution import Outcome

Reading = Callable[[Case, Outcome], Outcome]


def differences(case: Case, peer: Outcome, ours: Outcome) -> list[str]:
    """Nothing, or what to look at: exit code, then the lines of stdout, stderr and each file that differ."""
    for reading in KNOWN:
        peer, ours = reading(case, peer), reading(case, ours)
    found = [] if peer.exit == ours.exit else [f"exit code: peer {peer.exit}, ours {ours.exit}"]
    texts = [("stdout", peer.stdout, ours.stdout), ("stderr", peer.stderr, ours.stderr)]
    names = sorted(peer.files.keys() | ours.files.keys())
    texts += [(name, peer.files.get(name, "(no file)"), ours.files.get(name, "(no file)")) for name in names]
    for name, theirs, own in texts:
        if theirs != own:
            lines = difflib.unified_diff(theirs.splitlines(True), own.splitlines(True), f"peer's {name}", "ours", n=1)
            found.append("".join(line if line.endswith("\n") else f"{line}\n\\ no newline\n" for line in lines))
    return found


def crashed(outcome: Outcome) -> bool:
    """Whether the peer ended in an error of its own: it does when asked about an instance that is in two groups."""
    return "CallStack (from HasCallStack)" in outcome.stderr


def _without_version(case: Case, outcome: Outcome) -> Outcome:
    """Versions in texts and in comments of jobs."""

    def cut(text: str) -> str:
        return re.sub(r"\(ganeti\) version \S+", "(ganeti) version X", text)

    return Outcome(outcome.exit, cut(outcome.stdout), cut(outcome.stderr), outcome.files)


def _without_records(case: Case, outcome: Outcome) -> Outcome:
    """hail of 3.0 prints records of its own language: with -v the request it read; all groups where none is left."""
    stdout = re.sub(r'(no groups for evacuation): (?:[^"\\]|\\.)*', r"\1", outcome.stdout)
    stderr = re.sub(r"^Received request: .*\n", "", outcome.stderr, flags=re.MULTILINE)
    return Outcome(outcome.exit, stdout, stderr, outcome.files)


KNOWN: tuple[Reading, ...] = (_without_version, _without_records)
"""Each makes the two sides the same in one respect, and says in its docstring why they differ there."""
