# SPDX-License-Identifier: BSD-2-Clause
"""What the watcher decides for one node group: which instances to start again. Pure (protocols, section 23).

An instance that should run and does not is started, at most five times within eight hours; then it is left to a
person. One that a job is working on is left alone: its state is on its way somewhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ganeti.base.errors import GanetiError

MAX_ATTEMPTS = 5
FORGET_AFTER_S = 8 * 3600.0
SHOULD_RUN = "ERROR_down"


class Attempts(msgspec.Struct, frozen=True, omit_defaults=True):
    """How often an instance was started again, and when last; keys as in 3.1."""

    restart_count: int = 0
    restart_when: float = 0.0
    cleanup_count: int = 0
    cleanup_when: float = 0.0


class WatcherState(msgspec.Struct, frozen=True):
    """Content of `watcher.GROUP.data`."""

    node: dict[str, dict[str, Any]] = {}
    instance: dict[str, Attempts] = {}


@dataclass(frozen=True)
class InstanceNow:
    name: str
    status: str
    node: str


@dataclass(frozen=True)
class GroupNow:
    """How the instances and nodes of a group are."""

    instances: list[InstanceNow]
    boot_ids: dict[str, str | None]
    """By the name of the node; None for one that does not answer or is offline."""

    @property
    def down(self) -> list[InstanceNow]:
        """Those that should run and do not."""
        return [instance for instance in self.instances if instance.status == SHOULD_RUN]


class _Instance(msgspec.Struct):
    pnode: str
    status: str


class _Node(msgspec.Struct):
    offline: bool
    bootid: str | None


class _Group(msgspec.Struct):
    """What is needed of the result of `OP_UPDATE_NODE_GROUP_CACHE`; there is more."""

    nodes: dict[str, _Node]
    instances: dict[str, _Instance]


def read_group(result: Any) -> GroupNow:
    """Read the result of `OP_UPDATE_NODE_GROUP_CACHE`; raises `GanetiError` for what is none."""
    try:
        found = msgspec.convert(result, _Group)
    except msgspec.ValidationError as err:
        raise GanetiError(f"the state of a node group cannot be read: {err}") from err
    return GroupNow(
        [InstanceNow(name, each.status, each.pnode) for name, each in found.instances.items()],
        {name: None if node.offline else node.bootid for name, node in found.nodes.items()},
    )


@dataclass(frozen=True)
class Decision:
    start: list[str]
    state: WatcherState
    """To be saved before the instances are started: an attempt counts even if the watcher dies over it."""
    sentences: list[str]


def read_state(data: bytes | None) -> WatcherState:
    """Read the state file; an unreadable one counts as empty, as its worst loss is one more attempt."""
    if not data:
        return WatcherState()
    try:
        return msgspec.json.decode(data, type=WatcherState)
    except msgspec.MsgspecError:
        return WatcherState()


def decide(
    state: WatcherState,
    instances: Sequence[InstanceNow],
    boot_ids: Mapping[str, str | None],
    busy: frozenset[str],
    now_s: float,
) -> Decision:
    """Give what to start. *boot_ids* has the nodes of the group, None for those that do not answer or are offline;
    *busy* the names of instances that a job has for itself or waits to have so.
    """
    sentences: list[str] = []
    start: list[str] = []
    attempts: dict[str, Attempts] = {}
    for instance in instances:
        old = state.instance.get(instance.name, Attempts())
        if now_s - old.restart_when > FORGET_AFTER_S:
            old = Attempts()
        if instance.status != SHOULD_RUN:
            continue
        attempts[instance.name] = old
        if instance.name in busy:
            sentences.append(f"{instance.name} is not running, but a job is working on it: left alone")
        elif boot_ids.get(instance.node) is None:
            sentences.append(
                f"{instance.name} is not running, and its node {instance.node} does not answer: left alone"
            )
        elif old.restart_count >= MAX_ATTEMPTS:
            sentences.append(f"{instance.name} was started {old.restart_count} times and is not running: given up")
        else:
            start.append(instance.name)
            attempts[instance.name] = Attempts(old.restart_count + 1, now_s)
            sentences.append(f"{instance.name} should run on {instance.node} and does not: starting it")
    kept = {name: each for name, each in attempts.items() if each != Attempts()}
    nodes = {name: {"bootid": boot_id} for name, boot_id in boot_ids.items() if boot_id is not None}
    known = {name: values for name, values in state.node.items() if name in boot_ids}
    return Decision(start, WatcherState(node=known | nodes, instance=kept), sentences)


def without_attempts(state: WatcherState, before: WatcherState, names: Iterable[str]) -> WatcherState:
    """Give *state* with the attempts of *before* for these instances: nobody has tried to start them."""
    attempts = dict(state.instance)
    for name in names:
        if name in before.instance:
            attempts[name] = before.instance[name]
        else:
            attempts.pop(name, None)
    return WatcherState(node=state.node, instance=attempts)


def status_text(instances: Sequence[InstanceNow]) -> str:
    """Content of `watcher.GROUP.instance-status`."""
    return "".join(f"{instance.name} {instance.status}\n" for instance in instances)


def merged_status(texts: Iterable[str]) -> str:
    """Content of `instance-status`, from the texts of the groups, the oldest first: of an instance that was in one
    group and is in another now, the newest line counts."""
    found = {line.rpartition(" ")[0]: line for text in texts for line in text.splitlines()}
    return "".join(f"{found[name]}\n" for name in sorted(found))
