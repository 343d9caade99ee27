# SPDX-License-Identifier: BSD-2-Clause
"""The simulated disk as a process sees it: names, contents, locks, leases, mounts, room and faults."""

import errno
import fcntl
import os
import stat
from random import Random

import pytest

from ganeti_simulation.disk.devices import NullDevice
from ganeti_simulation.disk.disk import VOLATILE, WRITTEN_THROUGH, Disk
from ganeti_simulation.disk.preparing import (
    make_directories,
    mount,
    provide,
    provide_device,
    provide_standard_devices,
    put_file,
)
from ganeti_simulation.disk.rot import flip_bit_at, flip_some_bit

CREATE = os.O_RDWR | os.O_CREAT


@pytest.fixture
def disk():
    disk = Disk()
    make_directories(disk, "/var/lib/ganeti")
    disk.sync_all()
    return disk


def code_of(call, *arguments, **named):
    with pytest.raises(OSError) as caught:
        call(*arguments, **named)
    assert caught.value.strerror == os.strerror(caught.value.errno)
    return caught.value.errno


def test_a_file_gives_back_what_was_written(disk):
    file = disk.open("/var/lib/ganeti/a", CREATE, 0o640)
    assert file.write(b"hello") == 5
    assert file.write(memoryview(b" world")) == 6
    assert file.seek(0) == 0
    assert file.read(100) == b"hello world"
    assert file.pwrite(b"J", 0) == 1
    assert file.pread(3, 0) == b"Jel"
    assert file.seek(-2, os.SEEK_END) == 9
    assert file.read(5) == b"ld"
    file.truncate(2)
    assert disk.content("/var/lib/ganeti/a") == b"Je"
    assert disk.stat("/var/lib/ganeti/a").st_mode == stat.S_IFREG | 0o640


