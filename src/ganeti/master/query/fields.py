# SPDX-License-Identifier: BSD-2-Clause
"""What a query field is: one row of a table, with everything every surface needs (D1, protocols 2.1).

A getter gives the value, or one of `NODATA`, `UNAVAILABLE`, `OFFLINE` when there is none.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, Final, Protocol

from ganeti.base.natural import natural_key
from ganeti.master.locks.owners import Owner
from ganeti.model import inheritance
from ganeti.model.objects import Node
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext

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

JOINED: Final = "joined"
"""A list prints the parts with commas between them."""
TIMES: Final = "times"
"""A list prints timestamps of seconds and microseconds, one or several."""
OR_DASH: Final = "or-dash"
"""A list prints the parts with commas between them, and a dash for nothing."""
PAIRS: Final = "pairs"
"""A list prints a dictionary as ``key=value, key=value``, and ``(empty)`` for nothing."""
CONNECTIONS: Final = "connections"
"""A list prints ``[[group, mode, link, vlan], …]`` as ``group (mode, link, vlan), …``."""
WAITERS: Final = "waiters"
"""A list prints ``[[mode, [job, …]], …]`` as ``mode:job,job``."""

Getter = Callable[[Any], Any]
Ask = Callable[[Sequence[Any], Any], Awaitable[None]]
"""Puts into rows what nodes or WConfD say; the second argument is a `collecting.Inquiry`."""


@dataclass(frozen=True)
class Field:
    """One field of one resource."""

    name: str
    title: str
    kind: str
    doc: str
    get: Getter
    live: tuple[Ask, ...] = ()
    """What has to be asked before `get` finds a value, in this order; nothing where the configuration has it."""
    shown: str = ""
    """How lists on the command line print a value whose kind does not say it: one of `JOINED` to `WAITERS`."""
    host_name: bool = False
    """A filter may give the first parts of the name."""
    hidden: bool = False
    """Answers when asked for, but is not listed: an addition clients of 3.1 do not expect."""

    def describe(self) -> dict[str, str]:
        return {"name": self.name, "title": self.title, "kind": self.kind, "doc": self.doc}


@dataclass
class QueryWorld:
    """What getters may look at besides their row."""

    view: ConfigView
    catalogue: Catalogue

    @cached_property
    def cluster_be(self) -> dict[str, Any]:
        """Backend parameters of the cluster, which every instance inherits."""
        return inheritance.cluster_be(self.view.cluster)

    @cached_property
    def cluster_nic(self) -> dict[str, Any]:
        """NIC parameters of the cluster, which every NIC outside networks inherits."""
        return inheritance.cluster_nic(self.view.cluster)

    # Gone through once per query: what each row looked for itself would take rows times instances.

    @cached_property
    def primaries(self) -> dict[str, list[str]]:
        """Names of instances by primary node, in no order."""
        found: dict[str, list[str]] = {}
        for instance in self.view.instances():
            found.setdefault(instance.primary_node, []).append(instance.name)
        return found

    @cached_property
    def secondaries(self) -> dict[str, list[str]]:
        """Names of instances by secondary node, in no order."""
        found: dict[str, list[str]] = {}
        for instance in self.view.instances():
            nodes = {uuid for disk in self.view.instance_disks(instance) for uuid in disk.nodes}
            for uuid in nodes - {instance.primary_node}:
                found.setdefault(uuid, []).append(instance.name)
        return found

    @cached_property
    def members(self) -> dict[str, list[Node]]:
        """Nodes by the group that they are in."""
        found: dict[str, list[Node]] = {}
        for node in self.view.nodes():
            found.setdefault(node.group, []).append(node)
        return found

    @cached_property
    def users(self) -> dict[str, list[str]]:
        """Names of instances by the network that their NICs are in, in no order."""
        found: dict[str, list[str]] = {}
        for instance in self.view.instances():
            for uuid in {nic.network for nic in instance.nics if nic.network is not None}:
                found.setdefault(uuid, []).append(instance.name)
        return found


class Locks(Protocol):
    """WConfD, as far as queries ask it for rows."""

    async def all_locks(self) -> list[tuple[str, list[tuple[Owner, str]]]]: ...

    async def waiting_locks(self) -> list[tuple[int, Owner, dict[str, str]]]: ...


@dataclass(frozen=True)
class MadeOf:
    """Of which stored objects the values of a row come, but live ones: while these are the same, the row is."""

    kind: str
    """The container of the objects that have a row each."""
    row: Callable[[Any, QueryWorld], Any]
    own: Callable[[Any, ConfigView], tuple[Any, ...]]
    """The stored objects and values that this row is made of, the object itself included; compared by identity."""
    shared: Callable[[ConfigView], tuple[Any, ...]]
    """The values that any row may be made of; compared by value."""


@dataclass(frozen=True)
class Resource:
    """A kind of thing that can be queried: what every surface knows of it (D1).

    `resources.declared` finds each one by the variable that holds it in a module of this package.
    """

    name: str
    key: str
    """The field that names a row."""
    fields: dict[str, Field]
    noun: str
    """For messages: ``Node``, ``Instance``."""
    of_drivers: Callable[[Catalogue], Iterable[Field]] | None = None
    """More fields, from what the installed drivers declare."""
    rows: Callable[[QueryWorld], list[Any]] | None = None
    """All rows in their order, where the configuration has them."""
    made_of: MadeOf | None = None
    """For lists so long that their rows are kept."""
    rows_of_locks: Callable[[Locks], Awaitable[list[Any]]] | None = None
    """All rows, where WConfD has them."""
    rows_of_nodes: Callable[[ConfigView, Any, Sequence[Any]], Awaitable[list[Any]]] | None = None
    """Rows that nodes have, some or none each: of the nodes named, or of all; the second argument is a `NodeAsker`."""
    rows_by_job: Callable[[OperationContext], Awaitable[list[Any]]] | None = None
    """All rows of what LuxiD does not answer for: OP_QUERY makes them."""
    asks_nodes: bool = False
    """Whether `rows_by_job` asks the nodes."""
    plain_call: str = ""
    """The LUXI call from before the query language that gives plain values, if there is one."""
    columns: str = ""
    """The fields that a list shows unless told otherwise, if a command lists it."""
    program: str = ""
    """The program whose ``list`` and ``list-fields`` show it."""
    listed_as: str = ""
    """What the help says of this ``list``; nothing where the command is declared with options of its own."""

    def with_drivers(self, catalogue: Catalogue) -> "Resource":
        """The same with the fields that the drivers bring."""
        if self.of_drivers is None:
            return self
        return replace(self, fields=table([*self.fields.values(), *self.of_drivers(catalogue)]))

    def listed(self) -> list[Field]:
        return [self.fields[name] for name in sorted(self.fields, key=natural_key) if not self.fields[name].hidden]


@dataclass(frozen=True)
class StoredRows:
    """Makes rows of stored objects, in natural order of their names."""

    kind: str
    """Their container."""
    row: Callable[[Any, QueryWorld], Any]
    host_names: bool = False
    """The first parts of a name may be given."""

    def __call__(self, world: QueryWorld) -> list[Any]:
        return self._of(world.view.all(self.kind), world)

    def named(self, world: QueryWorld, names: Sequence[Any]) -> list[Any] | None:
        """The rows of those *names* alone: of 20,000 instances, one is asked for. None where one of them is not there
        or may be several: then all rows are needed to say so.
        """
        found = FullNames(world.view.names(self.kind), lambda name: self._uuid(world, name) is not None)
        full = [found.of(name, prefixes=self.host_names) for name in names]
        uuids = dict.fromkeys(self._uuid(world, name) for name in full)
        if None in uuids:
            return None
        return self._of([world.view.get(self.kind, str(uuid)) for uuid in uuids], world)

    def _uuid(self, world: QueryWorld, name: Any) -> str | None:
        return world.view.uuid_by_name(self.kind, name) if isinstance(name, str) else None

    def _of(self, objects: list[Any], world: QueryWorld) -> list[Any]:
        return [self.row(item, world) for item in sorted(objects, key=lambda item: natural_key(item.name))]


class FullNames:
    """Finds full host names by their first parts; goes through all names once, and only where it must."""

    def __init__(self, names: Iterable[Any], has: Callable[[Any], bool]) -> None:
        self._names = names
        self._has = has

    def of(self, name: Any, *, prefixes: bool = True) -> Any:
        """The one full name that *name* stands for, or None."""
        if self._has(name):
            return name
        if not prefixes or not isinstance(name, str):
            return None
        matches = [full for full in self._by_label.get(_label(name), ()) if full.startswith(name + ".")]
        return matches[0] if len(matches) == 1 else None

    @cached_property
    def _by_label(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name in map(str, self._names):
            found.setdefault(_label(name), []).append(name)
        return found


def _label(name: str) -> str:
    return name.partition(".")[0]


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


def stored_fields(get: Callable[[Any], Any], noun: str) -> list[Field]:
    """The fields everything stored has; *get* finds the stored object of a row."""
    return [
        Field("ctime", "CTime", TIMESTAMP, "When it was created", lambda row: get(row).ctime),
        Field("mtime", "MTime", TIMESTAMP, "When it was last changed", lambda row: get(row).mtime),
        Field("uuid", "UUID", TEXT, f"UUID of the {noun}", lambda row: get(row).uuid),
        Field("serial_no", "SerialNo", NUMBER, "Goes up by one with each change", lambda row: get(row).serial_no),
        Field("tags", "Tags", OTHER, f"Tags of the {noun}", lambda row: sorted(get(row).tags), shown=JOINED),
    ]
