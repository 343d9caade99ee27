# SPDX-License-Identifier: BSD-2-Clause
"""For system tests: a change of what a job has not locked fails (S2.58)."""

import os
from collections.abc import Iterator

import pytest

from ganeti.wconfd.lock_check import STRICT


@pytest.fixture(scope="module", autouse=True)
def strict_locks() -> Iterator[None]:
    """For the daemons of these tests alone: unit tests commit without locks."""
    before = os.environ.get(STRICT)
    os.environ[STRICT] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[STRICT]
        else:
            os.environ[STRICT] = before
