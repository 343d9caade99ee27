# SPDX-License-Identifier: BSD-2-Clause
"""What a simulated disk has kept after a loss of power: what was synced always, of the rest any part that can be."""

import errno
import os
from random import Random

import pytest

from ganeti_simulation.disk import inodes
from ganeti_simulation.disk.disk import Disk
from ganeti_simulation.disk.preparing import make_directories

CREATE = os.O_RDWR | os.O_CREAT


@pytest.fixture
def disk():
    disk = Disk()
    make_directories(disk, "/queue")
    make_directories(disk, "/other")
    disk.sync_all()
    return disk


def sync(disk, path):
    file = disk.open(path, os.O_RDONLY)
    file.fsync()
    file.close()


def put(disk, path, content, synced=True):
    file = disk.open(path, CREATE | os.O_TRUNC)
    file.write(content)
    if synced:
        file.fsync()
    file.close()


def found_after(disk, look, seeds=200):
    """All that *look* can find."""
    found = []
    for seed in range(seeds):
        copy = disk.clone()
        copy.power_loss(Random(seed))
        found.append(look(copy))
    return found


def test_what_was_synced_is_there(disk):
    put(disk, "/queue/job-1", b"content")
    sync(disk, "/queue")
    for found in found_after(disk, lambda copy: copy.content("/queue/job-1")):
        assert found == b"content"


def test_a_name_needs_its_directory_synced(disk):
    put(disk, "/queue/job-1", b"content")
    assert set(found_after(disk, lambda copy: copy.exists("/queue/job-1"))) == {False, True}
    disk.power_loss()
    assert disk.listdir("/queue") == []


def test_a_journal_makes_names_durable_with_any_sync():
    disk = Disk(journal=True)
    disk.mkdir("/queue")
    put(disk, "/queue/job-1", b"content")
    disk.power_loss()
    assert disk.content("/queue/job-1") == b"content"


def test_a_name_may_be_there_before_the_content(disk):
    put(disk, "/queue/job-1", b"content", synced=False)
    sync(disk, "/queue")
    sizes = set(found_after(disk, lambda copy: copy.content("/queue/job-1")))
    assert sizes == {b"", b"content", bytes(7)}


def test_a_replaced_file_is_the_old_or_the_new(disk):
    put(disk, "/queue/job-1", b"old")
    sync(disk, "/queue")
    put(disk, "/queue/.new", b"new")
    disk.rename("/queue/.new", "/queue/job-1")
    found = found_after(disk, lambda copy: (copy.content("/queue/job-1"), tuple(copy.listdir("/queue"))))
    assert set(found) == {(b"old", ("job-1",)), (b"old", ("job-1", ".new")), (b"new", ("job-1",))}
    sync(disk, "/queue")
    disk.power_loss()
    assert disk.content("/queue/job-1") == b"new"


def test_changes_of_a_directory_arrive_in_their_order(disk):
    for number in range(5):
        disk.mkdir(f"/queue/{number}")
    disk.rmdir("/queue/0")
    names = set(found_after(disk, lambda copy: "".join(sorted(copy.listdir("/queue")))))
    assert names == {"", "0", "01", "012", "0123", "01234", "1234"}


def test_a_move_is_in_both_directories_or_in_neither(disk):
    put(disk, "/queue/job-1", b"1")
    sync(disk, "/queue")
    put(disk, "/other/x", b"x")
    disk.rename("/queue/job-1", "/other/job-1")
    for found in found_after(disk, lambda copy: copy.listdir("/queue") + copy.listdir("/other")):
        assert found.count("job-1") == 1
    sync(disk, "/queue")
    disk.power_loss()
    assert disk.listdir("/queue") == []
    assert disk.content("/other/job-1") == b"1"


def test_what_was_moved_into_a_new_directory_is_not_lost(disk):
    put(disk, "/queue/job-1", b"1")
    sync(disk, "/queue")
    disk.mkdir("/queue/archive")
    disk.rename("/queue/job-1", "/queue/archive/job-1")
    for found in found_after(disk, lambda copy: (copy.exists("/queue/job-1"), copy.exists("/queue/archive/job-1"))):
        assert sorted(found) == [False, True]


