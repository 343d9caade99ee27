# SPDX-License-Identifier: BSD-2-Clause
"""Error codes of verification whose tools, daemons or configuration are broken; the others are in `test_verify_codes`.

The nodes have volumes that DRBD mirrors, by stand-ins for the tools, and each has a file in place of what the kernel
module would tell of its helper.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

import pytest
from tests.system.replicated_bed import VERSION, ReplicatedBed, made
from tests.system.test_verify_codes import ADD, GUESTS, Fault, assert_each_is_found_alone, found

import ganeti
from ganeti.tools.testbed import bed as testbed

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
NODES = ("node1", "node2", "node3")
GLUSTER = "/srv/ganeti/gluster"
TEMPLATES = ["drbd", "plain", "file", "diskless", "gluster"]
SOURCE = os.path.dirname(ganeti.__file__)
HELPER = "/sys/module/drbd/parameters/usermode_helper"
AGAIN = "daemon-util stop ganeti-noded && daemon-util start ganeti-noded"
STAND_INS = "/usr/lib/stand-ins/settings.json"
EDIT = """
import json, os, sys
from ganeti.base.paths import Paths
from ganeti.master.config import importing
from ganeti.wconfd.start import open_configuration
importing.hard_problems = lambda config, indexes: []  # no daemon would take over what refers to nothing
path, sound = Paths().config_file, "/root/sound"
if not os.path.exists(sound):
    os.link(path, sound)
with open(sound) as file:
    plain = json.load(file)
named = {each["name"]: each for kind in ("instances", "nodes") for each in plain[kind].values()}
exec(sys.argv[1])
with open(f"{path}.new", "w") as file:
    json.dump(plain, file)
