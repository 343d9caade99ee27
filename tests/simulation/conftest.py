# SPDX-License-Identifier: BSD-2-Clause
"""Tests that run the simulator: each in a real process of its own, as it needs one for production code alone."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from ganeti.wconfd.lock_check import STRICT

TREE = Path(__file__).resolve().parents[2]
_LONGEST_S = 3600
"""In `make test` it is the least urgent (`tests/least_urgent.py`) and may wait for the clusters all the time."""


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str


def simulate(*words):
    """Run the simulator's command."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    environment[STRICT] = "1"
    done = subprocess.run(
        [sys.executable, "-m", "ganeti_simulation", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=_LONGEST_S,
        env=environment,
        cwd=TREE,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session", name="simulate")
def _simulate():
    return simulate


class Compared:
    """What the command said of each of some plan files."""

    def __init__(self, paths):
        self.paths = paths
        self.ran = simulate("--check", "--jobs", "1", "--plan", *paths)
        self._faults = {}
        named = {f"{path}:": path for path in paths}
        path = None
        for line in self.ran.out.splitlines():
            if line in named:
                path = named[line]
            elif path is not None and line.startswith("  "):
                self._faults.setdefault(path, []).append(line.strip())
            else:
                path = None

    def faults_of(self, path):
        assert "scenarios" in self.ran.out, self.ran
        return self._faults.get(path, [])


@pytest.fixture(scope="session")
def compared():
    return Compared
