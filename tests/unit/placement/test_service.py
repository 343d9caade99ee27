# SPDX-License-Identifier: BSD-2-Clause
"""The protocol in process: golden answers, and the words for what cannot be asked."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from ganeti.placement.request.terms import Options, RequestError
from ganeti.placement.service import answer

GOLDEN = Path(__file__).parents[2] / "golden" / "iallocator"


def cases() -> list[Any]:
    lines = (GOLDEN / "answers.jsonl").read_text().splitlines()
    return [pytest.param(json.loads(line), id=json.loads(line)["name"]) for line in lines]


@pytest.mark.parametrize("case", cases())
def test_golden_answers(case: dict[str, Any]) -> None:
    options = Options(capacity_checks=case["capacity_checks"])
    assert answer(case["message"], options=options) == case["answer"]


@pytest.fixture
def message() -> dict[str, Any]:
    found: dict[str, Any] = copy.deepcopy(cases()[0].values[0]["message"])
    return found


def test_unknown_request_type(message: dict[str, Any]) -> None:
    message["request"] = {"type": "foo"}
    with pytest.raises(RequestError, match=r"^Invalid request type 'foo'$"):
        answer(message)


def test_missing_key_names_what_is_there(message: dict[str, Any]) -> None:
    message["request"] = {"name": "x"}
    with pytest.raises(RequestError) as caught:
        answer(message)
    assert str(caught.value) == "invalid request dict: key 'type' not found, object contains only [\"name\"]"


def test_unknown_instance(message: dict[str, Any]) -> None:
    node = next(iter(message["nodes"]))
    message["request"] = {"type": "relocate", "name": "foo", "relocate_from": [node], "required_nodes": 1}
    with pytest.raises(RequestError, match=r"^Unknown instance 'foo'$"):
        answer(message)


@pytest.mark.parametrize(
    ("where", "value", "text"),
    [
        ("memory", "5", "key 'memory': Unable to read Int"),
        ("disk_template", "foo", "Invalid string value for type DiskTemplate"),
        ("disks", [{"size": "5"}], "key 'size': Unable to read Int"),
    ],
)
def test_wrong_types_are_named(message: dict[str, Any], where: str, value: Any, text: str) -> None:
    message["request"][where] = value
    with pytest.raises(RequestError, match=text):
        answer(message)


def test_unknown_group(message: dict[str, Any]) -> None:
    message["request"]["group_name"] = "nowhere"
    assert answer(message) == {
        "success": False,
        "info": "Request failed: Wrong number of elems found with name nowhere",
        "result": [],
    }
