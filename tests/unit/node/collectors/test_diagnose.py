# SPDX-License-Identifier: BSD-2-Clause
"""The self-diagnose collector: what is not as it must be counts as a node that is well (S4.3-S4.14)."""

import json
import os

import pytest

from ganeti.node.collectors import diagnose
from ganeti.node.white_list import fault_of
from ganeti.wire import confd

pytestmark = pytest.mark.requirement("S4.3", "S4.5", "S4.6", "S4.7", "S4.8", "S4.10", "S4.11", "S4.14")
US = (os.getuid(), os.getgid())


@pytest.fixture
def white_list(tmp_path):
    directory = tmp_path / "node-diagnose-commands"
    directory.mkdir(mode=0o755)
    command = directory / "check-disks"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    return directory


def test_a_command_as_it_must_be(white_list):
    assert fault_of(str(white_list), "check-disks", US) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../check-disks", "check disks", "check;disks", "é"])
def test_a_name_that_is_none(white_list, name):
    assert "is no plain name" in fault_of(str(white_list), name, US)


def spoilt(white_list, how):
    command = white_list / "check-disks"
    match how:
        case "gone":
            command.unlink()
        case "writable":
            command.chmod(0o757)
        case "setuid":
            command.chmod(0o4755)
        case "not executable":
            command.chmod(0o644)
        case "link":
            command.rename(white_list / "other")
            command.symlink_to(white_list / "other")
        case "directory":
            command.unlink()
            command.mkdir()
        case "open list":
            white_list.chmod(0o777)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("gone", "No such file or directory"),
        ("writable", "has mode 0757: the widest is 0755"),
        ("setuid", "has mode 4755"),
        ("not executable", "is not executable"),
        ("link", "is no regular file"),
        ("directory", "is no regular file"),
        ("open list", "has mode 0777"),
    ],
)
def test_a_command_that_may_not_run(white_list, how, words):
    spoilt(white_list, how)
    assert words in fault_of(str(white_list), "check-disks", US)


def test_one_of_somebody_else(white_list):
    assert "does not belong to root:root" in fault_of(str(white_list), "check-disks", (US[0] + 1, US[1]))


@pytest.mark.parametrize(
    "told",
    [
        {"status": "Ok"},
        {"status": "evacuate", "details": {"disk": "sda"}},
        {"status": "evacuate-failover", "details": None, "more": [1]},
        {"status": "live-repair", "command": "change-fan", "details": 7},
    ],
)
def test_an_object_is_passed_through(told):
    assert diagnose.read(json.dumps(told).encode() + b"\n") == (told, "")


@pytest.mark.parametrize(
    "printed",
    [
        b"",
        b"all is well",
        b"\xff\xfe",
        b"[1]",
        b"{}",
        b'{"status": "burn"}',
        b'{"status": ["evacuate"]}',
        b'{"status": "Evacuate"}',
        b'{"status": "evacuate "}',
        b'{"status": true}',
        b'{"status": "evacuate"} {"status": "evacuate"}',
        b'{"status": "evacuate"}\nsda: 37 sectors',
        b'checking sda\n{"status": "evacuate"}',
        b'{"status": "Ok", "status": "evacuate"}',
        b'{"status": "evacuate", "details": {"a": 1, "a": 2}}',
        b'{"status": "evacuate", "details": NaN}',
        b'{"status": "evacuate", "details": [-Infinity]}',
        b'{"status": "evacuate", "details": 1e999}',
        b'{"status": "evacuate", "details": 9223372036854775808}',
        b'{"status": "evacuate", "details": {"\\ud800": 1}}',
        b'{"status": "evacuate", "command": ["fix"]}',
        b'{"status": "evacuate", "command": null}',
        '{"status": "evacuate"}'.encode("utf-16"),
        b'{"status": "live-repair"}',
        b'{"status": "live-repair", "command": "../../bin/sh"}',
        b'{"status": "live-repair", "command": 5}',
        b"[" * 100_000,
    ],
)
def test_what_breaks_the_contract_is_well_and_says_why(printed):
    found = diagnose.read(printed)
    assert found.original == {"status": "Ok", "details": found.fault} and found.fault


def test_who_has_the_key_can_check_whose_report_it_is_and_of_when():
    signed = diagnose.signed({"status": "evacuate"}, "node1.x", b"key", 1000.5)
    assert json.loads(signed["msg"]) == {"node": "node1.x", "time": 1000.5, "diagnose": {"status": "evacuate"}}
    assert signed == confd.sign(signed["msg"], "1000", b"key") != confd.sign(signed["msg"], "1000", b"other")
