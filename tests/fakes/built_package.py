# SPDX-License-Identifier: BSD-2-Clause
"""The Debian package of this tree, made once for all tests that install it."""

import contextlib
import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from ganeti.tools.testbed import guest

SOURCES = ("src/ganeti", "setup", "os", "pyproject.toml", "LICENSE")
"""What `setup/deb` reads of the tree."""


def built_package(into: Path) -> Path:
    """Give a copy of the package in the directory *into*, revision 1, not compressed: it is installed at once.

    It is made in ``.cache/package``, again where a file of the tree has changed since.
    """
    kept = guest.tree() / ".cache/package"
    with _alone(kept.with_name("package.lock")):
        made = kept / _state_of_sources()
        if not made.is_dir():
            shutil.rmtree(kept, ignore_errors=True)
            half = kept / "half"
            words = [sys.executable, str(guest.tree() / "setup/deb"), "--into", str(half), "--uncompressed"]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
            half.rename(made)
        [package] = made.glob("*.deb")
        return Path(shutil.copyfile(package, into / package.name))


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _state_of_sources() -> str:
    """A name for names, sizes and times of all files; what Python makes of them is none."""
    found = hashlib.sha256(sys.version.encode())
    for name in SOURCES:
        top = guest.tree() / name
        for path in sorted([top, *top.rglob("*")]):
            if path.is_file() and "__pycache__" not in path.parts:
                status = path.stat()
                found.update(f"{path}|{status.st_size}|{status.st_mtime_ns}|{status.st_mode}\n".encode())
    return found.hexdigest()[:16]
