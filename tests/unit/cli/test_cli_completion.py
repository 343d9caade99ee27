# SPDX-License-Identifier: BSD-2-Clause
"""What the shell is offered when somebody presses Tab."""

from __future__ import annotations

from pathlib import Path

import pytest

from ganeti.cli.completion import FILES


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node whose ssconf files name two instances, two nodes and two groups."""
    data = tmp_path / "var/lib/ganeti"
    data.mkdir(parents=True)
    (data / "ssconf_instance_list").write_text("web1.example.com\nweb2.example.com\n")
    (data / "ssconf_node_list").write_text("node1\nnode2\n")
    (data / "ssconf_nodegroups").write_text("uuid-1 default\nuuid-2 other\n")
    monkeypatch.setenv("GANETI_ROOTDIR", str(tmp_path))


def offered(gnt, *words: str) -> list[str]:
    program, *rest = words
    ran = gnt(f"{program} --complete", *rest)
    assert ran.status == 0, ran.err
    return ran.out.splitlines()


def test_commands_and_their_other_names(gnt):
    assert offered(gnt, "gnt-instance", "reb") == ["reboot"]
    assert "startup" in offered(gnt, "gnt-instance", "st")
    assert "start" in offered(gnt, "gnt-instance", "st")


def test_options_that_are_offered(gnt):
    assert offered(gnt, "gnt-node", "evacuate", "--ig") == ["--ignore-soft-errors"]
    assert offered(gnt, "gnt-node", "evacuate", "-f", "--ear") == ["--early-release"]
    assert offered(gnt, "gnt-instance", "no-such-command", "-") == []


def test_names_of_live_objects(gnt, node):
    assert offered(gnt, "gnt-instance", "startup", "web") == ["web1.example.com", "web2.example.com"]
    assert offered(gnt, "gnt-instance", "startup", "web1.example.com", "web2") == ["web2.example.com"]
    assert offered(gnt, "gnt-node", "evacuate", "-n", "") == ["node1", "node2"]
    assert offered(gnt, "gnt-instance", "add", "-n", "") == ["node1", "node2"]
    assert offered(gnt, "gnt-group", "info", "d") == ["default"]


def test_values_of_options(gnt, node):
    assert offered(gnt, "gnt-node", "evacuate", "--priority", "l") == ["low"]
    assert offered(gnt, "gnt-node", "evacuate", "--priority=l") == ["--priority=low"]
    assert offered(gnt, "gnt-node", "evacuate", "--priority", "=", "l") == ["low"]
    assert offered(gnt, "gnt-node", "evacuate", "--priority", "=") == ["low", "normal", "high"]
    assert "status" in offered(gnt, "gnt-instance", "list", "-o", "")


def test_files_are_the_shells_business(gnt):
    assert gnt("gnt-debug --complete submit-job", "").status == FILES


def test_ids_are_asked_of_the_master(gnt, master):
    master.answers["Query"] = {"data": [[[0, 12]], [[0, 13]]], "fields": []}
    assert offered(gnt, "gnt-job", "info", "1") == ["12", "13"]
