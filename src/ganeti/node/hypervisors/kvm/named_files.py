# SPDX-License-Identifier: BSD-2-Clause
"""What else the parameters of a KVM guest name on its node: QEMU itself, passwords, huge pages, further arguments.

The submitter of a job names them, and root opens them: see `ganeti.node.hypervisors.guest_files`.
"""

import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from ganeti.base.errors import HypervisorError
from ganeti.base.paths import Paths
from ganeti.node.hypervisors import guest_files
from ganeti.system.files import read_if_there

PASSWORDS = ("vnc_password_file", "spice_password_file")
_PROGRAM = re.compile(r"(qemu|kvm)[A-Za-z0-9._+-]*")
_PAGES = ("/dev/hugepages", "/dev/shm", "/run/hugepages")  # noqa: S108
_HARMLESS = ("/dev/urandom", "/dev/random", "/dev/hwrng", "/dev/null", "/dev/kvm", "/dev/net/tun", "/dev/vhost-net")
LISTED = "kvm-extra-paths"
"""File of the settings' directory: what root of this node gives guests besides, a path on each line."""
_SHARED = ("/", "/var", "/srv", "/srv/ganeti", "/var/lib", "/var/tmp", "/tmp", "/home")  # noqa: S108
_WITHDRAWN = (
    *("sandbox", "runas", "run-with", "chroot", "readconfig", "plugin", "daemonize", "pidfile"),
    *("qmp", "qmp-pretty", "mon", "monitor"),
)
"""Options by which a guest would lose what protects the node from it, or which only this program gives."""
_RUNS = re.compile(r"\b(script|downscript|helper|guestfwd|smb)=(?!no(,|$))|\bexec:")
"""What makes QEMU start a program."""
_MONITOR = re.compile(r"(^|[=,])mon:")
"""A monitor beside a serial line: a client that connects can open files that were never checked."""
_NAMES = re.compile(r"(^|,)(id|if|bus|drive|netdev|chardev|node-name|name|media|format)=[^,/]*")
"""Values that are never a path, though a directory of that name may be below the root directory."""
_BETWEEN = re.compile(r"[=,:;\"'{}\[\]\s]+")


def check(paths: Paths, hvparams: Mapping[str, Any]) -> None:
    """Raises `HypervisorError`."""
    for name in PASSWORDS:
        guest_files.check_password(paths, name, hvparams.get(name) or "")
    check_pages(paths, hvparams.get("mem_path") or "")
    check_arguments(paths, hvparams.get("kvm_extra") or "")


def check_pages(paths: Paths, path: str) -> None:
    if not path or any(guest_files.is_below(os.path.realpath(path), paths.under(tree)) for tree in _PAGES):
        return
    if (reason := _directory_fault(paths, path)) is not None:
        raise HypervisorError(f"mem_path cannot be {path}: {reason}; mount huge pages at {_PAGES[0]}")


def check_arguments(paths: Paths, text: str) -> None:
    """Files that further arguments name are under the rule of guests' files; none starts a program."""
    try:
        words = shlex.split(text)
    except ValueError as err:
        raise HypervisorError(f"kvm_extra cannot be read as in a shell: {err}") from err
    for word in words:
        if word.startswith("-") and word.lstrip("-") in _WITHDRAWN:
            raise HypervisorError(f"kvm_extra cannot have {word}: it is this program that says so to QEMU")
        if found := _RUNS.search(word):
            raise HypervisorError(f"kvm_extra cannot have '{found[0]}': it would start a program on the node")
        if _MONITOR.search(word):
            raise HypervisorError("kvm_extra cannot have a monitor ('mon:'): it opens any file QEMU may open")
        for path in _paths(word):
            if (reason := _directory_fault(paths, path)) is not None and not _listed(paths, path):
                listed = f"{paths.sysconf_dir}/{LISTED}"
                raise HypervisorError(f"kvm_extra cannot name {path}: {reason}; or list it in {listed} of the node")


def program_fault(path: str) -> str | None:
    """Say why *path* cannot be the QEMU that root starts, or None; one that is not there is not judged."""
    real = os.path.realpath(path)
    if not all(_PROGRAM.fullmatch(os.path.basename(each)) for each in (path, real)):
        return "the name of QEMU, and of what it is a link to, begins with qemu or kvm"
    for each in (real, os.path.dirname(real)):
        try:
            found = os.stat(each)
        except OSError:
            return None
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"others than root may write {each}"
    return None


def _paths(word: str) -> Iterator[str]:
    """Everything in it that may be a path; QEMU looks for relative ones from the root directory."""
    for form in {word, unquote(word)}:
        if "\\" in form:
            raise HypervisorError("kvm_extra cannot have a backslash in a word: write the character itself")
        for piece in _BETWEEN.split(form):
            if "/" in piece:
                yield os.path.join("/", piece)
        for piece in _BETWEEN.split(_NAMES.sub(",", form)):
            if piece in (".", "..") or (piece and "/" not in piece and os.path.lexists(f"/{piece}")):
                yield f"/{piece}"


def _directory_fault(paths: Paths, path: str) -> str | None:
    """The same as of a file; and no directory that holds what belongs to others."""
    real = os.path.realpath(path)
    if real in {os.path.realpath(paths.under(each)) for each in _SHARED} and os.path.isdir(real):
        return f"a guest gets no directory that others use, as {real}"
    return guest_files.fault(paths, path)


def _listed(paths: Paths, path: str) -> bool:
    lines = (read_if_there(f"{paths.sysconf_dir}/{LISTED}") or b"").decode("utf-8", "replace").splitlines()
    trees = [line.strip() for line in lines if line.startswith("/")]
    real = os.path.realpath(path)
    return real in map(paths.under, _HARMLESS) or any(guest_files.is_below(real, tree) for tree in trees)
