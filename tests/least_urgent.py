# SPDX-License-Identifier: BSD-2-Clause
"""Runs a command that gives way to everything else: ``python -m tests.least_urgent COMMAND…``.

Where the kernel shares the processors by sessions first (autogroup), a niceness counts within a session alone: the
daemons of testbeds have sessions of their own, and a niced command took as much as they did. So the command has a
session of its own, too, and that session is the least urgent one.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress

LEAST_URGENT = 19
GROUP = "/proc/self/autogroup"
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The command is in no terminal's group any more."""


def give_way() -> None:
    """This process, and all that it starts."""
    os.setsid()
    os.nice(LEAST_URGENT)
    with suppress(OSError), open(GROUP, "w") as file:  # not every kernel has it
        file.write(str(LEAST_URGENT))


def main(command: list[str]) -> int:
    """Give the status of *command*."""
    process = subprocess.Popen(command, preexec_fn=give_way)
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: os.killpg(process.pid, number))
    return process.wait() & 0xFF


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
