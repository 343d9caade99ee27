# SPDX-License-Identifier: BSD-2-Clause
"""What a node had before it was taken over, kept below its data directory for the way back."""

import hashlib
import os
import shutil
import ssl
import stat
from contextlib import suppress

from ganeti.base.paths import Paths
from ganeti.bootstrap.file_set import FileSet
from ganeti.system.files import sync_directory, write_atomically

DIRECTORY = "taken-over"
_OWN = ("config.sqlite", "noded-epoch.json", "ca.pem", "ca.key")
"""Names, or beginnings of names, of files that only this program has."""
_CHANGED = ("config.data", "server.pem", "client.pem", "ssconf_", "locks.data", "tempres.data")
"""Other names that begin so, but for those of ssconf, are the administrator's: they stay."""
MODES = {"ca.key": 0o400, "ca.pem": 0o444, "server.pem": 0o440, "client.pem": 0o440, "config.data": 0o640}
_CLEAN = ".complete"
_MARK = "ca.pem"
"""A node that has this file is taken over: it is the first one that is written, and the last one that is removed."""


class KeptFiles:
    def __init__(self, paths: Paths) -> None:
        self._data = paths.data_dir
        self.directory = f"{paths.data_dir}/{DIRECTORY}"

    @property
    def are_there(self) -> bool:
        return os.path.exists(f"{self.directory}/{_CLEAN}")

    def save(self) -> None:
        """Copy what will be changed, once; an interrupted copy is begun anew. Raises `OSError`.

        Before the mark is written nothing is changed: a copy that is there without it is of an earlier take-over.
        """
        if self.are_there and os.path.exists(f"{self._data}/{_MARK}"):
            return
        shutil.rmtree(self.directory, ignore_errors=True)
        os.mkdir(self.directory, mode=0o700)
        for name in self._names(_CHANGED):
            _copy(f"{self._data}/{name}", f"{self.directory}/{name}")
        write_atomically(f"{self.directory}/{_CLEAN}", b"")

    def put(self, files: dict[str, str]) -> None:
        """Write files of this program, the mark first; they are readable for whom `ensure-dirs` gives them."""
        written = FileSet()
        for name in sorted(files, key=lambda name: name != _MARK):
            written.put(f"{self._data}/{name}", files[name], MODES.get(name, 0o444))
        for name in ("locks.data", "tempres.data"):
            with suppress(FileNotFoundError):
                os.unlink(f"{self._data}/{name}")

    def restore(self, files: dict[str, str]) -> None:
        """Put back what was kept, *files* in place of what they name, and take away this program's own.

        It may be interrupted at any moment and repeated: each file is replaced as a whole, the converted
        configuration first; what is to go is removed last, and the mark after all else.
        """
        kept = [name for name in os.listdir(self.directory) if name != _CLEAN]
        for name, text in files.items():
            path = f"{self._data}/{name}"
            write_atomically(path, text.encode(), mode=MODES.get(name, 0o444), owner=self._owner(name))
        for name in kept:
            if name not in files:
                _copy(f"{self.directory}/{name}", f"{self._data}/{name}")
        for name in self._names(_CHANGED):
            written = name in _CHANGED or name.startswith("ssconf_")
            if written and name not in files and name not in kept:
                os.unlink(f"{self._data}/{name}")
        for name in sorted(self._names(_OWN), key=lambda name: name == _MARK):
            os.unlink(f"{self._data}/{name}")
        sync_directory(self._data)
        shutil.rmtree(self.directory)

    def _owner(self, name: str) -> tuple[int, int]:
        with suppress(FileNotFoundError):
            status = os.stat(f"{self.directory}/{name}")
            return status.st_uid, status.st_gid
        return 0, 0

    def old_digest(self, *, is_back: bool = False) -> str:
        """The digest of the earlier client certificate, as `candidate_certs` of Ganeti 3.0 has it; empty without one.

        It is kept, or, where the node *is_back*, in its place.
        """
        try:
            with open(f"{self._data if is_back else self.directory}/client.pem", encoding="ascii") as file:
                text = file.read()
        except FileNotFoundError:
            return ""
        begin = text.index("-----BEGIN CERTIFICATE-----")
        digest = hashlib.sha1(ssl.PEM_cert_to_DER_cert(text[begin:]), usedforsecurity=False).hexdigest().upper()
        return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))

    def _names(self, beginnings: tuple[str, ...]) -> list[str]:
        return sorted(
            name
            for name in os.listdir(self._data)
            if name.startswith(beginnings) and os.path.isfile(f"{self._data}/{name}") and ".backup-" not in name
        )


def _copy(source: str, target: str) -> None:
    """Replace *target* by *source* as a whole, with its mode and owner; it is never readable for more than these."""
    with open(source, "rb") as file:
        status = os.fstat(file.fileno())
        mode = stat.S_IMODE(status.st_mode)
        write_atomically(target, file.read(), mode=mode, owner=(status.st_uid, status.st_gid))
