# SPDX-License-Identifier: BSD-2-Clause
"""What ConfD answers to each kind of question (protocols, section 4). Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ganeti.base.errors import UNREADABLE_JSON
from ganeti.confd.picture import Disk, Picture
from ganeti.model.templates import PAIRED
from ganeti.wire.confd import LINK, Fault, Kind, MasterField, Question, Status

_UNTOLD = "backups"
"""The section with the keys of backups: any node could ask for them, and some nodes only keep what they encrypt."""


@dataclass(frozen=True)
class Answer:
    """*serial* tells clients which of several answers is the newest: that of the whole configuration.

    3.1 tells that of the cluster, a node or an instance, which some changes that alter the answer leave as it is.
    """

    value: Any
    serial: int = 0
    status: Status = Status.OK


class _Unanswerable(Exception):
    """The question is about nothing there is, or is none: *value* is answered."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


def answer(picture: Picture, question: Question) -> Answer:
    """The answer to a question of a kind there is, by this configuration."""
    try:
        return _ANSWERS[Kind(question.kind)](picture, question.query)
    except _Unanswerable as err:
        return Answer(err.value, status=Status.ERROR)


def _ping(picture: Picture, _: Any) -> Answer:
    return Answer(picture.version)


def _node_role(picture: Picture, query: Any) -> Answer:
    return Answer(int(picture.role(_node(picture, query))), picture.serial)


def _node(picture: Picture, query: Any) -> str:
    return _known(picture.node_uuids, query, "node")


def _known(uuids: dict[str, str], name: Any, kind: str) -> str:
    if not isinstance(name, str):
        raise _Unanswerable(Fault.ARGUMENT)
    if name in uuids:
        return uuids[name]
    raise _Unanswerable(f"{kind} '{name}' is not known")


def _node_of_address(picture: Picture, query: Any) -> Answer:
    if not isinstance(query, dict):
        raise _Unanswerable(Fault.ARGUMENT)
    link = query.get(LINK)
    link = picture.default_link if link is None else str(link)
    match query:
        case {"2": list(addresses)}:
            serial = picture.serial
            return Answer([_one_host(picture, link, address, serial) for address in addresses], serial)
        case {"1": str(address)}:
            status, found, serial = _one_host(picture, link, address, picture.serial)
            return Answer(found, serial, Status(status))
    raise _Unanswerable(Fault.ARGUMENT)


def _one_host(picture: Picture, link: str, address: Any, serial: int) -> tuple[int, Any, int]:
    uuid = picture.hosts.get((link, address)) if isinstance(address, str) else None
    if uuid is None:
        return Status.ERROR.value, Fault.UNKNOWN.value, serial
    return Status.OK.value, picture.nodes[uuid].primary_ip, serial


def _master(picture: Picture, query: Any) -> Answer:
    node = picture.nodes.get(picture.cluster.master_node)
    if node is None:
        raise _Unanswerable(Fault.INTERNAL)
    values = {
        MasterField.NAME: node.name,
        MasterField.ADDRESS: picture.cluster.master_ip,
        MasterField.NODE_ADDRESS: node.primary_ip,
    }
    serial = picture.serial
    match query:
        case None | "":
            return Answer(node.name, serial)
        case {"3": list(fields)} if all(field in list(MasterField) for field in fields):
            return Answer([values[MasterField(field)] for field in fields], serial)
    raise _Unanswerable(Fault.ARGUMENT)


def _node_addresses(picture: Picture, _: Any) -> Answer:
    return Answer([node.primary_ip for node in picture.nodes.values()], picture.serial)


def _candidate_addresses(picture: Picture, _: Any) -> Answer:
    found = [node.primary_ip for node in picture.nodes.values() if node.master_candidate]
    return Answer(found, picture.serial)


def _instance_addresses(picture: Picture, query: Any) -> Answer:
    link = query.get(LINK) if isinstance(query, dict) else query
    link = picture.default_link if link in (None, "") else link
    if not isinstance(link, str):
        raise _Unanswerable(Fault.ARGUMENT)
    found = [address for own, address in picture.addresses_of_links() if own == link]
    return Answer(found, picture.serial)


