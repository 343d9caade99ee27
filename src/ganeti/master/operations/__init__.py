# SPDX-License-Identifier: BSD-2-Clause
"""Every operation: `<noun>/<verb>.py`, one file an opcode. `load()` registers them all."""


def load() -> None:
    """Import every operation, so that `ganeti.master.operation.REGISTRY` is complete."""
    import sys

    from ganeti.base.registry import import_all

    import_all(sys.modules[__name__])
