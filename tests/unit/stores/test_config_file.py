# SPDX-License-Identifier: BSD-2-Clause
"""`config.data` on disk: always one whole state, whoever reads it and whatever fails."""

import errno
import json
import os
import shutil

import pytest
from tests.fakes.wconfd import fast_directory

from ganeti.model.objects import KINDS
from ganeti.stores import config_file
from ganeti.stores.config_file import ConfigFile

ENTRIES = {
    **{kind: {} for kind in KINDS},
    "cluster": {"cluster": b'{"name":"c"}'},
    "instances": {f"i{number}": b'{"name":"web%d"}' % number for number in range(20)},
}


def header(serial: int) -> bytes:
    return b'{"version":3010000,"serial_no":%d}' % serial


class Writing:
    """A file that has been written twice, so that from now on it is patched."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.file = ConfigFile(path)
        self.file.begin(header(0), ENTRIES, "0f")
        self.file.write()
        self.serial = 0
        self.change("i1", b'{"name":"first"}')

    def change(self, uuid: str, data: bytes | None) -> int:
        """Publish a change; gives the number of the file that has the name now."""
        self.serial += 1
        self.file.update(header(self.serial), [(("instances", uuid), data)], f"{self.serial:064x}")
        self.file.write()
        return os.stat(self.path).st_ino

    def read(self) -> dict:
        with open(self.path, "rb") as stream:
            return json.loads(stream.read())


@pytest.fixture
def writing():
    with fast_directory() as directory:
        writing = Writing(str(directory / "config.data"))
        yield writing
        writing.file.close()


def test_two_files_take_turns(writing):
    seen = [writing.change("i2", b'{"name":"%d"}' % number) for number in range(6)]
    assert len(set(seen)) == 2 and seen[::2] == seen[:1] * 3
    assert writing.read()["instances"]["i2"] == {"name": "5"}
    assert writing.read()["serial_no"] == 7
    assert os.stat(writing.path).st_mode & 0o777 == 0o640


def test_only_what_changed_is_written(writing, monkeypatch):
    written = []
    write_at = config_file._write_at
    monkeypatch.setattr(
        config_file, "_write_at", lambda fd, data, at: written.append(len(data)) or write_at(fd, data, at)
    )
    writing.change("i3", b'{"name":"x"}')
    assert len(written) == 3, "the header, and the two objects that this file had missed"
    assert sum(written) < 400 < os.path.getsize(writing.path)


def test_a_reader_never_sees_its_file_change(writing):
    with open(writing.path, "rb") as reader:
        before = reader.read()
        files = {writing.change("i4", b'{"name":"%d"}' % number) for number in range(4)}
        reader.seek(0)
        assert reader.read() == before
        assert os.fstat(reader.fileno()).st_ino not in files, "while it is open, another file takes its turn"
    assert writing.read()["instances"]["i4"] == {"name": "3"}


def test_a_file_that_somebody_linked_or_wrote_to_is_left_alone(writing):
    copy = f"{writing.path}.backup"
    os.link(writing.path, copy)
    with open(copy, "rb") as reader:
        before = reader.read()
    writing.change("i4", b'{"name":"a"}')
    writing.change("i4", b'{"name":"b"}')
    with open(copy, "rb") as reader:
        assert reader.read() == before
    with open(writing.path, "r+b") as meddler:
        meddler.seek(before.index(b"web9"))
        meddler.write(b"else")
    os.utime(writing.path)
    writing.change("i4", b'{"name":"c"}')
    writing.change("i4", b'{"name":"d"}')
    assert writing.read()["instances"]["i4"] == {"name": "d"}
    assert writing.read()["instances"]["i9"] == {"name": "web9"}


def test_without_leases_everything_is_written_anew(writing, monkeypatch):
    fcntl = config_file.fcntl.fcntl

    def refuse(descriptor, command, *rest):
        if command == config_file.fcntl.F_SETLEASE:
            raise OSError(errno.EINVAL, "Invalid argument")
        return fcntl(descriptor, command, *rest)

    monkeypatch.setattr(config_file.fcntl, "fcntl", refuse)
    with open(writing.path, "rb") as reader:
        before = reader.read()
        for number in range(3):
            writing.change("i5", b'{"name":"%d"}' % number)
            assert writing.read()["instances"]["i5"] == {"name": str(number)}
        reader.seek(0)
        assert reader.read() == before


@pytest.mark.parametrize("fails_at", range(5))
@pytest.mark.parametrize("data", [b'{"name":"x"}', b'{"name":"%s"}' % (b"x" * 5000)], ids=["patched", "laid out anew"])
def test_a_full_disk_leaves_the_old_file_whole_and_is_tried_again(writing, monkeypatch, fails_at, data):
    before = writing.read()
    calls = iter(range(1000))

    def full(work):
        def attempt(*arguments):
            if next(calls) == fails_at:
                raise OSError(errno.ENOSPC, "No space left on device")
            return work(*arguments)

        return attempt

    with monkeypatch.context() as patch:
        patch.setattr(config_file, "_write_at", full(config_file._write_at))
        patch.setattr(config_file.os, "link", full(os.link))
        patch.setattr(config_file.os, "rename", full(os.rename))
        failed = False
        try:
            writing.change("i6", data)
        except OSError:
            failed = True
            assert writing.read() == before
    if failed:
        writing.file.write()
    assert writing.read()["instances"]["i6"] == json.loads(data)
    for number in range(3):
        writing.change("i7", b'{"name":"%d"}' % number)
        assert writing.read()["instances"] == before["instances"] | {
            "i6": json.loads(data),
            "i7": {"name": str(number)},
        }


def test_the_end_leaves_one_file(writing):
    directory = os.path.dirname(writing.path)
    assert len(os.listdir(directory)) == 3
    left = f"{directory}/.config.data.0"
    kept = f"{directory}/.config.data.kept"
    shutil.copy(left, kept)
    writing.file.close()
    shutil.move(kept, left)
    ConfigFile(writing.path)
    assert os.listdir(directory) == ["config.data"], "what a killed writer left goes too"
    assert os.stat(writing.path).st_nlink == 1


def test_files_of_others_beside_it_are_left_alone():
    """An editor keeps its own beside the file it edits."""
    with fast_directory() as directory:
        others = [directory / ".config.data.swp", directory / ".config.data.orig", directory / ".config.data.d"]
        for path in others[:2]:
            path.write_text("precious")
        others[2].mkdir()
        for left in (".config.data.0", ".config.data.1", ".config.data.0.next", ".config.data.x1y2.new"):
            (directory / left).write_text("left by a killed writer")
        ConfigFile(str(directory / "config.data")).close()
        assert sorted(directory.iterdir()) == sorted(others)


def test_a_cluster_that_shrinks_has_a_file_that_shrinks(writing):
    largest = os.path.getsize(writing.path)
    for number in range(400):
        writing.change(f"many{number}", b'{"name":"%d","notes":"%s"}' % (number, b"x" * 200))
    full = os.path.getsize(writing.path)
    for number in range(400):
        writing.change(f"many{number}", None)
    assert os.path.getsize(writing.path) < full / 4 and full > 5 * largest
    assert len(writing.read()["instances"]) == 20
