# SPDX-License-Identifier: BSD-2-Clause
"""A `config.data` as Ganeti 3.1 lays it out, with keys no version knows, for all tests of this folder."""

import json
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "config" / "config-3.1.json"


@pytest.fixture
def golden_bytes() -> bytes:
    return GOLDEN.read_bytes()


@pytest.fixture
def golden() -> dict:
    return json.loads(GOLDEN.read_bytes())
