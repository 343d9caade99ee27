# SPDX-License-Identifier: BSD-2-Clause
"""Error codes of verification on real daemons: each row breaks one thing, and nothing but its code is found.

Others are provoked where what they need is there: tools, daemons and configurations in `test_verify_storage_codes`,
ENODERPC in `test_cluster_life`, disks in `test_groups`, copies and ENODESETUP in `test_sync_state`, modes of files in
`test_package`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
ADD = ("gnt-instance", "add", "-o", "noop+default", "--no-name-check", "--no-ip-check")
GUESTS = "/run/ganeti/fake-hypervisor"
HOOK = "/etc/ganeti/hooks/cluster-verify-post.d/ten"
STORES = "/srv/ganeti"
KEYS = "/var/lib/ganeti"
_FINDING = re.compile(r"(?:ERROR|WARNING):E[A-Z0-9]+:[a-z]+:[^:]*")


@dataclass(frozen=True)
class Fault:
    """Shell words that break something on *node* and those that mend it; *found* is all that verification says."""

    node: str
    breaks: str
    mends: str
    found: set[str]


FAULTS = (
    Fault("node2", f"mv {GUESTS}/up1 /root/", f"mv /root/up1 {GUESTS}/", {"ERROR:EINSTANCEDOWN:instance:up1"}),
    Fault(
        "node3",
        f"sed s/up3/up1/ {GUESTS}/up3 >{GUESTS}/up1",
        f"rm {GUESTS}/up1",
        {"ERROR:EINSTANCEWRONGNODE:instance:up1"},
    ),
    Fault(
        "node2",
        f"sed s/up1/ghost/ {GUESTS}/up1 >{GUESTS}/ghost",
        f"rm {GUESTS}/ghost",
        {"ERROR:ENODEORPHANINSTANCE:node:node2"},
    ),
    Fault(
        "node3",
        f"mv {STORES}/os /root/os; mkdir {STORES}/os",
        f"rmdir {STORES}/os; mv /root/os {STORES}/os",
        {"ERROR:ENODEOS:node:node3"},
    ),
    Fault(
        "node3",
        f"mkdir -p /etc/ganeti/hooks/cluster-verify-post.d; printf '#!/bin/sh\\nexit 1\\n' >{HOOK}; chmod 755 {HOOK}",
        "rm -r /etc/ganeti/hooks",
        {"ERROR:ENODEHOOKS:node:node3"},
    ),
    Fault(
        "node3",
        f"cp -p {KEYS}/cluster-domain-secret /root/; echo other >{KEYS}/cluster-domain-secret",
        f"cp -p /root/cluster-domain-secret {KEYS}/",
        {"ERROR:ECLUSTERFILECHECK:cluster:None"},
    ),
    Fault(
        "node3",
        f"mv {KEYS}/client.pem /root/",
        f"mv /root/client.pem {KEYS}/",
        {"ERROR:ECLUSTERCLIENTCERT:cluster:None"},
    ),
    Fault(
        "node3",
        f"mv {KEYS}/client.pem /root/; openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
        f"-days 1 -subj /CN=x -keyout /root/key -out /root/crt; cat /root/key /root/crt >{KEYS}/client.pem",
        f"mv /root/client.pem {KEYS}/",
        {"ERROR:ECLUSTERCLIENTCERT:cluster:None", "WARNING:ECLUSTERCERT:cluster:None"},
    ),
    Fault(
        "node1",
        f"mount -t tmpfs -o ro none {STORES}/file-storage",
        f"umount {STORES}/file-storage",
        {"ERROR:ENODEFILESTORAGEPATHUNUSABLE:node:node1"},
    ),
    Fault(
        "node3",
        f"mount -t tmpfs -o ro none {STORES}/shared-file-storage",
        f"umount {STORES}/shared-file-storage",
        {"ERROR:ENODESHAREDFILESTORAGEPATHUNUSABLE:node:node3"},
    ),
    Fault(
        "node3",
        "cp -p /etc/ganeti/file-storage-paths /root/; echo /etc >>/etc/ganeti/file-storage-paths",
        "cp -p /root/file-storage-paths /etc/ganeti/",
        {"ERROR:ENODEFILESTORAGEPATHS:node:node3", "ERROR:ECLUSTERFILECHECK:cluster:None"},
    ),
    Fault(
        "node3",
        "cp -p /root/.ssh/authorized_keys /root/keys; : >/root/.ssh/authorized_keys",
        "cp -p /root/keys /root/.ssh/authorized_keys",
        {"ERROR:ENODESSH:node:node3"},
    ),
    Fault(
        "node1",
        "gnt-cluster modify --use-external-mip-script yes",
        "gnt-cluster modify --use-external-mip-script no",
        {f"ERROR:ENODEUSERSCRIPTS:node:node{number}" for number in (1, 2, 3)},
    ),
    Fault(
        "node1",
        "printf '#!/bin/sh\\n' >/root/oob && chmod 755 /root/oob && "
        "gnt-node modify --node-parameters oob_program=/root/oob node3 && rm /root/oob",
        "gnt-node modify --node-parameters oob_program=default node3",
        {"ERROR:ENODEOOBPATH:node:node1"},
    ),
    Fault(
        "node1",
        "gnt-cluster modify --nic-parameters link=nobridge",
        "gnt-cluster modify --nic-parameters link=gnt-br0",
        {f"ERROR:ENODENET:node:node{number}" for number in (1, 2, 3)},
    ),
    Fault(
        "node1",
        "gnt-group modify --ipolicy-disk-templates diskless default",
        "gnt-group modify --ipolicy-disk-templates default default",
        {"ERROR:EINSTANCEPOLICY:instance:twice"},
    ),
    Fault(
        "node1",
        "gnt-cluster add-tags htools:iextags:role && gnt-instance add-tags up1 role:db && "
        "gnt-instance add-tags twice role:db",
        "gnt-cluster remove-tags htools:iextags:role",
        {"ERROR:EEXTAGS:node:node2"},
    ),
    Fault(
        "node1",
        "gnt-group add green && gnt-group assign-nodes --force green node3",
        "gnt-group assign-nodes --force default node3 && gnt-group remove green",
        {"ERROR:EINSTANCESPLITGROUPS:instance:twice"},
    ),
    Fault(
        "node1",
        "gnt-instance modify --force -B minmem=900g,maxmem=900g --ignore-ipolicy twice",
        "gnt-instance modify --force -B minmem=128m,maxmem=128m twice",
        {"ERROR:ENODEN1:node:node3", "ERROR:EINSTANCEPOLICY:instance:twice"},
    ),
    Fault(
        "node1",
        "gnt-node modify --offline yes --force node2",
        "gnt-node modify --offline no node2",
        {"ERROR:EINSTANCEBADNODE:instance:up1", "ERROR:EINSTANCEBADNODE:instance:twice"},
    ),
)


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = testbed.up(tmp_path_factory.mktemp("codes").resolve(), 3, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        bed = FakeBed(layout)
        bed.run("gnt-cluster", "watcher", "pause", "1h")
        bed.run(*ADD, "-t", "diskless", "-n", "node2", "up1")
        bed.run(*ADD, "-t", "diskless", "-n", "node3", "up3")
        bed.run(*ADD, "-t", "mirror", "--disk", "0:size=8m", "-n", "node2:node3", "twice")
        yield bed
    finally:
        testbed.down(layout)


def found(bed: FakeBed) -> set[str]:
    """Severity, code and object of all that verification says, once the copies on the candidates are in sync."""
    said: list[str] = []

    def told() -> bool:
        said[:] = [bed.run("gnt-cluster", "verify", "--error-codes", expect=None)]
        return "its copy of the configuration" not in said[0]

    bed.wait(told, "the copies of the configuration are in sync")
    return set(_FINDING.findall(said[0]))


def assert_each_is_found_alone(bed: FakeBed, faults: Iterable[Fault]) -> None:
    """Break and mend one thing after the other; before and afterwards, nothing is found."""
    assert found(bed) == set()
    for fault in faults:
        bed.run("sh", "-c", fault.breaks, node=fault.node)
        assert found(bed) == fault.found, fault.breaks
        bed.run("sh", "-c", fault.mends, node=fault.node)
    assert found(bed) == set()


def test_each_fault_is_found_by_its_code_alone(bed: FakeBed) -> None:
    assert_each_is_found_alone(bed, FAULTS)
