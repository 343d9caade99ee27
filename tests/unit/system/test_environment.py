# SPDX-License-Identifier: BSD-2-Clause
"""Which node a process belongs to."""

import socket

import pytest

from ganeti.base.paths import Paths
from ganeti.system.environment import Environment, any_address, read_environment


def test_a_virtual_node_has_its_root_and_name():
    found = read_environment({"GANETI_ROOTDIR": "/srv/bed/node1/", "GANETI_HOSTNAME": "node1.example.com"})
    assert found == Environment(Paths("/srv/bed/node1"), "node1.example.com")
    assert found.paths.config_file == "/srv/bed/node1/var/lib/ganeti/config.data"


def test_a_real_node_is_what_the_machine_says():
    assert read_environment({}) == Environment(Paths(""), socket.gethostname())


@pytest.mark.parametrize(
    ("hostname", "node", "same"),
    [
        ("node1.example.com", "node1.example.com", True),
        ("node1", "node1.example.com", True),
        ("node1", "node1", True),
        ("node1", "node10.example.com", False),
        ("node1.example.org", "node1.example.com", False),
        ("node1.example", "node1.example.com", False),
    ],
)
def test_a_host_may_know_its_short_name_only(hostname, node, same):
    assert Environment(Paths(), hostname).is_named(node) is same


@pytest.mark.requirement("S1.100")
@pytest.mark.parametrize(
    ("family", "address"), [(None, "0.0.0.0"), ("2\n", "0.0.0.0"), ("10\n", "::"), ("nonsense", "0.0.0.0")]
)
def test_daemons_listen_on_all_addresses_of_the_clusters_kind(tmp_path, family, address):
    paths = Paths(str(tmp_path))
    if family is not None:
        file = tmp_path / "var/lib/ganeti/ssconf_primary_ip_family"
        file.parent.mkdir(parents=True)
        file.write_text(family)
    assert any_address(paths) == address
