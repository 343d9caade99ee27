# SPDX-License-Identifier: BSD-2-Clause
"""gnt-backup on real daemons: what a disk held is on the disk of the instance that is made from its export."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed, cluster

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
STORAGE = "/srv/ganeti/file-storage"
EXPORTS = "/srv/ganeti/export"


@pytest.fixture(scope="module")
def fake_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = bed.up(tmp_path_factory.mktemp("backup").resolve(), 2, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        found = FakeBed(layout)
        add = "gnt-instance add -t file -o heartbeat+default --no-install --no-start -n node2 -s 16m -B memory=64 web"
        found.run(*add.split())
        write = f"dd if=/dev/urandom of=$(ls {STORAGE}/web/*) bs=1M seek=5 count=2 conv=notrunc"
        found.run("sh", "-c", write, node="node2")
        yield found
    finally:
        bed.down(layout)


def sums(fake_bed: FakeBed, node: str, directory: str) -> list[str]:
    """Checksums of what was written into the disks, or dumps, below a directory: the OS writes names before it."""
    each = "dd if=$1 bs=1M skip=5 count=2 status=none | md5sum"
    found = f"test ! -d {directory} || find {directory} -type f -size +1M -exec sh -c '{each}' sh {{}} ';'"
    return [line.split()[0] for line in fake_bed.run("sh", "-c", found, node=node).splitlines()]


def exports(fake_bed: FakeBed) -> str:
    return fake_bed.run("gnt-backup", "list", "--no-headers", "--separator=:")


def imported(fake_bed: FakeBed, *options: str) -> None:
    """What node1 keeps is on the disk of an instance that is made from it on node2."""
    before = sums(fake_bed, "node2", f"{STORAGE}/web")
    fake_bed.run("gnt-backup", "import", "--src-node=node1", "--src-dir=web", "-n", "node2", *options, "copy")
    assert sums(fake_bed, "node2", f"{STORAGE}/copy") == before == sums(fake_bed, "node1", EXPORTS)
    fake_bed.run("gnt-instance", "remove", "-f", "copy")


def test_a_stopped_instance_comes_back_under_another_name(fake_bed: FakeBed) -> None:
    before = sums(fake_bed, "node2", STORAGE)
    fake_bed.run("gnt-backup", "export", "-n", "node1", "web")
    assert (exports(fake_bed), sums(fake_bed, "node1", EXPORTS)) == ("node1:web\n", before)
    config = fake_bed.run("cat", f"{EXPORTS}/web/config.ini").splitlines()
    assert {"os = heartbeat+default", "disk0_size = 16", "disk_template = file", "maxmem = 64"} <= set(config)
    fake_bed.run("gnt-backup", "import", "--src-dir", "web", "-n", "node2", "--compress=gzip", "copy")
    assert sums(fake_bed, "node2", STORAGE) == before * 2
    fake_bed.run("gnt-instance", "remove", "-f", "copy")
    fake_bed.check()


def test_a_damaged_dump_makes_nothing_and_one_of_ganeti_is_imported(fake_bed: FakeBed) -> None:
    """The export of the test before; `sha256sum` agrees with what it says."""
    fake_bed.run("gnt-backup", "export", "-n", "node1", "web")
    (noted,) = re.findall("disk0.dump = ([0-9a-f]{64})", fake_bed.run("cat", f"{EXPORTS}/web/config.ini"))
    assert fake_bed.run("sha256sum", f"{EXPORTS}/web/disk0.dump").split()[0] == noted
    flip = f"printf '\\377' | dd of={EXPORTS}/web/disk0.dump bs=1 seek=6000000 conv=notrunc"
    fake_bed.run("sh", "-c", f"cp {EXPORTS}/web/disk0.dump /tmp/whole && {flip}")
    imports = ("gnt-backup", "import", "--src-dir", "web", "-n", "node2", "copy")
    if sums(fake_bed, "node1", EXPORTS) == sums(fake_bed, "node2", STORAGE):  # the byte had that value
        fake_bed.run("sh", "-c", flip.replace("377", "376"))
    said = fake_bed.run(*imports, expect=1)
    assert "Checking 1 dump of web on node1" in said
    assert "is damaged: its dump disk0.dump is not what was written, its checksum (SHA-256) is another" in said
    assert "copy" not in fake_bed.run("ls", STORAGE, node="node2").split()
    assert fake_bed.run("gnt-instance", "list", "--no-headers", "-o", "name").split() == ["web"]
    fake_bed.run("sh", "-c", f"mv /tmp/whole {EXPORTS}/web/disk0.dump")
    fake_bed.run("sed", "-i", "/^.dumps/,$d", f"{EXPORTS}/web/config.ini")
    assert "dump" not in fake_bed.run("grep", "-v", "^disk", f"{EXPORTS}/web/config.ini")
    said = fake_bed.run(*imports)
    assert "The export has no checksum of disk0.dump (Ganeti 3.1 notes none)" in said
    assert sums(fake_bed, "node2", f"{STORAGE}/copy") == sums(fake_bed, "node1", EXPORTS)
    fake_bed.run("gnt-instance", "remove", "-f", "copy")
    fake_bed.check()


def test_a_running_one_goes_on_and_only_the_newest_export_is_kept(fake_bed: FakeBed) -> None:
    fake_bed.run("gnt-instance", "startup", "web")
    before = sums(fake_bed, "node1", EXPORTS)
    said = fake_bed.run("gnt-backup", "export", "--noshutdown", "-n", "node1", "web")
    assert "Copying the disks of web, which runs on" in said and "Shutting down" not in said
    assert sums(fake_bed, "node1", EXPORTS) == before
    for node in ("node1", "node2"):
        assert ".copy" not in fake_bed.run("ls", "-R", EXPORTS, node=node, expect=None)
    imported(fake_bed, "--compress=gzip-fast")
    said = fake_bed.run("gnt-backup", "export", "--shutdown-timeout=0", "-n", "node2", "web")
    assert "Removing the older export of web from node1" in said
    assert exports(fake_bed) == "node2:web\n"
    assert fake_bed.guests() == {"web": ["node2"]}
    fake_bed.check()


def test_dumps_are_compressed_by_a_program_of_the_site(fake_bed: FakeBed) -> None:
    said = fake_bed.run("gnt-backup", "export", "--transport-compression=sitezip", "-n", "node1", "web", expect=1)
    assert "Compression 'sitezip' is not enabled in the cluster: use one of none, gzip" in said
    fake_bed.run("gnt-cluster", "modify", "--compression-tools", "gzip,sitezip")
    said = fake_bed.run("gnt-backup", "export", "--transport-compression=sitezip", "-n", "node1", "web", expect=1)
    assert "Compression sitezip cannot be used on node node2: sitezip cannot be started: the program is not" in said
    tool = 'echo "$*" >> /tmp/sitezip.log; case "$1" in -h) ;; -d) exec gzip -d ;; *) exec gzip ;; esac'
    for node in ("node1", "node2"):
        script = f"printf '#!/bin/sh\n%s\n' '{tool}' > /usr/bin/sitezip && chmod +x /usr/bin/sitezip"
        fake_bed.run("sh", "-c", script, node=node)
    options = ("--transport-compression=sitezip", "--shutdown-timeout=0")
    fake_bed.run("gnt-backup", "export", *options, "-n", "node1", "web")
    assert sums(fake_bed, "node1", EXPORTS) == sums(fake_bed, "node2", STORAGE)
    assert "-d" in fake_bed.run("cat", "/tmp/sitezip.log").split()
    imported(fake_bed, "--compress=sitezip")
    fake_bed.check()


def test_a_helper_guest_works_on_the_disks_before_they_are_dumped(fake_bed: FakeBed) -> None:
    """The helper runs in the instance's place; here somebody else ends it."""
    both = ("--noshutdown", "--zero-free-space")
    said = fake_bed.run("gnt-backup", "export", "--zeroing-timeout-fixed=5", "-n", "node1", "web", expect=1)
    assert "A time for zeroing is given without --zero-free-space: add it" in said
    said = fake_bed.run("gnt-backup", "export", "--noshutdown", "--remove-instance", "-n", "node1", "web", expect=1)
    assert "cannot be removed without stopping it" in said
    said = fake_bed.run("gnt-backup", "export", "--zero-free-space", "-n", "node1", "web", expect=1)
    assert "name its image first (gnt-cluster modify --zeroing-image IMAGE)" in said
    fake_bed.run("gnt-cluster", "modify", "--zeroing-image", "/srv/zero.img")
    said = fake_bed.run("gnt-backup", "export", *both, "-n", "node1", "web", expect=1)
    assert "Free space of a running guest cannot be zeroed: leave --noshutdown or --zero-free-space out" in said
    said = fake_bed.run(
        "gnt-backup", "export", "--shutdown-timeout=0", "--zero-free-space", "-n", "node1", "web", expect=1
    )
    assert "The image /srv/zero.img cannot be had: No such file or directory" in said
    assert fake_bed.guests() == {"web": ["node2"]}, "it runs again"
    fake_bed.run("sh", "-c", "echo boot > /srv/zero.img", node="node2")
    options = ("--shutdown-timeout=0", "--zero-free-space", "-n", "node1")
    said = fake_bed.run(
        "gnt-backup", "export", *options, "--zeroing-timeout-fixed=0", "--zeroing-timeout-per-mib=0", "web", expect=1
    )
    assert "The helper guest of web has not ended within 0 seconds and was stopped: give it more time" in said
    job = fake_bed.submit("gnt-backup", "export", *options, "web")
    guest = "/run/ganeti/fake-hypervisor/web"
    helper = f"grep -q helper-images/web.img {guest}"
    fake_bed.wait(lambda: fake_bed.run("sh", "-c", f"{helper}; echo $?", node="node2") == "0\n", "the helper runs")
    fake_bed.run("rm", guest, node="node2")
    fake_bed.wait(lambda: fake_bed.job_status(job) in ("success", "error"), "the export ends")
    assert fake_bed.job_status(job) == "success"
    assert fake_bed.run("ls", "/var/lib/ganeti/helper-images", node="node2") == ""
    assert sums(fake_bed, "node1", EXPORTS) == sums(fake_bed, "node2", STORAGE)
    fake_bed.check()


