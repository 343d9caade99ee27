# SPDX-License-Identifier: BSD-2-Clause
"""`ensure-dirs`: makes the directories of a node and sets the modes of what is in them (protocols, section 1)."""

import argparse
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob

from ganeti.base.paths import Paths

NAME = "ensure-dirs"


@dataclass(frozen=True)
class Rule:
    """What one path, or those of one pattern, must be like."""

    path: str
    mode: int
    is_directory: bool = False
    full_run_only: bool = False
    """Of which there may be very many: looked at on demand only."""


def rules(paths: Paths) -> Iterator[Rule]:
    """Every directory comes before what lies in it."""
    yield from (Rule(path, mode, is_directory=True) for path, mode in _directories(paths))
    yield from (Rule(path, mode) for path, mode in _files(paths))
    queue = paths.queue_dir
    yield from (Rule(f"{queue}/{name}", 0o640) for name in ("serial", "version", "lock"))
    yield Rule(f"{queue}/job-*", 0o640, full_run_only=True)
    yield Rule(f"{queue}/archive/*", 0o750, full_run_only=True)
    yield Rule(f"{queue}/archive/*/job-*", 0o640, full_run_only=True)


def _directories(paths: Paths) -> list[tuple[str, int]]:
    data, run, log = paths.data_dir, paths.run_dir, paths.log_dir
    return [
        (data, 0o755),
        (paths.queue_dir, 0o750),
        (f"{paths.queue_dir}/archive", 0o750),
        (f"{data}/rapi", 0o750),
        (run, 0o775),
        (paths.socket_dir, 0o770),
        (paths.livelock_dir, 0o750),
        (f"{run}/instance-disks", 0o755),
        (f"{run}/instance-reason", 0o755),
        (f"{run}/crypto", 0o700),
        (f"{run}/import-export", 0o755),
        (log, 0o770),
        (paths.os_log_dir, 0o750),
        (f"{log}/cleaner", 0o750),
        (f"{log}/master-cleaner", 0o750),
    ]


def _files(paths: Paths) -> list[tuple[str, int]]:
    data = paths.data_dir
    secret = (paths.server_cert, paths.client_cert, f"{data}/rapi.pem", f"{data}/spice.pem", f"{data}/spice-ca.pem")
    return [
        (paths.config_file, 0o640),
        (paths.config_database, 0o640),
        (paths.cluster_domain_secret, 0o600),
        (paths.hmac_key, 0o440),
        (paths.authority_key, 0o400),
        (paths.authority_cert, 0o444),
        (paths.known_hosts, 0o644),
        *((path, 0o440) for path in secret),
        (f"{data}/rapi/users", 0o640),
        (paths.watcher_pause_file, 0o644),
        (paths.ssconf_file("*"), 0o444),
        (f"{paths.log_dir}/*-daemon.log", 0o600),
    ]


def wrong(paths: Paths, *, full: bool = False) -> Iterator[tuple[str, Rule]]:
    """Every path that is not as its rule says; one that is missing counts if it is a directory."""
    for rule in rules(paths):
        if rule.full_run_only and not full:
            continue
        for path in glob(rule.path) if "*" in rule.path else (rule.path,):
            try:
                found = os.lstat(path)
            except FileNotFoundError:
                if rule.is_directory:
                    yield path, rule
                continue
            if not stat.S_ISLNK(found.st_mode) and stat.S_IMODE(found.st_mode) != rule.mode:
                yield path, rule


def ensure(paths: Paths, *, full: bool = False) -> list[str]:
    """Make what is missing and set what is wrong; gives the paths that were changed. Raises `OSError`."""
    changed = []
    for path, rule in wrong(paths, full=full):
        if rule.is_directory:
            os.makedirs(path, exist_ok=True)
        os.chmod(path, rule.mode)
        changed.append(path)
    return changed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=NAME, description="Make the directories of a node, and set modes of files.")
    parser.add_argument("-f", "--full-run", action="store_true", help="set the modes of all job files, too")
    parser.add_argument("-d", "--debug", action="count", default=0, help="say everything")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say what is changed")
    options = parser.parse_args(arguments)
    try:
        changed = ensure(Paths(os.environ.get("GANETI_ROOTDIR", "").rstrip("/")), full=options.full_run)
    except OSError as err:
        print(f"{NAME}: {err.filename} cannot be set up: {err.strerror}", file=sys.stderr)
        return 1
    if options.debug or options.verbose:
        for path in changed:
            print(f"{NAME}: {path} is set up", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
