# SPDX-License-Identifier: BSD-2-Clause
"""Daemons on this machine, of another Ganeti or of any, that work on the directories of a cluster."""

import contextlib
import os
import socket
import struct
from collections.abc import Iterator

from ganeti.base.errors import WRONG_STATE, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.system.livelock import is_alive

DAEMONS = ("noded", "confd", "wconfd", "luxid", "rapi", "mond", "metad", "kvmd", "maintd")
"""Those of 3.1; each has a pid file of its name."""
SOCKETS = ("ganeti-master", "ganeti-query", "ganeti-wconfd")
_CONNECT_WITHIN_S = 1.0
_CREDENTIALS = struct.Struct("3i")


def check_no_foreign_daemon(paths: Paths, own_programs: str) -> None:
    """Raise `PrerequisiteError` naming the first daemon that was not started from the directory *own_programs*.

    It would read this cluster's files, answer in its name, or be ended as if it were a daemon of this installation.
    """
    for file, pid in _running(paths):
        program = _program(pid)
        if os.path.dirname(os.path.realpath(program)) != os.path.realpath(own_programs):
            raise PrerequisiteError(
                f"{program or 'A process'} (process {pid}), of another Ganeti on this machine, runs on the directories "
                f"of this cluster ({file}): stop it, and keep it from starting again or remove its package",
                WRONG_STATE,
            )


def check_no_daemon(paths: Paths) -> None:
    """Raise `PrerequisiteError` naming the first daemon of any Ganeti that works on these directories."""
    for file, pid in _running(paths):
        raise PrerequisiteError(
            f"{_program(pid) or 'A process'} (process {pid}) runs on the directories of this cluster ({file}): "
            "stop all of its daemons first (daemon-util stop-all; of Debian: systemctl stop ganeti.target)",
            WRONG_STATE,
        )


def _running(paths: Paths) -> Iterator[tuple[str, int]]:
    for daemon in DAEMONS:
        path = paths.pid_file(f"ganeti-{daemon}")
        pid = _pid_in(path)
        if pid is not None and (is_alive(path) or f"ganeti-{daemon}" in os.path.basename(_program(pid))):
            yield path, pid
    for name in SOCKETS:
        path = f"{paths.socket_dir}/{name}"
        pid = _listener(path)
        if pid is not None:
            yield path, pid


def _pid_in(path: str) -> int | None:
    """The process that a pid file names, if it is alive."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read(32).strip()
    except OSError:
        return None
    return int(text) if text.isdigit() and os.path.exists(f"/proc/{text}/cmdline") else None


def _listener(path: str) -> int | None:
    """The process that listens on a socket; None where nobody does."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_WITHIN_S)
        probe.connect(path)
        credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return int(_CREDENTIALS.unpack(credentials)[0])
    return None


def _program(pid: int) -> str:
    """What the process runs: of an interpreter, the first word that is a daemon's name, else its own file."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().decode(errors="replace").split("\0")
    except OSError:
        return ""
    named = [word for word in words if os.path.basename(word).startswith("ganeti-")]
    return named[0] if named else words[0]
