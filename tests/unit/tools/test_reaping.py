# SPDX-License-Identifier: BSD-2-Clause
"""Orphans are collected while a command runs, and its exit status is handed on."""

import subprocess
import sys

ORPHAN = """
import os, sys, time
if os.fork() == 0:
    os.fork()
    os._exit(0)
os.wait()
deadline = time.monotonic() + 10
parent = os.getppid()
while open(f"/proc/{parent}/task/{parent}/children").read().split() != [str(os.getpid())]:
    assert time.monotonic() < deadline, "the orphan was not collected"
sys.exit(7)
"""


def test_an_orphan_is_collected_and_the_exit_status_handed_on():
    ran = subprocess.run(
        [sys.executable, "-m", "ganeti.tools.reaping", sys.executable, "-c", ORPHAN],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ran.returncode == 7, ran.stderr
