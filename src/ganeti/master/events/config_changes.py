# SPDX-License-Identifier: BSD-2-Clause
"""What a step of the configuration means: which objects changed, and what became of nodes."""

from collections.abc import Iterable, Mapping
from typing import Any

from ganeti.master.query.fields import QueryWorld
from ganeti.master.query.node_rows import NodeRow
from ganeti.model.configuration import Configuration, name_of
from ganeti.model.objects import KINDS, ConfigObject, Node
from ganeti.model.traits import Catalogue

Fields = dict[str, Any]
_NODES = "nodes"
_ROLE_FIELDS = ("name", "role", "group", "offline", "drained", "master_candidate", "master_capable", "vm_capable")


class ConfigStep:
    """Made before an event of WConfD's stream is taken in; `events` after that tells what it changed."""

    def __init__(self, event: Mapping[str, Any], before: Configuration, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._whole = event.get("event") == "snapshot"
        if self._whole:
            keys = [(kind, uuid) for kind in KINDS for uuid in before.uuids(kind)]
        else:
            keys = [(kind, uuid) for kind, uuid, _ in event["put"]] + [(kind, uuid) for kind, uuid in event["remove"]]
        self._old = {key: before.get(*key) for key in keys}
        self._nodes = {uuid: node_state(obj, before, catalogue) for uuid, obj in _nodes(self._old.items())}

    def events(self, after: Configuration) -> tuple[Fields, list[Fields]]:
        """(the event of the configuration, the events of nodes)."""
        keys = dict.fromkeys(self._old)
        if self._whole:
            keys |= dict.fromkeys((kind, uuid) for kind in KINDS for uuid in after.uuids(kind))
        new = {key: after.get(*key) for key in keys}
        put = [object_row(*key, obj) for key, obj in new.items() if obj is not None and obj != self._old.get(key)]
        remove = [object_row(*key, obj) for key, obj in self._old.items() if obj is not None and new[key] is None]
        return {"commit": list(after.position), "put": put, "remove": remove}, self._node_events(new, after)

    def _node_events(self, new: Mapping[tuple[str, str], ConfigObject | None], after: Configuration) -> list[Fields]:
        events: list[Fields] = []
        now = {uuid: node_state(obj, after, self._catalogue) for uuid, obj in _nodes(new.items())}
        for uuid, state in now.items():
            old = self._nodes.get(uuid)
            if old != state:
                events.append({"what": "added" if old is None else "changed", "uuid": uuid, **state})
        events += [
            {"what": "removed", "uuid": uuid, "name": state["name"]}
            for uuid, state in self._nodes.items()
            if uuid not in now
        ]
        return events


def _nodes(objects: Iterable[tuple[tuple[str, str], ConfigObject | None]]) -> list[tuple[str, Node]]:
    return [(uuid, obj) for (kind, uuid), obj in objects if kind == _NODES and isinstance(obj, Node)]


def object_row(kind: str, uuid: str, obj: ConfigObject) -> list[Any]:
    """``[kind, uuid, name, serial]``; what has no name has null there."""
    return [kind, uuid, name_of(obj), getattr(obj, "serial_no", None)]


def config_rows(config: Configuration) -> list[list[Any]]:
    """Every object of the configuration as `object_row`."""
    rows = []
    for kind in KINDS:
        for uuid in config.uuids(kind):
            obj = config.get(kind, uuid)
            assert obj is not None
            rows.append(object_row(kind, uuid, obj))
    return rows


def node_state(node: Node, config: Configuration, catalogue: Catalogue) -> Fields:
    """Name, role letter (as in queries) and what the role is made of."""
    row = NodeRow(node, QueryWorld(config, catalogue))
    return {field: row.role if field == "role" else getattr(node, field) for field in _ROLE_FIELDS}


def node_rows(config: Configuration, catalogue: Catalogue, silent: Iterable[str]) -> list[Fields]:
    """Every node: its uuid, `node_state`, and whether it answered when it was last asked."""
    unreachable = set(silent)
    return [
        {"uuid": node.uuid, **node_state(node, config, catalogue), "reachable": node.uuid not in unreachable}
        for node in config.nodes()
    ]