def test_a_removed_file_may_come_back(disk):
    put(disk, "/queue/job-1", b"1")
    sync(disk, "/queue")
    disk.unlink("/queue/job-1")
    assert set(found_after(disk, lambda copy: copy.exists("/queue/job-1"))) == {False, True}
    disk.power_loss()
    assert disk.stat("/queue/job-1").st_nlink == 1


def test_writes_are_torn_at_sectors(disk):
    put(disk, "/queue/a", b"o" * 2048)
    sync(disk, "/queue")
    file = disk.open("/queue/a", os.O_RDWR)
    file.pwrite(b"n" * 2048, 0)
    found = set(found_after(disk, lambda copy: copy.content("/queue/a")))
    assert {b"o" * 2048, b"n" * 2048} < found
    for content in found:
        assert len(content) == 2048
        assert all(len(set(content[at : at + 512])) == 1 for at in range(0, 2048, 512))
    file.fdatasync()
    assert set(found_after(disk, lambda copy: copy.content("/queue/a"))) == {b"n" * 2048}


def test_an_emptied_file_may_be_the_old_one(disk):
    put(disk, "/queue/a", b"old content")
    sync(disk, "/queue")
    put(disk, "/queue/a", b"new", synced=False)
    found = set(found_after(disk, lambda copy: copy.content("/queue/a")))
    assert found == {b"old content", b"", b"new", b"\0\0\0", b"new content"}


def test_permissions_are_the_old_or_the_new(disk):
    put(disk, "/queue/a", b"")
    sync(disk, "/queue")
    disk.chmod("/queue/a", 0o600)
    assert {mode & 0o777 for mode in found_after(disk, lambda copy: copy.stat("/queue/a").st_mode)} == {0o600, 0o777}
    disk.power_loss()
    assert disk.stat("/queue/a").st_mode & 0o777 == 0o777


def test_everything_may_have_been_in_time(disk):
    put(disk, "/queue/a", b"1", synced=False)
    disk.power_loss(keep_all=True)
    assert disk.content("/queue/a") == b"1"
    disk.power_loss()
    assert disk.content("/queue/a") == b"1"


def test_open_files_are_dead_afterwards(disk):
    file, directory = disk.open("/queue/a", CREATE), disk.open("/queue", os.O_RDONLY)
    sync(disk, "/queue")
    disk.power_loss()
    for call in (lambda: file.write(b"x"), lambda: file.read(1), file.fsync, directory.fsync, file.fstat):
        with pytest.raises(OSError) as caught:
            call()
        assert caught.value.errno == errno.EIO
    file.close()
    disk.open("/queue/a", CREATE).write(b"x")


def test_many_writes_go_to_the_disk_in_time(disk, monkeypatch):
    monkeypatch.setattr(inodes, "WRITES_KEPT", 10)
    file = disk.open("/queue/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    sync(disk, "/queue")
    for number in range(30):
        file.write(b"%02d" % number)
    disk.power_loss()
    content = disk.content("/queue/log")
    assert 40 <= len(content) < 60
    assert (b"".join(b"%02d" % number for number in range(30))).startswith(content)


def test_the_same_seed_finds_the_same(disk):
    for number in range(20):
        put(disk, f"/queue/{number}", bytes([number]) * 3000, synced=number % 2 == 0)
    everything = found_after(
        disk, lambda copy: [(name, copy.content(f"/queue/{name}")) for name in copy.listdir("/queue")]
    )
    assert everything == found_after(
        disk, lambda copy: [(name, copy.content(f"/queue/{name}")) for name in copy.listdir("/queue")]
    )
    assert len({str(found) for found in everything}) > 50


def test_large_files_lose_too(disk):
    file = disk.open("/queue/guest", CREATE)
    file.truncate(1 << 30)
    file.pwrite(b"a" * 8192, 1 << 20)
    file.fsync()
    sync(disk, "/queue")
    file.pwrite(b"b" * 8192, (1 << 20) + 4096)
    found = {copy.count(b"b") for copy in found_after(disk, lambda copy: _part(copy, 1 << 20, 16384), seeds=50)}
    assert {0, 8192} < found
    disk.power_loss()
    assert _part(disk, 1 << 20, 16384) == b"a" * 8192 + bytes(8192)


def _part(disk, offset, count):
    file = disk.open("/queue/guest", os.O_RDONLY)
    try:
        return file.pread(count, offset)
    finally:
        file.close()
