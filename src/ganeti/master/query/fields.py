# SPDX-License-Identifier: BSD-2-Clause
"""What a query field is: one row of a table, with everything every surface needs (D1, protocols 2.1).

A getter gives the value, or one of `NODATA`, `UNAVAILABLE`, `OFFLINE` when there is none.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

from ganeti.base.natural import natural_key
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView

TEXT: Final = "text"
BOOL: Final = "bool"
NUMBER: Final = "number"
FLOAT: Final = "float"
UNIT: Final = "unit"
TIMESTAMP: Final = "timestamp"
OTHER: Final = "other"
UNKNOWN_KIND: Final = "unknown"


class Status(IntEnum):
    """How a value is to be read."""

    NORMAL = 0
    UNKNOWN = 1
    NODATA = 2
    UNAVAILABLE = 3
    OFFLINE = 4


@dataclass(frozen=True)
class Missing:
    """Stands in for a value there is none of."""

    status: Status


NODATA: Final = Missing(Status.NODATA)
UNAVAILABLE: Final = Missing(Status.UNAVAILABLE)
OFFLINE: Final = Missing(Status.OFFLINE)

Getter = Callable[[Any], Any]


@dataclass(frozen=True)
class Field:
    """One field of one resource."""

    name: str
    title: str
    kind: str
    doc: str
    get: Getter
    live: bool = False
    """Needs an answer of a node."""
    host_name: bool = False
    """A filter may give the first parts of the name."""
    hidden: bool = False
    """Answers when asked for, but is not listed: an addition clients of 3.1 do not expect."""

    def describe(self) -> dict[str, str]:
        return {"name": self.name, "title": self.title, "kind": self.kind, "doc": self.doc}


@dataclass(frozen=True)
class Resource:
    """A kind of thing that can be queried."""

    name: str
    key: str
    """The field that names a row."""
    fields: dict[str, Field]
    noun: str
    """For messages: ``Node``, ``Instance``."""

    def listed(self) -> list[Field]:
        return [self.fields[name] for name in sorted(self.fields, key=natural_key) if not self.fields[name].hidden]


@dataclass
class QueryWorld:
    """What getters may look at besides their row."""

    view: ConfigView
    catalogue: Catalogue
    extra: dict[str, Any] = field(default_factory=dict)


def table(fields: Iterable[Field]) -> dict[str, Field]:
    result: dict[str, Field] = {}
    for item in fields:
        if item.name in result:
            raise ValueError(f"the field {item.name} is declared twice")
        result[item.name] = item
    return result


def unknown_field(name: str) -> Field:
    """What an unknown name is answered with."""
    return Field(name, name, UNKNOWN_KIND, f"Unknown field '{name}'", lambda row: Missing(Status.UNKNOWN))


def or_unavailable(value: Any) -> Any:
    """An optional value that is not set is "not available", not an empty one."""
    return UNAVAILABLE if value is None else value


def stored_fields(get: Callable[[Any], Any], noun: str, *, tags: bool = True) -> list[Field]:
    """The fields everything stored has; *get* finds the stored object of a row."""
    fields = [
        Field("ctime", "CTime", TIMESTAMP, "Creation timestamp", lambda row: get(row).ctime),
        Field("mtime", "MTime", TIMESTAMP, "Modification timestamp", lambda row: get(row).mtime),
        Field("uuid", "UUID", TEXT, f"{noun} UUID", lambda row: get(row).uuid),
        Field("serial_no", "SerialNo", NUMBER, f"{noun} object serial number", lambda row: get(row).serial_no),
    ]
    if tags:
        fields.append(Field("tags", "Tags", OTHER, "Tags", lambda row: sorted(get(row).tags)))
    return fields
