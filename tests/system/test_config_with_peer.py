# SPDX-License-Identifier: BSD-2-Clause
"""`config.data` after every kind of operation, read by the classes of Ganeti 3.0 and written again: nothing changes.

Debian's package is unpacked, not installed, and its Python is given the file (`objects.ConfigData`: `FromDict`,
`UpgradeConfig`, which fills in what is missing, and `ToDict`). A field that its classes do not know ends the reading.
Needs Debian's packages, so it is part of ``make campaign`` only (GANETI_CAMPAIGN, or GANETI_TAKE_OVER).
"""

from __future__ import annotations

import copy
import fnmatch
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import bed_addresses
from tests.fakes.thoroughness import CAMPAIGN
from tests.system.fake_bed import FakeBed

from ganeti.model import objects
from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, guest

pytestmark = [
    pytest.mark.daemons,
    bed_addresses.of_ipv4_alone("the peer's cluster is one of IPv4"),
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
    pytest.mark.skipif(
        not CAMPAIGN and not os.environ.get("GANETI_TAKE_OVER"), reason="fetches Debian's packages: make campaign"
    ),
]
NODES = ("node1", "node2", "node3")

REFUSED = {
    "cluster/capacity_params": "ours: how capacity is counted",
    "cluster/diagnose_data_collector_filename": "3.1's: the diagnose command",
    "nodegroups/*/capacity_params": "ours: how capacity is counted",
    "instances/*/reverting": "ours: a snapshot that the disks are being taken back to",
    "disks/*/generation": "ours: which copy of a mirrored disk is the newer one",
    "disks/*/snapshots": "ours: snapshots of external storage",
    "maintenance": "3.1's: settings and incidents of the maintenance daemon",
    "backups": "ours: keys and schedules of backups",
}
"""What the classes of 3.0 do not know. All of it is absent until it is used; the way back to 3.0 leaves it out."""
CHANGED = {
    "nodegroups/*/members": "3.0's daemon writes it too, and its Python classes keep it in memory only",
    "cluster/diskparams/mirror": "ours: the template",
    "cluster/hvparams/xen-*/xen_cmd": "3.1 has it no longer",
}
"""What reading and writing changes."""
CLASSES = {
    "cluster": "Cluster",
    "nodes": "Node",
    "nodegroups": "NodeGroup",
    "instances": "Instance",
    "networks": "Network",
    "disks": "Disk",
}
PROGRAM = f"""
import json, sys
from ganeti import objects
CLASSES = {CLASSES!r}
def accepted(kind, field):
    try:
        getattr(objects, CLASSES[kind])(**{{field: None}})
    except TypeError:
        return False
    return True
for line in sys.stdin:
    request = json.loads(line)
    try:
        if "fields" in request:
            answer = [[kind, field] for kind, field in request["fields"] if not accepted(kind, field)]
        else:
            answer = []
            for upgrade in (False, True):
                config = objects.ConfigData.FromDict(json.loads(json.dumps(request)))
                if upgrade:
                    config.UpgradeConfig()
                answer.append(config.ToDict())
    except Exception as err:
        answer = repr(err)
    print(json.dumps(answer, default=list), flush=True)
"""


class Peer:
    """The Python of Debian's Ganeti 3.0, in one process."""

    def __init__(self, root: Path) -> None:
        places = ("usr/share/ganeti/3.0", "usr/lib/python3/dist-packages")
        self._process = subprocess.Popen(
            ["/usr/bin/python3", "-c", PROGRAM],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(str(root / place) for place in places)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert not isinstance(answer, str), answer
        return answer

    def end(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    fetched = subprocess.run([guest.tree() / "setup/peer-packages"], capture_output=True, text=True, check=False)
    if fetched.returncode:
        pytest.skip(f"Debian's packages cannot be had: {fetched.stderr.strip()}")
    root = tmp_path_factory.mktemp("peer")
    for package in Path(fetched.stdout.strip()).glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, root], check=True)
    found = Peer(root)
    yield found
    found.end()


