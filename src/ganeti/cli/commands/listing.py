# SPDX-License-Identifier: BSD-2-Clause
"""The list and list-fields commands: one query, one table (command line, section 5)."""

from __future__ import annotations

import sys
import time

from ganeti.cli.failures import EXIT_UNKNOWN_FIELD, Failure
from ganeti.cli.infotext import scalar, timestamp
from ganeti.cli.invocation import err, out
from ganeti.cli.tables.lists import RESOURCES
from ganeti.cli.tabular import print_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ganeti.cli.invocation import Invocation

    Show = Callable[[Any], str]

KINDS = {
    "text": "Text",
    "bool": "Boolean",
    "number": "Number",
    "float": "Floating-point number",
    "unit": "Storage size",
    "timestamp": "Timestamp",
    "other": "Custom",
    "unknown": "Unknown",
}
_TO_THE_RIGHT = ("number", "float", "unit")
_NOT_KNOWN = {1: ("??", "(unknown)"), 2: ("?", "(nodata)"), 3: ("-", "(unavail)"), 4: ("*", "(offline)")}
_GLOB = frozenset("*?")
_ID_DIGITS = 18
_LONGEST_INTERVAL_S = 86400
_FILTER_SIGNS = frozenset("()/<=>~!\"'\\ \t\n")
_ARCHIVED_OR_NOT = ["|", ["?", "archived"], ["!", ["?", "archived"]]]
"""True of every job; the daemon looks into the archive only where a filter or a column asks about it."""
JOB_STATES = {
    "pending": ("queued", "waiting", "canceling"),
    "queued": ("queued",),
    "waiting": ("waiting",),
    "running": ("running",),
    "error": ("error",),
    "finished": ("canceled", "success", "error"),
}


class Resource:
    """One kind of object that can be listed, as its declaration says."""

    def __init__(self, what: str) -> None:
        self.what = what
        _, self.name_field, fields, self.shown = RESOURCES[what]
        self.fields = list(fields)


def _join(value: Any) -> str:
    return ",".join(str(part) for part in value) if isinstance(value, list) else str(value)


def _times(value: Any) -> str:
    if isinstance(value, list) and value and not isinstance(value[0], int):
        return ",".join(timestamp(part) for part in value)
    return timestamp(value) if value else "-"


def _or_dash(value: Any) -> str:
    return _join(value) if value else "-"


def _waiters(value: Any) -> str:
    return " ".join(f"{mode}:{_join(owners)}" for mode, owners in value) if value else "-"


def _pairs(value: Any) -> str:
    """As 3.1, which writes a number without a fraction that it does not have."""
    return ", ".join(f"{key}={scalar(each)}" for key, each in sorted(value.items())) or "(empty)"


def _connections(value: Any) -> str:
    return ", ".join(f"{group} ({', '.join(str(part or '') for part in nic)})" for group, *nic in value)


SHOWN: dict[str, Show] = {
    "joined": _join,
    "times": _times,
    "or-dash": _or_dash,
    "pairs": _pairs,
    "connections": _connections,
    "waiters": _waiters,
}
"""How to print what the declaration of a field says so of."""
NODE = Resource("node")


def of_program(call: Invocation) -> Resource:
    """The resource that the program is about."""
    return Resource(next(what for what, row in RESOURCES.items() if row[0] == call.command.program))


def objects(call: Invocation) -> int:
    """List what the program is about."""
    return show_list(call, of_program(call), [])


def fields(call: Invocation) -> int:
    """List the fields of what the program is about."""
    return show_fields(call, of_program(call))


def nodes(call: Invocation) -> int:
    group = call.get("group")
    return show_list(call, NODE, [["==", "group", group_name(call, group)]] if group else [])


def group_name(call: Invocation, word: str) -> str:
    """The name of the node group that *word* names, or is the UUID of; raises `Failure` where there is none."""
    condition = ["|", ["==", "name", word], ["==", "uuid", word]]
    rows = call.client.call("Query", "group", ["name"], condition)["data"]
    if not rows:
        raise Failure(f"There is no node group '{word}': see gnt-group list")
    return str(rows[0][0][1])


def nodes_meant(call: Invocation, field: str) -> list[str]:
    """The nodes that an argument names, or those of the group given with -g; no name means all nodes there are.

    Raises `Failure` where the group has none of them.
    """
    names: list[str] = call.get(field) or []
    if (word := call.get("group")) is None:
        return names
    group = group_name(call, word)
    conditions = [["==", "group", group], *([["|", *(["==", "name", name] for name in names)]] if names else [])]
    found = [row[0][1] for row in call.client.call("Query", "node", ["name"], ["&", *conditions])["data"]]
    if not found:
        raise no_members(group, names)
    return found


def no_members(group: str, names: list[str]) -> Failure:
    """What to raise where a group has no node, or none of those that are named."""
    which = f"Of {', '.join(names)} none is" if names else "There is no node"
    return Failure(f"{which} in the node group {group}: see gnt-node list -o name,group")


def exports(call: Invocation) -> int:
    names = call.get("node") or []
    return show_list(call, of_program(call), [["|", *(["==", "node", name] for name in names)]] if names else [])


def jobs(call: Invocation) -> int:
    selector = call.get("selector")
    extra: list[Any] = []
    if selector:
        extra.append(["|", *(["==", "status", state] for state in JOB_STATES[selector])])
    if call.get("archived"):
        extra.append(_ARCHIVED_OR_NOT)
    return show_list(call, of_program(call), extra)


