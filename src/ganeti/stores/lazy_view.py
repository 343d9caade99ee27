# SPDX-License-Identifier: BSD-2-Clause
"""A view of the configuration that is opened when it is first looked at: many phases of many jobs never do."""

from collections.abc import Iterator
from typing import Any

from ganeti.model.objects import ConfigObject, Instance
from ganeti.model.view import ConfigView
from ganeti.stores.config_view import ConfigReader, SqliteView


class LazyView(ConfigView):
    """Begins its read transaction with the first question, and is a consistent state from then on."""

    def __init__(self, reader: ConfigReader) -> None:
        self._reader = reader
        self._opened: SqliteView | None = None

    @property
    def _view(self) -> SqliteView:
        if self._opened is None:
            self._opened = self._reader.view()
        return self._opened

    @property
    def position(self) -> tuple[int, int]:  # type: ignore[override]
        return self._view.position

    def get(self, kind: str, uuid: str) -> ConfigObject | None:
        return self._view.get(kind, uuid)

    def uuids(self, kind: str) -> Iterator[str]:
        return self._view.uuids(kind)

    def uuid_by_name(self, kind: str, name: str) -> str | None:
        return self._view.uuid_by_name(kind, name)

    def names(self, kind: str) -> Iterator[str]:
        return self._view.names(kind)

    def all(self, kind: str) -> list[Any]:
        return self._view.all(kind)

    def stream(self, kind: str) -> Iterator[Any]:
        return self._view.stream(kind)

    def primary_instances(self, *node_uuids: str) -> list[Instance]:
        return self._view.primary_instances(*node_uuids)

    def instances_on(self, *node_uuids: str) -> list[Instance]:
        return self._view.instances_on(*node_uuids)

    def uses_mac(self, mac: str) -> bool:
        return self._view.uses_mac(mac)
