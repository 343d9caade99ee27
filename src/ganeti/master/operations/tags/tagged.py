# SPDX-License-Identifier: BSD-2-Clause
"""The objects that have tags: how they are named, found and locked, and how their tags change."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from msgspec.structs import replace

from ganeti.base.command import PRINT_JOBID, PRIORITY, SUBMIT, Argument, Command, Option
from ganeti.base.errors import UNKNOWN_ENTITY, WRONG_INPUT, PrerequisiteError
from ganeti.master.parameter import Parameter
from ganeti.model.configuration import Draft
from ganeti.model.locks import group_lock, instance_lock, network_lock, node_lock
from ganeti.model.objects import CLUSTER_KEY, Cluster, Instance, Network, Node, NodeGroup
from ganeti.model.tags import with_tags
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change

TagKind = Annotated[
    Literal["instance", "node", "nodegroup", "cluster", "network"], Parameter("kind of the object that has the tags")
]
ObjectName = Annotated[str, Parameter("name of the object; not needed for the cluster", subject="object")]
Tags = Annotated[list[str], Parameter("the tags", subject="text", metavar="tag")]
OWNERS: Final = {
    "gnt-cluster": ("cluster", "the cluster", ""),
    "gnt-group": ("nodegroup", "a node group", "group"),
    "gnt-node": ("node", "a node", "node-name"),
    "gnt-instance": ("instance", "an instance", "instance-name"),
    "gnt-network": ("network", "a network", "network"),
}
"""Program: the kind, the words for it, and for its name on the command line."""
_FROM: Final = Option(("--from",), "tags_file", help="more tags, one a line; - is standard input", metavar="FILE")
Tagged = Cluster | NodeGroup | Node | Instance | Network


@dataclass(frozen=True)
class _Kind:
    container: str
    """Of the configuration."""
    find: Callable[[ConfigView, str], Tagged]
    path: str
    """What stands before the name where tags are searched for."""
    lock: Callable[[Tagged], str]


_KINDS: Final[dict[str, _Kind]] = {
    "nodegroup": _Kind("nodegroups", ConfigView.find_group, "/nodegroup/", lambda group: group_lock(group.uuid)),
    "node": _Kind("nodes", ConfigView.find_node, "/nodes/", lambda node: node_lock(node.uuid)),
    "instance": _Kind(
        "instances", ConfigView.find_instance, "/instances/", lambda instance: instance_lock(instance.name)
    ),
    "network": _Kind("networks", ConfigView.find_network, "/networks/", lambda network: network_lock(network.uuid)),
}
"""All kinds but the cluster, of which there is one."""


def commands(verb: str, summary: str, handler: str) -> tuple[Command, ...]:
    """The same command for each kind of object; *summary* has braces for the words of the kind."""
    return tuple(
        Command(
            f"{program} {verb}",
            summary.format(words),
            arguments=(
                *([Argument("name", metavar, subject="group" if kind == "nodegroup" else kind)] if metavar else []),
                Argument("tags", "tag", 0, None),
            ),
            options=(_FROM, PRIORITY, SUBMIT, PRINT_JOBID),
            handler=handler,
            is_job=False,
            sends=(("kind", kind),),
        )
        for program, (kind, words, metavar) in OWNERS.items()
    )


def routes(method: str) -> tuple[str, ...]:
    """Where the remote API has the tags of each kind."""
    paths = ("/2/tags", *(f"/2/{kind}/[name]/tags" for kind in ("groups", "nodes", "instances", "networks")))
    return tuple(f"{method} {path}" for path in paths)


def find(view: ConfigView, kind: TagKind, name: str | None) -> Tagged:
    """The object of this kind; the name of the cluster does not matter. Raises `PrerequisiteError`."""
    if kind == "cluster":
        return view.cluster
    if not name:
        raise PrerequisiteError(f"Name the {kind} whose tags are meant", WRONG_INPUT)
    return _KINDS[kind].find(view, name)


def locks_of(kind: TagKind, found: Tagged) -> list[str]:
    """What keeps others off the object; nothing does that for the cluster, whose changes are put together."""
    return [] if kind == "cluster" else [_KINDS[kind].lock(found)]


def everything(view: ConfigView) -> list[tuple[str, Sequence[str]]]:
    """Every object that can have tags, by its path, with its tags."""
    found: list[tuple[str, Sequence[str]]] = [("/cluster", view.cluster.tags)]
    for kind in _KINDS.values():
        objects = sorted(view.all(kind.container), key=lambda each: str(each.name))
        found += [(f"{kind.path}{each.name}", each.tags) for each in objects]
    return found


def require(found: Tagged, tags: Sequence[str]) -> None:
    """Raise `PrerequisiteError` where the object has not got all of these tags."""
    lacking = sorted(set(tags) - set(found.tags))
    if lacking:
        names = ", ".join(f"'{tag}'" for tag in lacking)
        raise PrerequisiteError(
            f"Tag(s) {names} not found: {found.name} has no such tag, nothing is removed", UNKNOWN_ENTITY
        )


class AddTags(Change, frozen=True, kw_only=True):
    """Give an object more tags; those it has already stay."""

    kind: TagKind
    uuid: str
    tags: list[str]

    def apply(self, draft: Draft) -> None:
        old = _current(draft, self.kind, self.uuid)
        _put(draft, self.kind, old, with_tags(old.tags, self.tags))


class RemoveTags(Change, frozen=True, kw_only=True):
    """Take tags from an object; raises `PrerequisiteError` where it has not got them all."""

    kind: TagKind
    uuid: str
    tags: list[str]

    def apply(self, draft: Draft) -> None:
        old = _current(draft, self.kind, self.uuid)
        require(old, self.tags)
        _put(draft, self.kind, old, [tag for tag in old.tags if tag not in self.tags])


def _current(draft: Draft, kind: TagKind, uuid: str) -> Tagged:
    return draft.cluster if kind == "cluster" else _KINDS[kind].find(draft, uuid)


def _put(draft: Draft, kind: TagKind, old: Tagged, tags: list[str]) -> None:
    if tags != old.tags:
        draft.put(CLUSTER_KEY if kind == "cluster" else _KINDS[kind].container, replace(old, tags=tags))
