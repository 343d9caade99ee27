# SPDX-License-Identifier: BSD-2-Clause
"""The whole configuration in memory, and drafts on top of it.

Invariant: `names` indexes exactly the objects held; two objects of one kind never share a name.
"""

from collections.abc import Iterator
from typing import Any

from ganeti.base.errors import ConfigurationError
from ganeti.model.objects import CONFIG_VERSION, CONTAINERS, KINDS, SINGLES, ConfigObject, Disk, Instance, Plain
from ganeti.model.view import ConfigView


def name_of(obj: ConfigObject) -> str | None:
    """The name an object is found by; disks and filters have none."""
    if type(obj).__name__ in ("Disk", "FilterRule"):
        return None
    return getattr(obj, "name", None)


class Configuration(ConfigView):
    """Typed objects of every kind by uuid; the one in-memory holder (WConfD, LuxiD, simulator)."""

    def __init__(self) -> None:
        self.position = (0, 0)
        self.header: Plain = {"version": CONFIG_VERSION}
        """Top-level keys of `config.data` that are not containers (version, serial_no, ctime, mtime, unknown)."""
        self._objects: dict[str, dict[str, ConfigObject]] = {kind: {} for kind in KINDS}
        self._names: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}

    @classmethod
    def from_plain(cls, data: Plain) -> "Configuration":
        """Read a whole `config.data`; raises `ConfigurationError` naming what cannot be read."""
        config = cls()
        config.header = {key: value for key, value in data.items() if key not in KINDS}
        if "cluster" not in data:
            raise ConfigurationError("The configuration has no 'cluster' entry: it is not a config.data file")
        for kind, key in SINGLES.items():
            if data.get(kind) is not None:
                config.put(kind, key, KINDS[kind].from_plain(data[kind]))
        for kind in CONTAINERS:
            for uuid, plain in (data.get(kind) or {}).items():
                config.put(kind, uuid, KINDS[kind].from_plain(plain))
        return config

    def to_plain(self) -> Plain:
        plain: Plain = dict(self.header)
        for kind in SINGLES:
            for obj in self._objects[kind].values():
                plain[kind] = obj.to_plain()
        for kind in CONTAINERS:
            plain[kind] = {uuid: obj.to_plain() for uuid, obj in self._objects[kind].items()}
        return plain

    def put(self, kind: str, uuid: str, obj: ConfigObject) -> None:
        """Store or replace one object and keep the name index."""
        self._forget_name(kind, uuid, self._objects[kind].get(uuid))
        self._objects[kind][uuid] = obj
        if (name := name_of(obj)) is not None:
            self._names[kind][name] = uuid

    def remove(self, kind: str, uuid: str) -> None:
        self._forget_name(kind, uuid, self._objects[kind].pop(uuid, None))

    def _forget_name(self, kind: str, uuid: str, old: ConfigObject | None) -> None:
        """While names are exchanged, another object may have the name already."""
        names = self._names[kind]
        if old is not None and (name := name_of(old)) is not None and names.get(name) == uuid:
            del names[name]

    def get(self, kind: str, uuid: str) -> ConfigObject | None:
        return self._objects[kind].get(uuid)

    def instance_disks(self, instance: Instance) -> list[Disk]:
        known = self._objects["disks"]
        try:
            return [known[uuid] for uuid in instance.disks]  # type: ignore[misc]
        except KeyError:
            return super().instance_disks(instance)

    def uuids(self, kind: str) -> Iterator[str]:
        return iter(self._objects[kind])

    def all(self, kind: str) -> list[Any]:
        return list(self._objects[kind].values())

    def uuid_by_name(self, kind: str, name: str) -> str | None:
        return self._names[kind].get(name)

    def names(self, kind: str) -> Iterator[str]:
        return iter(self._names[kind])


class Draft(ConfigView):
    """A view with changes on top, not yet committed: what a `Change` works on.

    `touched` holds, per (kind, uuid), the new object or None for a removal. Serial number and modification
    time of a stored object are advanced here, once a draft, so that no change can forget it.
    """

    def __init__(self, base: ConfigView, now_s: float) -> None:
        self.base = base
        self.position = base.position
        self.now_s = now_s
        self.touched: dict[tuple[str, str], ConfigObject | None] = {}

    def put(self, kind: str, obj: Any) -> None:
        """Add or replace *obj*; its serial and times are set here."""
        from msgspec.structs import replace

        uuid = SINGLES.get(kind) or obj.uuid
        old = self.base.get(kind, uuid)
        if hasattr(obj, "serial_no"):
            if old is None:
                obj = replace(obj, serial_no=1, ctime=self.now_s, mtime=self.now_s)
            else:
                obj = replace(obj, serial_no=old.serial_no + 1, mtime=self.now_s)  # type: ignore[attr-defined]
        self.touched[kind, uuid] = obj

    def remove(self, kind: str, uuid: str) -> None:
        if self.base.get(kind, uuid) is None:
            self.touched.pop((kind, uuid), None)
        else:
            self.touched[kind, uuid] = None

    def get(self, kind: str, uuid: str) -> ConfigObject | None:
        if (kind, uuid) in self.touched:
            return self.touched[kind, uuid]
        return self.base.get(kind, uuid)

    def uuids(self, kind: str) -> Iterator[str]:
        for uuid in self.base.uuids(kind):
            if self.touched.get((kind, uuid), True) is not None:
                yield uuid
        for touched_kind, uuid in self.touched:
            if touched_kind == kind and self.touched[kind, uuid] is not None and self.base.get(kind, uuid) is None:
                yield uuid

    def all(self, kind: str) -> list[Any]:
        if not any(touched_kind == kind for touched_kind, _ in self.touched):
            return self.base.all(kind)
        return super().all(kind)

    def uuid_by_name(self, kind: str, name: str) -> str | None:
        for (touched_kind, uuid), obj in self.touched.items():
            if touched_kind == kind and obj is not None and name_of(obj) == name:
                return uuid
        found = self.base.uuid_by_name(kind, name)
        return None if found is None or (kind, found) in self.touched else found

    def names(self, kind: str) -> Iterator[str]:
        for uuid in self.uuids(kind):
            obj = self.get(kind, uuid)
            if obj is not None and (name := name_of(obj)) is not None:
                yield name
