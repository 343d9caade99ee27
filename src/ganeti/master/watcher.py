# SPDX-License-Identifier: BSD-2-Clause
"""What the watcher decides for one node group: which instances to start again. Pure (protocols, section 23).

An instance that should run and does not is started, at most five times within eight hours; then it is left to a
person. One that its user shut down is marked as down, within the same limit. One that a job is working on is left
alone: its state is on its way somewhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from ganeti.base.errors import UNREADABLE_JSON, GanetiError

MAX_ATTEMPTS = 5
FORGET_AFTER_S = 8 * 3600.0
SHOULD_RUN = "ERROR_down"
BY_USER = "USER_down"


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
    wanted: str = "up"
    """The state the configuration wants (``admin_state``)."""

    @property
    def ended_by_user(self) -> bool:
        """Whether its user shut it down and the configuration does not say so yet."""
        return self.status == BY_USER and self.wanted == "up"


@dataclass(frozen=True)
class GroupNow:
    """How the instances and nodes of a group are."""

    instances: list[InstanceNow]
    boot_ids: dict[str, str | None]
    """By the name of the node; None for one that does not answer or is offline."""

    @property
    def down(self) -> list[InstanceNow]:
        """Those that should run and do not, or were shut down by their users."""
        return [each for each in self.instances if each.status == SHOULD_RUN or each.ended_by_user]


class _Instance(msgspec.Struct):
    pnode: str
    status: str
    admin_state: str = "up"


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
        [InstanceNow(name, each.status, each.pnode, each.admin_state) for name, each in found.instances.items()],
        {name: None if node.offline else node.bootid for name, node in found.nodes.items()},
    )


@dataclass(frozen=True)
class Decision:
    start: list[str]
    shut_down: list[str]
    """Shut down by their users: to be marked as down, so that they stay so whatever happens to their nodes."""
    state: WatcherState
    """To be saved before the instances are started: an attempt counts even if the watcher dies over it."""
    sentences: list[str]


def read_state(data: bytes | None) -> WatcherState:
    """Read the state file; an unreadable one counts as empty, as its worst loss is one more attempt."""
    if not data:
        return WatcherState()
    try:
        return msgspec.json.decode(data, type=WatcherState)
    except UNREADABLE_JSON:
        return WatcherState()


def decide(
    state: WatcherState,
    instances: Sequence[InstanceNow],
    boot_ids: Mapping[str, str | None],
    busy: frozenset[str],
    now_s: float,
) -> Decision:
    """Give what to start and what to mark as down.

    *boot_ids* has the nodes of the group, None for those that do not answer or are offline; *busy* the names of
    instances that a job has for itself or waits to have so.
    """
    sentences: list[str] = []
    start: list[str] = []
    shut_down: list[str] = []
    attempts: dict[str, Attempts] = {}
    for instance in instances:
        if not (instance.status == SHOULD_RUN or instance.ended_by_user):
            continue
        old = _remembered(state.instance.get(instance.name, Attempts()), now_s)
        attempts[instance.name] = old
        why = _obstacle(instance, old, boot_ids, busy)
        if why:
            sentences.append(why)
        elif instance.ended_by_user:
            shut_down.append(instance.name)
            attempts[instance.name] = replace(old, cleanup_count=old.cleanup_count + 1, cleanup_when=now_s)
            sentences.append(f"{instance.name} was shut down by its user: marking it as down")
        else:
            start.append(instance.name)
            attempts[instance.name] = replace(old, restart_count=old.restart_count + 1, restart_when=now_s)
            sentences.append(f"{instance.name} should run on {instance.node} and does not: starting it")
    kept = {name: each for name, each in attempts.items() if each != Attempts()}
    nodes = {name: {"bootid": boot_id} for name, boot_id in boot_ids.items() if boot_id is not None}
    known = {name: values for name, values in state.node.items() if name in boot_ids}
    return Decision(start, shut_down, WatcherState(node=known | nodes, instance=kept), sentences)


def _remembered(old: Attempts, now_s: float) -> Attempts:
    """Without what is so long ago that it counts no longer, or in the future, after a clock was set back."""
    if not 0 <= now_s - old.restart_when <= FORGET_AFTER_S:
        old = replace(old, restart_count=0, restart_when=0.0)
    if not 0 <= now_s - old.cleanup_when <= FORGET_AFTER_S:
        old = replace(old, cleanup_count=0, cleanup_when=0.0)
    return old


def _obstacle(
    instance: InstanceNow, old: Attempts, boot_ids: Mapping[str, str | None], busy: frozenset[str]
) -> str | None:
    """Why nothing is done about an instance that does not run."""
    by_user = instance.ended_by_user
    how = f"{instance.name} {'was shut down by its user' if by_user else 'is not running'}"
    if instance.name in busy:
        return f"{how}, but a job is working on it: left alone"
    if boot_ids.get(instance.node) is None:
        return f"{how}, and its node {instance.node} does not answer: left alone"
    if by_user and old.cleanup_count >= MAX_ATTEMPTS:
        return f"{how}, and {old.cleanup_count} jobs have not marked it as down: given up"
    if not by_user and old.restart_count >= MAX_ATTEMPTS:
        return f"{instance.name} was started {old.restart_count} times and is not running: given up"
    return None


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
