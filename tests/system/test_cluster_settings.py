# SPDX-License-Identifier: BSD-2-Clause
"""A cluster gets other settings, another address and another name, by commands on real daemons."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
NODES = ("node1", "node2", "node3")


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = testbed.up(tmp_path_factory.mktemp("settings").resolve(), 3, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        yield FakeBed(layout)
    finally:
        testbed.down(layout)


def test_directories_must_be_there_and_templates_in_use_stay(bed: FakeBed) -> None:
    said = bed.run("gnt-cluster", "modify", "--file-storage-dir", "/srv/ganeti/file-storage/none", expect=1)
    assert "is not a directory: make it, or mount it" in said
    bed.run("gnt-instance", "add", "-t", "diskless", "-o", "noop+default", "-n", "node2", "--no-start", "used1")
    templates = ("--enabled-disk-templates", "file", "--ipolicy-disk-templates", "file")
    assert "diskless is used by used1" in bed.run("gnt-cluster", "modify", *templates, expect=1)
    bed.run("gnt-instance", "remove", "--force", "used1")
    bed.run("gnt-cluster", "modify", *templates)
    assert bed.config()["cluster"]["enabled_disk_templates"] == ["file"]


def whole(bed: FakeBed) -> int:
    """Bits of an address."""
    return 32 if bed.layout.ip == "4" else 128


def test_the_address_moves_with_its_netmask(bed: FakeBed) -> None:
    address = bed.config()["cluster"]["master_ip"]
    bed.run("gnt-cluster", "modify", "--master-netmask", str(whole(bed)))
    assert f"{address}/{whole(bed)}" in bed.run("ip", "-o", "addr")
    said = bed.run("gnt-cluster", "modify", "--master-netdev", "moon0", "--force", expect=1)
    assert "needs the interface moon0" in said
    assert f"{address}/{whole(bed)}" in bed.run("ip", "-o", "addr")
    assert bed.config()["cluster"]["master_netdev"] == "eth0"


def test_a_device_that_cannot_carry_the_address_is_refused_before_anything_changes(bed: FakeBed) -> None:
    """`lo` with a network would make that network the node's own: it was cut off from all others."""
    bed.run("ip", "link", "add", "dummy1", "type", "bridge", node="node2")
    for node in ("node1", "node3"):
        bed.run("ip", "link", "add", "dummy1", "type", "bridge", node=node)
        bed.run("ip", "link", "set", "dummy1", "up", node=node)
    address = bed.config()["cluster"]["master_ip"]
    before = address in bed.run("ip", "-o", "addr", "show", "eth0")
    network, most = 24 if bed.layout.ip == "4" else 64, whole(bed)
    for words, sentence in (
        (
            ("--master-netdev", "lo", "--master-netmask", f"{network}"),
            "lo is the node's own device: no other machine reaches it",
        ),
        (("--master-netdev", "moon0"), "there is no network device moon0"),
        (("--master-netdev", "dummy1", "--master-netmask", f"{most}"), "Node node2 cannot carry the cluster's address"),
        (("--master-netdev", "dummy1", "--master-netmask", f"{most}"), "dummy1 is down"),
        (("--master-netmask", f"{most + 1}"), f"it is from 1 to {most}"),
        (("--master-netmask", "0"), f"it is from 1 to {most}"),
        (("--master-netmask", "255.255.255.0"), "255.255.255.0"),
    ):
        assert sentence in bed.run("gnt-cluster", "modify", *words, expect=None), words
    bed.run("ip", "link", "set", "dummy1", "up", node="node2")
    said = bed.run("gnt-cluster", "modify", "--master-netdev", "dummy1", "--master-netmask", f"{network}", expect=1)
    assert "eth0 leads to" in said, said
    assert before and address in bed.run("ip", "-o", "addr", "show", "eth0")
    assert bed.config()["cluster"]["master_netdev"] == "eth0"


