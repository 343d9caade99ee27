# SPDX-License-Identifier: BSD-2-Clause
"""Which lines of `authorized_keys` are ours, and that all others stay."""

from __future__ import annotations

import pytest

from ganeti.node import ssh_key_lines

MINE = """\
# ssh-rsa AAA2 a comment is no key
ssh-ed25519 AAAAadmin admin
from="10.0.0.1",command="echo ssh" ssh-rsa AAA3 root@node3

"""
KEYS = {"two": ["ssh-rsa AAA2 root@node2"], "one": ["ssh-rsa AAA1"]}


def test_keys_come_and_go_and_nothing_else_moves() -> None:
    entered = ssh_key_lines.enter(MINE, KEYS)
    assert entered == MINE + "ssh-rsa AAA1 ganeti-node:one\nssh-rsa AAA2 root@node2 ganeti-node:two\n"
    assert ssh_key_lines.enter(entered, KEYS) == entered
    assert ssh_key_lines.take_out(entered, ["one", "three"]) == MINE + "ssh-rsa AAA2 root@node2 ganeti-node:two\n"
    assert ssh_key_lines.enter(entered, {}, only=True) == MINE
    assert ssh_key_lines.enter(entered, {"one": KEYS["one"]}, only=True) == MINE + "ssh-rsa AAA1 ganeti-node:one\n"


def test_a_new_key_of_a_node_replaces_its_old_one() -> None:
    entered = ssh_key_lines.enter("", KEYS)
    renewed = ssh_key_lines.enter(entered, {"two": ["ssh-rsa NEW2 root@node2"]})
    assert "AAA2" not in renewed and "NEW2" in renewed and "AAA1" in renewed


def test_what_the_administrator_entered_is_neither_doubled_nor_taken() -> None:
    entered = ssh_key_lines.enter(MINE, {"three": ["ssh-rsa AAA3 root@node3"], "admin": ["ssh-ed25519 AAAAadmin x"]})
    assert entered == MINE
    assert ssh_key_lines.take_out(entered, ["three", "admin"]) == MINE


def test_a_commented_line_of_ours_is_the_administrators() -> None:
    text = "#ssh-rsa AAA1 ganeti-node:one\n"
    assert ssh_key_lines.take_out(text, ["one"]) == text


def test_public_keys_are_written_as_they_are_read() -> None:
    text = ssh_key_lines.public_keys_text(KEYS)
    assert text == "one ssh-rsa AAA1\ntwo ssh-rsa AAA2 root@node2\n"
    assert ssh_key_lines.read_public_keys(text + "\nnonsense\n") == KEYS


@pytest.mark.parametrize("uuid", ["", "two words", "line\nline", "x" * 65, "one\n"])
def test_what_is_no_uuid(uuid: str) -> None:
    assert not ssh_key_lines.is_node_uuid(uuid)


def test_marked_keys_are_those_of_nodes() -> None:
    entered = ssh_key_lines.enter(MINE, KEYS)
    assert ssh_key_lines.marked_keys(entered) == {"one": ["ssh-rsa AAA1"], "two": ["ssh-rsa AAA2"]}
