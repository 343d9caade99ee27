# SPDX-License-Identifier: BSD-2-Clause
"""Answering one query: which rows, in which order, with which values (protocols 2.1)."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from ganeti.base.errors import UNKNOWN_ENTITY, WRONG_INPUT, PrerequisiteError
from ganeti.base.names import nearest, shown
from ganeti.master.query.fields import Field, FullNames, Missing, Resource, Status, unknown_field
from ganeti.master.query.filters import asked_names, check_work, compile_filter, passes
from ganeti.wire.job_file import read_job_id

Collect = Callable[[Sequence[Any], Sequence[Field]], Awaitable[None]]
"""Ask what these live fields of these rows need, and put it into the rows."""


def selected(resource: Resource, names: Sequence[str]) -> list[Field]:
    return [resource.fields.get(name) or unknown_field(name) for name in names]


def describe_fields(resource: Resource, names: Sequence[str] | None) -> dict[str, Any]:
    """Answer of QueryFields: the named ones, or all in natural order."""
    fields = selected(resource, names) if names else resource.listed()
    return {"fields": [field.describe() for field in fields]}


async def run_query(
    resource: Resource, rows: Iterable[Any], names: Sequence[str], qfilter: Any, collect: Collect
) -> tuple[list[Field], list[list[list[Any]]]]:
    """Give the fields and, per row, [status, value] of each. *rows* come in their natural order."""
    fields = selected(resource, names)
    predicate, used = compile_filter(qfilter, resource.fields)
    chosen = choose(resource, list(rows), qfilter)
    live_in_filter = [resource.fields[name] for name in sorted(used) if resource.fields[name].live]
    live_asked = [field for field in fields if field.live]
    if live_in_filter:
        await collect(chosen, [*live_in_filter, *live_asked])
    if asked_names(qfilter, resource.key) is None:
        check_work(qfilter, len(chosen))
        chosen = [row for row in chosen if passes(predicate, row)]
    if live_asked and not live_in_filter:
        await collect(chosen, live_asked)
    return fields, [[cell(field, row) for field in fields] for row in chosen]


def cell(field: Field, row: Any) -> list[Any]:
    value = field.get(row)
    if isinstance(value, Missing):
        return [int(value.status), None]
    return [int(Status.NORMAL), value]


def legacy_rows(resource: Resource, fields: Sequence[Field], data: Sequence[Sequence[list[Any]]]) -> list[list[Any]]:
    """Plain values, as the calls from before the query language give them; raises `PrerequisiteError`."""
    unknown = [field.name for field in fields if field.name not in resource.fields]
    if unknown:
        raise PrerequisiteError(f"Unknown output fields selected: {', '.join(unknown)}", WRONG_INPUT)
    return [[value for _, value in row] for row in data]


def names_filter(resource: Resource, names: Sequence[Any]) -> Any:
    """The filter that asks for rows by name; nothing for all."""
    return ["|", *(["==", resource.key, name] for name in names)] if names else None


def present(resource: Resource, rows: Iterable[Any], names: Sequence[Any]) -> list[Any]:
    """Of *names*, those that there are, in the order of the *rows*.

    The calls from before the query language say nothing of the others.
    """
    key = resource.fields[resource.key]
    by_name = {key.get(row): row for row in rows}
    found = set(map(_finder(key, by_name), names))
    return [name for name in by_name if name in found]


def choose(resource: Resource, rows: list[Any], qfilter: Any) -> list[Any]:
    """If only names are asked for, those rows in that order; an unknown name is an error."""
    wanted = asked_names(qfilter, resource.key)
    if wanted is None:
        return rows
    key = resource.fields[resource.key]
    by_name: dict[Any, list[Any]] = {}
    for row in rows:
        by_name.setdefault(key.get(row), []).append(row)
    chosen: dict[Any, list[Any]] = {}
    find = _finder(key, by_name)
    for name in wanted:
        found = find(name)
        if found is not None:
            chosen.setdefault(found, by_name[found])
        elif resource.rows_of_nodes is None:
            near = nearest(str(name), [known for known in by_name if isinstance(known, str)])
            raise PrerequisiteError(f"{resource.noun} '{shown(str(name))}' not known{near}", UNKNOWN_ENTITY)
    return [row for rows_of_one in chosen.values() for row in rows_of_one]


def _finder(key: Field, by_name: Mapping[Any, Any]) -> Callable[[Any], Any]:
    """Finds the row's own name by what was asked for, or None."""
    full_names = FullNames(by_name, by_name.__contains__)

    def find(name: Any) -> Any:
        if name not in by_name and read_job_id(name) in by_name:
            return read_job_id(name)
        return full_names.of(name, prefixes=key.host_name)

    return find
