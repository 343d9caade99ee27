# SPDX-License-Identifier: BSD-2-Clause
"""The guests that ganeti-metad answers, and the calls of the node daemon about them."""

import logging
import os
from contextlib import suppress
from typing import Any

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, WRONG_INPUT, PrerequisiteError
from ganeti.calls.serving import RequestServer, handlers_of, serves
from ganeti.node.metadata import Metadata
from ganeti.system.files import read_if_there, write_atomically

_log = logging.getLogger(__name__)


class Guests:
    """By the address of their NICs; kept in *file*, which root alone reads, so that a restart forgets none."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._known: dict[str, Metadata] = {}
        try:
            kept = msgspec.json.decode(read_if_there(file) or b"[]", type=list[Metadata])
        except UNREADABLE_JSON as err:
            _log.error("%s cannot be read, its guests have no metadata until they start again: %s", file, err)
            kept = []
        self._known = {each.address: each for each in kept}

    @property
    def is_empty(self) -> bool:
        return not self._known

    def by_address(self, address: str) -> Metadata | None:
        return self._known.get(address.removeprefix("::ffff:"))

    @serves("echo")
    async def echo(self, value: Any) -> Any:
        return value

    @serves("list")
    async def list(self) -> dict[str, str]:
        """Names of the guests by their addresses."""
        return {address: known.name for address, known in sorted(self._known.items())}

    @serves("update_config")
    async def update_config(self, plain: Any) -> None:
        """A guest is going to run here, or has other values."""
        try:
            found = msgspec.convert(plain, Metadata)
        except msgspec.ValidationError as err:
            raise PrerequisiteError(f"These are no metadata of a guest: {err}", WRONG_INPUT) from err
        known = {address: each for address, each in self._known.items() if each.name != found.name}
        self._put(known | {found.address: found})
        _log.info("guest %s is known by %s", found.name, found.address)

    @serves("forget")
    async def forget(self, name: Any) -> None:
        self._put({address: each for address, each in self._known.items() if each.name != name})
        _log.info("guest %s is forgotten", name)

    def _put(self, known: dict[str, Metadata]) -> None:
        if known == self._known:
            return
        self._known = known
        if known:
            write_atomically(self._file, msgspec.json.encode([*known.values()]), mode=0o600, durable=False)
        else:
            with suppress(FileNotFoundError):
                os.unlink(self._file)


class Control(RequestServer):
    """The node daemon's door, and that of ``gnt-debug metad``."""

    def __init__(self, guests: Guests) -> None:
        super().__init__(handlers_of(guests))
