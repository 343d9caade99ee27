# SPDX-License-Identifier: BSD-2-Clause
"""A node of the test's own: everything below a directory that goes with the test."""

from pathlib import Path

import pytest
from tests.fakes.one_node import OneNode


@pytest.fixture
def node(tmp_path: Path) -> OneNode:
    return OneNode(tmp_path)
