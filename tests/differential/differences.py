# SPDX-License-Identifier: BSD-2-Clause
"""What differs between two outcomes, once what 3.1 is known to do otherwise than 3.0.2 is left out."""

import difflib
import re
from collections.abc import Callable

from tests.differential.cases import REQUEST, Case
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
    """Whether the peer ended in an error of its own.

    It does when asked about an instance that is in two groups, and hspace when it counts forthcoming instances, or
    new ones without memory.
    """
    return any(words in outcome.stderr for words in _CRASHES)


_CRASHES = ("CallStack (from HasCallStack)", "internal inconsistency", "divide by zero")


def _without_version(case: Case, outcome: Outcome) -> Outcome:
    """Versions in texts and in comments of jobs, and where the sockets are."""

    def cut(text: str) -> str:
        text = re.sub(r"\(ganeti\) version \S+\ncompiled with .*\nrunning on .*", "(ganeti) version X", text)
        return re.sub(r"\(ganeti\) version \S+", "(ganeti) version X", text).replace("[/var/run/", "[/run/")

    return Outcome(outcome.exit, cut(outcome.stdout), cut(outcome.stderr), outcome.files)


def _by_its_name(case: Case, outcome: Outcome) -> Outcome:
    """The peer runs as ``htools``, and begins the sentences of its run-time system with that."""
    stderr = re.sub(r"^htools: ", f"{case.tool}: ", outcome.stderr, flags=re.MULTILINE)
    return Outcome(outcome.exit, outcome.stdout, stderr, outcome.files)


def _counted_once(case: Case, outcome: Outcome) -> Outcome:
    """With ``-I`` 3.0 prepares the data twice: it warns twice, even where it is quiet, and counts instances twice."""
    message = case.files.get(REQUEST)
    if message is None or case.tool == "hail":
        return outcome
    failed = re.search(r"^Error", outcome.stderr, re.M)
    if outcome.exit is not None and not failed and '"admin_state"' in message:
        return Outcome(None, "", "", {})
    warning = r"^Warning: cluster has inconsistent data:\n(  - node .*\n)+\n"
    return Outcome(outcome.exit, outcome.stdout, re.sub(warning, "", outcome.stderr, flags=re.M), outcome.files)


def _without_help(case: Case, outcome: Outcome) -> Outcome:
    """What options mean is said in other words."""
    stderr = re.sub(r"^(Usage: .*\n)(.*\n)*", r"\1", outcome.stderr, flags=re.MULTILINE)
    return Outcome(outcome.exit, outcome.stdout, stderr, outcome.files)


KNOWN: tuple[Reading, ...] = (_without_version, _by_its_name, _counted_once, _without_help)
"""Each makes the two sides the same in one respect, and says in its docstring why they differ there."""
