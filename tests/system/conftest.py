# SPDX-License-Identifier: BSD-2-Clause
"""In all system tests a change of what its job has not locked fails (S2.58).

With GANETI_IP=6 or hybrid in the environment, every cluster whose test does not say otherwise speaks that.
"""

import os

from ganeti.tools.testbed import bed
from ganeti.wconfd.lock_check import STRICT

os.environ[STRICT] = "1"

if "GANETI_IP" in os.environ:
    assert bed.up.__kwdefaults__ is not None
    bed.up.__kwdefaults__["ip"] = os.environ["GANETI_IP"]
