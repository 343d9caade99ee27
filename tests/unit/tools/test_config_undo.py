# SPDX-License-Identifier: BSD-2-Clause
"""Taking a commit back: the opcodes for it, or the reason why not."""

from typing import Any

import pytest

from ganeti.base.errors import PrerequisiteError
from ganeti.master import operations
from ganeti.master.operation import decode
from ganeti.tools import config_undo
from ganeti.tools.config_past import Event, Past

operations.load()
KEY = ("instances", "u1")
WEB = {
    "name": "web",
    "uuid": "u1",
    "serial_no": 3,
    "mtime": 1.0,
    "beparams": {"vcpus": 1},
    "hvparams": {},
    "tags": ["a"],
}
CLUSTER = {"cluster_name": "c", "hvparams": {"kvm": {"acpi": True}}, "beparams": {"default": {"vcpus": 1}}, "tags": []}


def past(*states: dict[str, Any], kind: str = "instances", uuid: str = "u1") -> Past:
    events = [(float(at), Event((1, at), [(kind, uuid, state)], [])) for at, state in enumerate(states, 1)]
    return Past(events, {(kind, uuid): states[-1]})


def test_values_and_tags_of_an_instance() -> None:
    after = WEB | {"serial_no": 4, "beparams": {"vcpus": 2, "maxmem": 64}, "hvparams": {"acpi": False}, "tags": ["b"]}
    found = config_undo.opcodes(past(WEB, after), (1, 2))
    for opcode in found:
        decode(opcode)
    deleted, added, values = found
    assert deleted["tags"] == ["b"] and added["tags"] == ["a"] and added["name"] == "web"
    assert values["beparams"] == {"vcpus": 1, "maxmem": "default"} and values["hvparams"] == {"acpi": "default"}


def test_values_of_the_cluster() -> None:
    after = CLUSTER | {"hvparams": {"kvm": {"acpi": False}}, "beparams": {"default": {"vcpus": 4}}, "tags": ["x"]}
    found = config_undo.opcodes(past(CLUSTER, after, kind="cluster", uuid="cluster"), (1, 2))
    for opcode in found:
        decode(opcode)
    assert found[-1]["hvparams"] == {"kvm": {"acpi": True}} and found[-1]["beparams"] == {"vcpus": 1}


@pytest.mark.parametrize(
    ("states", "position", "said"),
    [
        ([WEB, WEB | {"serial_no": 4, "os": "other"}], (1, 2), "a change of os cannot be undone this way"),
        ([WEB | {"serial_no": 1}], (1, 1), "made it: remove it instead"),
        ([WEB], (1, 1), "the first of it that is kept"),
        ([WEB, WEB | {"serial_no": 4}], (1, 2), "changed no value"),
        ([WEB, WEB | {"tags": []}, WEB | {"tags": ["c"]}], (1, 2), "tags has changed again since"),
        ([WEB], (9, 9), "is not kept"),
    ],
)
def test_what_cannot_be_undone(states: list[dict[str, Any]], position: tuple[int, int], said: str) -> None:
    with pytest.raises(PrerequisiteError, match=said):
        config_undo.opcodes(past(*states), position)


def test_what_was_removed_is_not_made_again() -> None:
    gone = past(WEB)
    gone.events.append((9.0, Event((1, 9), [], [KEY])))
    with pytest.raises(PrerequisiteError, match="removed instance web"):
        config_undo.opcodes(gone, (1, 9))
