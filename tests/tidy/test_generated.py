# SPDX-License-Identifier: BSD-2-Clause
"""What is generated is fresh: the tables of commands and lists, and the pages that follow from declarations."""

import subprocess
import sys

from parsed_tree import TREE

ASK = """
from ganeti.cli import generate
stale = generate.stale()
print("\\n".join(map(str, stale)) if not isinstance(stale, bool) else "tables" if stale else "")
"""


def test_generated_files_are_fresh():
    done = subprocess.run(
        [sys.executable, "-c", ASK], cwd=TREE / "src", capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert not done.stdout.strip(), f"run python -m ganeti.cli.generate; stale: {done.stdout}"


def test_pages_of_the_reference_are_fresh():
    from ganeti.reference.writing import stale

    assert not stale(), f"run python -m ganeti.reference; stale: {stale()}"
