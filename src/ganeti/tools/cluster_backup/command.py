# SPDX-License-Identifier: BSD-2-Clause
"""`cluster-backup`: what `gnt-cluster backup` and `gnt-cluster restore` run."""

import argparse
import os
import sys
from collections.abc import Sequence

from ganeti.base.errors import WRONG_INPUT, GanetiError, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.base.terminal import SPEAKER
from ganeti.system.ssconf import ssconf
from ganeti.tools.cluster_backup import making, restoring
from ganeti.tools.cluster_backup.archive import Manifest, shown_time

NAME = "cluster-backup"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    paths = Paths(os.environ.get("GANETI_ROOTDIR", "").rstrip("/"))
    os.umask(0o077)
    try:
        if options.action == "restore":
            return _restore(paths, options)
        return _verify(options) if options.verify else _make(paths, options)
    except (GanetiError, OSError) as err:
        print(f"{os.environ.get(SPEAKER, NAME)}: {err}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=NAME, description="Back up, verify and restore the cluster's own state.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    backup = actions.add_parser("backup", help="write a backup, or verify one")
    backup.add_argument("path", help="file to be written or verified; a directory gets a file of its own name")
    backup.add_argument("--verify", action="store_true", help="only verify the backup that is there")
    backup.add_argument("--keep", type=int, help="remove all but so many backups in the directory")
    restore = actions.add_parser("restore", help="put a backup in place; the daemons must not run")
    restore.add_argument("path")
    restore.add_argument("--yes-do-it", action="store_true", help="replace the cluster that is on this machine")
    return parser


def _make(paths: Paths, options: argparse.Namespace) -> int:
    path = options.path
    if options.keep is not None and (options.keep < 1 or not os.path.isdir(path)):
        raise PrerequisiteError("--keep takes a number from 1 up, and a directory instead of a file", WRONG_INPUT)
    directory = path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        path = f"{path.rstrip('/')}/{making.file_name(ssconf(paths, 'cluster_name'))}"
    elif not os.path.isdir(directory):
        raise PrerequisiteError(f"There is no directory {directory}: make it, or name another place", WRONG_INPUT)
    manifest = making.make(paths, path)
    print(f"{path}: {_described(manifest)}; read back and verified")
    if options.keep is not None:
        for name in making.prune(directory, manifest.cluster, options.keep, os.path.basename(path)):
            print(f"{directory}/{name} is removed")
    return 0


def _verify(options: argparse.Namespace) -> int:
    print(f"{options.path}: {_described(making.verify(options.path))}; every byte is as it was written")
    return 0


def _restore(paths: Paths, options: argparse.Namespace) -> int:
    hostname = os.environ.get("GANETI_HOSTNAME") or os.uname().nodename
    done = restoring.restore(paths, options.path, hostname, over=options.yes_do_it)
    print(f"Restored: {_described(done.manifest)}")
    if done.kept:
        print(f"What was there before is in {done.kept}")
    if done.dropped:
        print(f"Jobs that had not ended are left out: {', '.join(map(str, done.dropped))}")
    print("Next: daemon-util start-all, gnt-cluster verify")
    return 0


def _described(manifest: Manifest) -> str:
    epoch, serial = manifest.position
    return (
        f"cluster {manifest.cluster} as of {shown_time(manifest.time_s)}, configuration {epoch}.{serial}, "
        f"{len(manifest.members)} files"
    )


if __name__ == "__main__":
    sys.exit(main())
