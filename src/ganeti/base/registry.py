# SPDX-License-Identifier: BSD-2-Clause
"""Discovery: a package's modules register what they declare by being imported (D1)."""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import TypeVar

Declared = TypeVar("Declared")


@cache
def import_all(package: ModuleType) -> None:
    """Import every module below *package*, so that each of its declarations has registered itself.

    Order is by name, so that registries are the same in every process. Daemons call this again and again: the files
    are looked for the first time only.
    """
    for info in sorted(pkgutil.walk_packages(package.__path__, package.__name__ + "."), key=lambda item: item.name):
        importlib.import_module(info.name)


def find(registry: Mapping[str, Declared], modules: Mapping[str, str], name: str) -> Declared | None:
    """Give what is declared as *name*, or None; *modules*, a generated table, says which module to import for it.

    Of hundreds of declarations most processes need a few: to import them all takes longer than the rest of a start.
    """
    found = registry.get(name)
    if found is None and name in modules:
        importlib.import_module(modules[name])
        found = registry.get(name)
    return found
