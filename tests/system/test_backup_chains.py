# SPDX-License-Identifier: BSD-2-Clause
"""Incremental backups on real daemons: what is kept, what comes back, and what is refused before anything is made."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fakes.unread_file_systems import btrfs, ntfs
from tests.system.fake_bed import FakeBed

from ganeti.base.addresses import host_and_port
from ganeti.node.backups.directory import IDENTITY
from ganeti.tools.testbed import bed, cluster

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
STORAGE = "/srv/ganeti/file-storage"
KEPT = "/srv/ganeti/backup"
STORE = "/etc/ganeti/backup-store.json"
PLACES = "/run/ganeti/backup-chains /run/ganeti/shown /srv/ganeti/backup-files /srv/ganeti/backup-scratch"
LEFT = f"ls {PLACES} 2>/dev/null | grep -v :$ | grep .; true"
"""What reading a backup has left behind."""


@pytest.fixture(scope="module")
def fake_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = bed.up(tmp_path_factory.mktemp("chains").resolve(), 2, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        found = FakeBed(layout)
        add = "gnt-instance add -t file -o heartbeat+default --no-install --no-start -n node2 -s 16m -B memory=64 web"
        found.run(*add.split())
        write(found, "web", 5, 2)
        yield found
    finally:
        bed.down(layout)


def write(fake_bed: FakeBed, name: str, seek: int, count: int, source: str = "/dev/urandom") -> None:
    words = f"dd if={source} of=$(ls {STORAGE}/{name}/*) bs=1M seek={seek} count={count} conv=notrunc status=none"
    fake_bed.run("sh", "-c", words, node="node2")


def checksum(fake_bed: FakeBed, name: str, node: str = "node2") -> str:
    return fake_bed.run("sh", "-c", f"md5sum < $(ls {STORAGE}/{name}/*)", node=node)


def history(fake_bed: FakeBed) -> str:
    """The list of backups, without how long ago they were proved."""
    return re.sub(r"\d+ \w+ ago", "… ago", fake_bed.run("gnt-backup", "history", "web"))


def backup(fake_bed: FakeBed, *words: str) -> tuple[str, str]:
    """Make a backup; gives its id, and how much has changed."""
    said = fake_bed.run("gnt-backup", "create", *words)
    found = re.search(r"Backup (\S+) of \S+ is on \S+: it .*, (\S+ [MK]iB) changed", said)
    assert found, said
    return found[1], found[2]


def test_a_chain_of_backups_comes_back_at_each_of_its_moments(fake_bed: FakeBed) -> None:
    said = fake_bed.run("gnt-backup", "create", "-n", "node1", "web", expect=1)
    assert "The cluster has no key to encrypt backups with: make one (gnt-backup key new)" in said
    assert "New backups are encrypted with key" in fake_bed.run("gnt-backup", "key", "new")
    assert "say which node keeps it: add -n NODE" in fake_bed.run("gnt-backup", "create", "web", expect=1)
    sums = [checksum(fake_bed, "web")]
    ids = [backup(fake_bed, "-n", "node1", "web")]
    fake_bed.run("gnt-instance", "startup", "web")
    write(fake_bed, "web", 6, 1)
    write(fake_bed, "web", 5, 1, "/dev/zero")
    sums.append(checksum(fake_bed, "web"))
    ids.append(backup(fake_bed, "web"))
    ids.append(backup(fake_bed, "web"))
    assert [changed for _, changed in ids] == ["2.0 MiB", "2.0 MiB", "0 KiB"]
    table = fake_bed.run("gnt-backup", "history", "web").splitlines()
    assert len(table) == 4 and all(ids[row][0] in table[row + 1] for row in range(3))
    assert fake_bed.run("gnt-backup", "list", "--no-headers") == "", "exports are another thing"
    for number in range(2):
        fake_bed.run("gnt-backup", "restore", "--backup", ids[number][0], "-n", "node2", "web", "copy")
        assert checksum(fake_bed, "copy") == sums[number], number
        fake_bed.run("gnt-instance", "remove", "-f", "copy")
    config = fake_bed.config()
    assert fake_bed.run("gnt-backup", "key", "list") == f"{next(iter(config['backups']['keys']))} (for new backups)\n"
    content = fake_bed.run("sh", "-c", f"cat {KEPT}/*/*/manifest.json", node="node1")
    assert next(iter(config["backups"]["keys"].values())) not in content
    fake_bed.check()


def test_a_stopped_instance_gets_its_disks_back_in_place(fake_bed: FakeBed) -> None:
    assert "runs, so it cannot be restored in place" in fake_bed.run(
        "gnt-backup", "restore", "-f", "--in-place", "web", expect=1
    )
    before = checksum(fake_bed, "web")
    fake_bed.run("gnt-instance", "shutdown", "--timeout=0", "web")
    write(fake_bed, "web", 0, 16)
    fake_bed.run("gnt-backup", "restore", "-f", "--in-place", "web")
    assert checksum(fake_bed, "web") == before
    fake_bed.check()


def test_damage_and_a_strange_key_are_refused_before_anything_is_made(fake_bed: FakeBed) -> None:
    """The newest backup is damaged in one way after the other, and mended again."""
    newest = fake_bed.run("sh", "-c", f"ls -d {KEPT}/*/* | tail -1", node="node1").strip()
    fake_bed.run("cp", "-a", newest, "/srv/kept", node="node1")
    restore = ("gnt-backup", "restore", "-n", "node2", "--backup")
    for damage, complaint in (
        (f'sed -i \'s/key_id":"../key_id":"zz/\' {newest}/manifest.json', "which this cluster does not have"),
        (f"sed -i 's/frozen\":false/frozen\":true /' {newest}/manifest.json", "its manifest is not what was written"),
        (f"truncate -s 40 {newest}/manifest.json", "its manifest is damaged"),
        (f"sed -i 's/format\":1/format\":9/' {newest}/manifest.json", "a later release made it"),
    ):
        fake_bed.run("sh", "-c", damage, node="node1")
        said = fake_bed.run(*restore, os.path.basename(newest), "web", "copy", expect=1)
        assert complaint in said, said
        assert complaint in fake_bed.run("gnt-backup", "history", expect=1)
        fake_bed.run("cp", "-a", "/srv/kept/manifest.json", newest, node="node1")
    oldest = fake_bed.run("sh", "-c", f"ls -d {KEPT}/*/* | head -1", node="node1").strip()
    fake_bed.run("cp", "-a", oldest, "/srv/oldest", node="node1")
    for damage, complaint in (
        (f"truncate -s -1 {oldest}/disk0.0.chunks", "the files of disk 0 were cut"),
        (f"truncate -s -36 {oldest}/disk0.0.index", "the files of disk 0 were changed"),
        (f"printf x | dd of={oldest}/disk0.0.chunks bs=1 seek=100 conv=notrunc", "what it holds of disk 0 at "),
    ):
        fake_bed.run("sh", "-c", damage, node="node1")
        said = fake_bed.run(*restore, os.path.basename(oldest), "web", "copy", expect=1)
        assert complaint in said, said
        fake_bed.run("sh", "-c", f"cp -a /srv/oldest/* {oldest}/", node="node1")
    fake_bed.check()


def test_an_unfinished_backup_is_named_by_verify(fake_bed: FakeBed) -> None:
    uuid = fake_bed.run("ls", "-I", IDENTITY, KEPT, node="node1").strip()
    fake_bed.run("mkdir", f"{KEPT}/{uuid}/20260101T000000Z-0000.new", node="node1")
    said = fake_bed.run("gnt-cluster", "verify", expect=None)
    assert f"was begun and never finished: remove {KEPT}/{uuid}/20260101T000000Z-0000.new" in said
    fake_bed.run("rmdir", f"{KEPT}/{uuid}/20260101T000000Z-0000.new", node="node1")
    assert "never finished" not in fake_bed.run("gnt-cluster", "verify", expect=None)
    said = fake_bed.run("gnt-instance", "list", "--no-headers", "-o", "name,backup.made,backup.proved")
    assert re.fullmatch(r"web +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +-\n", said), said


def test_a_full_place_leaves_the_older_backups_whole(fake_bed: FakeBed) -> None:
    before = history(fake_bed)
    fake_bed.run("mkdir", "-p", KEPT, node="node2")
    fake_bed.run("sh", "-c", f"umask 077; echo '{json.dumps({'store': KEPT})}' > {STORE}", node="node2")
    said = fake_bed.run("gnt-backup", "create", "-n", "node2", "web", expect=1)
    assert f"No file system is mounted at {KEPT}" in said, said
    fake_bed.run("mount", "-t", "tmpfs", "-o", "size=1m", "none", KEPT, node="node2")
    said = fake_bed.run("gnt-backup", "create", "-n", "node2", "web", expect=1)
    assert "cannot be kept: No space left on device" in said
    assert fake_bed.run("ls", "-I", IDENTITY, KEPT, node="node2") == ""
    fake_bed.run("rm", STORE, node="node2")
    assert history(fake_bed) == before
    fake_bed.check()


def test_backups_are_thinned_out_and_the_others_stay_whole(fake_bed: FakeBed) -> None:
    ids = [line.split()[1] for line in fake_bed.run("gnt-backup", "history", "web").splitlines()[1:]]
    assert len(ids) == 3
    before = checksum(fake_bed, "web")
    fake_bed.run("gnt-backup", "forget", "--backup", ids[1], "web")
    said = fake_bed.run("gnt-backup", "forget", "--keep", "1", "web")
    assert f"Backup {ids[0]} is removed from node1" in said
    left = fake_bed.run("gnt-backup", "history", "web").splitlines()[1:]
    assert len(left) == 1 and left[0].split()[1] == ids[2] and left[0].split()[3] == "-"
    fake_bed.run("gnt-backup", "restore", "-n", "node2", "web", "copy")
    assert checksum(fake_bed, "copy") == before
    fake_bed.run("gnt-instance", "remove", "-f", "copy")
    assert len(fake_bed.run("sh", "-c", f"ls {KEPT}/*/*", node="node1").split()) == 3
    fake_bed.check()


def test_a_backup_is_proved_by_booting_it_and_nothing_of_that_is_left(fake_bed: FakeBed) -> None:
    before = fake_bed.config()
    fail = "mkdir -p /run/ganeti/fake-hypervisor/.fail; echo fail no kernel found"
    fake_bed.run("sh", "-c", f"{fail} > /run/ganeti/fake-hypervisor/.fail/sign_of_life", node="node2")
    said = fake_bed.run("gnt-backup", "prove", "-n", "node2", "web", expect=1)
    assert "no kernel found" in said
    fake_bed.check()
    fake_bed.run("rm", "/run/ganeti/fake-hypervisor/.fail/sign_of_life", node="node2")
    said = fake_bed.run("gnt-backup", "prove", "-n", "node2", "web")
    assert "is proved: the fake guest runs" in said and "Filling disk 0" in said
    said = fake_bed.run("gnt-backup", "prove", "web")
    assert "is proved: the fake guest runs" in said and "on node1\n" in said and "Filling" not in said, said
    fake_bed.run("sh", "-c", f"{fail} > /run/ganeti/fake-hypervisor/.fail/sign_of_life", node="node1")
    assert "no kernel found" in fake_bed.run("gnt-backup", "prove", "web", expect=1)
    fake_bed.run("rm", "/run/ganeti/fake-hypervisor/.fail/sign_of_life", node="node1")
    assert fake_bed.run("sh", "-c", LEFT, node="node1") == ""
    chunks = fake_bed.run("sh", "-c", f"ls {KEPT}/*/*/disk0.*.chunks", node="node1").split()[0]
    fake_bed.run("cp", chunks, "/srv/whole", node="node1")
    fake_bed.run("sh", "-c", f"printf x | dd of={chunks} bs=1 seek=100 conv=notrunc", node="node1")
    said = fake_bed.run("gnt-backup", "prove", "web", expect=1)
    assert "Checking disk 0" in said and "is not what was written" in said, said
    fake_bed.run("cp", "/srv/whole", chunks, node="node1")
    assert "ago: the fake guest runs" in fake_bed.run("gnt-backup", "history", "web")
    after = fake_bed.config()
    assert [after[kind].keys() for kind in ("instances", "disks")] == [
        before[kind].keys() for kind in ("instances", "disks")
    ]
    assert fake_bed.run("ls", STORAGE, node="node2") == "web\n"
    fake_bed.check()


def test_a_schedule_has_backups_made_and_proved_by_themselves(fake_bed: FakeBed) -> None:
    add = ("gnt-backup", "schedule", "add")
    assert "add -n NODE" in fake_bed.run(*add, "hourly", expect=1)
    fake_bed.run(
        *add[:2], "--tag", "kept", "-n", "node1", "--interval", "60", "--keep", "2", "--prove", "1d", "add", "hourly"
    )
    assert "hourly tag kept node1" in fake_bed.run("gnt-backup", "schedule", "list")
    known = fake_bed.run("gnt-backup", "history", "web")
    fake_bed.run("gnt-instance", "add-tags", "web", "kept")
    fake_bed.wait(
        lambda: fake_bed.run("gnt-backup", "history", "web").count("\n") > known.count("\n"), "a backup is made"
    )
    assert fake_bed.config()["backups"]["done"].keys() >= {f"create {uuid}" for uuid in fake_bed.config()["instances"]}
    fake_bed.run("gnt-backup", "schedule", "remove", "hourly")
    assert "There is no schedule hourly" in fake_bed.run("gnt-backup", "schedule", "remove", "hourly", expect=1)
    fake_bed.wait(lambda: fake_bed.run("gnt-job", "list", "--no-headers", "--running", "--queued") == "", "no job runs")
    fake_bed.check()


def test_one_file_comes_out_of_a_backup_without_a_restore(fake_bed: FakeBed, tmp_path: Path) -> None:
    """The disk has a table with one partition; what a link names is the file it leads to."""
    tree, image = tmp_path / "tree", fake_bed.layout.node("node2").upper / "srv/guest.img"
    (tree / "etc/below").mkdir(parents=True)
    (tree / "etc/hostname").write_text("web\n")
    (tree / "etc/below/link").symlink_to("/etc/below/../hostname")
    (tree / "etc/odd\x1b").touch()
    (tree / 'etc/a "name').write_bytes(os.urandom(300_000))
    with image.open("wb") as file:
        file.write(bytes(446) + bytes.fromhex("80000000830000000008000000480000") + bytes(48) + b"\x55\xaa")
    words = ["mkfs.ext4", "-q", "-F", "-L", "root", "-E", "offset=1048576", "-d", str(tree), str(image), "9M"]
    subprocess.run(words, check=True)
    write(fake_bed, "web", 0, 10, "/srv/guest.img")
    backup(fake_bed, "web")
    files, fetch = ("gnt-backup", "files"), ("gnt-backup", "fetch")
    assert re.search(r"^ +0 +1 - +ext4 root +yes$", fake_bed.run(*files, "web"), re.M)
    said = fake_bed.run(*files, "web", "/etc")
    assert re.search(r"^-rw-r--r-- +\d+ +\d+ +4 hostname$", said, re.M) and "odd\\x1b" in said, said
    fake_bed.run(*fetch, "-o", "/srv/found", "web", "etc/below/link")
    assert fake_bed.run("cat", "/srv/found") == "web\n"
    assert "is there already: name another file with -o" in fake_bed.run(
        *fetch, "-o", "/srv/found", "web", "etc/hostname", expect=1
    )
    fake_bed.run(*fetch, "-o", "/srv/odd", "web", '/etc/a "name')
    wanted = hashlib.md5((tree / 'etc/a "name').read_bytes()).hexdigest()
    assert fake_bed.run("md5sum", "/srv/odd").startswith(wanted)
    assert "disk 0 partition 1 can be read and does not have it" in fake_bed.run(*fetch, "web", "/etc/none", expect=1)
    assert "is no regular file" in fake_bed.run(*fetch, "web", "/etc/below", expect=1)
    assert "has no disk 3: it has disk 0" in fake_bed.run(*files, "--disk", "3", "web", expect=1)
    oldest = fake_bed.run("gnt-backup", "history", "web").splitlines()[1].split()[1]
    assert "disk 0 (unknown) cannot be read here" in fake_bed.run(
        *fetch, "--backup", oldest, "web", "/etc/hostname", expect=1
    )
    assert fake_bed.run("sh", "-c", LEFT) == ""
    fake_bed.check()


@pytest.mark.parametrize(("kind", "image"), [("btrfs", btrfs), ("ntfs", ntfs)])
def test_a_file_of_a_file_system_that_is_not_read_is_refused_with_the_way_to_it(
    fake_bed: FakeBed, kind: str, image: Callable[[], bytes]
) -> None:
    kept = fake_bed.layout.node("node2").upper / "srv"
    (kept / "before.img").write_bytes(next((fake_bed.layout.node("node2").disks / "web").iterdir()).read_bytes())
    (kept / "other.img").write_bytes(image())
    write(fake_bed, "web", 0, 4, "/srv/other.img")
    try:
        unread, _ = backup(fake_bed, "web")
        said = fake_bed.run("gnt-backup", "files", "web")
        assert re.search(rf"^ +0 +- - +{kind} .* no: restore it as a new instance$", said, re.M), said
        said = fake_bed.run("gnt-backup", "fetch", "-o", "/srv/none", "web", "/etc/hostname", expect=1)
        assert (
            f"/etc/hostname cannot be read out of backup {unread}: disk 0 ({kind}) cannot be read here, only ext2, "
            "ext3, ext4, FAT and XFS can: restore the backup under a new name and look from inside (gnt-backup "
            "restore --no-nics)"
        ) in said, said
        fake_bed.run("gnt-backup", "forget", "--backup", unread, "web")
    finally:
        write(fake_bed, "web", 0, 16, "/srv/before.img")
    assert fake_bed.run("sh", "-c", f"ls /srv/none 2>/dev/null; {LEFT}") == ""
    fake_bed.check()


READING = "ps -eo args | grep -E '[d]ebugfs.real|[b]ackup-chain|[b]ackup_chain|[q]emu-storage-daemon'; true"
"""Programs that read a backup."""
HELD_DEBUGFS = """#!/bin/sh
exec 9>&-
while [ -e /srv/hold ]; do sleep 0.1; done
exec /usr/sbin/debugfs.real "$@"
"""


@pytest.mark.parametrize(
    "words",
    [
        "gnt-job cancel --kill --yes-do-it $JOB",
        "daemon-util stop ganeti-noded; daemon-util start ganeti-noded",
        "kill -9 $(pgrep -f '[b]ackup.chain')",
    ],
    ids=["the job", "the node daemon", "the processes that serve the backup"],
)
def test_reading_a_file_may_be_interrupted_and_done_again(fake_bed: FakeBed, words: str) -> None:
    """In the middle of `debugfs`; after that nothing is left, and the backup is as before."""
    place = "test -e /usr/sbin/debugfs.real || mv /usr/sbin/debugfs /usr/sbin/debugfs.real; touch /srv/hold"
    fake_bed.run("sh", "-c", f"{place}; printf '%s' \"$1\" >/usr/sbin/debugfs", "sh", HELD_DEBUGFS)
    fake_bed.run("chmod", "755", "/usr/sbin/debugfs")
    before = history(fake_bed)
    opcode = {"OP_ID": "OP_BACKUP_FETCH", "instance_name": "web", "path": "/etc/hostname"}
    fake_bed.run("sh", "-c", "printf '%s' \"$1\" >/srv/opcodes", "sh", json.dumps([opcode]))
    fake_bed.run("sh", "-c", "setsid gnt-debug submit-job /srv/opcodes </dev/null >/srv/said 2>&1 &")
    held = "ps -eo args | grep '[/]sbin/debugfs -R'; true"
    fake_bed.wait(lambda: fake_bed.run("sh", "-c", held) != "", "the file system is being read")
    job = int(fake_bed.run("gnt-job", "list", "--no-headers", "--running", "-o", "id"))
    assert fake_bed.run("sh", "-c", LEFT) != ""
    fake_bed.run("sh", "-c", f"PATH=$PATH:/usr/lib/ganeti; {words}".replace("$JOB", str(job)))
    fake_bed.run("rm", "/srv/hold")
    fake_bed.wait(lambda: fake_bed.job_status(job) in ("success", "error", "canceled"), "the job ends")
    if fake_bed.job_status(job) == "success":  # the call was made again; the file waits for whoever asked for it
        fake_bed.run("rm", f"/srv/ganeti/backup-files/{job}")
    for look in (LEFT, READING):
        fake_bed.wait(lambda look=look: fake_bed.run("sh", "-c", look) == "", "nothing is left")  # type: ignore[misc]
    assert history(fake_bed) == before
    fake_bed.run("gnt-backup", "fetch", "-o", "/srv/again", "web", "/etc/hostname")
    assert fake_bed.run("cat", "/srv/again") == "web\n"
    fake_bed.run("sh", "-c", "rm /srv/again; mv /usr/sbin/debugfs.real /usr/sbin/debugfs")
    fake_bed.check()


@pytest.fixture
def bucket(fake_bed: FakeBed) -> Iterator[str]:
    """A server that speaks S3 beside node1, used by both nodes; gives its process id."""
    server = f"{Path(sys.executable).parent}/moto_server"
    address = fake_bed.layout.node("node1").address
    pid = fake_bed.run("sh", "-c", f"{server} -H {address} -p 5957 >/srv/moto.log 2>&1 & echo $!").strip()
    place = {"endpoint": f"http://{host_and_port(address, 5957)}", "access_key": "one", "secret_key": "two"}
    try:
        make_bucket = f"curl -sf -m 60 -X PUT http://{host_and_port(address, 5957)}/kept"
        # Its modules take long to load beside other work: only its end ends the waiting, or the limit of `run`.
        begin = f"until {make_bucket}; do kill -0 {pid} || {{ cat /srv/moto.log; exit 1; }}; sleep 0.1; done"
        fake_bed.run("sh", "-c", begin, within_s=600)
        for node in fake_bed.layout.nodes:
            text = json.dumps({"store": "s3://kept/of-us", **place})
            fake_bed.run("sh", "-c", f"umask 077; echo '{text}' > {STORE}", node=node.name)
        yield pid
    finally:
        for node in fake_bed.layout.nodes:
            fake_bed.run("rm", "-f", STORE, node=node.name)
        fake_bed.run("sh", "-c", f"kill {pid}; true")


def test_backups_in_a_bucket_belong_to_all_nodes(fake_bed: FakeBed, bucket: str) -> None:
    assert "has no backup yet" in fake_bed.run("gnt-backup", "create", "web", expect=1)
    sums = [checksum(fake_bed, "web")]
    ids = [backup(fake_bed, "-n", "node1", "web")]
    write(fake_bed, "web", 6, 1)
    sums.append(checksum(fake_bed, "web"))
    ids.append(backup(fake_bed, "-n", "node2", "web"))
    assert ids[1][1] == "1.0 MiB", "it builds on what the other node has written"
    table = fake_bed.run("gnt-backup", "history", "web").splitlines()
    assert len(table) == 3 and all(ids[row][0] in table[row + 1] for row in range(2)), table
    for number in range(2):
        fake_bed.run("gnt-backup", "restore", "--backup", ids[number][0], "-n", "node2", "web", "copy")
        assert checksum(fake_bed, "copy") == sums[number], number
        fake_bed.run("gnt-instance", "remove", "-f", "copy")
    assert "is proved: the fake guest runs" in fake_bed.run("gnt-backup", "prove", "web")
    fake_bed.run("gnt-backup", "forget", "--keep", "1", "web")
    fake_bed.run("gnt-backup", "restore", "-n", "node2", "web", "copy")
    assert checksum(fake_bed, "copy") == sums[1]
    fake_bed.run("gnt-instance", "remove", "-f", "copy")
    assert fake_bed.run("sh", "-c", f"({LEFT}) | grep -v ^store; true", node="node2") == ""
    fake_bed.run("kill", bucket)
    fake_bed.run("chmod", "644", STORE)
    said = fake_bed.run("gnt-backup", "create", "-n", "node2", "web", expect=1)
    assert "refuses or does not answer" in said and "two" not in said, said
    said = fake_bed.run("gnt-backup", "create", "-n", "node1", "web", expect=1)
    assert f"only root may read it: chmod 600 {STORE}" in said, said
    fake_bed.check()
