# SPDX-License-Identifier: BSD-2-Clause
"""The configuration's past in the database: the newest commits, each with the objects as they were after it."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec

from ganeti.base.errors import UNKNOWN_ENTITY, WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.base.paths import Paths, database_uri
from ganeti.model.objects import SINGLES
from ganeti.system.files import check_plain

Key = tuple[str, str]
EVER = ("serial_no", "mtime")
"""Fields that every change changes."""
_NOUNS = {"nodes": "node", "nodegroups": "group", "instances": "instance", "networks": "network", "disks": "disk"}


class Event(msgspec.Struct):
    position: tuple[int, int]
    put: list[tuple[str, str, dict[str, Any]]]
    remove: list[tuple[str, str]]


class Past:
    """All commits that are kept, the oldest first, and the present."""

    def __init__(self, events: list[tuple[float, Event]], present: dict[Key, dict[str, Any]]) -> None:
        self.events = events
        self.present = present

    def keys_of(self, text: str) -> list[Key]:
        """Objects of this name or UUID, present ones and past ones; raises `PrerequisiteError` for none."""
        found: dict[Key, None] = {}
        for key, plain in self._all():
            if text in (key[1], name_of(plain)) or (key[0] == "cluster" and text == "cluster"):
                found[key] = None
        if not found:
            raise PrerequisiteError(
                f"No object '{text}' is in the configuration, or was in what is kept of its past", UNKNOWN_ENTITY
            )
        return list(found)

    def at(self, key: Key, time_s: float) -> dict[str, Any] | None:
        """The object as it was; None if it did not exist. Raises `PrerequisiteError` for a time that is not kept."""
        state: dict[str, Any] | None = None
        known = False
        for made_s, event in self.events:
            touched = {(kind, uuid): plain for kind, uuid, plain in event.put}
            touched_here = key in touched or list(key) in [list(gone) for gone in event.remove]
            if made_s <= time_s and touched_here:
                state, known = touched.get(key), True
            elif made_s > time_s and touched_here and not known:
                return self._before_first(key, touched.get(key))
        return state if known else self.present.get(key)

    def _before_first(self, key: Key, after: dict[str, Any] | None) -> dict[str, Any] | None:
        if after is not None and after.get("serial_no") == 1:
            return None  # that commit made it
        begin = shown_time(self.events[0][0])
        raise PrerequisiteError(
            f"What {label(key, after)} was then is not kept: commits are since {begin}", WRONG_INPUT
        )

    def _all(self) -> Iterator[tuple[Key, dict[str, Any]]]:
        yield from self.present.items()
        for _, event in self.events:
            for kind, uuid, plain in event.put:
                yield (kind, uuid), plain


def read(paths: Paths) -> Past:
    """Raises `PrerequisiteError` where there is no database that can be read."""
    path = paths.config_database
    if not os.path.exists(path):
        raise PrerequisiteError(f"There is no {path}: run this on the master of a cluster", WRONG_STATE)
    try:
        check_plain(path)
        with closing(sqlite3.connect(database_uri(path, "ro"), uri=True, isolation_level=None)) as db:
            db.execute("BEGIN")
            commits = db.execute("SELECT time, event FROM commits ORDER BY epoch, serial").fetchall()
            objects = db.execute("SELECT kind, uuid, data FROM objects").fetchall()
    except (OSError, sqlite3.Error) as err:
        raise PrerequisiteError(f"{path} cannot be read: {err}", WRONG_STATE) from err
    events = [(made_s, msgspec.json.decode(event, type=Event)) for made_s, event in commits]
    return Past(events, {(kind, uuid): msgspec.json.decode(data) for kind, uuid, data in objects})


def label(key: Key, plain: dict[str, Any] | None) -> str:
    if key[0] in SINGLES:
        return key[0]
    return f"{_NOUNS.get(key[0], key[0])} {name_of(plain or {}) or key[1]}"


def name_of(plain: dict[str, Any]) -> str:
    return str(plain.get("name") or plain.get("cluster_name") or "")


def shown_time(time_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_s))
