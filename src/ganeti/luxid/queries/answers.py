# SPDX-License-Identifier: BSD-2-Clause
"""Answers of queries that ask nodes: rows are chosen and written in slices (`slices`), however many there are."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ganeti.base.errors import GanetiError
from ganeti.luxid.queries.slices import of_objects, passing, written
from ganeti.master.query.fields import Field, Resource
from ganeti.master.query.filters import asked_names, compile_filter
from ganeti.master.query.running import Collect, choose, selected
from ganeti.wire.framing import Pieces


async def answered(
    resource: Resource, rows: list[Any], names: Sequence[str], qfilter: Any, collect: Collect, *, plain: bool = False
) -> tuple[list[Field], Pieces]:
    """As `run_query`; *plain* gives values alone. *rows* come in their natural order.

    Each row is true at its moment. Where an object that a row names has gone meanwhile, all are written in one go.
    """
    fields = selected(resource, names)
    predicate, used = compile_filter(qfilter, resource.fields)
    chosen = choose(resource, rows, qfilter)
    live_in_filter = [resource.fields[name] for name in sorted(used) if resource.fields[name].live]
    live_asked = [field for field in fields if field.live]
    if live_in_filter:
        await collect(chosen, [*live_in_filter, *live_asked])
    if qfilter is not None and asked_names(qfilter, resource.key) is None:
        chosen = await passing(chosen, predicate)
    if live_asked and not live_in_filter:
        await collect(chosen, live_asked)
    with suppress(GanetiError):
        return fields, await written(of_objects(list(chosen), fields, None, plain=plain))
    return fields, await written(iter(list(of_objects(chosen, fields, None, plain=plain))))
