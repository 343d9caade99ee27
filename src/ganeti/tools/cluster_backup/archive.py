# SPDX-License-Identifier: BSD-2-Clause
"""The file of a backup: a compressed tar whose first member, the manifest, has the checksum of every other one."""

import hashlib
import io
import os
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, WRONG_INPUT, PrerequisiteError
from ganeti.system.files import sync_directory

MANIFEST = "manifest.json"
CONFIG = "config.data"
FORMAT = 1
_PIECE_BYTES = 1024 * 1024
_LARGEST_MANIFEST_BYTES = 256 * 1024 * 1024


class Member(msgspec.Struct, frozen=True):
    name: str
    """Path below the data directory."""
    size: int
    mode: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    release: str
    cluster: str
    master: str
    time_s: float
    position: tuple[int, int]
    """Of the configuration: epoch and serial number."""
    members: list[Member]


class Content(msgspec.Struct, frozen=True):
    """One file that goes into a backup."""

    name: str
    data: bytes
    mode: int


def write(path: str, contents: Iterable[Content], manifest: Manifest, verify: Callable[[str], Manifest]) -> Manifest:
    """Write a whole archive that only root can read, or none; gives what *verify* does.

    It takes the place of *path* once *verify* has read it back. The directory may be one that others write to.
    Raises `OSError`, and what *verify* raises.
    """
    directory, name = os.path.split(os.path.abspath(path))
    descriptor, unfinished = tempfile.mkstemp(prefix=f".{name}.", suffix=".new", dir=directory)
    try:
        with open(descriptor, "wb") as file:
            with tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as archive:
                _add(archive, Content(MANIFEST, msgspec.json.encode(manifest), 0o600), manifest.time_s)
                for content in contents:
                    _add(archive, content, manifest.time_s)
            file.flush()
            os.fsync(file.fileno())
        verified = verify(unfinished)
        os.rename(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise
    sync_directory(directory)
    return verified


def member_of(content: Content) -> Member:
    return Member(content.name, len(content.data), content.mode, hashlib.sha256(content.data).hexdigest())


def _add(archive: tarfile.TarFile, content: Content, time_s: float) -> None:
    info = tarfile.TarInfo(content.name)
    info.size, info.mode, info.mtime = len(content.data), content.mode, time_s
    archive.addfile(info, io.BytesIO(content.data))


@contextmanager
def reading(path: str) -> Iterator[tuple[Manifest, Iterator[Content]]]:
    """The manifest and, one after the other, every file, each compared with its checksum.

    Raises `PrerequisiteError` for what is no backup, is damaged, or is not whole.
    """
    try:
        with tarfile.open(path, mode="r:gz") as archive:
            manifest = _manifest(archive, path)
            yield manifest, _contents(archive, manifest, path)
    except (tarfile.TarError, zlib.error, EOFError, OSError, *UNREADABLE_JSON) as err:
        if isinstance(err, FileNotFoundError):
            raise PrerequisiteError(
                f"There is no file {path}: name one that gnt-cluster backup made", WRONG_INPUT
            ) from err
        if isinstance(err, IsADirectoryError):
            raise PrerequisiteError(
                f"{path} is a directory: name one of its files, which gnt-cluster backup made", WRONG_INPUT
            ) from err
        if isinstance(err, PermissionError):
            raise PrerequisiteError(f"{path} cannot be read ({err.strerror}): become root", WRONG_INPUT) from err
        raise PrerequisiteError(f"{path} is damaged, or no backup of a cluster: {err}", WRONG_INPUT) from err


def _manifest(archive: tarfile.TarFile, path: str) -> Manifest:
    first = archive.next()
    if first is None or first.name != MANIFEST or first.size > _LARGEST_MANIFEST_BYTES:
        raise PrerequisiteError(f"{path} is no backup of a cluster: it has no {MANIFEST}", WRONG_INPUT)
    file = archive.extractfile(first)
    assert file is not None
    manifest = msgspec.json.decode(file.read(), type=Manifest)
    if manifest.format != FORMAT:
        raise PrerequisiteError(
            f"{path} has format {manifest.format}, this release reads {FORMAT}: use the release {manifest.release}",
            WRONG_INPUT,
        )
    return manifest


def _contents(archive: tarfile.TarFile, manifest: Manifest, path: str) -> Iterator[Content]:
    for wanted in manifest.members:
        found = archive.next()
        if found is None or found.name != wanted.name or not found.isreg():
            raise PrerequisiteError(f"{path} is damaged: {wanted.name} is missing", WRONG_INPUT)
        file = archive.extractfile(found)
        assert file is not None
        content = Content(wanted.name, file.read(), wanted.mode)
        if member_of(content) != wanted:
            raise PrerequisiteError(f"{path} is damaged: {wanted.name} is not what it was", WRONG_INPUT)
        yield content
    if archive.next() is not None:
        raise PrerequisiteError(f"{path} holds more than its manifest says", WRONG_INPUT)
    while archive.fileobj is not None and archive.fileobj.read(_PIECE_BYTES):
        pass  # to the end of the compressed file, which has a checksum of its own


def shown_time(time_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_s))
