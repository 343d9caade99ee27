# SPDX-License-Identifier: BSD-2-Clause
"""What gives way has a session of its own, hands its status on, and ends when it is asked to."""

import os
import signal
import subprocess
import sys

SHOWN = """
import os, sys
print(os.getsid(0) == os.getpid(), os.nice(0))
if os.path.exists("/proc/self/autogroup"):
    assert open("/proc/self/autogroup").read().endswith(" nice 19\\n")
sys.exit(7)
"""
WAITING = "import signal; print('waits', flush=True); signal.pause()"
LEAST_URGENT = (sys.executable, "-m", "tests.least_urgent", sys.executable, "-c")


def test_it_has_a_session_that_gives_way_and_its_status_is_handed_on():
    ran = subprocess.run([*LEAST_URGENT, SHOWN], capture_output=True, text=True, timeout=30, check=False)
    assert (ran.returncode, ran.stdout.split()) == (7, ["True", "19"]), ran.stderr


def test_an_interrupt_reaches_it_in_its_session():
    with subprocess.Popen([*LEAST_URGENT, WAITING], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"waits\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(30)
        assert b"KeyboardInterrupt" in process.stderr.read()