class Day:
    """A cluster whose every change is shown to the peer."""

    def __init__(self, bed: FakeBed, peer: Peer) -> None:
        self.bed = bed
        self.peer = peer
        self.looks = 0

    def does(self, *words: str) -> None:
        """Run a command that changes the configuration, and compare."""
        before = self.bed.config()
        self.bed.run(*words)
        after = self.bed.config()
        assert after != before, f"{' '.join(words)} has changed nothing: the comparison would be one of before"
        told = differences(self.peer, after)
        assert not told, "\n".join([f"after {' '.join(words)}:", *told])
        self.looks += 1


def differences(peer: Peer, config: dict[str, Any]) -> list[str]:
    """What becomes of *config* when the peer reads and writes it, known differences apart."""
    given = without(config, REFUSED)
    return [
        f"{how}: {path}: {one} becomes {other}"
        for how, written in zip(("written again", "upgraded"), peer.ask(given), strict=True)
        for path, one, other in compared(given, written)
        if not any(fnmatch.fnmatchcase(path, known) for known in CHANGED)
    ]


def without(value: Any, patterns: dict[str, str], path: str = "") -> Any:
    if not isinstance(value, dict):
        return value
    kept = {key: item for key, item in value.items() if not matches(f"{path}{key}", patterns)}
    return {key: without(item, patterns, f"{path}{key}/") for key, item in kept.items()}


def matches(path: str, patterns: dict[str, str]) -> bool:
    return any(path.count("/") == each.count("/") and fnmatch.fnmatchcase(path, each) for each in patterns)


def compared(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Paths of values that differ, a number's type included; tags are a set, whose order is none."""
    below = f"{path}/" if path else ""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            if key in one and key in other:
                yield from compared(one[key], other[key], f"{below}{key}")
            else:
                yield f"{below}{key}", shown(one, key), shown(other, key)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        if path.endswith("/tags"):
            one, other = sorted(one), sorted(other)
        for number, item in enumerate(one):
            yield from compared(item, other[number], f"{below}{number}")
    elif type(one) is not type(other) or one != other:
        yield path, repr(one)[:200], repr(other)[:200]


def shown(values: dict[str, Any], key: str) -> str:
    return repr(values[key])[:200] if key in values else "nothing"


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory, peer: Peer) -> Iterator[Day]:
    layout = testbed.up(tmp_path_factory.mktemp("config").resolve(), 3, "fake", watcher_interval_s=86400, ip="4")
    try:
        cluster.create(layout)
        bed = FakeBed(layout)
        for node in NODES:
            bed.run("sh", "-c", DRESSED, node=node)
        found = Day(bed, peer)
        assert not differences(peer, bed.config()), "the cluster as it is made"
        yield found
    finally:
        testbed.down(layout)


OS = "/usr/local/lib/ganeti/os/dressed"
DRESSED = f"""
mkdir -p {OS} && cd {OS} && echo 20 > ganeti_api_version && echo red > variants.list
printf 'colour words\\nword words\\n' > parameters.list
for s in create import export rename verify; do printf '#!/bin/sh\\nexit 0\\n' > $s; chmod +x $s; done
"""


def test_fields_that_the_peer_refuses_are_known(peer: Peer) -> None:
    """Whatever this program may write, not only what it has written today."""
    fields = [
        (kind, field)
        for kind in CLASSES
        for field in objects.KINDS[kind].__struct_fields__
        if field != "unknown"  # holds what comes from another version
    ]
    wanted = {(path.split("/")[0], path.split("/")[-1]) for path in REFUSED if "/" in path}
    assert {(kind, field) for kind, field in peer.ask({"fields": fields})} == wanted
    tops = {*objects.KINDS, "version", "serial_no", "ctime", "mtime"} - {"maintenance", "backups"}
    assert tops == {*CLASSES, "filters", "version", "serial_no", "ctime", "mtime"}


