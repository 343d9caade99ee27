# SPDX-License-Identifier: BSD-2-Clause
"""How an option is declared: one row says all that parsing, help, completion and the reference page need.

A row stands in a group, a class whose attributes are the settings: `reason: str | None = option(...)`. When the class
is made, each row learns the name of its setting, and the attribute becomes the default. Light on imports.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Store = Callable[[Any, str | None], None]

EVERY = ""
"""The programs of an option that all of them take."""


class Option:
    """One option: names, programs, value, help, default, what completion is told, and which setting it sets.

    *metavar* is empty for a switch; *optional* says that the value may be left out (and else must be attached).
    *store* puts the value into the settings; it raises `BadValue`.
    """

    __slots__ = (
        *("completion", "default", "group", "help", "long", "metavar", "optional"),
        *("programs", "read", "setting", "short", "shown", "special_store", "without"),
    )

    def __init__(
        self,
        names: str,
        metavar: str,
        programs: str,
        explanation: str,
        default: Any = None,
        read: Callable[[str], Any] = str,
        completion: str = "none",
        without: Callable[[], Any] | None = None,
        store: Store | None = None,
        shown: str | None = None,
    ) -> None:
        self.short, _, self.long = names.rpartition(",")
        self.optional = metavar.startswith("[")
        self.metavar = metavar.strip("[]")
        self.programs = programs.split()
        self.help, self.default, self.completion = explanation, default, completion
        self.read, self.without, self.special_store, self.shown = read, without, store, shown
        self.setting = self.group = ""

    def store(self, settings: Any, text: str | None) -> None:
        """Put the value that *text* gives into the settings; raises `BadValue`."""
        if self.special_store is not None:
            self.special_store(settings, text)
        elif text is None and self.without is not None:
            setattr(settings, self.setting, self.without())
        else:
            setattr(settings, self.setting, self.read(text or ""))

    @property
    def shown_default(self) -> str:
        """What help says that holds if the option is not given, or nothing."""
        if self.shown is not None:
            return self.shown
        if not self.metavar or self.default is None or isinstance(self.default, list | bool):
            return ""
        return f"{self.default:g}".replace("e-0", "e-") if isinstance(self.default, float) else str(self.default)


def option(names: str, metavar: str, programs: str, explanation: str, **more: Any) -> Any:
    """Declare an option with a value; *more* as `Option` takes it. Stands for the setting's default."""
    return Option(names, metavar, programs, explanation, **more)


def switch(names: str, programs: str, explanation: str, *, value: bool = True) -> Any:
    """Declare an option without a value, which makes its setting *value*."""
    return Option(names, "", programs, explanation, not value, without=lambda: value)


class Group:
    """Options that belong together in help, under the *title*; one that sets another's setting has a name with `_`."""

    rows: list[Option] = []

    def __init_subclass__(cls, title: str = "") -> None:
        for name, row in list(vars(cls).items()):
            if isinstance(row, Option):
                row.setting, row.group = name, title
                setattr(cls, name, row.default)
                Group.rows.append(row)
