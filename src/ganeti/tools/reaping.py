# SPDX-License-Identifier: BSD-2-Clause
"""Runs a command and collects the orphans it leaves: ``python -m ganeti.tools.reaping COMMAND…``.

The first process of a test node ends only when everything that was entered into the node has been collected. Where
process 1 collects nobody, as in a container without an init, this takes its place.
"""

import ctypes
import os
import signal
import subprocess
import sys

_PR_SET_CHILD_SUBREAPER = 36


def main() -> int:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    command = subprocess.Popen(sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command is asked as well, and says when it has ended
    signal.signal(signal.SIGTERM, lambda number, frame: command.send_signal(number))
    while True:
        pid, status = os.wait()
        if pid == command.pid:
            return os.waitstatus_to_exitcode(status) & 0xFF


if __name__ == "__main__":
    sys.exit(main())