def test_the_comparison_sees_what_is_missing_and_what_is_strange(day: Day) -> None:
    config = day.bed.config()
    spoilt_by: list[tuple[Callable[[dict[str, Any]], object], str]] = [
        (
            lambda plain: plain["cluster"]["diskparams"].pop("drbd"),
            "upgraded: cluster/diskparams/drbd: nothing becomes",
        ),
        (lambda plain: plain["cluster"].pop("ndparams"), "upgraded: cluster/ndparams: nothing becomes"),
        (lambda plain: plain["cluster"].update(candidate_pool_size=None), "cluster/candidate_pool_size: None becomes"),
    ]
    for spoil, said in spoilt_by:
        spoilt = copy.deepcopy(config)
        spoil(spoilt)
        assert said in "\n".join(differences(day.peer, spoilt))
    config["cluster"]["colour"] = "red"
    with pytest.raises(AssertionError, match="colour"):
        differences(day.peer, config)
    assert list(compared({"a": [1, {"b": True}]}, {"a": [1.0, {"b": 1}]})) == [
        ("a/0", "1", "1.0"),
        ("a/1/b", "True", "1"),
    ]


BOUNDS = (
    "min:cpu-count=1,disk-count=0,disk-size=1,memory-size=1,nic-count=0,spindle-use=1"
    "/max:cpu-count={},disk-count=16,disk-size=10240,memory-size=4096,nic-count=8,spindle-use=8"
)
MODIFIED_CLUSTER = """
--max-running-jobs 15 --max-tracked-jobs 30 --maintain-node-health yes
--prealloc-wipe-disks yes
--prealloc-wipe-disks no
--default-iallocator-params a=b
--mac-prefix aa:00:01 -C 5
--use-external-mip-script yes
--use-external-mip-script no
--install-image /srv/install.img --zeroing-image http://images/zero.img
--compression-tools gzip,lzop
--user-shutdown yes
--capacity-parameters memory=128,disk=1024,vcpus=1,cpu_ratio=2
--capacity-parameters default
--hypervisor-state fake:mem_total=4096,mem_node=512
--disk-state plain/xenvg:disk_total=5000,disk_reserved=10
--enabled-hypervisors fake,kvm -H kvm:kvm_path=/usr/bin/qemu-system-x86_64,kvm_flag=disabled
-H kvm:kernel_path=/bin/true,acpi=false,disk_cache=none,boot_order=network
-H xen-pvm:kernel_path=/boot/other
-B vcpus=2,minmem=64,auto_balance=no,spindle_use=2
-N vlan=.3
-N vlan=
-D sharedfile:lost_lock_timeout=70 -D drbd:resync-rate=1024,protocol=B,disk-barriers=bf
-D plain:stripes=2
--node-parameters spindle_count=2,cpu_speed=1.5,ssh_port=22
--uid-pool 4000-4010,5000
--add-uids 4020-4030
--remove-uids 4000-4005
--reserved-lvs xenvg/root,xenvg/swap.*
--ipolicy-std-specs memory-size=256,cpu-count=2
--ipolicy-vcpu-ratio 3 --ipolicy-spindle-ratio 12.5
--ipolicy-disk-templates diskless,file,sharedfile
--enabled-disk-templates diskless,file,sharedfile
--instance-communication-network talk
--enabled-data-collectors lv=no
--data-collector-interval cpu-avg-load=10
--maintenance-interval 100 --maintenance-nodes-at-once 2 --maintenance-keep-redundancy yes
--auto-balance-cluster yes --auto-balance-threshold 0.5
--auto-balance-cluster no
"""


def commands(text: str) -> list[list[str]]:
    """The words of each line; one that begins with a blank goes on with the line before."""
    return [line.split() for line in text.strip().replace("\n ", " ").splitlines()]


