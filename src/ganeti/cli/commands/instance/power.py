# SPDX-License-Identifier: BSD-2-Clause
"""gnt-instance startup, shutdown and reboot, on one instance or on many."""

from __future__ import annotations

from ganeti.cli import confirm, jobs
from ganeti.cli.failures import UsageError
from ganeti.cli.invocation import out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ganeti.cli.invocation import Invocation

SELECTION = ("selector", "names", "force_multiple")
_LISTS = {
    "node": ("pinst_list", "sinst_list"),
    "primary": ("pinst_list",),
    "secondary": ("sinst_list",),
    "node-tags": ("pinst_list", "sinst_list"),
    "pri-node-tags": ("pinst_list",),
    "sec-node-tags": ("sinst_list",),
}


def each(call: Invocation) -> int:
    """One job for each instance selected; several are asked about."""
    names = selected(call)
    if not names:  # with --all alone, as a script says it that knows of no instance
        out(f"Cluster is empty, no instances to {call.command.name}")
        return 0
    if len(names) > 1 and not call.get("force_multiple"):
        question = confirm.listing("instances", names, call.command.name)
        confirm.require(question, "give --force-multiple to go on without the question.")
    return submit(call, names, dict(call.command.sends) | call.parameters(*SELECTION))


def submit(call: Invocation, names: list[str], parameters: dict[str, Any]) -> int:
    """Submit one job for each instance and wait for all; gives the exit status."""
    batch = jobs.Batch(call)
    for name in names:
        batch.add(name, [{"OP_ID": call.command.op_id, "instance_name": name, **parameters}])
    return batch.finish(quiet_submission=len(names) == 1)


def selected(call: Invocation) -> list[str]:
    """Give the instances the words stand for; raises `UsageError` if there is none, but for ``--all``."""
    selector = call.get("selector") or "instance"
    words = call.get("names", [])
    if selector == "all":
        if words:
            raise UsageError("--all takes no names: give either --all or names")
        return _names(call.client.call("Query", "instance", ["name"], None))
    elif not words:
        nodes = dict.fromkeys(("node", "primary", "secondary"), "a node")
        what = {"instance": "an instance", "node-group": "a node group", **nodes}
        raise UsageError(f"{call.command.line} needs the name of {what.get(selector, 'a tag')}, or --all", 1)
    elif selector == "instance":
        return list(dict.fromkeys(words))
    elif selector == "node-group":
        _require_known(call, "group", "Node group", words)
        condition = ["|", *(["==", field, word] for word in words for field in ("pnode.group", "pnode.group.uuid"))]
        names = _names(call.client.call("Query", "instance", ["name"], condition))
    elif selector == "tags":
        names = _names(call.client.call("Query", "instance", ["name"], _any_tag(words)))
    else:
        names = _on_nodes(call, selector, words)
    if not names:
        raise UsageError("No instance matches, nothing was done", 1)
    return names


def _on_nodes(call: Invocation, selector: str, words: list[str]) -> list[str]:
    if selector.endswith("tags"):
        condition = _any_tag(words)
    else:
        _require_known(call, "node", "Node", words)
        condition = ["|", *(["==", "name", word] for word in words)]
    answer = call.client.call("Query", "node", list(_LISTS[selector]), condition)
    return list(dict.fromkeys(name for row in answer["data"] for _, names in row for name in names or []))


def _require_known(call: Invocation, kind: str, what: str, words: list[str]) -> None:
    """Raise `UsageError` for a word that is neither the name, its beginning up to a dot, nor the UUID of one."""
    condition = ["|", *(["==", field, word] for word in words for field in ("name", "uuid"))]
    answer = call.client.call("Query", kind, ["name", "uuid"], condition)
    known = [(row[0][1], row[1][1]) for row in answer["data"]]
    for word in words:
        if not any(word in pair or pair[0].startswith(f"{word}.") for pair in known):
            raise UsageError(f"{what} '{word}' not known: nothing was done", 1)


def _any_tag(tags: Iterable[str]) -> list[Any]:
    return ["|", *(["=[]", "tags", tag] for tag in tags)]


def _names(answer: dict[str, Any]) -> list[str]:
    return [row[0][1] for row in answer["data"]]
