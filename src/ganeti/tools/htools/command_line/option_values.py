# SPDX-License-Identifier: BSD-2-Clause
"""From the text of an option to its value in `Options`, with the words of 3.1 for bad ones (spec: htools, 15)."""

from __future__ import annotations

import os

from ganeti.tools.htools.command_line.options import BadValue, Options, Spec
from ganeti.tools.htools.haskell import numerals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MEBIBYTE_UNITS = {"": 1.0, "m": 1.0, "mib": 1.0, "g": 1024.0, "gib": 1024.0, "t": 1048576.0, "tib": 1048576.0}
"""What a size may be given in, in MiB."""
DECIMAL_UNITS = {"mb": 10.0**6 / 2**20, "gb": 10.0**9 / 2**20, "tb": 10.0**12 / 2**20}
DECIMAL_LETTERS = {"M": "mb", "G": "gb", "T": "tb"}
"""Of single letters alone the case matters."""
PRIORITIES = ("low", "normal", "high")
TEMPLATES = ("diskless", "file", "sharedfile", "plain", "blockdev", "drbd", "rbd", "ext", "gluster")
STANDARD_SPEC_PARTS = 3


def set_to(attribute: str, read: Callable[[str], object] = str) -> Callable[[Options, str | None], None]:
    return lambda options, text: setattr(options, attribute, read(text or ""))


def switch(attribute: str, value: object = True) -> Callable[[Options, str | None], None]:
    return lambda options, text: setattr(options, attribute, value)


def louder(step: int) -> Callable[[Options, str | None], None]:
    def store(options: Options, text: str | None) -> None:
        options.verbosity += step

    return store


def number(attribute: str, words: str, read: Callable[[str], float]) -> Callable[[Options, str | None], None]:
    def checked(text: str) -> float:
        try:
            return read(text)
        except numerals.Unreadable as error:
            raise BadValue(f"{words}: {error}") from None

    return set_to(attribute, checked)


def real(attribute: str, words: str) -> Callable[[Options, str | None], None]:
    return number(attribute, words, numerals.real)


def integer(attribute: str, words: str) -> Callable[[Options, str | None], None]:
    return number(attribute, words, numerals.integer)


def yes_or_no(attribute: str) -> Callable[[Options, str | None], None]:
    def store(options: Options, text: str | None) -> None:
        if text not in (None, "yes", "no"):
            raise BadValue(f"Invalid choice '{text}', pass one of 'yes' or 'no'")
        setattr(options, attribute, text != "no")

    return store


def words(text: str) -> list[str]:
    return text.split(",") if text else []


def store_fields(options: Options, text: str | None) -> None:
    options.print_nodes = text.split(",") if text else []


def store_commands(options: Options, text: str | None) -> None:
    options.print_commands, options.commands_file = True, text


def store_max_cpu(options: Options, text: str | None) -> None:
    real("max_cpu_ratio", "parsing max-cpu")(options, text)
    if options.max_cpu_ratio is not None and options.max_cpu_ratio <= 0:
        raise BadValue("Invalid value of the max-cpu ratio, expected >0")


def store_link_speed(options: Options, text: str | None) -> None:
    real("link_speed_mbit", "parsing link-speed")(options, text)
    if not 0 < options.link_speed_mbit < float("inf"):
        raise BadValue("Invalid value of the link speed, expected >0")


def store_spindle_use(options: Options, text: str | None) -> None:
    integer("spindle_use", "parsing spindle-use")(options, text)
    if options.spindle_use is not None and options.spindle_use < 0:
        raise BadValue("Invalid value of the spindle-use (expected >= 0)")


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
    return os.environ.get("GANETI_ROOTDIR", "").rstrip("/") + "/run/ganeti/socket/ganeti-query"


def store_luxi(options: Options, text: str | None) -> None:
    options.luxi = luxi_socket() if text is None else text


def store_offline(options: Options, text: str | None) -> None:
    options.offline.append(text or "")


def store_simulate(options: Options, text: str | None) -> None:
    options.simulate.insert(0, text or "")  # the last one given is the first group
