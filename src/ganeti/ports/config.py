# SPDX-License-Identifier: BSD-2-Clause
"""The configuration as operations reach it: views to read from, changes to commit (D4, D6)."""

from typing import Any, ClassVar, Protocol

import msgspec

from ganeti.model.configuration import Draft
from ganeti.model.copies import Copies
from ganeti.model.view import ConfigView


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One named change of the configuration: sent to WConfD by name and fields, applied there to a draft.

    A change re-checks what it relies on (the draft may be newer than the view its sender read) and raises
    `PrerequisiteError`, `ReservationError` or `ConfigVerifyError`; then nothing is committed. It is pure: time comes
    from the draft, uuids and random values are fields.
    """

    registry: ClassVar[dict[str, type["Change"]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Change.registry[cls.__name__] = cls

    def apply(self, draft: Draft) -> Any:
        """Put and remove objects in *draft*; the return value (plain JSON) is the commit's answer."""
        raise NotImplementedError


class ConfigPort(Protocol):
    def view(self) -> ConfigView:
        """Open a read transaction; never hold it across an await."""
        ...

    async def commit(self, change: Change, *, settles: bool = False) -> Any:
        """Apply *change* durably and give its answer.

        With *settles*, the commit makes moot every undo record written before it (D5): once it is on disk there
        is nothing to take back.
        """
        ...

    async def flush(self, group: str | None = None) -> None:
        """Return when every reachable master candidate has been sent what is committed, or that cannot be waited for.

        With the uuid of a *group*, only those in it are waited for.
        Otherwise a large `config.data` goes to a candidate now and then only. Never raises.
        """
        ...

    async def copies(self) -> Copies:
        """Who has copies of the configuration and the queue; raises `GanetiError` where WConfD cannot say."""
        ...
