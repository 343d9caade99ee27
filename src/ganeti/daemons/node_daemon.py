# SPDX-License-Identifier: BSD-2-Clause
"""What the small daemons of a node share: the port and address they listen on, and the cluster's key."""

import argparse
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from ganeti.base.errors import PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.system.daemonize import Options, daemon_parser, parse_options
from ganeti.system.files import plain_file


def options_of(name: str, port: int, arguments: Sequence[str] | None) -> Options | None:
    """The options of the daemon's start; None after saying what is wrong with them."""
    options = parse_options(name, sys.argv[1:] if arguments is None else arguments, parser_of(name, port))
    if options.port is not None and not 0 <= options.port <= 65535:
        print(f"{name}: Port {options.port} is not between 0 and 65535", file=sys.stderr)
        return None
    return options


def parser_of(name: str, port: int) -> argparse.ArgumentParser:
    parser = daemon_parser(name)
    parser.set_defaults(port=port)
    return parser


def cluster_key(paths: Paths) -> bytes:
    """The content of ``hmac.key``; raises `PrerequisiteError`."""
    try:
        with open(paths.hmac_key, "rb", opener=plain_file) as file:
            content = file.read()
    except OSError as err:
        raise PrerequisiteError(f"{paths.hmac_key} cannot be read: {err.strerror}; it comes with the cluster") from err
    if not content.strip():
        raise PrerequisiteError(f"{paths.hmac_key} is empty: have it sent by 'gnt-cluster redist-conf' on the master")
    return content


class ClusterKey:
    """The content of ``hmac.key`` as it is now; read again when the file is another one."""

    def __init__(self, paths: Paths, read: Callable[[Paths], bytes] | None = None) -> None:
        """*read* is for a daemon that may not read the file: it may wait long, so later reads are in a thread, while
        the known key holds. Raises `PrerequisiteError`.
        """
        self._paths = paths
        self._asks = read is not None
        self._read = read or cluster_key
        self._asking: threading.Thread | None = None
        self._seen = self._state()
        self._content = self._read(paths)

    def __call__(self) -> bytes:
        state = self._state()
        if state is None or state == self._seen:
            return self._content
        if not self._asks:
            with suppress(PrerequisiteError):  # the one known stays
                self._content = self._read(self._paths)
            self._seen = state
        elif self._asking is None or not self._asking.is_alive():
            self._asking = threading.Thread(target=self._ask, args=(state,), name="cluster-key", daemon=True)
            self._asking.start()
        return self._content

    def _ask(self, state: tuple[int, int]) -> None:
        """What fails is tried again as the key is next wanted."""
        with suppress(PrerequisiteError):
            self._content = self._read(self._paths)
            self._seen = state

    def _state(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._paths.hmac_key)
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns
