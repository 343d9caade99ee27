# SPDX-License-Identifier: BSD-2-Clause
"""The directory of exports on this node (protocols, section 12).

What must hold: a directory without the ending of unfinished ones is a whole export, because it is made under that
ending and renamed. Nothing outside is reached: every name is checked, and links that lead out are refused.
"""

import configparser
import os
import stat
import threading
from collections.abc import Mapping

from ganeti.base.errors import BlockDeviceError
from ganeti.base.names import file_name_fault, shown
from ganeti.base.paths import Paths
from ganeti.model.node_calls.exports import UNFINISHED
from ganeti.node.export_room import no_room
from ganeti.node.storage import image_io
from ganeti.system import files

CONFIG = "config.ini"
COPY = ".copy"
"""Ending of the copy of a running guest's disk, which is no part of the export."""


_REPLACING = threading.Lock()
"""Held while an older export is aside."""


class Exports:
    """All methods raise `BlockDeviceError`; those that remove or publish may be repeated."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._top = paths.export_dir

    def directory(self, directory: str) -> str:
        """The path of a directory below that of exports, named absolutely or relative to it."""
        path = os.path.join(self._top, self._paths.under(directory) if directory.startswith("/") else directory)
        real = os.path.realpath(path)
        if os.path.dirname(real) != os.path.realpath(self._top) or file_name_fault(os.path.basename(real)):
            raise BlockDeviceError(
                f"'{shown(directory)}' is no directory of an export: it must lie directly below {self._top}"
            )
        return real

    def dump(self, directory: str, dump: str) -> str:
        if file_name_fault(dump) is not None:
            raise BlockDeviceError(f"'{shown(dump)}' cannot be the name of a dump: it must be a plain file name")
        return f"{self.directory(directory)}/{dump}"

    def copy(self, directory: str, index: int) -> str:
        """Where the copy of a running guest's disk is until the OS has read it."""
        return self.dump(directory, f"disk{index}{COPY}")

    def link(self, directory: str, index: int, device: str) -> None:
        """Let *device* stand for the copy of a disk."""
        path = self.copy(directory, index)
        image_io.unlink(path)
        os.symlink(device, path)

    def source(self, directory: str, index: int) -> str:
        """What the OS reads of a disk: its copy, or the device that stands for it."""
        path = self.copy(directory, index)
        return os.readlink(path) if os.path.islink(path) else path

    def begin(self, directory: str) -> None:
        """Make an unfinished directory, unless it is there."""
        path = self.directory(directory)
        if not os.path.isdir(path):
            os.makedirs(self._top, mode=0o750, exist_ok=True)
            os.makedirs(path, mode=0o750, exist_ok=True)
            image_io.sync(os.path.dirname(self._top))
            image_io.sync(self._top)

    def make_room(self, directory: str, dump: str, size: int) -> None:
        """An empty file of this size in place of the dump."""
        image_io.write_raw(self.require_room(directory, dump, size), size, full=False)

    def dump_sizes(self, directory: str, dumps: list[str]) -> list[int]:
        """In bytes."""
        sizes = []
        for path in (self.dump(directory, dump) for dump in dumps):
            try:
                found = os.lstat(path)
            except FileNotFoundError as err:
                raise BlockDeviceError(
                    f"The export in {os.path.dirname(path)} is damaged: its dump {os.path.basename(path)} is missing. "
                    "Export the instance again"
                ) from err
            if not stat.S_ISREG(found.st_mode):
                raise BlockDeviceError(f"The dump {path} is no plain file: remove it, and export the instance again")
            sizes.append(found.st_size)
        return sizes

    def require_room(self, directory: str, dump: str, size: int) -> str:
        """The path of a dump of *size* bytes that is to come."""
        self.begin(directory)
        path = self.dump(directory, dump)
        free = os.statvfs(os.path.dirname(path))
        if free.f_bavail * free.f_frsize < size:
            raise BlockDeviceError(no_room(path, size))
        return path

    def publish(self, name: str, config: str, dumps: Mapping[str, int]) -> None:
        """Give the unfinished directory of *name*, which must have *dumps*, its name, durably; an older export goes."""
        fresh, final = self.directory(f"{name}{UNFINISHED}"), self.directory(name)
        if self._is_published(name, config):
            self._require_dumps(name, dumps)
            image_io.sync(self._top)
            self.discard(name)
            return
        if not dumps:
            self.begin(f"{name}{UNFINISHED}")
        self._require_dumps(f"{name}{UNFINISHED}", dumps)
        image_io.unlink(f"{fresh}/{CONFIG}")
        for entry in os.listdir(fresh):
            if entry.endswith(COPY):
                image_io.unlink(f"{fresh}/{entry}")
        descriptor = os.open(f"{fresh}/{CONFIG}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(config)
        for entry in sorted(os.listdir(fresh)):
            _sync_file(f"{fresh}/{entry}")
        image_io.sync(fresh)
        self._replace(name, fresh, final)
        image_io.sync(self._top)
        self.discard(name)

    def _replace(self, name: str, fresh: str, final: str) -> None:
        """Whatever happens in between, the older export or the new one is found."""
        if not os.path.isdir(final):
            os.rename(fresh, final)
        elif not files.exchange(fresh, final):
            aside = self._aside(name)
            _remove(aside)
            with _REPLACING:
                os.rename(final, aside)
                os.rename(fresh, final)

    def _aside(self, name: str) -> str:
        """Where the older export is for a moment, on file systems that cannot exchange two directories."""
        return f"{self._top}/.{name}{UNFINISHED}"

    def _bring_back(self, name: str) -> None:
        """The older export gets its name again, if this node died while it had none."""
        aside, final = self._aside(name), f"{self._top}/{name}"
        if os.path.isfile(f"{aside}/{CONFIG}"):
            with _REPLACING:
                if not os.path.lexists(final):
                    os.rename(aside, final)

    def _is_published(self, name: str, config: str) -> bool:
        """Whether an export with that description, in which the time of its making is, has its name already."""
        try:
            with open(f"{self.directory(name)}/{CONFIG}", encoding="utf-8", newline="") as file:
                return file.read() == config
        except (FileNotFoundError, UnicodeDecodeError):
            return False

    def _require_dumps(self, directory: str, dumps: Mapping[str, int]) -> None:
        found = dict(zip(dumps, self.dump_sizes(directory, list(dumps)), strict=True))
        for dump, size in dumps.items():
            if found[dump] != size:
                raise BlockDeviceError(
                    f"The export in {self.directory(directory)} is damaged: its dump {dump} has {found[dump]} bytes, "
                    f"and {size} were written. Export the instance again"
                )

    def discard(self, name: str) -> None:
        """Remove what is unfinished of the export of *name*, and what is left of an older one."""
        path = self.directory(f"{name}{UNFINISHED}")
        self._bring_back(name)
        _remove(self._aside(name))
        _remove(path)

    def remove(self, name: str) -> bool:
        """Whether there was one."""
        path = self.directory(name)
        self._bring_back(name)
        found = os.path.isdir(path)
        _remove(path)
        return found

    def listed(self) -> list[str]:
        try:
            names = os.listdir(self._top)
        except FileNotFoundError:
            return []
        aside = [name for name in names if name.startswith(".") and name.endswith(UNFINISHED)]
        for name in aside:
            self._bring_back(name.removeprefix(".").removesuffix(UNFINISHED))
        names = os.listdir(self._top) if aside else names
        return sorted(
            name for name in names if not name.endswith(UNFINISHED) and os.path.isfile(f"{self._top}/{name}/{CONFIG}")
        )

    def config(self, directory: str) -> str:
        """The text of `config.ini`, which at least has its form."""
        path = f"{self.directory(directory)}/{CONFIG}"
        self._bring_back(os.path.basename(os.path.dirname(path)))
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            configparser.RawConfigParser(strict=False).read_string(text)
        except FileNotFoundError as err:
            raise BlockDeviceError(
                f"There is no export in {os.path.dirname(path)}: see gnt-backup list for those there are"
            ) from err
        except (UnicodeDecodeError, configparser.Error) as err:
            raise BlockDeviceError(f"{path} is damaged: {str(err).splitlines()[0]}. Export the instance again") from err
        return text


def _remove(path: str) -> None:
    """Remove a flat directory; its `config.ini` goes first, so that one that is gone in part is no export."""
    image_io.unlink(f"{path}/{CONFIG}")
    try:
        for entry in os.listdir(path):
            image_io.unlink(f"{path}/{entry}")
        os.rmdir(path)
    except FileNotFoundError:
        return
    image_io.sync(os.path.dirname(path))


def _sync_file(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
