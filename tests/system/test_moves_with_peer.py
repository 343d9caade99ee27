# SPDX-License-Identifier: BSD-2-Clause
"""Instances move between a cluster of Ganeti 3.0 and one of ours, and each imports what the other has exported.

Both clusters have one node of a testbed. Takes minutes and Debian's packages, so it is part of ``make campaign`` only
(GANETI_CAMPAIGN, or GANETI_TAKE_OVER).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes import bed_addresses
from tests.fakes.built_package import built_package
from tests.fakes.thoroughness import CAMPAIGN
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, guest, node_files
from ganeti.tools.testbed.layout import CLUSTER_NAME

pytestmark = [
    pytest.mark.daemons,
    bed_addresses.of_ipv4_alone("the peer's cluster is one of IPv4"),
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
    pytest.mark.skipif(not CAMPAIGN and not os.environ.get("GANETI_TAKE_OVER"), reason="takes minutes: make campaign"),
]
PEER, OURS = "node1", "node2"
OTHER = "cluster2"
STORAGE = node_files.FILE_STORAGE
OS = "/usr/local/lib/ganeti/os/dumper"
DEFINITION = f"""
mkdir -p {OS} && cd {OS} && echo 20 > ganeti_api_version && echo default > variants.list && : > parameters.list
for s in create verify rename; do printf '#!/bin/sh\\nexit 0\\n' > $s; done
printf '#!/bin/sh\\nexec cat "$EXPORT_DEVICE"\\n' > export
printf '#!/bin/sh\\nexec dd of="$IMPORT_DEVICE" bs=1M iflag=fullblock conv=notrunc status=none\\n' > import
chmod +x create verify rename export import
"""
SECRET = "/var/lib/ganeti/cluster-domain-secret"
USERS = "/var/lib/ganeti/rapi/users"
ACCESS = ("--src-ca-file=/root/ca.pem", "--src-username=jack", "--src-password-file=/root/word")
MOVE = "/usr/lib/ganeti/tools/move-instance"
ADD = "gnt-instance add -t file -o dumper+default --no-install --no-start --no-name-check --no-ip-check"
SOURCE = "--src-node {} --src-dir web --no-name-check --no-ip-check web"
EXPORTS = {PEER: "/var/lib/ganeti/export", OURS: "/srv/ganeti/export"}
"""Debian's Ganeti 3.0 keeps them elsewhere than Ganeti's own default, which is ours."""
NIC = "--net 0:mac=aa:00:00:11:22:33"


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    fetched = subprocess.run([guest.tree() / "setup/peer-packages"], capture_output=True, text=True, check=False)
    if fetched.returncode:
        pytest.skip(f"Debian's packages cannot be had: {fetched.stderr.strip()}")
    packages = sorted(Path(fetched.stdout.strip()).glob("*.deb"))
    package = built_package(tmp_path_factory.mktemp("package"))
    place = tmp_path_factory.mktemp("moves").resolve() / "bed"
    layout = testbed.up(
        place, 2, "fake", watcher_interval_s=86400, package=packages[0], needed_by_package=packages[1:], ip="4"
    )
    try:
        found = FakeBed(layout)
        found.run("rm", "/etc/ganeti/lib", node=OURS)
        (layout.node(OURS).disks / "ours.deb").write_bytes(package.read_bytes())
        dpkg = f"dpkg --force-unsafe-io --force-confnew -Bi {STORAGE}/ours.deb && rm {STORAGE}/ours.deb"
        found.run("sh", "-c", dpkg, node=OURS)
        make_clusters(found)
        found.run(*f"{ADD} -n node1 --disk 0:size=64m --disk 1:size=8m -B memory=128 {NIC} web".split())
        fill = f"for d in {STORAGE}/web/*; do dd if=/dev/urandom of=$d bs=1M seek=5 count=2 conv=notrunc; done"
        found.run("sh", "-c", fill)
        yield found
    finally:
        testbed.down(layout)


def make_clusters(bed: FakeBed) -> None:
    words = [word.replace(",mirror", "") for word in cluster.init_command(bed.layout)]
    for node, name in ((PEER, CLUSTER_NAME), (OURS, OTHER)):
        hosts = f"10.77.0.101 {OTHER}\n10.77.0.150 web"  # Ganeti 3.0 looks names of sources up
        bed.run("sh", "-c", f"echo '{hosts}' >> /etc/hosts", node=node)
        bed.run(*words[:-1], name, node=node)
        bed.run("sh", "-c", DEFINITION, node=node)
    secret = bed.run("cat", SECRET, node=PEER).strip()
    bed.run("sh", "-c", f"echo '{secret}' > /root/secret", node=OURS)
    words = ["gnt-cluster", "renew-crypto", "-f", "--new-rapi-certificate", "--cluster-domain-secret=/root/secret"]
    bed.run(*words, node=OURS)
    for node in (PEER, OURS):
        users = f"mkdir -p $(dirname {USERS}); echo 'jack open-sesame write' > {USERS}; chmod 644 {USERS}"
        bed.run("sh", "-c", users, node=node)
        bed.run("/usr/lib/ganeti/daemon-util", "stop", "ganeti-rapi", node=node, expect=None)
        bed.run("/usr/lib/ganeti/daemon-util", "start", "ganeti-rapi", "-b", "0.0.0.0", node=node)
    certificates = [bed.run("openssl", "x509", "-in", "/var/lib/ganeti/rapi.pem", node=node) for node in (PEER, OURS)]
    for node in (PEER, OURS):
        bed.run("sh", "-c", f"echo '{''.join(certificates)}' > /root/ca.pem; echo open-sesame > /root/word", node=node)


def sums(bed: FakeBed, node: str, name: str) -> list[str]:
    each = f"for d in {STORAGE}/{name}/*; do md5sum < $d; done"
    return sorted(bed.run("sh", "-c", each, node=node).split()[::2])


def names(bed: FakeBed) -> tuple[list[str], list[str]]:
    words = ("gnt-instance", "list", "--no-headers", "-o", "name")
    return bed.run(*words, node=PEER).split(), bed.run(*words, node=OURS).split()


@pytest.mark.parametrize("compress", ["none", "gzip-fast"])
def test_an_instance_comes_from_ganeti_3_0_and_goes_back(bed: FakeBed, compress: str) -> None:
    before = sums(bed, PEER, "web")
    access = [*ACCESS, *(word.replace("--src-", "--dest-") for word in ACCESS)]
    move = [MOVE, *access, f"--compress={compress}"]
    bed.run(*move, f"--dest-primary-node={OURS}", CLUSTER_NAME, OTHER, "web", node=OURS)
    assert names(bed) == ([], ["web"])
    assert sums(bed, OURS, "web") == before
    macs = bed.run("gnt-instance", "list", "--no-headers", "-o", "nic.macs", node=OURS)
    assert macs == "aa:00:00:11:22:33\n"
    bed.run(*move, f"--dest-primary-node={PEER}", OTHER, CLUSTER_NAME, "web", node=OURS)
    assert names(bed) == (["web"], [])
    assert sums(bed, PEER, "web") == before


def test_each_imports_what_the_other_has_exported(bed: FakeBed) -> None:
    before = sums(bed, PEER, "web")
    for exporter, importer in ((PEER, OURS), (OURS, PEER)):
        bed.run("gnt-backup", "export", "--transport-compression=gzip", "-n", exporter, "web", node=exporter)
        assert f"{exporter} web" in " ".join(bed.run("gnt-backup", "list", "--no-headers", node=exporter).split())
        bring(bed, exporter, importer)
        bed.run("gnt-instance", "remove", "-f", "web", node=exporter)
        bed.run("gnt-backup", "import", "-n", importer, "-t", "file", *SOURCE.format(importer).split(), node=importer)
        assert sums(bed, importer, "web") == before
        macs = bed.run("gnt-instance", "list", "--no-headers", "-o", "nic.macs", node=importer)
        assert macs == "aa:00:00:11:22:33\n"


def bring(bed: FakeBed, source: str, target: str) -> None:
    """Copy the directory of an export to the other cluster's node; file storage lies outside of the nodes' roots."""
    shared = f"{STORAGE}/export.tar"
    bed.run("tar", "-C", EXPORTS[source], "-cf", shared, "web", node=source)
    (bed.layout.node(source).disks / "export.tar").rename(bed.layout.node(target).disks / "export.tar")
    bed.run("mkdir", "-p", EXPORTS[target], node=target)
    bed.run("tar", "-C", EXPORTS[target], "-xf", shared, node=target)
    bed.run("rm", shared, node=target)
