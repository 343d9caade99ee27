# SPDX-License-Identifier: BSD-2-Clause
"""gnt-debug events: what happens in the cluster, one sentence an event."""

from __future__ import annotations

import json
import time

from ganeti.cli.failures import EXIT_USAGE, UsageError
from ganeti.cli.invocation import err, out
from ganeti.cli.luxi import Disconnected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

    Event = dict[str, Any]

_KINDS = ("config", "job", "lock", "node")
_FINAL = ("success", "error", "canceled")
_RECONNECT_S = 60
_PAUSE_S = 0.2
_NAMED_AT_MOST = 5
_NOUNS = {"nodes": "node", "nodegroups": "group", "instances": "instance", "networks": "network", "disks": "disk"}
_ROLES = {"M": "master", "C": "master candidate", "R": "regular", "D": "drained", "O": "offline"}
_LOCK_VERBS = {"granted": "holds", "waiting": "waits for", "withdrawn": "waits no longer for", "freed": "has freed"}


def follow(call: Invocation) -> int:
    """Print events until interrupted, through restarts of the master daemon."""
    kinds = _kinds(call.get("kinds"))
    position: str | None = call.get("from_position")
    options = {"snapshot": True} if call.get("snapshot") and position is None else {}
    lost_since_s: float | None = None
    while True:
        try:
            stream = call.client.stream("Subscribe", kinds, position, options)
            position = next(stream)["position"]
            lost_since_s, options = None, {}
            for event in stream:
                out(json.dumps(event, separators=(",", ":")) if call.get("json") else line_of(event))
                position = event["position"]
        except Disconnected:
            now_s = time.monotonic()
            lost_since_s = lost_since_s or now_s
            if position is None or now_s - lost_since_s > _RECONNECT_S:
                raise
            time.sleep(_PAUSE_S)
        except KeyboardInterrupt:
            if position is not None:
                err(f"\nContinue with --from={position}")
            return 0


def _kinds(words: list[str] | None) -> list[str] | None:
    for word in words or []:
        if word not in _KINDS:
            raise UsageError(f"--kinds: '{word}' is no kind of event: there are {', '.join(_KINDS)}", EXIT_USAGE)
    return words or None


def line_of(event: Event) -> str:
    """The local time and a sentence."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.get("time", 0)))
    return f"{stamp} {sentence(event)}"


def sentence(event: Event) -> str:
    """Say an event; one this version does not know is shown as it came."""
    say = {"config": _config, "job": _job, "lock": _lock, "node": _node, "snapshot": _snapshot}.get(event["event"])
    return say(event) if say is not None else json.dumps(event)


def _config(event: Event) -> str:
    parts = [
        f"{word} {_objects(event[key])}" for word, key in (("changed", "put"), ("removed", "remove")) if event.get(key)
    ]
    return f"Configuration {_commit(event)}: {'; '.join(parts) or 'no object has changed'}"


def _commit(event: Event) -> str:
    return ".".join(str(number) for number in event["commit"])


def _objects(rows: list[list[Any]]) -> str:
    named = [_object(row) for row in rows[:_NAMED_AT_MOST]]
    more = len(rows) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _object(row: list[Any]) -> str:
    kind, uuid, name = row[:3]
    return "the cluster" if kind == "cluster" else f"{_NOUNS.get(kind, kind.removesuffix('s'))} {name or uuid}"


def _job(event: Event) -> str:
    job, what = f"Job {event['id']}", event["what"]
    if what == "submitted":
        return f"{job} was submitted with priority {event['priority']}: {', '.join(event['summary'])}"
    if what == "status":
        if event["status"] in _FINAL:
            return f"{job} has ended: {event['status']}"
        return f"{job} is {event['status']}, it was {event['was']}"
    if what == "priority":
        return f"{job} has priority {event['priority']}, it had {event['was']}"
    if what == "log":
        text = event["text"]
        return f"{job} says: {text if isinstance(text, str) else json.dumps(text)}"
    return f"{job} was {what}"


def _lock(event: Event) -> str:
    if event["what"] == "table":
        return _locks_held(event)
    name, *_, process_id = event["client"]
    who = f"Job {name}" if isinstance(name, int) else str(name)
    if process_id == 0:
        who += " (no process yet)"  # what it is granted passes to its process: freed here, held there
    locks = [f"{lock} ({state})" for lock, state in sorted(event["locks"].items())]
    more = len(locks) - _NAMED_AT_MOST
    listed = ", ".join(locks[:_NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
    return f"{who} {_LOCK_VERBS.get(event['what'], event['what'])} {listed or 'nothing'}"


def _locks_held(table: Event) -> str:
    return f"{len(table['held'])} locks are held, {len(table['waiting'])} requests wait"


def _node(event: Event) -> str:
    node, what = f"Node {event.get('name') or event['uuid']}", event["what"]
    if what == "reachable":
        return f"{node} answers again"
    if what == "unreachable":
        return f"{node} does not answer"
    if what == "removed":
        return f"{node} was removed"
    return f"{node} was {what}, it is {_ROLES.get(event['role'], event['role'])}"


def _snapshot(event: Event) -> str:
    parts = []
    if "config" in event:
        parts.append(f"configuration {_commit(event['config'])} with {len(event['config']['objects'])} objects")
    if "job" in event:
        unfinished = sum(row[1] not in _FINAL for row in event["job"])
        parts.append(f"{len(event['job'])} jobs, {unfinished} of them unfinished")
    if "lock" in event:
        parts.append(_locks_held(event["lock"]))
    if "node" in event:
        silent = sum(not node["reachable"] for node in event["node"])
        parts.append(f"{len(event['node'])} nodes, {silent} of them silent")
    return f"What is there now: {'; '.join(parts)}"
