# SPDX-License-Identifier: BSD-2-Clause
"""`cfgupgrade`: brings a `config.data` of Ganeti 2.7 to 3.1 to the layout of 3.1, or one of 3.1 back to 3.0."""

import argparse
import os
import sys
import time
import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, ConfigurationError, GanetiError, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.bootstrap.foreign_daemons import check_no_daemon
from ganeti.master.config import versions
from ganeti.master.config.invariants import verify_all
from ganeti.model.configuration import Configuration
from ganeti.node.catalogue import build_catalogue
from ganeti.system.files import write_atomically
from ganeti.system.ssconf import ssconf

NAME = "cfgupgrade"
_MODE = 0o640


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    paths = Paths(os.environ.get("GANETI_ROOTDIR", "").rstrip("/"))
    path = f"{options.path}/config.data" if options.path else paths.config_file
    try:
        if not options.path and not options.dry_run:
            check_no_daemon(paths)
            _check_master(paths, ignore=options.ignore_hostname)
            _check_sure(path, options)
        if options.confdir and not os.path.isdir(options.confdir):
            raise PrerequisiteError(f"--confdir: there is no directory {options.confdir}", WRONG_INPUT)
        if options.verbose or options.debug:
            print(f"{NAME}: converting {path}", file=sys.stderr)
        for sentence in run(path, down=options.downgrade, dry_run=options.dry_run, verify=not options.no_verify):
            print(f"{NAME}: {sentence}", file=sys.stderr)
    except (GanetiError, OSError) as err:
        print(f"{NAME}: {err}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=NAME, description="Convert a config.data between versions of Ganeti.")
    parser.add_argument("--dry-run", action="store_true", help="say what would be changed, and change nothing")
    parser.add_argument("-f", "--force", action="store_true", help="do not ask whether this is meant")
    parser.add_argument("-d", "--debug", action="count", default=0, help="say everything")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say what is being done")
    parser.add_argument("--ignore-hostname", action="store_true", help="convert it on another node than the master")
    parser.add_argument("--path", help="directory that config.data lies in (/var/lib/ganeti)")
    parser.add_argument("--confdir", help="directory of the settings (/etc/ganeti); nothing in it is changed")
    parser.add_argument("--no-verify", action="store_true", help="do not check the configuration that comes out")
    parser.add_argument("--downgrade", action="store_true", help="make 3.0 of 3.1")
    return parser


def run(path: str, *, down: bool, dry_run: bool, verify: bool) -> list[str]:
    """Convert the file at *path*, its old content kept beside it; gives what was changed. Raises `GanetiError`."""
    data = read(path)
    remarks = convert(data, down=down)
    if verify and not down:
        problems = verify_all(Configuration.from_plain(data))
        if problems:
            raise ConfigurationError(f"The configuration would not be consistent: {'; '.join(problems)}")
    if dry_run:
        return [*remarks, "nothing was changed because of --dry-run"]
    if not remarks:
        return [f"{path} is as it should be already"]
    kept = f"{path}.backup-{time.strftime('%Y%m%d-%H%M%S')}"
    with open(path, "rb") as file:
        write_atomically(kept, file.read(), mode=0o600)
    status = os.stat(path)
    write_atomically(path, msgspec.json.encode(data), mode=_MODE)
    os.chown(path, status.st_uid, status.st_gid)
    return [*remarks, f"the file of before is kept as {kept}"]


def convert(data: dict[str, Any], *, down: bool) -> list[str]:
    if down:
        return versions.downgrade(data, build_catalogue())
    return versions.upgrade(data, lambda: str(uuid.uuid4()))


def read(path: str) -> dict[str, Any]:
    """Give the object in the file at *path*; raises `ConfigurationError`."""
    try:
        with open(path, "rb") as file:
            data = msgspec.json.decode(file.read())
    except FileNotFoundError as err:
        raise ConfigurationError(f"There is no {path}: name the directory of config.data with --path") from err
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise ConfigurationError(f"{path} is damaged: {err}. Convert a backup of it") from err
    if not isinstance(data, dict):
        raise ConfigurationError(f"{path} is no config.data: it holds no object")
    return data


def _check_master(paths: Paths, *, ignore: bool) -> None:
    if not os.path.exists(paths.ssconf_file("master_node")):
        return
    master = ssconf(paths, "master_node")
    hostname = os.environ.get("GANETI_HOSTNAME") or os.uname().nodename
    if not ignore and master.partition(".")[0] != hostname.partition(".")[0]:
        raise PrerequisiteError(
            f"The master is {master}: run {NAME} there, or add --ignore-hostname if this is really meant", WRONG_STATE
        )


def _check_sure(path: str, options: argparse.Namespace) -> None:
    if options.force:
        return
    if not sys.stdin.isatty():
        raise PrerequisiteError(f"{path} is converted only with --force where nobody can be asked", WRONG_STATE)
    print(f"Convert {path} {'down' if options.downgrade else 'up'}? Its content is kept beside it. y/[n]: ", end="")
    if input().strip().lower() not in ("y", "yes"):
        raise PrerequisiteError("Nothing was changed", WRONG_STATE)


if __name__ == "__main__":
    sys.exit(main())