def test_an_instance_is_made_from_an_image(fake_bed: FakeBed) -> None:
    fake_bed.run("sh", "-c", "dd if=/dev/urandom of=/srv/base.raw bs=1M count=3", node="node2")
    add = (
        "gnt-instance",
        "add",
        "-t",
        "file",
        "--no-start",
        "-n",
        "node2",
        "-B",
        "memory=64",
        "-O",
        "os-image=/srv/base.raw",
    )
    assert "is larger than the disk of 2 MiB" in fake_bed.run(*add, "-s", "2m", "imaged", expect=1)
    fake_bed.run(*add, "-s", "4m", "imaged")
    compare = f"cmp -n 3145728 /srv/base.raw {STORAGE}/imaged/*"
    fake_bed.run("sh", "-c", compare, node="node2")
    fake_bed.run("sh", "-c", f"dd if=/dev/zero of=$(ls {STORAGE}/imaged/*) bs=1M count=2 conv=notrunc", node="node2")
    fake_bed.run("gnt-instance", "reinstall", "-f", "imaged")
    fake_bed.run("sh", "-c", compare, node="node2")
    fake_bed.run("gnt-instance", "remove", "-f", "imaged")
    fake_bed.check()


SCRIPT = """#!/bin/sh
set -eu
step=$(basename "$0")
env | sort >"/tmp/$OS_NAME-$step" && pwd >>"/tmp/$OS_NAME-$step"
echo "$step says hello" >&2
case $step in
create | rename) printf '%-20s' "$step of $INSTANCE_NAME" | dd of="$DISK_0_PATH" conv=notrunc status=none ;;
export) echo 8388608 >&"$EXP_SIZE_FD"; cat "$EXPORT_DEVICE" ;;
import) cat >"$IMPORT_DEVICE" ;;
esac
"""