def test_modified_clusters(day: Day) -> None:
    for words in commands(MODIFIED_CLUSTER):
        day.does("gnt-cluster", "modify", *words)
    day.does("gnt-cluster", "modify", "--ipolicy-bounds-specs", f"{BOUNDS.format(4)}//{BOUNDS.format(8)}")
    day.does("gnt-cluster", "add-tags", "site:north", "b", "a")
    day.does("gnt-cluster", "remove-tags", "b")


GROUPS = f"""
gnt-group add --alloc-policy last_resort -D file:allocation=full --node-parameters cpu_speed=1.5
  --ipolicy-vcpu-ratio 2 green
gnt-group modify --ipolicy-bounds-specs {BOUNDS.format(4)} green
gnt-group modify --ipolicy-disk-templates file,diskless,sharedfile --ipolicy-spindle-ratio 3 green
gnt-group modify --alloc-policy unallocable -D drbd:protocol=A green
gnt-group modify --hypervisor-state fake:mem_total=4096 green
gnt-group modify --capacity-parameters memory=128,disk=1024,vcpus=1 green
gnt-group modify --alloc-policy preferred --node-parameters cpu_speed=default green
gnt-group add-tags green one two
gnt-group remove-tags green one
gnt-group assign-nodes green node3
gnt-group rename green blue
gnt-group add short
gnt-group remove short
gnt-node modify -C no node3
gnt-node modify -C yes node3
gnt-node modify -D yes node3
gnt-node modify -D no node3
gnt-node modify -O yes node3
gnt-node modify -O no node3
gnt-node modify --vm-capable no node3
gnt-node modify --vm-capable yes node3
gnt-node modify -C no node3
gnt-node modify --master-capable no node3
gnt-node modify --master-capable yes node3
gnt-node modify --node-parameters spindle_count=3,oob_program=/bin/true node3
gnt-node modify --hypervisor-state fake:mem_total=2000 node3
gnt-node modify --disk-state plain/xenvg:disk_total=5000 node3
gnt-node add-tags node3 rack:1 old
gnt-node remove-tags node3 old
gnt-node modify -g default node3
"""


def test_groups_and_nodes(day: Day) -> None:
    for words in commands(GROUPS):
        day.does(*words)


NETWORKS = """
gnt-network add --network 10.9.0.0/24 --gateway 10.9.0.1 --network6 fd00::/64 --gateway6 fd00::1
  -m aa:00:02 --add-reserved-ips 10.9.0.7,10.9.0.8 --tags x,y lan
gnt-network add --network 10.8.0.0/28 bare
gnt-network connect -N mode=bridged,link=gnt-br0,vlan=7 lan
gnt-network connect -N mode=routed,link=7 bare default
gnt-network modify --remove-reserved-ips 10.9.0.7 lan
gnt-network modify --add-reserved-ips 10.9.0.20,10.9.0.21 lan
gnt-network modify --gateway none --gateway6 none lan
gnt-network modify -m aa:00:03 --network6 none lan
gnt-network add-tags bare z
gnt-network remove-tags lan x
gnt-network rename bare other
gnt-network disconnect other default
gnt-network remove other
"""


def test_networks(day: Day) -> None:
    for words in commands(NETWORKS):
        day.does(*words)