def test_files_of_the_master_go_to_all_nodes(bed: FakeBed) -> None:
    files = "/var/lib/ganeti/hmac.key", "/var/lib/ganeti/known_hosts"
    wanted = bed.run("sha256sum", *files)
    bed.run("rm", files[0], node="node2")
    bed.run("truncate", "-s", "0", files[1], node="node3")
    assert bed.run("gnt-cluster", "redist-conf") == ""
    for node in NODES:
        assert bed.run("sha256sum", *files, node=node) == wanted


def test_an_install_image_runs_the_script_that_no_node_runs(bed: FakeBed) -> None:
    """A fake guest runs nothing: it is ended as its image would. What a real one reads is in `tests/real`."""
    place, image = "/usr/local/lib/ganeti/os/closed", "/srv/install.img"
    scripts = {name: "exit 0" for name in ("import", "export", "rename", "verify")}
    scripts["create_untrusted"] = "touch /tmp/ran-on-the-node"
    for node in NODES:
        bed.run("mkdir", "-p", place, node=node)
        for name, line in scripts.items():
            write = f"printf '#!/bin/sh\n{line}\n' > {place}/{name}; chmod 755 {place}/{name}"
            bed.run("sh", "-c", write, node=node)
        bed.run("sh", "-c", f"echo 20 > {place}/ganeti_api_version; touch {place}/parameters.list", node=node)
    add = ("-t", "file", "-o", "closed", "-n", "node2", "-s", "16m", "--no-name-check")
    said = bed.run("gnt-instance", "add", *add, "closed1", expect=1)
    assert "name the image of that guest first (gnt-cluster modify --install-image IMAGE)" in said
    bed.run("gnt-cluster", "modify", "--install-image", image, "--instance-communication-network", "talk")
    assert "give instance closed1 one (--communication=yes)" in bed.run(
        "gnt-instance", "add", *add, "closed1", expect=1
    )
    add = (*add, "--communication=yes", "closed1")
    bed.run("sh", "-c", f"echo boot > {image}", node="node2")
    said = bed.run("gnt-instance", "add", "--helper-shutdown-timeout=0", *add, expect=1)
    assert "The helper guest of closed1 has not ended within 0 seconds and was stopped" in said
    assert bed.config()["instances"] == {}, "what was not installed is not kept"
    job = bed.submit("gnt-instance", "add", *add)
    guest = "/run/ganeti/fake-hypervisor/closed1"
    bed.wait(lambda: "closed1.img" in bed.run("cat", guest, node="node2", expect=None), "the helper guest runs")
    bed.run("rm", guest, node="node2")
    bed.wait(lambda: bed.job_status(job) in ("success", "error"), "the instance is installed")
    assert bed.job_status(job) == "success"
    assert bed.guests() == {"closed1": ["node2"]}
    assert bed.run("ls", "/var/lib/ganeti/helper-images", node="node2") == ""
    for node in NODES:
        bed.run("test", "!", "-e", "/tmp/ran-on-the-node", node=node)
    bed.run("gnt-instance", "remove", "--force", "closed1")


def test_every_node_knows_the_new_name(bed: FakeBed) -> None:
    network, mark, _ = bed.layout.cluster_address.rpartition("." if bed.layout.ip == "4" else ":")
    address = f"{network}{mark}99"
    bed.run("sh", "-c", f"echo {address} others > /etc/hosts.new && cat /etc/hosts >> /etc/hosts.new")
    bed.run("cp", "/etc/hosts.new", "/etc/hosts")
    bed.run("gnt-cluster", "rename", "-f", "others")
    for node in NODES:
        assert (bed.data(node) / "ssconf_cluster_name").read_text() == "others\n"
        assert (bed.data(node) / "known_hosts").read_text().startswith("others ")
    assert f"{address}/{whole(bed)}" in bed.run("ip", "-o", "addr")
    bed.run("gnt-cluster", "add-tags", "renamed")
    bed.wait(
        lambda: all((bed.data(node) / "ssconf_cluster_tags").read_text() == "renamed\n" for node in NODES),
        "all nodes take values of the cluster under its new name",
    )
    said = bed.run("gnt-cluster", "verify", expect=None)
    assert "ERROR" not in said, said
    assert f"is called others and has the address {address} already" in bed.run(
        "gnt-cluster", "rename", "-f", "others", expect=1
    )
