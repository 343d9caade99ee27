# SPDX-License-Identifier: BSD-2-Clause
"""Lists and objects of `/3`: every resource of the query language, as objects of the fields that are asked for."""

from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec

from ganeti.base.errors import UNREADABLE_JSON
from ganeti.rapi.answers import RequestRefused
from ganeti.rapi.api_request import ApiRequest
from ganeti.rapi.caller import Caller
from ganeti.rapi.reading import (
    GROUP_FIELDS,
    INSTANCE_FIELDS,
    JOB_FIELDS,
    NETWORK_FIELDS,
    NODE_FIELDS,
    Luxi,
    ask,
    job_number,
)
from ganeti.rapi.v3.route import OBJECT, Answer, Argument, Services, Turn, route, scope

_JOB: Final = [*JOB_FIELDS, "opresult", "oplog", "priority"]
FIELDS: Final = {
    "instances": INSTANCE_FIELDS,
    "nodes": [*NODE_FIELDS, "group"],
    "groups": GROUP_FIELDS,
    "networks": NETWORK_FIELDS,
    "jobs": JOB_FIELDS,
    "filters": ["uuid", "watermark", "priority", "predicates", "action", "reason_trail"],
    "locks": ["name", "mode", "owner", "pending"],
    "exports": ["node", "export"],
}
"""Those of each list that are given where the request names none."""
SINGLE: Final = {
    "instances": INSTANCE_FIELDS,
    "nodes": FIELDS["nodes"],
    "groups": GROUP_FIELDS,
    "networks": NETWORK_FIELDS,
    "jobs": _JOB,
    "filters": FIELDS["filters"],
}
KEYS: Final = {"jobs": "id", "filters": "uuid"}
_NULL: Final = b"null"
_ROWS_AT_ONCE: Final = 100


_ROWS: Final = {"type": "array", "items": OBJECT}
_FIELDS: Final = Argument("fields", "names with commas: /3/fields says which there are")
_FILTER: Final = Argument("filter", 'a filter of the query language in JSON, such as ["=", "name", "web1"]')


def _declare(plural: str) -> None:
    """The list of one kind of object, its fields, and one of them by its name."""
    kind = plural[:-1]

    @route(
        *("GET", f"/3/{plural}", f"list_{plural}", f"All {plural}"),
        access=scope(kind, is_narrowed=True),
        tag="lists",
        arguments=(_FIELDS, _FILTER),
        answers={200: Answer("objects", _ROWS)},
    )
    async def list_all(services: Services, turn: Turn) -> Any:
        return await listed(services.luxi, turn.caller, plural, turn.request)

    @route(
        *("GET", f"/3/fields/{plural}", f"fields_{plural}", f"Fields of {plural}"),
        access=scope(kind),
        tag="lists",
        answers={200: Answer("fields", _ROWS)},
    )
    async def fields(services: Services, turn: Turn) -> Any:
        return (await ask(services.luxi, "QueryFields", kind, None))["fields"]

    if plural not in SINGLE:
        return

    @route(
        *("GET", f"/3/{plural}/[name]", f"show_{kind}", f"One {kind}"),
        access=scope(kind),
        tag="lists",
        parts={"name": f"the {kind}"},
        arguments=(_FIELDS,),
        answers={200: Answer("the object")},
    )
    async def show(services: Services, turn: Turn) -> Any:
        return await shown(services.luxi, plural, turn.request.parts["name"], turn.request)


for _plural in FIELDS:
    _declare(_plural)


async def listed(luxi: Luxi, caller: Caller, plural: str, request: ApiRequest) -> Any:
    """Give the objects of a list that the caller may read; raises `RequestRefused`."""
    kind, fields = plural[:-1], request.fields() or FIELDS[plural]
    qfilter = _filter(request)
    if not caller.may(kind, "read"):
        mine: list[Any] = ["|", *(["=[]", "tags", tag] for tag in sorted(caller.tags_for(kind, "read")))]
        qfilter = mine if qfilter is None else ["&", mine, qfilter]
    return Objects(fields, await luxi.raw("Query", kind, fields, qfilter, only_asks=True))


async def shown(luxi: Luxi, plural: str, name: str, request: ApiRequest) -> Any:
    """Give one object; raises `RequestRefused`, with 404 where there is none."""
    kind, fields, key = plural[:-1], request.fields() or SINGLE[plural], KEYS.get(plural, "name")
    value: Any = name
    if plural == "jobs":
        value = job_number(name)
        await _require_job(luxi, value)
    answer = await luxi.raw("Query", kind, fields, ["=", key, value], only_asks=True)
    objects = Objects(fields, answer)
    if len(objects) != 1:
        raise RequestRefused(404, f"There is no {kind} '{name}'")
    return msgspec.Raw(objects.one(0))


async def _require_job(luxi: Luxi, number: int) -> None:
    """A query gives a row of nulls for a job that nobody has, as in 3.1."""
    rows = (await ask(luxi, "Query", "job", ["status"], ["=", "id", number]))["data"]
    if not rows or rows[0][0][0]:
        raise RequestRefused(404, f"Job {number} not found")


def _filter(request: ApiRequest) -> Any:
    text = request.word("filter")
    if not text:
        return None
    try:
        return msgspec.json.decode(text)
    except UNREADABLE_JSON as err:
        raise RequestRefused(400, f'The argument \'filter\' is not JSON, such as ["=", "name", "web1"]: {err}') from err


class Objects:
    """The answer of a query as a list of objects, written while it is sent; what is not to be had is null.

    Raises `RequestRefused` where a field is unknown.
    """

    def __init__(self, fields: list[str], answer: msgspec.Raw) -> None:
        self._keys = [b"%s:" % msgspec.json.encode(name) for name in fields]
        given = msgspec.json.decode(answer, type=_Response)
        self._rows = given.data
        if unknown := [each.name for each in given.fields if each.kind == "unknown"]:
            raise RequestRefused(400, f"There is no field '{unknown[0]}': /3/fields names those of each list")

    def __len__(self) -> int:
        return len(self._rows)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        before = b"["
        for start in range(0, len(self), _ROWS_AT_ONCE):
            rows = b",".join(self.one(index) for index in range(start, min(start + _ROWS_AT_ONCE, len(self))))
            yield before + rows
            before = b","
        yield b"]\n" if self._rows else b"[]\n"

    def one(self, index: int) -> bytes:
        values = _VALUES.decode(self._rows[index])
        pairs = zip(self._keys, values, strict=True)
        return b"{%s}" % b",".join([key + (_NULL if status else bytes(value)) for key, (status, value) in pairs])


class _Column(msgspec.Struct):
    name: str
    kind: str


class _Response(msgspec.Struct):
    data: list[msgspec.Raw]
    fields: list[_Column]


_VALUES: Final = msgspec.json.Decoder(list[tuple[int, msgspec.Raw]])
