# SPDX-License-Identifier: BSD-2-Clause
"""What the arguments of a simulated process' system calls stand for: paths, descriptors, processes."""

import errno
import os as real
import posixpath
from typing import Any

from ganeti_simulation.system.descriptors import Description, FileDescription
from ganeti_simulation.system.kernel import Running
from ganeti_simulation.system.process import Process


def absolute(path: Any) -> str:
    """*path* as the disk wants it."""
    if type(path) is str and path[:1] == "/":
        return path
    text: str = real.fsdecode(path)
    if not text.startswith("/"):
        text = posixpath.join(Running.process().local.get("cwd", "/"), text)
    return text


def description_of(number: Any) -> Description:
    if not isinstance(number, int):
        number = number.fileno()
    found = Running.process().descriptors.get(number)
    if found is None:
        raise OSError(errno.EBADF, real.strerror(errno.EBADF))
    return found


def file_of(number: Any) -> Any:
    description = description_of(number)
    if not isinstance(description, FileDescription):
        raise OSError(errno.EINVAL, real.strerror(errno.EINVAL))
    return description.file


def find_process(pid: int) -> Process:
    process = Running.process().machine.processes.get(pid)
    if process is None:
        raise ProcessLookupError(errno.ESRCH, real.strerror(errno.ESRCH))
    return process
