# SPDX-License-Identifier: BSD-2-Clause
"""All that can be queried, by name: what the modules of this package declare."""

import functools
import importlib
import pkgutil

from ganeti.base.errors import GanetiError
from ganeti.master import query
from ganeti.master.query.fields import Resource
from ganeti.model.traits import Catalogue


@functools.cache
def declared() -> dict[str, Resource]:
    """Every resource, without the fields that drivers bring; raises `GanetiError` for two of one name."""
    found: dict[str, Resource] = {}
    for info in sorted(pkgutil.iter_modules(query.__path__, query.__name__ + "."), key=lambda item: item.name):
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, Resource) and found.setdefault(value.name, value) is not value:
                raise GanetiError(f"the resource {value.name} is declared twice")
    return found


def build(catalogue: Catalogue) -> dict[str, Resource]:
    """Every resource LuxiD answers for, with the fields of the drivers."""
    return {name: each.with_drivers(catalogue) for name, each in declared().items() if each.rows_by_job is None}


def by_job() -> dict[str, Resource]:
    """Every resource that OP_QUERY answers for."""
    return {name: each for name, each in declared().items() if each.rows_by_job is not None}
