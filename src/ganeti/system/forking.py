# SPDX-License-Identifier: BSD-2-Clause
"""Making a process by fork: in a module of its own, since simulated processes are made another way."""

import os
from collections.abc import Callable
from typing import Final, NoReturn

PAYS_IN_ADVANCE: Final = True
"""Whether a process is made before it is needed: it takes time only where it is a real one."""


def fork(child: Callable[[], NoReturn]) -> int:
    """Run *child*, which never returns, in a new process; gives its process id. Raises `OSError`."""
    pid = os.fork()
    if pid == 0:
        child()
    return pid
