# SPDX-License-Identifier: BSD-2-Clause
"""Parameters that were once taken and forgotten do what they say, on real daemons."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed, cluster

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
ADD = "gnt-instance add -t sharedfile -o noop+default -n node2 "
HOME = "/run/ganeti/fake-hypervisor"


@pytest.fixture(scope="module")
def fake_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = bed.up(tmp_path_factory.mktemp("parameters").resolve(), 3, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        yield FakeBed(layout)
    finally:
        bed.down(layout)


def test_cleaning_up_after_a_failover_moves_no_healthy_instance(fake_bed: FakeBed) -> None:
    fake_bed.run(*(ADD + "-s 8m well").split())
    guest = fake_bed.run("cat", f"{HOME}/well", node="node2")
    said = fake_bed.run("gnt-instance", "failover", "-f", "--cleanup", "well")
    assert "* instance running on node2" in said
    assert fake_bed.guests() == {"well": ["node2"]}
    assert fake_bed.run("cat", f"{HOME}/well", node="node2") == guest
    fake_bed.run("gnt-instance", "shutdown", "--timeout=0", "well")
    assert "nothing is left to clean up" in fake_bed.run("gnt-instance", "failover", "-f", "--cleanup", "well")
    assert fake_bed.guests() == {}
    fake_bed.run("gnt-instance", "remove", "-f", "well")
    fake_bed.check()


def test_disks_are_written_over_where_the_cluster_wants_it(fake_bed: FakeBed) -> None:
    taken = {}
    for wipe in ("yes", "no"):
        fake_bed.run("gnt-cluster", "modify", f"--prealloc-wipe-disks={wipe}")
        fake_bed.run(*(ADD + "--no-install --no-start -s 8m wiped").split())
        [disk] = [path for path in fake_bed.layout.shared.rglob("*.disk0") if "wiped" in str(path)]
        taken[wipe] = disk.stat().st_blocks * 512
        fake_bed.run("gnt-instance", "remove", "-f", "wiped")
    assert taken["yes"] >= 8 * 1024 * 1024 > taken["no"]
    fake_bed.check()


def test_a_name_whose_address_answers_is_refused(fake_bed: FakeBed) -> None:
    check = "-t diskless -o noop+default --no-install --no-start -n node2 --name-check --ip-check"
    said = fake_bed.run("gnt-instance", "add", *check.split(), "node3", expect=1)
    assert "is already in use: give node3 another address in the DNS or /etc/hosts, or leave --ip-check out" in said
    assert "node3" not in fake_bed.run("gnt-instance", "list", "--no-headers", "-o", "name")


def test_verify_says_more_and_looks_for_keys_when_asked(fake_bed: FakeBed) -> None:
    plain = fake_bed.run("gnt-cluster", "verify")
    more = fake_bed.run("gnt-cluster", "verify", "--verbose", "--verify-ssh-clutter")
    assert "* Verifying node node1 (master)" in more
    assert "* Verifying node node1" not in plain


def test_a_guest_is_shrunk_to_fit_unless_it_must_not_be(fake_bed: FakeBed) -> None:
    capacity = json.dumps({"memory_total": 1000, "memory_dom0": 0})
    fake_bed.run("sh", "-c", f"mkdir -p {HOME} && echo '{capacity}' > {HOME}/.capacity", node="node3")
    small = "gnt-instance add -t diskless -o noop+default -n node2 -B maxmem=1500m,minmem=300m grown"
    fake_bed.run(*small.split())
    move = ("gnt-instance", "migrate", "-f", "-n", "node3")
    said = fake_bed.run(*move, "--no-runtime-changes", "grown", expect=1)
    assert "it uses 1500 MiB, available 1000 MiB: choose another node; leave --no-runtime-changes out" in said
    assert "* shrinking the memory of the instance from 1500 to 1000 MiB" in fake_bed.run(*move, "grown")
    assert json.loads(fake_bed.run("cat", f"{HOME}/grown", node="node3"))["memory_mib"] == 1000
    fake_bed.run("gnt-instance", "remove", "-f", "grown")
    fake_bed.run("rm", f"{HOME}/.capacity", node="node3")
    fake_bed.check()


def test_hosts_files_follow_the_nodes_once_that_is_wanted(fake_bed: FakeBed) -> None:
    fake_bed.run("gnt-cluster", "modify", "--modify-etc-hosts=yes")
    entry = next(line for line in _hosts(fake_bed, "node1").splitlines() if "node3" in line.split())
    fake_bed.run("gnt-node", "remove", "node3")
    assert not any("node3" in _hosts(fake_bed, node).split() for node in ("node1", "node2"))
    fake_bed.run("sh", "-c", f"echo '{entry}' >> /etc/hosts")
    fake_bed.run(*cluster.add_command(fake_bed.layout.node("node3")))
    assert "node3" in _hosts(fake_bed, "node2").split()
    assert {"node1", "node2", "node3"} <= set(_hosts(fake_bed, "node3").split())


def _hosts(fake_bed: FakeBed, node: str) -> str:
    return fake_bed.run("cat", "/etc/hosts", node=node)
