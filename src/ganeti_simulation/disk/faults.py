# SPDX-License-Identifier: BSD-2-Clause
"""How a simulated disk refuses a call: errors as Linux reports them, and faults that somebody asked for."""

import functools
import os

_said = functools.cache(os.strerror)


def refused(code: int, *paths: str) -> OSError:
    """The error as Linux reports it."""
    if len(paths) == 2:
        return OSError(code, _said(code), paths[0], None, paths[1])
    return OSError(code, _said(code), *paths)


class Fault:
    def __init__(self, kind: str, code: int, count: int, path_prefix: str) -> None:
        self.kind = kind
        self.code = code
        self.count = count
        self.path_prefix = path_prefix


class Faults(list[Fault]):
    """Those that a machine's root disk has; `clear` mends it."""

    def fail(self, kind: str, code: int, count: int = 1, path_prefix: str = "/") -> None:
        """Let the next *count* calls (-1: all) of a *kind* on a path of that prefix fail with the errno *code*.

        Kinds: open create read write fsync rename unlink chmod stat lock seek.
        """
        self.append(Fault(kind, code, count, path_prefix))

    def meet(self, kind: str, path: str) -> None:
        """Raise the error that was asked for, if any."""
        for fault in self:
            if fault.kind == kind and fault.count and path.startswith(fault.path_prefix):
                fault.count -= 1
                if not fault.count:
                    self.remove(fault)
                raise refused(fault.code, path)
