# SPDX-License-Identifier: BSD-2-Clause
"""Named places at which a process can be made to stop, so that tests can kill it exactly there.

`GANETI_PAUSE_AT` holds names separated by commas; a process that reaches one of them stops itself (SIGSTOP). Without
the variable this costs one dictionary look-up.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_VARIABLE = "GANETI_PAUSE_AT"
_passing_by = False


def reach(name: str) -> None:
    """Stop here if asked to."""
    names = os.environ.get(_VARIABLE)
    if names is not None and name in names.split(",") and not _passing_by:
        # To this very thread: of a signal to the process it might not hear before it has gone on for a while.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


@contextmanager
def passed_by() -> Iterator[None]:
    """Stop at no point meanwhile: what is only rehearsed is not what a test waits for."""
    global _passing_by
    _passing_by = True
    try:
        yield
    finally:
        _passing_by = False
