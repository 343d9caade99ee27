# SPDX-License-Identifier: BSD-2-Clause
"""ganeti-cleaner: run every day on each node; removes what nobody has needed for three weeks (protocols 23, cli).

``node`` is for what any node has; ``master`` for the archive of jobs, and does nothing elsewhere. A candidate's copies
of archived jobs are for its ``node``: nobody else removes them.
"""

import argparse
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from ganeti.base.errors import refusal_of_system
from ganeti.base.paths import Paths
from ganeti.system.environment import Environment, read_environment
from ganeti.system.logs import set_up_logs
from ganeti.system.ssconf import ssconf

NAME = "ganeti-cleaner"
KEPT_S = 21 * 86400.0
LOGS_KEPT = 50
_LOG_DIRECTORY = {"node": "cleaner", "master": "master-cleaner"}
_WATCHER_FILE = re.compile(r"watcher\..*(?:data|instance-status)|instance-status\.group-.+")
_JOB = re.compile(r"job-[0-9]+")
_READING = re.compile(r"job-[0-9]+")
_log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=NAME, description="Removes what nobody has needed for three weeks.")
    parser.add_argument("what", choices=("node", "master"), help="what any node has, or the master's archive of jobs")
    what: str = parser.parse_args(sys.argv[1:] if arguments is None else arguments).what
    environment = read_environment()
    paths = environment.paths
    if not os.path.exists(paths.ssconf_file("cluster_name")):
        return 0  # no node of a cluster
    directory = f"{paths.log_dir}/{_LOG_DIRECTORY[what]}"
    try:
        os.makedirs(directory, mode=0o750, exist_ok=True)
        _keep_newest(directory, LOGS_KEPT - 1)
        set_up_logs(f"{_LOG_DIRECTORY[what]}-{time.strftime('%Y-%m-%dT%H_%M_%S')}", directory)
        return _clean(environment, what, time.time() - KEPT_S)
    except OSError as err:
        print(f"{NAME}: {refusal_of_system(err)}", file=sys.stderr)
        return 1


def _clean(environment: Environment, what: str, before_s: float) -> int:
    """Gives the exit status: what cannot be removed is named, and keeps nothing else from being removed."""
    paths = environment.paths
    master = ssconf(paths, "master_node")
    is_master = environment.is_named(master)
    found = _of_node(paths) if what == "node" else iter(())
    jobs = _archived(paths) if is_master == (what == "master") else iter(())
    status = removed = 0
    for path in (*found, *jobs):
        try:
            if os.lstat(path).st_mtime < before_s:
                _remove(path)
                removed += 1
        except FileNotFoundError:
            continue
        except OSError as err:
            _log.error("%s cannot be removed: %s", path, err.strerror)
            print(f"{NAME}: {path} cannot be removed: {err.strerror}", file=sys.stderr)
            status = 1
    _log.info("%d files of before %s are removed", removed, time.strftime("%Y-%m-%d %H:%M", time.localtime(before_s)))
    return status


def _of_node(paths: Paths) -> Iterator[str]:
    """What the watcher told of node groups, what transfers between clusters left behind, files read out of backups."""
    for directory in (paths.data_dir, paths.run_dir):
        yield from (f"{directory}/{name}" for name in _names(directory) if _WATCHER_FILE.fullmatch(name))
    for directory in (f"{paths.run_dir}/crypto", f"{paths.run_dir}/import-export", paths.backup_files_dir):
        yield from (f"{directory}/{name}" for name in _names(directory))
    yield from _of_reading_backups(paths)


def _of_reading_backups(paths: Paths) -> Iterator[str]:
    """What a node that died meanwhile has kept: images of trial guests, backups that never came into their store."""
    scratch = paths.backup_scratch_dir
    yield from (f"{scratch}/{name}" for name in _names(scratch) if _READING.fullmatch(name))
    for uuid in _names(f"{scratch}/store"):
        directory = f"{scratch}/store/{uuid}"
        yield from (f"{directory}/{name}" for name in _names(directory) if name.endswith(".new"))


def _archived(paths: Paths) -> Iterator[str]:
    """A job's file keeps the time of its end when it is archived."""
    archive = f"{paths.queue_dir}/archive"
    for number in _names(archive):
        directory = f"{archive}/{number}"
        yield from (f"{directory}/{name}" for name in _names(directory) if _JOB.fullmatch(name))


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def _keep_newest(directory: str, count: int) -> None:
    """Logs have the time of their beginning in their names."""
    logs = [name for name in _names(directory) if name.endswith(".log")]
    for name in logs[: max(len(logs) - count, 0)]:
        with suppress(FileNotFoundError):
            os.unlink(f"{directory}/{name}")


if __name__ == "__main__":
    sys.exit(main())
