# SPDX-License-Identifier: BSD-2-Clause
"""`fcntl` of a simulated process: locks and leases of files."""

import errno
import fcntl as real_fcntl
import os as real_os
import struct
from types import ModuleType
from typing import Any

from ganeti_simulation.facades.arguments import file_of
from ganeti_simulation.system.kernel import Running


class FcntlFacade(ModuleType):
    def __init__(self) -> None:
        super().__init__("fcntl")
        for name in dir(real_fcntl):
            if name.isupper():
                setattr(self, name, getattr(real_fcntl, name))

    @staticmethod
    def flock(number: Any, operation: int) -> None:
        while not file_of(number).flock(operation):
            if operation & real_fcntl.LOCK_NB:
                raise BlockingIOError(errno.EWOULDBLOCK, real_os.strerror(errno.EWOULDBLOCK))
            Running.kernel.block(0.001)

    @staticmethod
    def fcntl(number: Any, command: int, argument: Any = 0) -> Any:
        """Leases are always to be had: whoever reads `config.data` reads it in one go here. No QEMU locks an image."""
        if command == real_fcntl.F_OFD_GETLK:
            return struct.pack("h", real_fcntl.F_UNLCK) + argument[struct.calcsize("h") :]
        return 0

    @staticmethod
    def ioctl(number: Any, request: int, argument: Any = b"") -> Any:
        raise OSError(errno.ENOTTY, real_os.strerror(errno.ENOTTY))
