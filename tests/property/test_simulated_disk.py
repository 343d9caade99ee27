# SPDX-License-Identifier: BSD-2-Clause
"""Laws of the simulated disk: it answers as a real directory does, and what a loss of power leaves can be explained."""

import errno
import os
import stat
import tempfile
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.fakes.thoroughness import examples

from ganeti_simulation.disk.disk import Disk

NAMES = ("a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "d/.", "d/../b", "a/x", "d//a", "l", "l/a", "none/a", "d/", "a/")
TARGETS = ("a", "d", "d/e", "../a", "l", "none", "../d/b", ".", "..")
ACCESS = (os.O_RDONLY, os.O_WRONLY, os.O_RDWR)
CREATION = (0, os.O_CREAT, os.O_CREAT | os.O_EXCL, os.O_TRUNC, os.O_CREAT | os.O_APPEND)
FLAGS = [access | more for access in ACCESS for more in CREATION]
FLAGS += [os.O_DIRECTORY, os.O_NOFOLLOW, os.O_NOFOLLOW | os.O_CREAT | os.O_WRONLY]
ON_OPEN_FILES = ("write", "read", "pwrite", "pread", "seek", "ftruncate", "fstat", "close")
paths = st.sampled_from(NAMES)
small = st.integers(0, 20)
large = st.sampled_from((0, 3, 4095, 4096, 5000, 300_000, 1 << 20))
slots = st.integers(0, 2)
steps = st.one_of(
    st.tuples(st.sampled_from(("mkdir", "rmdir", "unlink", "stat", "lstat", "listdir", "readlink")), paths),
    st.tuples(st.sampled_from(("rename", "link")), paths, paths),
    st.tuples(st.just("symlink"), st.sampled_from(TARGETS), st.sampled_from(("l", "d/a", "b", "d/e"))),
    st.tuples(st.just("open"), slots, paths, st.sampled_from(FLAGS)),
    st.tuples(st.just("write"), slots, st.binary(max_size=10)),
    st.tuples(st.just("read"), slots, small),
    st.tuples(st.just("pwrite"), slots, st.binary(max_size=10), large),
    st.tuples(st.just("pread"), slots, small, large),
    st.tuples(st.just("seek"), slots, large, st.sampled_from((os.SEEK_SET, os.SEEK_CUR, os.SEEK_END))),
    st.tuples(st.just("ftruncate"), slots, large),
    st.tuples(st.just("fstat"), slots),
    st.tuples(st.just("close"), slots),
    st.tuples(st.just("truncate"), paths, large),
    st.tuples(st.just("chmod"), paths, st.sampled_from((0o600, 0o755))),
)


class Simulated:
    """The calls on a simulated disk, below /top."""

    def __init__(self):
        self.disk = Disk()
        self.disk.mkdir("/top")
        self.files = {}

    def call(self, name, *arguments):
        disk = self.disk
        if name == "open":
            slot, path, flags = arguments
            file = disk.open(f"/top/{path}", flags, 0o640)
            self.files[slot] = file
            return None
        if name in ON_OPEN_FILES:
            file = self.files[arguments[0]]
            found = getattr(file, {"ftruncate": "truncate"}.get(name, name))(*arguments[1:])
            return summary(found) if name == "fstat" else found
        if name == "symlink":
            return disk.symlink(arguments[0], f"/top/{arguments[1]}")
        whole = [f"/top/{argument}" if isinstance(argument, str) else argument for argument in arguments]
        found = getattr(disk, name)(*whole)
        return summary(found) if name.endswith("stat") else sorted(found) if name == "listdir" else found


class Real:
    """The same calls on a directory of this machine."""

    def __init__(self, top):
        self.top = top
        self.files = {}

    def call(self, name, *arguments):
        if name == "open":
            slot, path, flags = arguments
            descriptor = os.open(f"{self.top}/{path}", flags, 0o640)
            self.close(slot)
            self.files[slot] = descriptor
            return None
        if name in ("write", "read", "pwrite", "pread", "seek", "ftruncate", "fstat"):
            act = getattr(os, {"seek": "lseek"}.get(name, name))
            found = act(self.files[arguments[0]], *arguments[1:])
            return summary(found) if name == "fstat" else found
        if name == "close":
            return self.close(*arguments)
        if name == "symlink":
            return os.symlink(arguments[0], f"{self.top}/{arguments[1]}")
        whole = [f"{self.top}/{argument}" if isinstance(argument, str) else argument for argument in arguments]
        named = {"follow_symlinks": False} if name == "link" else {}
        found = getattr(os, name)(*whole, **named)
        return summary(found) if name.endswith("stat") else sorted(found) if name == "listdir" else found

    def is_directory(self, slot):
        return stat.S_ISDIR(os.fstat(self.files[slot]).st_mode)

    def close(self, slot):
        descriptor = self.files.pop(slot, None)
        if descriptor is not None:
            os.close(descriptor)


def summary(status):
    if stat.S_ISDIR(status.st_mode):
        return (status.st_mode, "directory")
    return (status.st_mode, status.st_size, status.st_nlink)


def answer(world, step):
    try:
        return world.call(*step)
    except OSError as err:
        return type(err), err.errno


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(steps, min_size=1, max_size=40))
@example([("link", "d", "f/")])
def test_every_history_is_one_of_a_real_directory(history):
    umask = os.umask(0)
    try:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as outside:
            top = f"{outside}/top"  # a link to .. leads no further than this
            os.chmod(outside, 0o755)
            os.mkdir(top, 0o777)
            real, simulated = Real(top), Simulated()
            for step in (("mkdir", "d"), ("mkdir", "d/e"), ("open", 0, "a", os.O_RDWR | os.O_CREAT), *history):
                name, *arguments = step
                if name in ON_OPEN_FILES and arguments[0] not in real.files:
                    continue
                if name == "seek" and arguments[2] == os.SEEK_END and real.is_directory(arguments[0]):
                    continue  # the end of a directory is an offset on some file systems, and a mistake on others
                expected = answer(real, step)
                assert answer(simulated, step) == expected, step
                if name == "close":
                    del simulated.files[arguments[0]]
            assert tree(simulated.disk, "/") == real_tree(outside)
            for slot in list(real.files):
                real.close(slot)
    finally:
        os.umask(umask)