@pytest.mark.parametrize(("version", "variant"), [(10, ""), (15, "large")])
def test_a_definition_of_an_older_interface_is_run_as_it_expects(fake_bed: FakeBed, version: int, variant: str) -> None:
    """Create, reinstall, rename, export and import, each with its environment and its streams."""
    os_name = f"old{version}"
    directory = f"/usr/local/lib/ganeti/os/{os_name}"
    for node in ("node1", "node2"):
        fake_bed.run("mkdir", "-p", directory, node=node)
        for step in ("create", "import", "export", "rename"):
            place = f"printf '%s' \"$1\" >{directory}/{step} && chmod 755 {directory}/{step}"
            fake_bed.run("sh", "-c", place, "sh", SCRIPT, node=node)
        fake_bed.run("sh", "-c", f"echo {version} >{directory}/ganeti_api_version", node=node)
        if variant:
            fake_bed.run("sh", "-c", f"printf 'small\\nlarge\\n' >{directory}/variants.list", node=node)
    full = f"{os_name}+{variant}" if variant else os_name

    def told(step: str) -> set[str]:
        """What the script was told, and where it ran."""
        lines = set(fake_bed.run("cat", f"/tmp/{os_name}-{step}", node="node2").splitlines())
        fake_bed.run("rm", f"/tmp/{os_name}-{step}", node="node2")
        common = {f"OS_API_VERSION={version}", f"OS_NAME={os_name}", f"OS_VARIANT={variant}", f"INSTANCE_OS={full}"}
        assert {*common, "DISK_COUNT=1", "DISK_0_SIZE=8", "NIC_COUNT=0", "INSTANCE_BE_vcpus=1", directory} <= lines
        assert not [line for line in lines if line.startswith(("OSP_", "GANETI_", "HOME="))]
        return lines

    def begin(name: str) -> str:
        return fake_bed.run("sh", "-c", f"head -c 20 {STORAGE}/{name}/*", node="node2").rstrip()

    add = ("gnt-instance", "add", "-t", "file", "-s", "8m", "--no-nics", "--no-start", "-n", "node2")
    if variant:
        assert f"needs a variant: write {os_name}+VARIANT" in fake_bed.run(*add, "-o", os_name, "first", expect=1)
    else:
        assert "has no variants: leave '+x' away" in fake_bed.run(*add, "-o", f"{os_name}+x", "first", expect=1)
    assert "create says hello" in fake_bed.run(*add, "-o", full, "first")
    assert "INSTANCE_NAME=first" in told("create")
    fake_bed.run("gnt-instance", "reinstall", "-f", "first")
    assert "INSTANCE_REINSTALL=1" in told("create")
    fake_bed.run("gnt-instance", "rename", "first", "second")
    assert {"INSTANCE_NAME=second", "OLD_INSTANCE_NAME=first"} <= told("rename")
    assert begin("second") == "rename of second"
    fake_bed.run("gnt-backup", "export", "-n", "node1", "second")
    assert "EXPORT_INDEX=0" in told("export")
    fake_bed.run("gnt-backup", "import", "--src-node", "node1", "--src-dir", "second", "-n", "node2", "third")
    assert {"INSTANCE_NAME=third", "IMPORT_INDEX=0"} <= told("import")
    assert begin("third") == "rename of third", "a new name is told to what was imported"
    for name in ("second", "third"):
        fake_bed.run("gnt-instance", "remove", "-f", name)
    fake_bed.run("gnt-backup", "remove", "second")


