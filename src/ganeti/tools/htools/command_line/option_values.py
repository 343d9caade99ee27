# SPDX-License-Identifier: BSD-2-Clause
"""From the text of an option to its value in `Options`, with the words of 3.1 for bad ones (spec: htools, 15)."""

from __future__ import annotations

import os

from ganeti.tools.htools.haskell import numerals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ganeti.tools.htools.command_line.declaring import Store


class BadValue(ValueError):
    """The value of an option makes no sense; the message is the sentence for the user."""


class Spec:
    """The instance an option describes: MiB of disk and memory, CPUs, spindles."""

    __slots__ = ("cpus", "disk_mib", "memory_mib", "spindles")

    def __init__(self, disk_mib: int, memory_mib: int, cpus: int, spindles: int) -> None:
        self.disk_mib, self.memory_mib, self.cpus, self.spindles = disk_mib, memory_mib, cpus, spindles


MEBIBYTE_UNITS = {"": 1.0, "m": 1.0, "mib": 1.0, "g": 1024.0, "gib": 1024.0, "t": 1048576.0, "tib": 1048576.0}
"""What a size may be given in, in MiB."""
DECIMAL_UNITS = {"mb": 10.0**6 / 2**20, "gb": 10.0**9 / 2**20, "tb": 10.0**12 / 2**20}
DECIMAL_LETTERS = {"M": "mb", "G": "gb", "T": "tb"}
"""Of single letters alone the case matters."""
PRIORITIES = ("low", "normal", "high")
TEMPLATES = ("diskless", "file", "sharedfile", "plain", "blockdev", "drbd", "rbd", "ext", "gluster")
STANDARD_SPEC_PARTS = 3
LUXI_SOCKET = "/run/ganeti/socket/ganeti-query"


def number(
    words: str, read: Callable[[str], float], accepts: Callable[[float], bool] | None, refusal: str
) -> Callable[[str], float]:
    """A reader of numbers: *words* begin the complaint about what is none, *refusal* is for one out of bounds."""

    def checked(text: str) -> float:
        try:
            value = read(text)
        except numerals.Unreadable as error:
            raise BadValue(f"{words}: {error}") from None
        if accepts is not None and not accepts(value):
            raise BadValue(refusal)
        return value

    return checked


def real(words: str, accepts: Callable[[float], bool] | None = None, refusal: str = "") -> Callable[[str], float]:
    return number(words, numerals.real, accepts, refusal)


def integer(words: str, accepts: Callable[[float], bool] | None = None, refusal: str = "") -> Callable[[str], float]:
    return number(words, numerals.integer, accepts, refusal)


def yes_or_no(text: str) -> bool:
    if text not in ("yes", "no"):
        raise BadValue(f"Invalid choice '{text}', pass one of 'yes' or 'no'")
    return text == "yes"


def more_verbose(step: int) -> Store:
    """A store that says more, or less, the more often the option is given."""

    def store(options: Any, text: str | None) -> None:
        options.verbosity += step

    return store


def words(text: str) -> list[str]:
    return text.split(",") if text else []


def store_commands(options: Any, text: str | None) -> None:
    options.print_commands, options.commands_file = True, text


def priority(text: str) -> str:
    if text not in PRIORITIES:
        raise BadValue(f"Unknown priority '{text}'")
    return text


def template(text: str) -> str:
    if text not in TEMPLATES:
        raise BadValue(f'Invalid string value for type DiskTemplate: "{text}"')
    return text


def size_mib(text: str, what: str) -> int:
    """Read a size such as `20480`, `20g`, `1 GB` in MiB; raises `BadValue` that begins with *what*."""
    try:
        number, unit = numerals.leading_integer(text)
    except numerals.Unreadable:
        raise BadValue(f"{what}: Can't parse string '{text}'") from None
    unit = unit.lstrip(" ")
    name = DECIMAL_LETTERS.get(unit, unit.lower())
    factor = MEBIBYTE_UNITS.get(name) or DECIMAL_UNITS.get(name)
    if factor is None:
        raise BadValue(f"{what}: Unknown unit '{unit}'")
    return int(number * factor)


def spec(words: str) -> Callable[[str], Spec]:
    def read(text: str) -> Spec:
        parts = text.split(",")
        if len(parts) not in (STANDARD_SPEC_PARTS, STANDARD_SPEC_PARTS + 1):
            raise BadValue(f"Invalid {words} specification: '{text}', expected disk,ram,cpu")
        disk = size_mib(parts[0], f"{words} specs disk")
        memory = size_mib(parts[1], f"{words} specs memory")
        counts = []
        for name, part in zip(("cpus", "spindles"), [*parts[2:], "1"], strict=False):
            try:
                counts.append(numerals.integer(part))
            except numerals.Unreadable as error:
                raise BadValue(f"{words} specs {name}: {error}") from None
        return Spec(disk, memory, *counts)

    return read


def luxi_socket() -> str:
    """Where the master daemon answers queries (spec: protocols, 1)."""
    return os.environ.get("GANETI_ROOTDIR", "").rstrip("/") + LUXI_SOCKET


def store_offline(options: Any, text: str | None) -> None:
    options.offline.append(text or "")


def store_simulate(options: Any, text: str | None) -> None:
    options.simulate.insert(0, text or "")  # the last one given is the first group
