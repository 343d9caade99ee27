# SPDX-License-Identifier: BSD-2-Clause
"""In system tests a change of what its job has not locked fails (S2.58).

With GANETI_IP=6 or hybrid in the environment, every cluster whose test does not say otherwise speaks that.
"""

import os
from collections.abc import Iterator

import pytest

from ganeti.tools.testbed import bed
from ganeti.wconfd.lock_check import STRICT

if "GANETI_IP" in os.environ:
    assert bed.up.__kwdefaults__ is not None
    bed.up.__kwdefaults__["ip"] = os.environ["GANETI_IP"]


@pytest.fixture(scope="module", autouse=True)
def strict_locks() -> Iterator[None]:
    before = os.environ.get(STRICT)
    os.environ[STRICT] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[STRICT]
        else:
            os.environ[STRICT] = before