HELD = """#!/bin/sh
set -eu
hold() {
  touch /srv/begun
  while [ -e /srv/hold ]; do sleep 0.1; done
}
case $(basename "$0") in
export) head -c 1048576 "$EXPORT_DEVICE"; hold; tail -c +1048577 "$EXPORT_DEVICE" ;;
import) { head -c 1048576; hold; cat; } >"$IMPORT_DEVICE" ;;
esac
"""
"""An OS whose scripts stay in the middle."""
EXPORT = "gnt-backup export --long-sleep --shutdown-timeout=0 -n node1 web"
IMPORT = "gnt-backup import --src-node node1 --src-dir web -n node2 copy"
EXPORT_HERE = "gnt-backup export --shutdown-timeout=0 -n node2 web"
EXPORT_AFTER = "gnt-backup export --shutdown-timeout=0 -n node1 web"
IMPORT_HERE = "gnt-backup import --src-node node1 --src-dir web -n node1 copy"


@pytest.fixture(scope="module")
def held(fake_bed: FakeBed) -> FakeBed:
    """The instance runs, and has an export on the other node."""
    directory = "/usr/local/lib/ganeti/os/held"
    for node in ("node1", "node2"):
        fake_bed.run("mkdir", "-p", directory, node=node)
        for step in ("create", "import", "export", "rename"):
            place = f"printf '%s' \"$1\" >{directory}/{step} && chmod 755 {directory}/{step}"
            fake_bed.run("sh", "-c", place, "sh", HELD, node=node)
        fake_bed.run("sh", "-c", f"echo 10 >{directory}/ganeti_api_version", node=node)
    fake_bed.run("gnt-instance", "startup", "web", expect=None)
    fake_bed.run("gnt-instance", "modify", "--os-type", "held", "web")
    fake_bed.run("gnt-backup", "export", "--shutdown-timeout=0", "-n", "node1", "web")
    return fake_bed


def leftovers(fake_bed: FakeBed) -> str:
    """Unfinished exports, transfers, their keys and programs, on both nodes."""
    look = (
        "ls -d /srv/ganeti/export/*.new /run/ganeti/import-expor[t]/* /run/ganeti/crypto/* 2>/dev/null; "
        "ps -eo args | grep -E '[i]mport-export|[o]s/held/'; true"
    )
    return "".join(fake_bed.run("sh", "-c", look, node=node) for node in ("node1", "node2"))


