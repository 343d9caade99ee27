# SPDX-License-Identifier: BSD-2-Clause
"""Named places at which a process can be made to stop, so that tests can kill it exactly there.

`GANETI_PAUSE_AT` holds names separated by commas; a process that reaches one of them stops itself (SIGSTOP). Without
the variable this costs one dictionary look-up.
"""

import os
import signal
import threading

_VARIABLE = "GANETI_PAUSE_AT"


def reach(name: str) -> None:
    """Stop here if asked to."""
    names = os.environ.get(_VARIABLE)
    if names is not None and name in names.split(","):
        # To this very thread: of a signal to the process it might not hear before it has gone on for a while.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
