# SPDX-License-Identifier: BSD-2-Clause
"""The files that only candidates have, and who is let in as root, with good and bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fakes.one_node import OneNode

from ganeti.base.errors import NodeCallError, ParameterError
from ganeti.model.node_calls.candidate_keys import KeysOfCandidate

ADMIN = "ssh-ed25519 AAAAadmin admin\n"
KEYS = {"uuid1": ["ssh-rsa AAA1 root@node1"], "uuid2": ["ssh-rsa AAA2 root@node2"]}
LINES = "ssh-rsa AAA1 root@node1 ganeti-node:uuid1\nssh-rsa AAA2 root@node2 ganeti-node:uuid2\n"


def authorized(node: OneNode) -> Path:
    return Path(node.paths.under("/root/.ssh/authorized_keys"))


def public_keys(node: OneNode) -> Path:
    return Path(node.paths.data_dir, "ganeti_pub_keys")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_keys_are_entered_and_taken_out(node: Any) -> None:
    authorized(node).parent.mkdir(parents=True)
    authorized(node).write_text(ADMIN)
    authorized(node).chmod(0o644)
    node.call("node_ssh_key_add", keys=KEYS)
    assert (authorized(node).read_text(), mode(authorized(node))) == (ADMIN + LINES, 0o600)
    assert not public_keys(node).exists()
    inode = authorized(node).stat().st_ino
    node.call("node_ssh_key_add", keys=KEYS)
    assert authorized(node).stat().st_ino == inode
    node.call("node_ssh_key_add", keys={}, remember=True)
    assert authorized(node).read_text() == ADMIN + LINES
    node.call("node_ssh_key_remove", nodes=["uuid2", "unknown"])
    assert authorized(node).read_text() == ADMIN + LINES.splitlines(keepends=True)[0]
    node.call("node_ssh_key_add", keys={}, only=True)
    assert authorized(node).read_text() == ADMIN


def test_the_list_of_keys_is_made_where_it_is_wanted_and_kept_along(node: Any) -> None:
    node.call("node_ssh_key_add", keys={"uuid1": KEYS["uuid1"]}, remember=True)
    assert (public_keys(node).read_text(), mode(public_keys(node))) == ("uuid1 ssh-rsa AAA1 root@node1\n", 0o600)
    assert (mode(authorized(node)), mode(authorized(node).parent)) == (0o600, 0o700)
    node.call("node_ssh_key_add", keys={"uuid2": KEYS["uuid2"]})
    assert node.call("candidate_keys") == KeysOfCandidate(public_keys=KEYS)
    node.call("node_ssh_key_remove", nodes=["uuid1"])
    assert node.call("candidate_keys").public_keys == {"uuid2": KEYS["uuid2"]}


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"uuid1": ["command=evil ssh-rsa AAA1"]}, "is not a public key"),
        ({"uuid1": ["ssh-rsa AAA1 x\nssh-rsa AAAevil"]}, "is not a public key"),
        ({"two words": KEYS["uuid1"]}, "is not the uuid of a node"),
        ({"uuid1\nssh-rsa AAAevil": KEYS["uuid1"]}, "is not the uuid of a node"),
    ],
)
def test_what_is_no_key_is_refused(node: Any, keys: dict[str, list[str]], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        node.call("node_ssh_key_add", keys=KEYS | keys)
    with pytest.raises(ParameterError):
        node.call("node_ssh_key_remove", nodes=["two words"])
    assert not authorized(node).exists()


def test_the_authoritys_key_comes_and_goes(node: Any) -> None:
    path = Path(node.paths.authority_key)
    node.call("upload_file", path="/var/lib/ganeti/ca.key", content="secret", mode=0o400)
    assert (path.read_text(), mode(path)) == ("secret", 0o400)
    assert node.call("candidate_keys").authority_key == "secret"
    public_keys(node).write_text("uuid1 ssh-rsa AAA1\n")
    node.call("node_demote_from_mc", master="another")
    assert not path.exists() and not public_keys(node).exists()
    node.call("node_demote_from_mc", master="another")
    assert not any("secret" in line for line in node.logged)


def test_the_master_is_not_demoted(node: Any) -> None:
    path = Path(node.paths.authority_key)
    path.write_text("secret")
    with pytest.raises(NodeCallError, match="is the master"):
        node.call("node_demote_from_mc", master=node.state.world.node_name)
    assert path.exists()
    node.call("write_ssconf_files", values={"master_node": node.state.world.node_name})
    node.call("node_demote_from_mc", master="another")
    assert not path.exists(), "one that has just come back does not know of its successor yet"


def test_the_key_of_root_is_its_own(node: Any) -> None:
    assert node.call("root_public_key", kind="rsa") is None
    place = Path(node.paths.under("/root/.ssh/id_rsa.pub"))
    place.parent.mkdir(parents=True)
    place.write_text("ssh-rsa AAA1 root@node1\n")
    assert node.call("root_public_key", kind="rsa") == "ssh-rsa AAA1 root@node1"
    place.write_text("nonsense\n")
    assert node.call("root_public_key", kind="rsa") is None
    with pytest.raises(ParameterError, match="is not a type of ssh key"):
        node.call("root_public_key", kind="../../shadow")


def test_who_leaves_lets_the_cluster_in_no_more(node: Any) -> None:
    authorized(node).parent.mkdir(parents=True)
    authorized(node).write_text(ADMIN + LINES)
    node.call("node_leave_cluster", modify_ssh_setup=True)
    assert authorized(node).read_text() == ADMIN