@pytest.mark.parametrize("command", [EXPORT, IMPORT], ids=["export", "import"])
@pytest.mark.parametrize(
    ("node", "words"),
    [
        ("node1", "gnt-job cancel --force $JOB; true"),
        ("node1", "gnt-job cancel --kill --yes-do-it $JOB"),
        ("node1", "kill -9 $(cat /run/ganeti/import-export/*/status | grep -o '\"pid\":[0-9]*' | cut -d: -f2)"),
        ("node2", "kill -9 $(cat /run/ganeti/import-export/*/status | grep -o '\"pid\":[0-9]*' | cut -d: -f2)"),
    ],
    ids=["cancelled", "the job", "a process of node1", "a process of node2"],
)
def test_what_is_interrupted_in_the_middle_leaves_all_as_before(
    held: FakeBed, command: str, node: str, words: str
) -> None:
    before = (sums(held, "node1", EXPORTS), held.guests(), exports(held))
    assert len(before[0]) == 1 and before[1] == {"web": ["node2"]}
    held.run("sh", "-c", "rm -f /srv/begun; touch /srv/hold", node="node2")
    job = held.submit(*command.split())
    begun = "ls /srv/begun 2>/dev/null; true"
    held.wait(lambda: held.run("sh", "-c", begun, node="node2") != "", "the script of the OS is in the middle")
    held.run("sh", "-c", words.replace("$JOB", str(job)), node=node)
    held.wait(lambda: held.job_status(job) in ("error", "canceled", "success"), "the job ends")
    held.run("rm", "/srv/hold", node="node2")
    assert held.job_status(job) != "success"
    held.wait(lambda: leftovers(held) == "", f"nothing is left: {leftovers(held)}")
    assert (sums(held, "node1", EXPORTS), held.guests(), exports(held)) == before
    assert held.run("gnt-instance", "list", "--no-headers", "-o", "name") == "web\n"
    held.check()


@pytest.mark.parametrize(
    ("command", "node"),
    [(EXPORT_HERE, "node2"), (EXPORT_AFTER, "node2"), (IMPORT_HERE, "node1")],
    ids=["export on its node", "dumps first", "import on its node"],
)
def test_a_cancelled_job_ends_the_script_before_it_undoes_the_rest(held: FakeBed, command: str, node: str) -> None:
    """Else the guest would run while the script has its disk; that the script would stay is seen before it may go."""
    before = (sums(held, "node1", EXPORTS), held.guests(), exports(held))
    assert len(before[0]) == 1 and before[1] == {"web": ["node2"]}
    held.run("sh", "-c", "rm -f /srv/begun; touch /srv/hold", node=node)
    job = held.submit(*command.split())
    begun = "ls /srv/begun 2>/dev/null; true"
    held.wait(lambda: held.run("sh", "-c", begun, node=node) != "", "the script of the OS is in the middle")
    held.run("sh", "-c", f"gnt-job cancel --force {job}; true")
    held.wait(lambda: held.job_status(job) in ("error", "canceled", "success"), "the job ends")
    assert (held.job_status(job), leftovers(held)) == ("canceled", "")
    held.run("rm", "/srv/hold", node=node)
    assert (sums(held, "node1", EXPORTS), held.guests(), exports(held)) == before
    assert held.run("gnt-instance", "list", "--no-headers", "-o", "name") == "web\n"
    held.check()


def test_it_may_go_and_come_back_and_its_export_be_removed(fake_bed: FakeBed) -> None:
    before = sums(fake_bed, "node2", STORAGE)
    fake_bed.run("gnt-backup", "export", "--remove-instance", "--shutdown-timeout=0", "-n", "node2", "web")
    assert exports(fake_bed) == "node2:web\n"
    assert fake_bed.run("gnt-instance", "list", "--no-headers") == ""
    fake_bed.run("gnt-backup", "import", "--src-node", "node2", "-n", "node1", "web")
    assert sums(fake_bed, "node1", STORAGE) == before
    fake_bed.run("gnt-backup", "remove", "web")
    assert exports(fake_bed) == ""
    said = fake_bed.run("gnt-backup", "import", "-n", "node1", "web2", expect=1)
    assert "No node keeps an export 'web2': see gnt-backup list" in said
    assert fake_bed.run("sh", "-c", f"ls -A {EXPORTS}") == ""
    fake_bed.check()
