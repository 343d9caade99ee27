# SPDX-License-Identifier: BSD-2-Clause
"""Reading the values of options: sizes, yes/no, ``k=v`` lists, disks and NICs (spec: command line, section 1).

Each reader takes the option as it was typed, for the message, and raises `UsageError` with what would be right.
"""

from __future__ import annotations

from ganeti.base.bounds import duration_fault, size_fault
from ganeti.cli.failures import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    Number = TypeVar("Number", int, float)

RESET = "default"
"""Takes a parameter back to what it inherits."""
MAX_INDEX = {"--disk": 15, "--net": 7}
_SIZE_KIB = {"": 1024, "k": 1, "m": 1024, "g": 1024**2, "t": 1024**3}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_YES_NO = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}


def read_size(option: str, text: str) -> int:
    """Give MiB; without a suffix the number is MiB already, and fractions are rounded up."""
    number, suffix = _split_number(text)
    unit = suffix.lower()
    unit = unit[:-2] if unit.endswith("ib") else unit.removesuffix("b")
    factor = _SIZE_KIB.get(unit)
    if not number or factor is None or (not unit and suffix):
        raise UsageError(
            f"{option}: '{text}' is not a size: write a number with an optional suffix m, g or t, such as 512m"
        )
    mib = -(-(float(number) * factor) // 1024)
    if fault := size_fault(mib, text):
        raise UsageError(f"{option}: {fault}")
    return int(mib)


def read_duration(option: str, text: str) -> int:
    """Give seconds."""
    number, suffix = _split_number(text)
    factor = _SECONDS.get(suffix)
    if not number or "." in number or factor is None:
        raise UsageError(
            f"{option}: '{text}' is not a time: write a number with an optional suffix s, m, h, d or w, such as 5m"
        )
    if fault := duration_fault(number, factor, text):
        raise UsageError(f"{option}: {fault}")
    return int(number) * factor


def _split_number(text: str) -> tuple[str, str]:
    """Cut ``1.5 GB`` into number and suffix; the number is empty when there is none."""
    text = text.strip()
    end = 0
    while end < len(text) and (text[end] in "0123456789" or (text[end] == "." and end > 0)):
        end += 1
    number = text[:end]
    if number.count(".") > 1 or number.endswith("."):
        return "", text
    return number, text[end:].strip()


def read_int(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{option}: '{text}' is not a whole number") from None


def read_float(option: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{option}: '{text}' is not a number") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise UsageError(f"{option}: '{text}' is not a number that can be used")
    return value


def read_ratio(option: str, text: str) -> float | str:
    return text if text == "default" else read_float(option, text)


def not_negative(option: str, value: Number) -> Number:
    if value < 0:
        raise UsageError(f"{option}: {value:g} is less than nothing: give 0 or more")
    return value


def read_yes_no(option: str, text: str) -> bool:
    value = _YES_NO.get(text.lower())
    if value is None:
        raise UsageError(f"{option}: '{text}' is neither yes nor no")
    return value


def split_commas(text: str) -> list[str]:
    """Cut at commas; a backslash keeps the comma (or backslash) after it."""
    parts = [""]
    position = 0
    while position < len(text):
        letter = text[position]
        if letter == "\\" and text[position + 1 : position + 2] in (",", "\\"):
            parts[-1] += text[position + 1]
            position += 1
        elif letter == ",":
            parts.append("")
        else:
            parts[-1] += letter
        position += 1
    return parts


def read_list(option: str, text: str) -> list[str]:
    return [part for part in split_commas(text) if part]


def read_nodes(option: str, text: str) -> list[str]:
    """Read the nodes of an instance, the primary first: ``NODE:SECONDARY`` as 3.1 has it, or with a comma."""
    names = text.replace(":", ",").split(",")
    if not all(names):
        raise UsageError(f"{option}: '{text}' lacks a node: write NODE or NODE:SECONDARY")
    return names


def read_key_values(option: str, text: str) -> dict[str, Any]:
    """Read ``k=v,no_k,-k,k``: a value, false, back to the default, true."""
    values: dict[str, Any] = {}
    for part in split_commas(text) if text else ():
        key, equals, value = part.partition("=")
        if equals:
            found: Any = value
        elif key.startswith("no_"):
            key, found = key[3:], False
        elif key.startswith("-"):
            key, found = key[1:], RESET
        else:
            found = True
        key = key.strip()
        if not key:
            raise UsageError(f"{option}: '{part}' has no name before its value: write KEY=VALUE")
        if key in values:
            raise UsageError(f"{option}: '{key}' is given twice")
        values[key] = found
    return values


def read_ident(option: str, text: str) -> tuple[str, dict[str, Any]]:
    """Read ``IDENT:k=v,…``; the values may be missing."""
    ident, _, rest = text.partition(":")
    if not ident or "=" in ident or "," in ident:
        raise UsageError(f"{option}: '{text}' has no identifier: write NAME:KEY=VALUE,…")
    return ident, read_key_values(option, rest)


def _read_indexed(option: str, text: str) -> tuple[int, dict[str, Any]]:
    ident, values = read_ident(option, text)
    most = MAX_INDEX.get(option, 15)
    if not (ident.isascii() and ident.isdigit()) or int(ident) > most:
        raise UsageError(f"{option}: '{ident}' is not an index from 0 to {most}: write {option} 0:KEY=VALUE,…")
    return int(ident), values


def _in_order(option: str, given: list[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    result: list[dict[str, Any] | None] = [None] * (max(index for index, _ in given) + 1)
    for index, values in given:
        if result[index] is not None:
            raise UsageError(f"{option}: index {index} is given twice")
        result[index] = values
    return [values or {} for values in result]


def collect_disks(option: str, texts: list[str]) -> list[dict[str, Any]]:
    """Read ``N:size=S,k=v`` options into one dictionary a disk; sizes in MiB."""
    disks = _in_order(option, [_read_indexed(option, text) for text in texts])
    for index, disk in enumerate(disks):
        _read_disk(option, index, disk)
    return disks


def _read_disk(option: str, index: int, disk: dict[str, Any]) -> None:
    if "adopt" in disk:
        if "size" in disk:
            raise UsageError(f"{option} {index}: size and adopt exclude each other: an adopted disk has its size")
        disk["size"] = 0
    elif "size" not in disk:
        raise UsageError(f"{option} {index}: the size is missing: write {option} {index}:size=SIZE")
    else:
        disk["size"] = read_size(f"{option} {index}: size", str(disk["size"]))
    if "spindles" in disk:
        disk["spindles"] = read_int(f"{option} {index}: spindles", str(disk["spindles"]))


def collect_nics(option: str, texts: list[str]) -> list[dict[str, Any]]:
    """Read ``N:k=v`` options into one dictionary a NIC."""
    return _in_order(option, [_read_indexed(option, text) for text in texts])


def collect_changes(option: str, texts: list[str]) -> list[list[Any]]:
    changes: list[list[Any]] = []
    for text in texts:
        ident, _, rest = text.partition(":")
        action, comma, values_text = rest.partition(",")
        if action in ("add", "attach", "remove", "detach", "modify"):
            values = read_key_values(option, values_text if comma else "")
        elif ident in ("add", "attach", "remove", "detach"):  # the old form, without an index: the last place
            action, ident, values = ident, "-1", read_key_values(option, rest)
        else:
            action, values = "modify", read_key_values(option, rest)
        if not ident:
            raise UsageError(f"{option}: '{text}' has no index: write {option} N:add,KEY=VALUE,…")
        if "size" in values:
            place = text.partition(":")[0]  # as it was typed
            values["size"] = read_size(f"{option} {place}: size", str(values["size"]))
        number = ident.removeprefix("-")
        changes.append([action, int(ident) if number.isascii() and number.isdigit() else ident, values])
    return changes


def collect_idents(option: str, texts: list[str]) -> dict[str, dict[str, Any]]:
    """Read several ``IDENT:k=v`` options into one dictionary of dictionaries."""
    result: dict[str, dict[str, Any]] = {}
    for text in texts:
        ident, values = read_ident(option, text)
        if ident in result:
            raise UsageError(f"{option}: '{ident}' is given twice: put all its values into one option")
        result[ident] = values
    return result


def read_json(option: str, text: str) -> Any:
    import json

    try:
        return json.loads(text)
    except ValueError as err:
        raise UsageError(f"{option}: not JSON: {err}") from None


def read_ranges(option: str, text: str) -> list[list[int]]:
    """Read ``1000,2000-2010`` into pairs of lowest and highest."""
    ranges = []
    for part in read_list(option, text):
        low, dash, high = part.partition("-")
        first = read_int(option, low)
        last = read_int(option, high) if dash else first
        if not 0 <= first <= last:
            raise UsageError(f"{option}: '{part}' is not a range: write LOW-HIGH with LOW not above HIGH")
        ranges.append([first, last])
    return ranges


def read_bounds(option: str, text: str) -> list[dict[str, dict[str, Any]]] | str:
    """Read ``min:k=v,…/max:k=v,…``, several pairs joined by ``//``; or ``default``."""
    if text == "default":
        return text
    pairs = []
    for pair_text in text.split("//"):
        pair = dict(read_ident(option, side) for side in pair_text.split("/"))
        if set(pair) != {"min", "max"}:
            raise UsageError(f"{option}: '{pair_text}' must have both sides: write min:KEY=VALUE,…/max:KEY=VALUE,…")
        pairs.append({name: {key: _spec_value(option, key, side[key]) for key in side} for name, side in pair.items()})
    return pairs


def _spec_value(option: str, key: str, value: Any) -> int:
    if key.endswith("-size"):
        return read_size(f"{option}: {key}", str(value))
    return read_int(f"{option}: {key}", str(value))


def collect_disk_state(option: str, texts: list[str]) -> dict[str, dict[str, Any]]:
    result: dict[str, dict[str, Any]] = {}
    for text in texts:
        ident, values = read_ident(option, text)
        template, slash, name = ident.partition("/")
        if not slash or not name:
            raise UsageError(f"{option}: '{text}' has no storage name: write TEMPLATE/NAME:KEY=VALUE,…")
        result.setdefault(template, {})[name] = values
    return result
