# SPDX-License-Identifier: BSD-2-Clause
"""`ensure-dirs`: makes the directories of a node and sets the modes of what is in them (protocols, section 1)."""

import argparse
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress

from ganeti.base.paths import Paths
from ganeti.system import accounts

NAME = "ensure-dirs"


def ensure(paths: Paths, *, full: bool = False) -> list[str]:
    """Make what is missing and set what is wrong; gives the paths that were changed. Raises `OSError`."""
    changed = []
    owned = accounts.are_used(paths.root)
    for path, rule in accounts.wrong(paths, full=full):
        if rule.is_directory:
            os.makedirs(path, exist_ok=True)
        with suppress(FileNotFoundError):  # a daemon has replaced it meanwhile
            _set(path, rule, owned=owned)
        changed.append(path)
    return changed


def _set(path: str, rule: accounts.Rule, *, owned: bool) -> None:
    """By a descriptor: a daemon that may write in the directory could put a link there in between."""
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            return
        place = f"/proc/self/fd/{descriptor}"
        if owned:
            os.chown(place, *accounts.owner_of(rule))
        os.chmod(place, rule.mode)
    finally:
        os.close(descriptor)


def _end_joining() -> None:
    """What a killed joining has left shall be taken back before a daemon is started with it."""
    from ganeti.base.errors import PrerequisiteError
    from ganeti.bootstrap.attempt import take_back_interrupted
    from ganeti.bootstrap.machine import Machine

    with suppress(PrerequisiteError):  # one is under way: it starts the daemon itself
        take_back_interrupted(Machine.here(), daemons=False)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=NAME, description="Make the directories of a node, and set modes of files.")
    parser.add_argument("-f", "--full-run", action="store_true", help="set the modes of all job files, too")
    parser.add_argument("-d", "--debug", action="count", default=0, help="say everything")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say what is changed")
    options = parser.parse_args(arguments)
    paths = Paths(os.environ.get("GANETI_ROOTDIR", "").rstrip("/"))
    try:
        if any(map(os.path.lexists, paths.joining_records)):  # seldom there, and what reads it is slow to import
            _end_joining()
        changed = ensure(paths, full=options.full_run)
    except OSError as err:
        print(f"{NAME}: {err.filename} cannot be set up: {err.strerror}", file=sys.stderr)
        return 1
    if options.debug or options.verbose:
        for path in changed:
            print(f"{NAME}: {path} is set up", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