def _node_minors(picture: Picture, query: Any) -> Answer:
    uuid = _node(picture, query)
    found = []
    for held, role in zip(picture.instances_on(uuid), ("primary", "secondary"), strict=True):
        for each in held:
            instance = picture.instances[each]
            for index, disk in enumerate(picture.disks_of(instance)):
                for minor, peer in _minors(disk, uuid):
                    name = picture.nodes[peer].name if peer in picture.nodes else peer
                    found.append([query, minor, instance.name, f"disk/{index}", role, name])
    return Answer(found, picture.serial)


def _minors(disk: Disk, node: str) -> list[tuple[int, str]]:
    """The minor number of a disk and of its parts on a node, each with the peer."""
    found = []
    match disk.logical_id:
        case [str(one), str(other), _, int(minor), int(other_minor), _] if disk.dev_type == PAIRED:
            own = {one: (minor, other), other: (other_minor, one)}.get(node)
            found += [own] if own is not None else []
    return found + [each for part in disk.children for each in _minors(part, node)]


def _node_instances(picture: Picture, query: Any) -> Answer:
    uuid = _node(picture, query)
    found = [[msgspec.json.decode(picture.raw_instances[each]) for each in held] for held in picture.instances_on(uuid)]
    return Answer(found, picture.serial)


def _primary_instances(picture: Picture, query: Any) -> Answer:
    uuid = _node(picture, query)
    held = [(each, picture.instances[each]) for each in picture.instances_on(uuid)[0]]
    found = [[instance.name, each, instance.admin_state, instance.mtime] for each, instance in held]
    return Answer(found, picture.serial)


def _instance_disks(picture: Picture, query: Any) -> Answer:
    instance = picture.instances[_known(picture.instance_uuids, query, "instance")]
    found = [msgspec.json.decode(picture.raw_disks[uuid]) for uuid in instance.disks if uuid in picture.raw_disks]
    return Answer(found, picture.serial)


def _config(picture: Picture, query: Any) -> Answer:
    """By a JSON pointer (RFC 6901); each level is read alone."""
    if not isinstance(query, str) or (query and not query.startswith("/")):
        raise _Unanswerable(Fault.ARGUMENT)
    words = [word.replace("~1", "/").replace("~0", "~") for word in query.split("/")[1:]]
    if not words:
        whole = {key: msgspec.json.decode(each) for key, each in picture.sections.items() if key != _UNTOLD}
        return Answer(whole, picture.serial)
    if words[0] == _UNTOLD:
        raise _Unanswerable(Fault.ARGUMENT)
    read = {"instances": picture.raw_instances, "disks": picture.raw_disks}  # the long ones
    if len(words) > 1 and words[0] in read:
        found, words = _member(read[words[0]], words[1]), words[2:]
    else:
        found, words = _member(picture.sections, words[0]), words[1:]
    for word in words:
        found = _below(found, word)
    return Answer(msgspec.json.decode(found), picture.serial)


def _member(objects: Mapping[str, msgspec.Raw], word: str) -> msgspec.Raw:
    if word not in objects:
        raise _Unanswerable(Fault.ARGUMENT)
    return objects[word]


def _below(value: msgspec.Raw, word: str) -> msgspec.Raw:
    try:
        found = msgspec.json.decode(value, type=dict[str, msgspec.Raw] | list[msgspec.Raw])
        return found[word] if isinstance(found, dict) else found[_index(word)]
    except (*UNREADABLE_JSON, KeyError, IndexError) as err:
        raise _Unanswerable(Fault.ARGUMENT) from err


def _index(word: str) -> int:
    if not (word.isascii() and word.isdigit()):
        raise KeyError(word)
    return int(word[:9])


def _collectors(picture: Picture, _: Any) -> Answer:
    return Answer(picture.cluster.data_collectors, picture.serial)


_ANSWERS: dict[Kind, Callable[[Picture, Any], Answer]] = {
    Kind.PING: _ping,
    Kind.NODE_ROLE: _node_role,
    Kind.NODE_OF_ADDRESS: _node_of_address,
    Kind.MASTER: _master,
    Kind.NODE_ADDRESSES: _node_addresses,
    Kind.CANDIDATE_ADDRESSES: _candidate_addresses,
    Kind.INSTANCE_ADDRESSES: _instance_addresses,
    Kind.NODE_MINORS: _node_minors,
    Kind.NODE_INSTANCES: _node_instances,
    Kind.INSTANCE_DISKS: _instance_disks,
    Kind.CONFIG: _config,
    Kind.COLLECTORS: _collectors,
    Kind.PRIMARY_INSTANCES: _primary_instances,
}