def locks(call: Invocation) -> int:
    """Show the locks once, or every ``--interval`` seconds until interrupted."""
    interval, resource = call.get("interval"), Resource("lock")
    if interval is not None and not 0 < interval <= _LONGEST_INTERVAL_S:
        raise Failure(f"--interval must be more than 0 seconds and at most {_LONGEST_INTERVAL_S}")
    status = show_list(call, resource, [])
    while interval is not None:
        sys.stdout.flush()  # who reads along through a pipe sees it now, not an interval later
        try:
            time.sleep(interval)
        except KeyboardInterrupt:
            break
        out()
        status = show_list(call, resource, [])
    return status


def show_list(call: Invocation, resource: Resource, extra: list[Any]) -> int:
    """Query the fields asked for and print them; *extra* are conditions beside the names given."""
    fields = chosen_fields(resource, call.get("output"))
    conditions = [*filter(None, [filter_of(resource, call.get("names", []), bool(call.get("force_filter")))]), *extra]
    condition = conditions[0] if len(conditions) == 1 else (["&", *conditions] if conditions else None)
    how = [{"cache": call.get("cache")}] if call.get("cache") else []
    answer = call.client.call("Query", resource.what, fields, condition, *how)
    return print_answer(call, resource, answer)


def chosen_fields(resource: Resource, output: str | None) -> list[str]:
    if output is None:
        return resource.fields
    if output.startswith("+"):
        return resource.fields + _words(output[1:])
    fields = _words(output)
    if not fields:
        raise Failure("-o needs at least one field: see the list-fields command for those there are")
    return fields


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def filter_of(resource: Resource, names: list[str], forced: bool) -> list[Any] | None:
    """Make a query filter from the arguments: a filter expression, or names with ``*`` and ``?``."""
    if not names:
        return None
    if forced or any(_FILTER_SIGNS.intersection(name) for name in names):
        if len(names) != 1:
            raise Failure("Give the filter expression as one argument: put it into quotes")
        from ganeti.cli.filtertext import parse_filter

        return parse_filter(names[0])
    return ["|", *(_name_condition(resource, name) for name in names)]


def _name_condition(resource: Resource, name: str) -> list[Any]:
    if resource.name_field == "id":
        return ["==", "id", job_id(name)]
    if _GLOB.intersection(name):
        pattern = "".join({"*": ".*", "?": "."}.get(letter, _quoted(letter)) for letter in name)
        return ["=~", resource.name_field, f"^{pattern}$"]
    return ["==", resource.name_field, name]


def _quoted(letter: str) -> str:
    return letter if letter.isalnum() or letter in "-_" else f"\\{letter}"


def job_id(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _ID_DIGITS and int(text)):
        raise Failure(f"'{text}' is not a job id: it must be a number, as 'gnt-job list' shows")
    return int(text)


def print_answer(call: Invocation, resource: Resource, answer: dict[str, Any]) -> int:
    definitions = answer["fields"]
    separator = call.get("separator")
    units = call.get("units") or ("h" if separator is None else "m")
    shows = [_show_for(resource, definition, units) for definition in definitions]
    verbose = 1 if call.get("verbose") else 0
    rows = [
        [
            show(value) if status == 0 else _NOT_KNOWN.get(status, _NOT_KNOWN[1])[verbose]
            for show, (status, value) in zip(shows, row, strict=True)
        ]
        for row in answer["data"]
    ]
    print_table(
        [definition["title"] for definition in definitions],
        [definition["kind"] in _TO_THE_RIGHT for definition in definitions],
        rows,
        headers=not call.get("no_headers"),
        separator=separator,
    )
    return _report_unknown(call, definitions)


def _report_unknown(call: Invocation, definitions: list[dict[str, Any]]) -> int:
    unknown = [definition["name"] for definition in definitions if definition["kind"] == "unknown"]
    if not unknown:
        return 0
    hint = f"; see '{call.command.program} list-fields' for those there are"
    if call.command.name == "locks":
        hint = ": there are name, mode, owner, pending"
    err(f"Unknown field{'s' if len(unknown) > 1 else ''}: {', '.join(unknown)}{hint}")
    return EXIT_UNKNOWN_FIELD


def _show_for(resource: Resource, definition: dict[str, Any], units: str) -> Show:
    kind = definition["kind"]
    if definition["name"] in resource.shown:
        return SHOWN[resource.shown[definition["name"]]]
    if kind == "bool":
        return lambda value: "Y" if value else "N"
    if kind == "timestamp":
        return timestamp
    if kind == "unit":
        return lambda value: size(value, units)
    return scalar if kind == "float" else str


def size(value: Any, unit: str) -> str:
    """Show MiB: ``h`` with the largest suffix that fits, ``m``, ``g`` and ``t`` as bare numbers."""
    if not isinstance(value, int | float):
        return str(value)
    if unit == "m" or (unit == "h" and value < 1024):
        return f"{round(value)}" + ("M" if unit == "h" else "")
    if unit == "g" or (unit == "h" and value < 1024**2):
        return f"{value / 1024:.1f}" + ("G" if unit == "h" else "")
    return f"{value / 1024**2:.1f}" + ("T" if unit == "h" else "")


def show_fields(call: Invocation, resource: Resource) -> int:
    """Print the fields that can be listed, all or those named."""
    definitions = call.client.call("QueryFields", resource.what, call.get("names", []))["fields"]
    print_table(
        ["Name", "Type", "Title", "Description"],
        [False] * 4,
        [
            [field["name"], KINDS.get(field["kind"], field["kind"]), field["title"], field["doc"]]
            for field in definitions
        ],
        headers=not call.get("no_headers"),
        separator=call.get("separator"),
    )
    return _report_unknown(call, definitions)