os.rename(f"{path}.new", path)
opened = open_configuration(Paths())
opened.accept()
opened.store.close()
"""


def other_software(file: str, was: str, becomes: str) -> tuple[str, str]:
    """Words that let the node daemon run with another line in a file of its package, and those that end that."""
    over = f"-o lowerdir={SOURCE},upperdir=/run/other/upper,workdir=/run/other/work"
    breaks = (
        f"mkdir -p /run/other/upper /run/other/work && mount -t overlay overlay {over} {SOURCE} && "
        f"grep -q '{was}' {SOURCE}/{file} && sed -i 's/{was}/{becomes}/' {SOURCE}/{file} && {AGAIN}"
    )
    return breaks, f"umount -l {SOURCE} && rm -r /run/other && {AGAIN}"


FAULTS = (
    Fault(
        "node2",
        *other_software("node/actions/verify.py", "return CONFIG_VERSION, RELEASE", 'return CONFIG_VERSION, "3.0"'),
        {"WARNING:ENODEVERSION:node:node2"},
    ),
    Fault(
        "node2",
        *other_software("node/actions/verify.py", "return CONFIG_VERSION, RELEASE", 'return 3000000, "3.0"'),
        {"ERROR:ENODEVERSION:node:node2"},
    ),
    Fault(
        "node3",
        *other_software("noded/world.py", "return time.time()", "return time.time() - 300"),
        {"ERROR:ENODETIME:node:node3"},
    ),
    Fault(
        "node1",
        f"mkdir -p {GUESTS}/.fail && echo fail broken >{GUESTS}/.fail/verify",
        f"rm -r {GUESTS}/.fail",
        {"ERROR:ENODEHV:node:node1"},
    ),
    Fault(
        "node3",
        "mv /usr/sbin/vgs /root/ && ln -s /bin/false /usr/sbin/vgs",
        "mv /root/vgs /usr/sbin/",
        {"ERROR:ENODELVM:node:node3"},
    ),
    Fault(
        "node3",
        "lvcreate -L 8m -n stray xenvg",
        "lvremove --force xenvg/stray",
        {"ERROR:ENODEORPHANLV:node:node3"},
    ),
    Fault(
        "node3",
        f"mount -t tmpfs -o ro none {GLUSTER}",
        f"umount {GLUSTER}",
        {"ERROR:ENODEGLUSTERSTORAGEPATHUNUSABLE:node:node3"},
    ),
    Fault(
        "node1",
        "drbdsetup new-resource stray 0 && drbdsetup new-minor stray 7 0",
        "drbdsetup down stray",
        {"ERROR:ENODEDRBD:node:node1"},
    ),
    Fault("node1", f"echo /bin/false >{HELPER}", f"echo /bin/true >{HELPER}", {"ERROR:ENODEDRBDHELPER:node:node1"}),
    Fault(
        "node3",
        f"sed -i s/{VERSION}/{VERSION}1/ {STAND_INS} && {AGAIN}",
        f"sed -i s/{VERSION}1/{VERSION}/ {STAND_INS} && {AGAIN}",
        {f"ERROR:ENODEDRBDVERSION:node:{node}" for node in NODES},
    ),
    Fault(
        "node1",
        "gnt-group modify --node-parameters exclusive_storage=true default && "
        "sed -i 's/40960 . 2..20/20480 * 2**20/' /usr/lib/stand-ins/lvm.py && grep -q 20480 /usr/lib/stand-ins/lvm.py",
        "sed -i s/20480/40960/ /usr/lib/stand-ins/lvm.py && "
        "gnt-group modify --node-parameters exclusive_storage=default default",
        {"ERROR:EGROUPDIFFERENTPVSIZE:group:default"},
    ),
    Fault(
        "node1",
        "gnt-node modify --master-candidate no node3",
        "gnt-node modify --master-candidate yes node3",
        {"ERROR:ECLUSTERCFG:cluster:None"},
    ),
)

EDITS: list[tuple[str, set[str]]] = [
    ("named['one']['hypervisor'] = 'chroot'", {"ERROR:EINSTANCEUNSUITABLENODE:instance:one"}),
    (
        "named['one']['hypervisor'] = ''",
        {"ERROR:EINSTANCEMISSINGCFGPARAMETER:instance:one", "ERROR:EINSTANCEUNSUITABLENODE:instance:one"},
    ),
    (
        "named['one']['primary_node'] = 'gone'",
        {
            "ERROR:ECLUSTERCFG:cluster:None",
            "ERROR:ECLUSTERDANGLINGINST:node:one",
            "ERROR:EINSTANCEWRONGNODE:instance:one",
        },
    ),
    (
        "named['node3']['group'] = 'gone'",
        {"ERROR:ECLUSTERCFG:cluster:None", "ERROR:ECLUSTERDANGLINGNODES:node:node3"},
    ),
    (
        "list(plain['disks'].values())[0]['nodes'] += [named['node1']['uuid'], named['node3']['uuid']]",
        {"WARNING:EINSTANCELAYOUT:instance:two", "ERROR:EINSTANCEMISSINGDISK:instance:two"},
    ),
    ("pass", set()),
]
"""Statements about `config.data`, and what follows from them: a reference to nothing is against a rule as well."""


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedBed]:
    bed = made(tmp_path_factory.mktemp("storage"), 3)
    try:
        module = f"mount -t tmpfs none /sys/module && mkdir -p {os.path.dirname(HELPER)} && echo /bin/true >{HELPER}"
        gluster = f"mkdir {GLUSTER} && echo {GLUSTER} >>/etc/ganeti/file-storage-paths"
        for node in NODES:
            bed.run("sh", "-c", f"{module} && {gluster}", node=node)
        bed.run("gnt-cluster", "watcher", "pause", "1h")
        bed.run("gnt-cluster", "modify", "--drbd-usermode-helper", "/bin/true")
        values = {"gluster_storage_dir": GLUSTER, "enabled_disk_templates": TEMPLATES}
        opcode = {"OP_ID": "OP_CLUSTER_SET_PARAMS", "ipolicy": {"disk-templates": TEMPLATES}, **values}
        job = (bed.data("node1") / "../../../root/job").resolve()
        job.write_text(json.dumps([opcode]))
        bed.run("gnt-debug", "submit-job", "/root/job")
        bed.run(*ADD, "-t", "diskless", "-n", "node2", "one")
        bed.run(*ADD, "-t", "file", "--disk", "0:size=8m", "-n", "node2", "two")
        yield bed
    finally:
        testbed.down(bed.layout)


def test_each_fault_of_a_tool_or_daemon_is_found_by_its_code_alone(bed: ReplicatedBed) -> None:
    assert_each_is_found_alone(bed, FAULTS)


@pytest.fixture(scope="module")
def edited(bed: ReplicatedBed) -> ReplicatedBed:
    """The master has the only copy: no others have to catch up after each edit."""
    bed.run("gnt-cluster", "modify", "--candidate-pool-size", "1")
    for node in ("node2", "node3"):
        bed.run("gnt-node", "modify", "--master-candidate", "no", node)
    return bed


@pytest.mark.parametrize(
    ("statement", "codes"), EDITS, ids=("disabled", "lacking", "no-node", "no-group", "three-nodes", "sound")
)
def test_each_fault_of_the_configuration_is_found(edited: ReplicatedBed, statement: str, codes: set[str]) -> None:
    edited.run("daemon-util", "stop-master")
    edited.run(sys.executable, "-c", EDIT, statement)
    edited.run("daemon-util", "start-master")
    assert found(edited) == codes
