# SPDX-License-Identifier: BSD-2-Clause
"""What a node had before it was taken over, kept below its data directory for the way back."""

import hashlib
import os
import shutil
import ssl
from contextlib import suppress

from ganeti.base.paths import Paths
from ganeti.bootstrap.machine import FileSet
from ganeti.system.files import sync_directory

DIRECTORY = "taken-over"
_OWN = ("config.sqlite", "noded-epoch.json", "ca.pem", "ca.key")
"""Names, or beginnings of names, of files that only this program has."""
_CHANGED = ("config.data", "server.pem", "client.pem", "ssconf_", "locks.data", "tempres.data")
MODES = {"ca.key": 0o400, "ca.pem": 0o444, "server.pem": 0o440, "client.pem": 0o440, "config.data": 0o640}
_CLEAN = ".complete"


class KeptFiles:
    def __init__(self, paths: Paths) -> None:
        self._data = paths.data_dir
        self.directory = f"{paths.data_dir}/{DIRECTORY}"

    @property
    def are_there(self) -> bool:
        return os.path.exists(f"{self.directory}/{_CLEAN}")

    def save(self) -> None:
        """Copy what will be changed, once; one that was begun and not completed is begun anew. Raises `OSError`."""
        if self.are_there:
            return
        shutil.rmtree(self.directory, ignore_errors=True)
        os.mkdir(self.directory, mode=0o700)
        for name in self._names(_CHANGED):
            shutil.copy2(f"{self._data}/{name}", f"{self.directory}/{name}")
            status = os.stat(f"{self._data}/{name}")
            os.chown(f"{self.directory}/{name}", status.st_uid, status.st_gid)
        sync_directory(self.directory)
        with open(f"{self.directory}/{_CLEAN}", "w") as file:
            os.fsync(file.fileno())

    def put(self, files: dict[str, str]) -> None:
        """Write files of this program; they are readable for whom `ensure-dirs` gives them."""
        written = FileSet()
        for name, text in files.items():
            written.put(f"{self._data}/{name}", text, MODES.get(name, 0o444))
        for name in ("locks.data", "tempres.data"):
            with suppress(FileNotFoundError):
                os.unlink(f"{self._data}/{name}")

    def restore(self, files: dict[str, str]) -> None:
        """Put back what was kept, *files* in place of what they name, and take away this program's own."""
        for name in self._names(_CHANGED):
            os.unlink(f"{self._data}/{name}")
        for name in os.listdir(self.directory):
            if name == _CLEAN:
                continue
            source, target = f"{self.directory}/{name}", f"{self._data}/{name}"
            shutil.copy2(source, target)
            status = os.stat(source)
            os.chown(target, status.st_uid, status.st_gid)
        for name, text in files.items():
            owner = self._owner(name)
            FileSet().put(f"{self._data}/{name}", text, MODES.get(name, 0o444))
            os.chown(f"{self._data}/{name}", *owner)
        for name in self._names(_OWN):
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