ADD = "gnt-instance add --no-name-check -o dressed+red -n node1"
INSTANCES = f"""
gnt-os modify -O colour=blue -H kvm:acpi=true dressed
gnt-os modify --os-parameters-private word=open dressed
gnt-os modify --hidden yes dressed
gnt-os modify --hidden no dressed
{ADD} -t diskless --no-nics --no-start -O colour=green --tags p,q bare1
{ADD} -t file --disk 0:size=16m,name=root --disk 1:size=8m,mode=ro
  --net 0:network=lan,ip=pool,name=eth --net 1:ip=10.1.1.1,mode=bridged,link=gnt-br0
  -B maxmem=128,minmem=64,vcpus=1,auto_balance=no
  --os-parameters-private word=hidden --os-parameters-secret colour=gone full1
{ADD} -t sharedfile -s 16m --no-start --file-storage-dir below shared1
{ADD} -t file -s 16m --no-start --forthcoming coming1
{ADD} -H kvm:kernel_path=/bin/true,disk_cache=none,cpu_mask=all,vnc_bind_address=127.0.0.1
  -t diskless --no-install --no-start kvm1
{ADD} -H kvm -t diskless --no-install --no-start kvm2
gnt-instance modify -H acpi=false,boot_order=network,kernel_args=default,serial_speed=9600 kvm1
gnt-instance modify -H acpi=default,disk_cache=default kvm1
gnt-instance shutdown full1
gnt-instance modify -B vcpus=2,spindle_use=3,always_failover=yes full1
gnt-instance modify -B vcpus=default,maxmem=default,minmem=default full1
gnt-instance modify --disk add:size=8m,name=third full1
gnt-instance modify --disk third:modify,mode=ro full1
gnt-instance modify --disk 2:modify,name=none full1
gnt-instance modify --disk 2:remove full1
gnt-instance modify --net add:mac=aa:00:00:00:00:01,vlan=.5 full1
gnt-instance modify --net 0:modify,ip=none,network=none full1
gnt-instance modify --net 2:modify,network=lan,ip=10.9.0.30 full1
gnt-instance modify --net 1:remove full1
gnt-instance modify -O colour=yellow --os-parameters-private word=other full1
gnt-instance modify -O colour=default full1
gnt-instance modify --offline shared1
gnt-instance modify --online shared1
gnt-instance modify -c yes full1
gnt-instance startup full1
gnt-instance modify --net add:mode=bridged,link=gnt-br0 full1
gnt-instance shutdown full1
gnt-instance grow-disk full1 0 8m
gnt-instance activate-disks full1
gnt-instance deactivate-disks full1
gnt-instance move -f -n node2 full1
gnt-instance modify -t sharedfile full1
gnt-instance startup shared1
gnt-instance migrate -f -n node2 shared1
gnt-instance failover -f -n node1 shared1
gnt-instance stop shared1
gnt-instance rename --no-name-check shared1 shared2
gnt-instance reinstall -f -o noop+default shared2
gnt-instance add-tags shared2 a b
gnt-instance remove-tags shared2 a
gnt-instance remove -f coming1
gnt-instance remove -f kvm1
"""


def test_instances(day: Day) -> None:
    for words in commands(INSTANCES):
        day.does(*words)
    day.bed.run("gnt-instance", "snapshot", "create", "shared2", "before")
    assert not differences(day.peer, day.bed.config())


def test_filters(day: Day) -> None:
    day.does(*FILTER, '--predicates=[["opcode", ["==", "OP_ID", "OP_TEST_DELAY"]]]', "--action", "RATE_LIMIT 2")
    day.does(*FILTER, '--predicates=[["jobid", [">", "id", "watermark"]]]', "--action", "ACCEPT")
    day.does(*FILTER, '--predicates=[["reason", ["==", "source", "gnt:x"]]]', "--action", "REJECT")
    (uuid, *_) = day.bed.run("gnt-filter", "list", "--no-headers", "-o", "uuid").split()
    day.does("gnt-filter", "replace", "--priority", "7", "--action", "CONTINUE", uuid)
    day.does("gnt-filter", "delete", uuid)


FILTER = ("gnt-filter", "add", "--priority", "3", "--reason", "because")


def test_a_template_of_ours(day: Day) -> None:
    """What the disks of `mirror` have more is left out by name, and the rest is as for others."""
    templates = "diskless,file,sharedfile,mirror"
    words = (f"--enabled-disk-templates={templates}", f"--ipolicy-disk-templates={templates}")
    day.bed.run("gnt-cluster", "modify", *words)
    day.does(*ADD.replace("node1", "node1:node2").split(), "-t", "mirror", "-s", "16m", "--no-start", "pair1")
    assert any("generation" in disk for disk in day.bed.config()["disks"].values())
    day.does("gnt-instance", "failover", "-f", "pair1")
    day.does("gnt-instance", "remove", "-f", "pair1")
