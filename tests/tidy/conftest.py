# SPDX-License-Identifier: BSD-2-Clause
"""The tree is read and parsed once for all rules."""

import gc
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from parsed_tree import PACKAGE, SIMULATOR, TREE, Exemptions, Module, read


@pytest.fixture(scope="session")
def modules() -> list[Module]:
    """Every module of the tree, parsed: a million small objects, through which the collector need not go at all."""
    gc.disable()
    try:
        found = read([*PACKAGE.rglob("*.py"), *SIMULATOR.rglob("*.py")])
        assert all(module.nodes for module in found)
        gc.freeze()
    finally:
        gc.enable()
    return found


@pytest.fixture(scope="session")
def all_files() -> list[Module]:
    """Every Python file of the tree, tests and benchmarks included."""
    return read([*(TREE / "src").rglob("*.py"), *(TREE / "tests").rglob("*.py"), *(TREE / "bench").rglob("*.py")])


@pytest.fixture(scope="session")
def exemptions() -> Exemptions:
    return Exemptions()
