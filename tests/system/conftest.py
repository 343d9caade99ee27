# SPDX-License-Identifier: BSD-2-Clause
"""In system tests a change of what its job has not locked fails (S2.58), and so does a secret that is shown."""

import os
from collections.abc import Iterator

import pytest
from tests.fakes import bed_addresses
from tests.system import secret_watch

from ganeti.wconfd.lock_check import STRICT

bed_addresses.speak_what_is_asked()
secret_watch.watch_testbeds()


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
