# SPDX-License-Identifier: BSD-2-Clause
"""Makes `tests.fakes` importable wherever pytest is started from, and interrupts what they are elsewhere."""

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so in the background, and in every process made from here
    signal.signal(signal.SIGINT, signal.default_int_handler)
