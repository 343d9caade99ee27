# SPDX-License-Identifier: BSD-2-Clause
"""Real guests are run only where one boots, which is tried once. Under CI a machine that cannot is a failure.

Testbeds are watched for secrets that are shown, as in system tests.
"""

import os

import pytest
from tests.fakes import bed_addresses
from tests.system import secret_watch

from ganeti.tools.testbed import guest, guest_run

bed_addresses.speak_what_is_asked()
secret_watch.watch_testbeds()


@pytest.fixture(scope="session", autouse=True)
def guest_image():
    """The heartbeat guest, known to boot on this machine."""
    reason = guest_run.why_not()
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return guest.ensure()
