# SPDX-License-Identifier: BSD-2-Clause
"""One command being run: its words, its values, its connection. Handlers get exactly this."""

from __future__ import annotations

import sys

from ganeti.base.terminal import harmless
from ganeti.cli.table import COMMON_FIELDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.luxi import Client
    from ganeti.cli.table import CommandRow


class Invocation:
    """What a handler is called with."""

    def __init__(self, command: CommandRow, values: dict[str, Any]) -> None:
        self.command = command
        self.values = values
        if values.get("plan"):  # nothing is done that could be asked about
            values["assume_yes"] = True
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The connection to the master daemon, opened on use."""
        if self._client is None:
            from ganeti.cli.luxi import Client

            self._client = Client()
        return self._client

    def get(self, field: str, default: Any = None) -> Any:
        return self.values.get(field, default)

    def parameters(self, *left_out: str) -> dict[str, Any]:
        """The values given for opcode parameters, without those that only say how to submit.

        Those of ``ipolicy.std`` and ``ipolicy.minmax`` become two entries of one dictionary, ``ipolicy``.
        """
        found: dict[str, Any] = {}
        for field, value in self.values.items():
            if field in COMMON_FIELDS or field in left_out or value is None:
                continue
            if field == "assume_yes" and self.get("plan"):
                continue
            whole, dot, part = field.partition(".")
            if dot:
                found.setdefault(whole, {})[part] = value
            else:
                found[field] = value
        return found


def out(text: str = "") -> None:
    """A line on standard output, there at once: a user who waits for a job reads along."""
    sys.stdout.write(harmless(text) + "\n")
    sys.stdout.flush()


def err(text: str) -> None:
    """A line on standard error, after what was printed before it."""
    sys.stdout.flush()
    sys.stderr.write(harmless(text) + "\n")
    sys.stderr.flush()
