# SPDX-License-Identifier: BSD-2-Clause
"""The self-diagnose collector: what is not as it must be counts as a node that is well (S4.3-S4.14)."""

import asyncio
import json
import os
import subprocess
import textwrap
from pathlib import Path

import pytest

from ganeti.base.paths import Paths
from ganeti.node.collectors import diagnose
from ganeti.node.collectors.local_probes import LocalProbes
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


EXAMPLE = Path(__file__).resolve().parents[4] / "docs/operator/maintenance.md"


@pytest.mark.parametrize(
    ("status", "told"), [(0, {"status": "Ok"}), (4, {"status": "Ok"}), (8, {"status": "evacuate"}), (None, None)]
)
def test_the_example_of_the_documents_keeps_the_contract(tmp_path, status, told):
    """By the exit status of a smartctl, or without one; its disks are files here."""
    text = textwrap.dedent(EXAMPLE.read_text().partition("check-disks`:\n\n")[2].partition("\n\n2. ")[0])
    assert "/dev/sd[a-z] /dev/nvme[0-9]n1" in text and "-b" in text
    text = text.replace("/dev/sd[a-z] /dev/nvme[0-9]n1", f"{tmp_path}/disk[a-z]").replace("-b", "-e")
    (tmp_path / "diska").touch()
    if status is not None:
        (tmp_path / "smartctl").write_text(f"#!/bin/sh\nexit {status}\n")
        (tmp_path / "smartctl").chmod(0o755)
    done = subprocess.run(["/bin/sh", "-c", text], env={"PATH": str(tmp_path)}, stdout=subprocess.PIPE, check=False)
    assert (done.returncode == 0) == (told is not None)
    if told is not None:
        details = {"details": f"{tmp_path}/diska fails"} if told["status"] == "evacuate" else {}
        assert diagnose.read(done.stdout) == (told | details, "")


@pytest.mark.parametrize("mode", [0o755, 0o757])
def test_a_command_that_is_not_as_it_must_be_does_not_run(tmp_path, mode):
    paths = Paths(root=str(tmp_path))
    directory = Path(paths.diagnose_commands_dir)
    directory.mkdir(parents=True, mode=0o755)
    command, mark = directory / "check-disks", tmp_path / "has-run"
    command.write_text(f'#!/bin/sh\n: > {mark}\necho \'{{"status": "evacuate"}}\'\n')
    command.chmod(mode)
    told = asyncio.run(LocalProbes(paths, [], lambda key: []).diagnosed("check-disks"))
    may_run = mode == 0o755 and US == (0, 0)
    assert mark.exists() == may_run
    assert told.original["status"] == ("evacuate" if may_run else "Ok")
    assert bool(told.fault) == (not may_run)
