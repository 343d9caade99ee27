# SPDX-License-Identifier: BSD-2-Clause
"""Entries of /etc/hosts: entered once, moved with the address, removed without harm to others."""

from __future__ import annotations

from ganeti.node.hosts_file import with_host, without_host

OLD = "127.0.0.1 localhost\n# nodes\n10.0.0.7 printer  # by the door\n"


def test_a_name_is_entered_once() -> None:
    new = with_host(OLD, "node1.example.org", "10.0.0.1")
    assert new == OLD + "10.0.0.1\tnode1.example.org node1\n"
    assert with_host(new, "node1.example.org", "10.0.0.1") == new


def test_a_name_moves_with_its_address() -> None:
    new = with_host(OLD + "10.0.0.2 node1 spare\n", "node1", "10.0.0.1")
    assert new == OLD + "10.0.0.2\tspare\n10.0.0.1\tnode1\n"


def test_a_name_goes() -> None:
    assert without_host(with_host(OLD, "node1.example.org", "10.0.0.1"), "node1.example.org") == OLD
    assert without_host(OLD, "node9") == OLD
