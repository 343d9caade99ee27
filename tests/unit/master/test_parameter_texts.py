# SPDX-License-Identifier: BSD-2-Clause
"""Every text in every parameter of every opcode is checked at the door, before a job has a number."""

from typing import Any

import msgspec
import pytest

from ganeti.base.errors import PrerequisiteError
from ganeti.master import operations
from ganeti.master.operation import REGISTRY, Operation, decode
from ganeti.master.parameter import declared, name_fault

operations.load()
COMMON = {field.name for field in msgspec.structs.fields(Operation)}
SEVERAL_LINES = {
    *("osparams", "osparams_private", "osparams_private_cluster", "osparams_secret", "qfilter", "pattern"),
    *("x509_key_name", "destination_x509_ca", "input"),
    *(
        "messages",
        "result",
        "fail",
        "submit_jobs",
        "source_x509_ca",
        "source_handshake",
        "tags",
        "instances",
        "operation",
    ),
}
PATHS = {"file_storage_dir", "shared_file_storage_dir", "gluster_storage_dir", "src_path"}
OURS = {op_id: cls for op_id, cls in REGISTRY.items() if cls.__module__.startswith("ganeti.")}
PARAMETERS = sorted({(op_id, field.name) for op_id, cls in OURS.items() for field in msgspec.structs.fields(cls)})
"""Thousands: a test walks those of one opcode, since each test costs more than each look."""
OWN = [(op_id, name) for op_id, name in PARAMETERS if name not in COMMON]
OF_NODES = ("node", "nodes", "node_name", "node_names", "node_uuid", "node_uuids")
NESTED = [
    lambda text: text,
    lambda text: [text],
    lambda text: ["x", ["add", text]],
    lambda text: {"0": {"path": text}},
    lambda text: [{text: 1}],
]


def refusal(op_id: str, name: str, value: Any) -> str:
    with pytest.raises(PrerequisiteError) as caught:
        decode({"OP_ID": op_id, name: value})
    assert caught.value.code == "wrong_input"
    return caught.value.message


def test_every_parameter_says_what_it_means():
    assert len(PARAMETERS) > 800
    assert [pair for pair in PARAMETERS if not declared(OURS[pair[0]])[pair[1]].given.help] == []


@pytest.mark.parametrize("op_id", sorted({op_id for op_id, _ in OWN}))
def test_a_control_character_is_refused_in_every_parameter(op_id):
    for name in (name for each, name in OWN if each == op_id):
        bad = "a\0b" if name in SEVERAL_LINES else "a\nb"
        for nested in NESTED:
            said = refusal(op_id, name, nested(bad))
            assert said.startswith(f"Parameter '{name}' cannot be 'a\\"), said
            assert "\n" not in said and "\0" not in said


@pytest.mark.parametrize(("op_id", "name"), [pair for pair in OWN if pair[1] in PATHS])
@pytest.mark.parametrize("path", ["../x", "/srv/../etc", "a/..", "a" * 256, "/a" * 600])
def test_paths_stay_where_they_are_and_fit_a_file_system(op_id, name, path):
    assert refusal(op_id, name, path).startswith(f"Parameter '{name}' cannot be ")


def test_every_parameter_that_is_a_name_or_a_path_has_its_rule():
    """Where the last word of a parameter's name says what it is, the rule must be more than that of any line."""
    words = ("_name", "_names", "_node", "_nodes", "_uuid", "_uuids", "_dir", "_path", "iallocator", "os_type")
    without = {
        f"{op_id} {name}"
        for op_id, name in OWN
        if name.endswith(words) and name != "ignore_offline_nodes"
        if not declared(OURS[op_id])[name].given.subject
    }
    assert not without


@pytest.mark.parametrize(
    ("op_id", "name"), [pair for pair in OWN if pair[1].endswith(OF_NODES) and "ignore" not in pair[1]]
)
def test_names_of_what_is_there_are_not_too_long(op_id, name):
    assert "too long" in refusal(op_id, name, "n" * 256)
    assert name_fault(OURS[op_id], {name: ["node1", "web-1.example.com", ""]}) is None


def test_texts_of_people_may_have_several_lines():
    given = {"comment": "a\nb", "reason": [["user", "why\nnot", 1]], "osparams": {"key": "a\nb"}}
    assert name_fault(OURS["OP_INSTANCE_CREATE"], given) is None


def test_hypervisor_parameters_are_lines():
    said = refusal("OP_INSTANCE_STARTUP", "hvparams", {"kernel_args": "ro\nquiet"})
    assert said.startswith("Parameter 'hvparams' cannot be 'ro\\nquiet': it holds a control character, such as a line")