def tree(disk, path):
    found = {}
    for name in sorted(disk.listdir(path)):
        whole = os.path.join(path, name)
        mode = disk.lstat(whole).st_mode
        if stat.S_ISDIR(mode):
            found[name] = tree(disk, whole)
        else:
            found[name] = disk.readlink(whole) if stat.S_ISLNK(mode) else disk.content(whole)
    return found


def real_tree(path):
    found = {}
    for name in sorted(os.listdir(path)):
        whole = f"{path}/{name}"
        if os.path.islink(whole):
            found[name] = os.readlink(whole)
        elif os.path.isdir(whole):
            found[name] = real_tree(whole)
        else:
            with open(whole, "rb") as file:
                found[name] = file.read()
    return found


NUMBERS = st.integers(0, 3)
durable_steps = st.one_of(
    st.tuples(st.just("write"), NUMBERS, st.integers(0, 2000), st.integers(1, 1500)),
    st.tuples(st.just("truncate"), NUMBERS, st.integers(0, 2000)),
    st.tuples(st.just("sync"), NUMBERS),
    st.tuples(st.just("rename"), NUMBERS, NUMBERS),
    st.tuples(st.just("link"), NUMBERS, NUMBERS),
    st.tuples(st.just("unlink"), NUMBERS),
    st.tuples(st.just("move"), NUMBERS),
    st.tuples(st.just("sync names"), st.sampled_from(("/x", "/y"))),
)


class History:
    """Does the steps and remembers every state that may be found: names of each directory since its last sync, and
    versions of each sector and each size of each file."""

    def __init__(self):
        self.disk = Disk()
        self.states = {}
        for path in ("/x", "/y"):
            self.disk.mkdir(path)
        self.disk.sync_all()
        self.names = {path: [{}] for path in ("/x", "/y")}
        self.sizes = {}
        self.sectors = {}
        self.count = 0

    def note_names(self):
        for path, known in self.names.items():
            now = {name: self.disk.lstat(f"{path}/{name}").st_ino for name in self.disk.listdir(path)}
            if now != known[-1]:
                known.append(now)

    def note_content(self, path, synced=False):
        number, content = self.disk.stat(path).st_ino, self.disk.content(path)
        if synced:
            self.sizes.pop(number, None)
            self.sectors.pop(number, None)
        self.sizes.setdefault(number, {0} if not synced else set()).add(len(content))
        sectors = self.sectors.setdefault(number, {})
        for at in range(0, 4096, 512):
            versions = sectors.setdefault(at, set() if synced else {bytes(512)})
            versions.add(content[at : at + 512].ljust(512, b"\0"))

    def do(self, name, *arguments):
        try:
            self._do(name, *arguments)
        except OSError as err:
            assert err.errno in (errno.ENOENT, errno.EEXIST)
        self.note_names()

    def _do(self, name, *arguments):
        disk, path = self.disk, f"/x/{arguments[0]}"
        self.count += 1
        if name == "write":
            file = disk.open(path, os.O_RDWR | os.O_CREAT)
            start = arguments[1] - arguments[1] % 512  # whole sectors, so that each has a version of its own
            file.pwrite(bytes([self.count % 255 + 1]) * (arguments[2] + 511 - (arguments[2] + 511) % 512), start)
            self.note_content(path)
        elif name == "truncate":
            disk.truncate(path, arguments[1] - arguments[1] % 512)
            self.note_content(path)
        elif name == "sync":
            disk.open(path, os.O_RDONLY).fsync()
            self.note_content(path, synced=True)
        elif name == "sync names":
            disk.open(arguments[0], os.O_RDONLY).fsync()
            self.names[arguments[0]] = self.names[arguments[0]][-1:]
        elif name == "unlink":
            disk.unlink(path)
        else:
            target = f"/y/{arguments[0]}" if name == "move" else f"/x/{arguments[1]}"
            getattr(disk, "rename" if name == "move" else name)(path, target)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(durable_steps, min_size=1, max_size=30), st.one_of(st.none(), st.integers(0, 1000)))
def test_what_a_loss_of_power_leaves_can_be_explained(history, seed):
    world = History()
    for step in history:
        world.do(*step)
    disk = world.disk
    twin = disk.clone()
    for machine in (disk, twin):
        machine.power_loss(None if seed is None else Random(seed))
    for path, known in world.names.items():
        found = {name: disk.lstat(f"{path}/{name}").st_ino for name in disk.listdir(path)}
        assert found in known
        for name, number in found.items():
            content = disk.content(f"{path}/{name}")
            assert len(content) in world.sizes[number]
            for at in range(0, len(content), 512):
                assert content[at : at + 512] in world.sectors[number][at]
    assert tree(twin, "/x") == tree(disk, "/x")
    assert tree(twin, "/y") == tree(disk, "/y")
    links = [disk.lstat(f"{path}/{name}") for path in world.names for name in disk.listdir(path)]
    for status in links:
        assert status.st_nlink == sum(other.st_ino == status.st_ino for other in links)
