# SPDX-License-Identifier: BSD-2-Clause
"""Runs one side of a comparison, and finds the two sides."""

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.differential.cases import Case

TREE = Path(__file__).resolve().parents[2]
LIMIT_S = 60


@dataclass(frozen=True)
class Outcome:
    """What a command did: *files* are those it wrote. *exit* is None when it was still running after the limit."""

    exit: int | None
    stdout: str
    stderr: str
    files: dict[str, str]


@cache
def peer() -> tuple[list[str], str]:
    """The command before the name of one of Debian's tools, or why there is none."""
    found = subprocess.run([TREE / "setup/peer-htools"], capture_output=True, text=True, check=False)
    if found.returncode == 0:
        return [found.stdout.strip()], ""
    return [], found.stderr.strip().splitlines()[-1]


def ours(tool: str) -> list[str]:
    """Our program, as installed, or as the module it is."""
    installed = TREE / ".venv/bin" / tool
    if installed.exists() and _imported_tree() == TREE:
        return [str(installed)]
    program = (
        f"import sys; from ganeti.tools.htools.programs.{tool} import main; sys.argv[0] = {tool!r}; sys.exit(main())"
    )
    return [sys.executable, "-c", program]


def _imported_tree() -> Path:
    import ganeti

    return Path(ganeti.__path__[0]).resolve().parents[1]


def execute(program: list[str], case: Case, directory: Path) -> Outcome:
    """Run *program* with the arguments of *case* in *directory*, which is made and holds the files of the case."""
    directory.mkdir(parents=True)
    for name, content in case.files.items():
        (directory / name).write_bytes(content.encode(errors="surrogateescape"))
    environment = os.environ | {"LC_ALL": "C.UTF-8", "PYTHONPATH": str(_imported_tree() / "src")}
    environment.pop("HTOOLS", None)
    with (directory / ".stdout").open("w+b") as stdout, (directory / ".stderr").open("w+b") as stderr:
        process = subprocess.Popen(
            [*program, *case.arguments],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
        try:
            status: int | None = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            status = None
    written = {p.name: p.read_text(errors="replace") for p in sorted(directory.iterdir()) if p.name not in case.files}
    return Outcome(status, written.pop(".stdout"), written.pop(".stderr"), written)
