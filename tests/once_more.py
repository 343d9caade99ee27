# SPDX-License-Identifier: BSD-2-Clause
"""The gate's pytest: ``python -m tests.once_more ARGUMENTS`` runs what failed a second time, one after the other.

Hundreds of real daemons and guests share two processors for half an hour, and one deadline missed there says little.
A test that fails twice fails the run; one that passes alone is named at the end, so that somebody looks at it. A test
of a file that is marked `story` begins where the one before has left the cluster: all of its file run again. More than
`MOST_AGAIN` failures are no accident and fail at once.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

MOST_AGAIN = 20
PASSED, FAILED = 0, 1  # statuses of pytest
OF_WORKERS = ("-n", "--dist")
STORY = "pytest.mark.story"
WORKERS_ONLY = "--no-loadscope-reorder"


def main(arguments: list[str]) -> int:
    """Run pytest with *arguments*; gives its status, that of the second run where there was one."""
    with tempfile.TemporaryDirectory(prefix="pytest-cache-") as cache:
        pytest = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}"]
        status = subprocess.run([*pytest, *arguments], check=False).returncode
        failed = failures(Path(cache))
        if status != FAILED or not failed or len(failed) > MOST_AGAIN:
            return status
        tell("failed; once more, alone:", failed)
        again = [*pytest, *alone(arguments), *whole_stories(failed)]
        status = subprocess.run(again, check=False).returncode
        twice = failures(Path(cache))
        tell("passed alone, look at them:", [name for name in failed if name not in twice])
        return status


def failures(cache: Path) -> list[str]:
    """Give the names of the tests that failed in the run that has just ended."""
    path = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(path.read_text())) if path.exists() else []


def whole_stories(names: list[str]) -> list[str]:
    """Give *names*, each test of a story replaced by its file."""
    chosen = []
    for name in names:
        path = Path(name.partition("::")[0])
        chosen.append(str(path) if STORY in path.read_text() else name)
    return list(dict.fromkeys(chosen))


def alone(arguments: list[str]) -> list[str]:
    """Give *arguments* without what asks for workers and without the names of files."""
    kept, skip = [], False
    for word in arguments:
        if not skip and word not in OF_WORKERS and word != WORKERS_ONLY and not Path(word).exists():
            kept.append(word)
        skip = word in OF_WORKERS
    return kept


def tell(what: str, names: list[str]) -> None:
    """Print *names* below *what*, where there are any."""
    if names:
        print(f"\n== {len(names)} {what}", *names, sep="\n   ", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
