# SPDX-License-Identifier: BSD-2-Clause
"""For system tests marked `strict_locks`: a change of what a job has not locked fails (S2.58)."""

import os
from collections.abc import Iterator

import pytest

from ganeti.wconfd.lock_check import STRICT


@pytest.fixture(scope="module", autouse=True)
def strict_locks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Others have opcodes and owners of their own, which change what they have not locked."""
    if request.node.get_closest_marker("strict_locks") is None:
        yield
        return
    before = os.environ.get(STRICT)
    os.environ[STRICT] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[STRICT]
        else:
            os.environ[STRICT] = before
