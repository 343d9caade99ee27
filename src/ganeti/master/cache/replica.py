# SPDX-License-Identifier: BSD-2-Clause
"""A copy of the configuration that follows WConfD's change stream. Pure: events in, state out.

Invariant: after an event with position p, `configuration` is what WConfD held at p.
"""

from typing import Any

from ganeti.base.errors import ConfigurationError, TransportError
from ganeti.model.configuration import Configuration
from ganeti.model.objects import KINDS

START = (0, 0)
"""A position older than any: the stream begins with a snapshot."""


class Replica:
    """The configuration as of the last event."""

    def __init__(self) -> None:
        self.configuration = Configuration()
        self.filled = False

    @property
    def position(self) -> tuple[int, int]:
        return self.configuration.position if self.filled else START

    def apply(self, event: Any) -> tuple[int, int]:
        """Take in one event and give its position; raises `TransportError` for one that makes no sense here."""
        try:
            position = (int(event["position"][0]), int(event["position"][1]))
            if event["event"] == "snapshot":
                self._load(event["config"], position)
            elif event["event"] == "commit":
                self._commit(event, position)
            else:
                raise TransportError(f"The change stream has an event of an unknown kind '{event['event']}'")
        except (KeyError, IndexError, TypeError, ValueError, ConfigurationError) as err:
            raise TransportError(f"The change stream cannot be followed: {err}") from err
        return position

    def _load(self, plain: dict[str, Any], position: tuple[int, int]) -> None:
        fresh = Configuration.from_plain(plain)
        fresh.position = position
        self.configuration = fresh
        self.filled = True

    def _commit(self, event: dict[str, Any], position: tuple[int, int]) -> None:
        if not self.filled:
            raise TransportError("The change stream begins in the middle")
        put = [(kind, uuid, KINDS[kind].from_plain(plain)) for kind, uuid, plain in event["put"]]
        for kind, uuid, obj in put:
            self.configuration.put(kind, uuid, obj)
        for kind, uuid in event["remove"]:
            self.configuration.remove(kind, uuid)
        self.configuration.position = position
