# SPDX-License-Identifier: BSD-2-Clause
"""move-instance between two real clusters, each of one node: what the disk held is in the other cluster, once."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, machine
from ganeti.tools.testbed.layout import CLUSTER_NAME

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
STORAGE = "/srv/ganeti/file-storage"
OTHER = "cluster2"
SECRET = "/var/lib/ganeti/cluster-domain-secret"
ACCESS = ("--src-ca-file=/root/ca.pem", "--src-username=jack", "--src-password-file=/root/word")
MOVE = ("/usr/lib/ganeti/tools/move-instance", *ACCESS, CLUSTER_NAME, OTHER)
TO_NODE = "--dest-primary-node=node2"
OS = "/usr/local/lib/ganeti/os/patient"
HOLD = "/root/hold"
IMPORT = f"""#!/bin/sh
if [ -e {HOLD} ]; then head -c 1000000 >/dev/null; touch {HOLD}.begun; while true; do sleep 1; done; fi
exec ./at-once
"""
"""An import that stays in the middle while somebody wants that."""
RESETS = (
    "nft add table inet cut && nft add chain inet cut in '{ type filter hook input priority 0; }' && "
    "nft add rule inet cut in tcp flags '& rst == 0' tcp sport 32768-65535 tcp dport 32768-65535 reject with tcp reset"
)
"""Every packet of a transfer is answered by a reset; node calls and remote APIs use another port."""


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = testbed.up(tmp_path_factory.mktemp("move").resolve(), 2, "fake", watcher_interval_s=86400)
    try:
        found = FakeBed(layout)
        make_clusters(found)
        disks = "--disk 0:size=64m --disk 1:size=8m"
        add = f"gnt-instance add -t file -o patient+default --no-install --no-start -n node1 {disks} --tags x {NIC} web"
        found.run(*add.split())
        found.run(
            "sh", "-c", f"for d in {STORAGE}/web/*; do dd if=/dev/urandom of=$d bs=1M seek=5 count=2 conv=notrunc; done"
        )
        found.run("gnt-instance", "startup", "web")
        yield found
    finally:
        testbed.down(layout)


NIC = "--net 0:mac=aa:00:00:11:22:33"


def make_clusters(bed: FakeBed) -> None:
    for node, name in (("node1", CLUSTER_NAME), ("node2", OTHER)):
        bed.run("sh", "-c", f"echo '{bed.layout.lan_address(101)} {OTHER}' >> /etc/hosts", node=node)
        bed.run(*cluster.init_command(bed.layout, node)[:-1], name, node=node)
        bed.run("gnt-cluster", "renew-crypto", "-f", "--new-rapi-certificate", node=node)
        bed.run("sh", "-c", f"mkdir -p {OS} && cp -a /srv/ganeti/os/heartbeat/. {OS}", node=node)
        bed.run(
            "sh",
            "-c",
            "umask 027; mkdir -p /var/lib/ganeti/rapi; echo 'jack open-sesame write' > /var/lib/ganeti/rapi/users",
            node=node,
        )
        bed.open_remote_api(node)
    patient = f"cd {OS} && mv import at-once && printf '%s' '{IMPORT}' > import && chmod +x import"
    bed.run("sh", "-c", patient, node="node2")
    certificates = [bed.run("openssl", "x509", "-in", "/var/lib/ganeti/rapi.pem", node=node) for node in NODES]
    bed.run("sh", "-c", f"echo '{''.join(certificates)}' > /root/ca.pem; echo open-sesame > /root/word")


NODES = ("node1", "node2")


def sums(bed: FakeBed, node: str, name: str = "web") -> list[str]:
    """Checksums of what was written into the disks, in their order: the OS writes names before it."""
    each = (
        f"for d in $(ls {STORAGE}/{name}/* | sort -t. -k3); do dd if=$d bs=1M skip=5 count=2 status=none | md5sum; done"
    )
    return sorted(bed.run("sh", "-c", each, node=node).split()[::2])


def leftovers(bed: FakeBed) -> str:
    look = "find /run/ganeti/import-export /run/ganeti/crypto /srv/ganeti/export -mindepth 1 2>/dev/null; true"
    return "".join(bed.run("sh", "-c", look, node=node) for node in NODES)


def instances(bed: FakeBed) -> tuple[str, str]:
    words = ("gnt-instance", "list", "--no-headers", "--separator=|", "-o", "name,oper_state")
    return bed.run(*words), bed.run(*words, node="node2")


AS_BEFORE = ("web|Y\n", "")


def test_a_cluster_with_another_secret_is_refused_and_nothing_has_changed(bed: FakeBed) -> None:
    said = bed.run(*MOVE, TO_NODE, "web", expect=1)
    assert "it is not signed by the domain secret of this cluster: both clusters need the same one" in said
    assert instances(bed) == AS_BEFORE
    secret = bed.run("cat", SECRET)
    bed.run("sh", "-c", f"echo '{secret.strip()}' > /root/secret", node="node2")
    bed.run("gnt-cluster", "renew-crypto", "-f", "--cluster-domain-secret=/root/secret", node="node2")
    assert bed.run("cat", SECRET, node="node2") == secret


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("web9",), "web9"),
        (("--dest-primary-node=node7", "web"), "node7"),
        ((TO_NODE, "--compress=lzma", "web"), "Compression 'lzma' is not enabled in the cluster"),
        ((TO_NODE, "--dest-disk-template=plain", "web"), "Disk template 'plain' is not enabled"),
        ((TO_NODE, "-I", "hail", "web"), "Give either --iallocator or --dest-primary-node, not both"),
        ((TO_NODE, "--src-ca-file=/root/word", "web"), "The CA file /root/word cannot be used"),
        ((TO_NODE, "--dest-username=joe", "web"), "401"),
    ],
)
def test_bad_input_changes_nothing(bed: FakeBed, words: tuple[str, ...], sentence: str) -> None:
    said = bed.run(*MOVE, *words, expect=1)
    assert sentence in said and "Traceback" not in said
    assert instances(bed) == AS_BEFORE


def begin(bed: FakeBed) -> object:
    """A move that stays in the middle."""
    bed.run("sh", "-c", f"rm -f {HOLD}.begun; touch {HOLD}", node="node2")
    words = f"{' '.join(MOVE)} {TO_NODE} web & echo $! > /root/pid; wait $!"
    process = machine.popen(bed.layout, "node1", "sh", "-c", words)
    begun = f"ls {HOLD}.begun 2>/dev/null; true"
    bed.wait(lambda: bed.run("sh", "-c", begun, node="node2") != "", "the other cluster has a part of the disk")
    assert instances(bed)[0] == "web|N\n"
    bed.run("rm", HOLD, node="node2")
    return process


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ("node1", "kill $(cat /root/pid)"),
        ("node2", "gnt-job cancel --force --yes-do-it $(gnt-job list --running --no-headers -o id); true"),
        ("node1", "kill -9 $(cat /run/ganeti/import-export/*/status | grep -o '\"pid\":[0-9]*' | cut -d: -f2)"),
    ],
    ids=["the tool", "the receiving job", "the sending process"],
)
def test_an_interruption_in_the_middle_leaves_the_source_as_before(bed: FakeBed, node: str, words: str) -> None:
    before = sums(bed, "node1")
    process = begin(bed)
    bed.run("sh", "-c", words, node=node)
    out, errors = process.communicate(timeout=90)  # type: ignore[attr-defined]
    assert process.returncode == 1 and "web was not moved" in errors, f"{out}{errors}"  # type: ignore[attr-defined]
    assert instances(bed) == AS_BEFORE
    assert (sums(bed, "node1"), leftovers(bed)) == (before, "")


def test_a_dropped_connection_leaves_the_source_as_before(bed: FakeBed) -> None:
    before = sums(bed, "node1")
    process = begin(bed)
    for node in NODES:
        bed.run("sh", "-c", RESETS, node=node)
    try:
        out, errors = process.communicate(timeout=180)  # type: ignore[attr-defined]
    finally:
        for node in NODES:
            bed.run("nft", "delete", "table", "inet", "cut", node=node)
    assert process.returncode == 1 and "web was not moved" in errors, f"{out}{errors}"  # type: ignore[attr-defined]
    assert instances(bed) == AS_BEFORE
    assert (sums(bed, "node1"), leftovers(bed)) == (before, "")


def test_a_full_destination_leaves_the_source_as_before(bed: FakeBed) -> None:
    before = sums(bed, "node1")
    bed.run("sh", "-c", f"mkdir -p {STORAGE} && mount -t tmpfs -o size=4m none {STORAGE}", node="node2")
    try:
        said = bed.run(*MOVE, TO_NODE, "web", expect=1)
    finally:
        bed.run("umount", STORAGE, node="node2")
    assert "web was not moved" in said and "MiB are needed and" in said and "Traceback" not in said, said
    assert instances(bed) == AS_BEFORE
    assert sums(bed, "node1") == before
    left = leftovers(bed).split()  # the key of a prepared move goes with the next preparation
    assert all(path.startswith("/run/ganeti/crypto/x509-") for path in left), left


def test_an_instance_moves_with_all_it_has(bed: FakeBed) -> None:
    before = sums(bed, "node1")
    said = bed.run(*MOVE, TO_NODE, "--compress=gzip-fast", "web")
    assert f"web is on {OTHER} now" in said and "Disk 0 is sent" in said and "Disk 0 is received" in said
    assert instances(bed) == ("", "web|Y\n")
    assert (sums(bed, "node2"), leftovers(bed)) == (before, "")
    assert bed.run("gnt-instance", "list-tags", "web", node="node2") == "x\n"
    macs = bed.run("gnt-instance", "list", "--no-headers", "-o", "nic.macs", node="node2")
    assert macs == "aa:00:00:11:22:33\n"
    assert bed.guests() == {"web": ["node2"]}


def test_it_may_stay_where_it_is_and_run_again_while_its_dumps_are_sent(bed: FakeBed) -> None:
    words = (*MOVE[:-2], OTHER, CLUSTER_NAME, "--dest-primary-node=node1", "--dest-instance-name=web-copy")
    said = bed.run(*words, "--keep-source-instance", "web")
    assert f"web is on {CLUSTER_NAME} now" in said
    assert said.index("Starting instance web") < said.index("Sending disk 0 of web")
    assert instances(bed) == ("web-copy|Y\n", "web|Y\n")
    assert (sums(bed, "node1", "web-copy"), leftovers(bed)) == (sums(bed, "node2"), "")


@pytest.mark.skipif(not os.environ.get("GANETI_CAMPAIGN"), reason="waits for two minutes: in make campaign")
def test_a_destination_that_dies_leaves_the_source_as_before(bed: FakeBed) -> None:
    """It moves back to where it was copied from: the other cluster's master, its only node, dies meanwhile."""
    bed.run("gnt-instance", "remove", "-f", "--shutdown-timeout=0", "web", node="node2")
    bed.run("gnt-instance", "rename", "web-copy", "web", expect=None)
    name = bed.run("gnt-instance", "list", "--no-headers", "-o", "name").strip()
    before, words = sums(bed, "node1", name), f"{' '.join(MOVE)} {TO_NODE} {name} & echo $! > /root/pid; wait $!"
    bed.run("sh", "-c", f"rm -f {HOLD}.begun; touch {HOLD}", node="node2")
    process = machine.popen(bed.layout, "node1", "sh", "-c", words)
    begun = f"ls {HOLD}.begun 2>/dev/null; true"
    bed.wait(lambda: bed.run("sh", "-c", begun, node="node2") != "", "the other cluster has a part of the disk")
    machine.kill(bed.layout, bed.layout.node("node2"))
    try:
        out, errors = process.communicate(timeout=300)
    finally:
        machine.start(bed.layout, bed.layout.node("node2"))
    assert process.returncode == 1 and f"{name} was not moved" in errors, f"{out}{errors}"
    assert bed.run("gnt-instance", "list", "--no-headers", "--separator=|", "-o", "name,oper_state") == f"{name}|Y\n"
    assert sums(bed, "node1", name) == before
    bed.run("rm", "-f", HOLD, node="node2")
    bed.wait(
        lambda: bed.run("gnt-instance", "list", "--no-headers", node="node2", expect=None) == "", "it has nothing", 120
    )
    bed.wait(lambda: leftovers(bed) == "", f"nothing is left: {leftovers(bed)}")
