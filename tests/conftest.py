# SPDX-License-Identifier: BSD-2-Clause
"""For every test: `tests.fakes` can be imported, interrupts work as elsewhere, laws take as many examples as asked."""

import signal
import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.fakes.thoroughness import examples

# A busy machine is no fault of a law: none has a deadline of its own.
settings.register_profile("house", max_examples=examples(100), deadline=None)
settings.load_profile("house")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so in the background, and in every process made from here
    signal.signal(signal.SIGINT, signal.default_int_handler)
