# SPDX-License-Identifier: BSD-2-Clause
"""The texts of ssconf files, both ways."""

from ganeti.wire import ssconf


def test_lists_have_one_entry_a_line():
    assert ssconf.write_lines(["node1", "node2"]) == "node1\nnode2\n"
    assert ssconf.read_lines("node1\nnode2\n") == ["node1", "node2"]
    assert ssconf.read_lines(ssconf.write_lines([])) == []


def test_pairs_are_cut_at_the_first_separator():
    assert ssconf.read_pairs("kernel_args=ro quiet=1\nroot=\nnonsense\n") == {"kernel_args": "ro quiet=1", "root": ""}
    assert ssconf.read_pairs("uuid-1 default group\n", " ") == {"uuid-1": "default group"}


def test_keys_are_those_of_the_protocol():
    assert len(ssconf.KEYS) == len(set(ssconf.KEYS)) == 34
    assert {"hvparams_kvm", "hvparams_xen-pvm", "master_candidates_certs", "ssh_ports"} <= set(ssconf.KEYS)
