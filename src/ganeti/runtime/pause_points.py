# SPDX-License-Identifier: BSD-2-Clause
"""Named places at which a process can be made to stop, so that tests can kill it exactly there.

`GANETI_PAUSE_AT` holds names separated by commas; a process that reaches one of them stops itself (SIGSTOP). Without
the variable this costs one dictionary look-up.
"""

import os
import signal

_VARIABLE = "GANETI_PAUSE_AT"


def reach(name: str) -> None:
    """Stop here if asked to."""
    names = os.environ.get(_VARIABLE)
    if names is not None and name in names.split(","):
        os.kill(os.getpid(), signal.SIGSTOP)
