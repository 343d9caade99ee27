# SPDX-License-Identifier: BSD-2-Clause
"""Discovery: a package's modules register what they declare by being imported (D1)."""

import importlib
import pkgutil
from functools import cache
from types import ModuleType


@cache
def import_all(package: ModuleType) -> None:
    """Import every module below *package*, so that each of its declarations has registered itself.

    Order is by name, so that registries are the same in every process. Daemons call this again and again: the files
    are looked for the first time only.
    """
    for info in sorted(pkgutil.walk_packages(package.__path__, package.__name__ + "."), key=lambda item: item.name):
        importlib.import_module(info.name)
