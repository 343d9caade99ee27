# SPDX-License-Identifier: BSD-2-Clause
"""What is generated is fresh: the tables of commands and lists, and the pages that follow from declarations."""

import subprocess
import sys

from parsed_tree import TREE

ASK = """
from ganeti.{part} import {module}
stale = {module}.stale()
print("\\n".join(map(str, stale)) if not isinstance(stale, bool) else "tables" if stale else "")
"""


def stale(part: str, module: str) -> str:
    """Asked of a process of its own: other tests invent operations."""
    done = subprocess.run(
        [sys.executable, "-c", ASK.format(part=part, module=module)],
        cwd=TREE / "src",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_generated_files_are_fresh():
    found = stale("cli", "generate")
    assert not found, f"run python -m ganeti.cli.generate; stale: {found}"


def test_pages_of_the_reference_are_fresh():
    found = stale("reference", "writing")
    assert not found, f"run python -m ganeti.reference; stale: {found}"