def test_append_goes_to_the_end(disk):
    first = disk.open("/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    second = disk.open("/log", os.O_WRONLY | os.O_APPEND)
    first.write(b"1")
    second.write(b"2")
    first.write(b"3")
    assert disk.content("/log") == b"123"


def test_a_file_lives_until_it_is_closed(disk):
    file = disk.open("/a", CREATE)
    file.write(b"x")
    disk.unlink("/a")
    assert file.pread(1, 0) == b"x"
    assert file.fstat().st_nlink == 0
    assert code_of(disk.open, "/a", os.O_RDONLY) == errno.ENOENT


def test_status_names_the_file_and_its_time(disk):
    disk.clock = lambda: 1_700_000_000.25
    put_file(disk, "/a", b"abc")
    disk.link("/a", "/b")
    first, second = disk.stat("/a"), disk.stat("/b")
    assert os.path.samestat(first, second)
    assert (first.st_size, first.st_nlink, first.st_blocks) == (3, 2, 8)
    assert first.st_mtime_ns == 1_700_000_000_250_000_000
    assert first.st_mtime == 1_700_000_000.25
    put_file(disk, "/c", b"")
    assert not os.path.samestat(first, disk.stat("/c"))


def test_large_files_take_memory_for_what_is_in_them(disk):
    file = disk.open("/guest", CREATE)
    file.truncate(1 << 30)
    file.pwrite(b"end", (1 << 30) - 2)
    file.pwrite(b"x" * 5000, 4090)
    assert file.fstat().st_size == (1 << 30) + 1
    assert file.fstat().st_blocks < 50
    assert file.pread(10, (1 << 30) - 4) == b"\0\0end"
    assert file.pread(5002, 4089) == b"\0" + b"x" * 5000 + b"\0"
    file.truncate(4100)
    assert file.pread(100, 4089) == b"\0" + b"x" * 10
    file.truncate(4110)
    assert file.pread(100, 4098) == b"xx" + bytes(10)


def test_rename_replaces_and_tells_watchers(disk):
    told = []
    handle = disk.watch("/var/lib/ganeti", told.append)
    put_file(disk, "/var/lib/ganeti/.new", b"2")
    put_file(disk, "/var/lib/ganeti/name", b"1")
    disk.rename("/var/lib/ganeti/.new", "/var/lib/ganeti/name")
    assert disk.content("/var/lib/ganeti/name") == b"2"
    assert disk.listdir("/var/lib/ganeti") == ["name"]
    disk.unwatch(handle)
    disk.rename("/var/lib/ganeti/name", "/var/lib/ganeti/other")
    assert told == ["name"]


def test_links_are_followed_as_linux_does(disk):
    put_file(disk, "/var/lib/ganeti/a", b"a")
    disk.symlink("lib", "/var/link")
    disk.symlink("/var/link/ganeti/../ganeti/a", "/short")
    assert disk.content("/short") == b"a"
    assert disk.readlink("/short").startswith("/var")
    assert stat.S_ISLNK(disk.lstat("/short").st_mode)
    assert code_of(disk.open, "/short", os.O_RDONLY | os.O_NOFOLLOW) == errno.ELOOP
    disk.symlink("/loop", "/loop")
    assert code_of(disk.stat, "/loop") == errno.ELOOP
    disk.symlink("/made", "/dangling")
    disk.open("/dangling", CREATE).close()
    assert disk.isfile("/made")


@pytest.mark.parametrize(
    ("method", "arguments", "code"),
    [
        ("stat", ("/none/x",), errno.ENOENT),
        ("stat", ("/file/x",), errno.ENOTDIR),
        ("stat", ("/file/",), errno.ENOTDIR),
        ("stat", ("",), errno.ENOENT),
        ("stat", ("/" + "n" * 256,), errno.ENAMETOOLONG),
        ("mkdir", ("/var",), errno.EEXIST),
        ("rmdir", ("/var",), errno.ENOTEMPTY),
        ("rmdir", ("/file",), errno.ENOTDIR),
        ("rmdir", ("/",), errno.EBUSY),
        ("unlink", ("/var",), errno.EISDIR),
        ("readlink", ("/file",), errno.EINVAL),
        ("listdir", ("/file",), errno.ENOTDIR),
        ("rename", ("/var", "/var/lib/x"), errno.EINVAL),
        ("rename", ("/var", "/file"), errno.ENOTDIR),
        ("rename", ("/file", "/var"), errno.EISDIR),
        ("link", ("/var", "/x"), errno.EPERM),
        ("link", ("/file", "/var"), errno.EEXIST),
        ("open", ("/var", os.O_WRONLY), errno.EISDIR),
        ("open", ("/file", CREATE | os.O_EXCL), errno.EEXIST),
        ("open", ("/file", os.O_DIRECTORY), errno.ENOTDIR),
    ],
)
def test_errors_are_those_of_linux(disk, method, arguments, code):
    put_file(disk, "/file", b"")
    assert code_of(getattr(disk, method), *arguments) == code


def test_a_closed_or_wrongly_opened_file_refuses(disk):
    put_file(disk, "/a", b"a")
    file = disk.open("/a", os.O_RDONLY)
    assert code_of(file.write, b"x") == errno.EBADF
    file.close()
    file.close()
    assert code_of(file.read, 1) == errno.EBADF
    assert code_of(disk.open("/a", os.O_WRONLY).read, 1) == errno.EBADF


def test_locks_belong_to_the_open_file(disk):
    first, second = disk.open("/lock", CREATE), disk.open("/lock", CREATE)
    assert first.flock(fcntl.LOCK_EX | fcntl.LOCK_NB)
    with pytest.raises(BlockingIOError):
        second.flock(fcntl.LOCK_SH | fcntl.LOCK_NB)
    assert second.flock(fcntl.LOCK_SH) is False
    freed = []
    second.when_given_back(lambda: freed.append(True))
    assert first.flock(fcntl.LOCK_SH)
    assert freed == [True]
    assert second.flock(fcntl.LOCK_SH)
    assert first.flock(fcntl.LOCK_EX) is False
    assert second.flock(fcntl.LOCK_EX)  # the first lost its lock when it asked for more
    second.close()
    assert first.flock(fcntl.LOCK_EX)


def test_a_lease_keeps_others_from_opening(disk):
    writer = disk.open("/spare", CREATE)
    reader = disk.open("/spare", os.O_RDONLY)
    assert code_of(writer.set_lease, fcntl.F_WRLCK) == errno.EAGAIN
    reader.close()
    writer.set_lease(fcntl.F_WRLCK)
    assert code_of(disk.open, "/spare", os.O_RDONLY) == errno.EAGAIN
    assert disk.lease_holder("/spare") is writer
    writer.set_lease(fcntl.F_UNLCK)
    disk.open("/spare", os.O_RDONLY).close()


def test_sockets_have_names(disk):
    disk.mknod_socket("/var/lib/ganeti/luxi", "token")
    assert stat.S_ISSOCK(disk.stat("/var/lib/ganeti/luxi").st_mode)
    assert disk.socket_at("/var/lib/ganeti/luxi") == "token"
    assert code_of(disk.open, "/var/lib/ganeti/luxi", os.O_RDWR) == errno.ENXIO
    assert code_of(disk.mknod_socket, "/var/lib/ganeti/luxi", "other") == errno.EEXIST
    put_file(disk, "/file", b"")
    assert code_of(disk.socket_at, "/file") == errno.ECONNREFUSED


def test_mounted_file_systems_are_on_the_way(disk):
    shared = Disk(durability=WRITTEN_THROUGH, device=9)
    other = Disk()
    for machine in (disk, other):
        mount(machine, "/srv/shared", shared)
    put_file(disk, "/srv/shared/a", b"1")
    assert other.content("/srv/shared/a") == b"1"
    assert other.listdir("/srv/shared/../shared") == ["a"]
    put_file(disk, "/a", b"")
    assert code_of(disk.rename, "/a", "/srv/shared/b") == errno.EXDEV
    assert code_of(disk.link, "/a", "/srv/shared/b") == errno.EXDEV
    assert code_of(disk.rmdir, "/srv/shared") == errno.EBUSY
    assert disk.stat("/srv/shared/a").st_dev == 9
    disk.power_loss()
    assert disk.content("/srv/shared/a") == b"1"


def test_what_is_in_memory_is_gone_after_a_loss_of_power(disk):
    mount(disk, "/run", Disk(durability=VOLATILE, device=2))
    put_file(disk, "/run/ganeti/pid", b"1")
    disk.power_loss(keep_all=True)
    assert disk.listdir("/run") == []


def test_files_are_made_up_and_devices_are_there(disk):
    counter = iter(range(10))
    took = []
    provide(disk, "/proc/sys/kernel/random/boot_id", lambda: f"{next(counter)}\n".encode())
    provide(disk, "/proc/self/oom_score_adj", lambda: b"0", took.append)
    provide_standard_devices(disk, Random(1))
    provide_device(disk, "/dev/other", NullDevice())
    file = disk.open("/proc/sys/kernel/random/boot_id", os.O_RDONLY)
    assert (file.read(1), file.read(9), file.read(9)) == (b"0", b"\n", b"")
    assert disk.open("/proc/sys/kernel/random/boot_id", os.O_RDONLY).read(9) == b"1\n"
    assert code_of(disk.open("/proc/sys/kernel/random/boot_id", os.O_RDWR).write, b"x") == errno.EACCES
    disk.open("/proc/self/oom_score_adj", os.O_WRONLY).write(b"-5")
    assert took == [b"-5"]
    null = disk.open("/dev/null", os.O_RDWR)
    assert (null.write(b"x"), null.read(3)) == (1, b"")
    assert disk.open("/dev/zero", os.O_RDWR).read(3) == b"\0\0\0"
    assert len(disk.open("/dev/urandom", os.O_RDONLY).read(16)) == 16
    assert stat.S_ISCHR(disk.stat("/dev/null").st_mode)


def test_a_full_disk_takes_what_fits(disk):
    put_file(disk, "/a", bytes(4000))
    disk.capacity_bytes = (sum(inode.blocks() for inode in disk.inodes()) + 3) * 4096
    free = disk.statvfs("/").f_bavail
    assert free == disk.free_blocks() == 3
    file = disk.open("/a", os.O_WRONLY | os.O_APPEND)
    assert file.write(bytes(100_000)) == 96 + free * 4096
    assert code_of(file.write, b"x") == errno.ENOSPC
    assert code_of(disk.mkdir, "/b") == errno.ENOSPC
    assert file.pwrite(b"", 0) == 0
    rewriting = disk.open("/a", os.O_RDWR)
    assert rewriting.pwrite(b"y", 0) == 1
    assert code_of(rewriting.fallocate, 0, 1 << 20) == errno.ENOSPC
    disk.unlink("/a")
    disk.mkdir("/b")


def test_room_that_was_asked_for_is_there(disk):
    file = disk.open("/image", CREATE)
    disk.capacity_bytes = 1 << 20
    file.fallocate(0, 512 << 10)
    assert file.fstat().st_size == 512 << 10
    assert disk.statvfs("/").f_bavail < 128
    assert code_of(disk.open("/b", CREATE).fallocate, 0, 600 << 10) == errno.ENOSPC


def test_calls_fail_as_often_as_asked(disk):
    disk.faults.fail("write", errno.EIO, 2, "/var/lib/ganeti/queue")
    disk.faults.fail("fsync", errno.EIO, path_prefix="/b")
    file = disk.open("/var/lib/ganeti/queue-1", CREATE)
    other = disk.open("/b", CREATE)
    assert other.write(b"x") == 1
    assert code_of(file.write, b"x") == errno.EIO
    assert code_of(file.write, b"x") == errno.EIO
    assert file.write(b"x") == 1
    assert code_of(other.fsync) == errno.EIO
    other.fsync()
    disk.faults.fail("read", errno.EIO, -1)
    for _ in range(3):
        assert code_of(file.pread, 1, 0) == errno.EIO
    disk.faults.clear()
    assert file.pread(1, 0) == b"x"


def test_rot_changes_one_bit(disk):
    put_file(disk, "/a", bytes(1000))
    flip_some_bit(disk, "/a", Random(3))
    assert sum(byte.bit_count() for byte in disk.content("/a")) == 1
    disk.power_loss()
    assert sum(byte.bit_count() for byte in disk.content("/a")) == 1


def test_rot_falls_where_it_is_wanted(disk):
    put_file(disk, "/a", b"one two two")
    assert flip_bit_at(disk, "/a", b"two", 0x80)
    assert disk.content("/a") == b"one \xf4wo two"
    disk.power_loss()
    assert disk.content("/a") == b"one \xf4wo two"
    assert not flip_bit_at(disk, "/a", b"three", 1)


def test_a_copy_goes_its_own_way(disk):
    put_file(disk, "/a", b"1")
    disk.link("/a", "/b")
    disk.open("/a", os.O_WRONLY).flock(fcntl.LOCK_EX)
    copy = disk.clone()
    put_file(copy, "/a", b"2")
    assert copy.content("/b") == b"2"
    assert disk.content("/a") == b"1"
    disk.open("/b", os.O_RDWR).pwrite(b"3", 0)
    assert copy.content("/a") == b"2"
    assert copy.open("/b", os.O_RDWR).flock(fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert copy.stat("/a").st_ino == disk.stat("/a").st_ino


def test_a_copy_can_lose_what_the_disk_could_lose(disk):
    put_file(disk, "/a", b"1")
    disk.open("/a", os.O_WRONLY).write(b"2")
    disk.mkdir("/new")
    disk.open("/new/x", CREATE).close()
    disk.rename("/a", "/new/a")
    copy = disk.clone()
    assert copy.content("/new/a") == b"2"
    copy.power_loss()
    assert copy.listdir("/") == ["var", "a"]
    assert copy.content("/a") == b"1"
    assert disk.content("/new/a") == b"2"


def test_copies_share_what_the_disks_share(disk):
    shared, other, copies = Disk(durability=WRITTEN_THROUGH, device=9), Disk(), {}
    for machine in (disk, other):
        mount(machine, "/srv/shared", shared)
    first, second = disk.clone(copies), other.clone(copies)
    put_file(first, "/srv/shared/a", b"1")
    assert second.content("/srv/shared/a") == b"1"
    assert disk.listdir("/srv/shared") == []
