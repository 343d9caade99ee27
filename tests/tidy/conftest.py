# SPDX-License-Identifier: BSD-2-Clause
"""The tree is read and parsed once for all rules."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from parsed_tree import PACKAGE, TREE, Exemptions, Module, read


@pytest.fixture(scope="session")
def modules() -> list[Module]:
    """Every module of the package."""
    return read(PACKAGE.rglob("*.py"))


@pytest.fixture(scope="session")
def all_files() -> list[Module]:
    """Every Python file of the tree, tests and benchmarks included."""
    return read([*PACKAGE.rglob("*.py"), *(TREE / "tests").rglob("*.py"), *(TREE / "bench").rglob("*.py")])


@pytest.fixture(scope="session")
def exemptions() -> Exemptions:
    return Exemptions()
