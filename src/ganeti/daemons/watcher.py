# SPDX-License-Identifier: BSD-2-Clause
"""ganeti-watcher: run by cron on every node, once; brings back daemons, and on the master instances (protocols 23)."""

import argparse
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from ganeti.base.errors import EXIT_NOT_MASTER, CommandError, GanetiError, UnitParseError, refusal_of_system
from ganeti.base.paths import Paths
from ganeti.base.units import parse_duration_s
from ganeti.bootstrap.demanded_daemons import demanded
from ganeti.bootstrap.machine import Machine, has_joining
from ganeti.bootstrap.own_mastership import is_master, read_own_mastership
from ganeti.daemons.watcher_asking import ANSWER_WITHIN_S
from ganeti.daemons.watcher_disks import DiskWork
from ganeti.daemons.watcher_group import EXIT_WATCHED
from ganeti.daemons.watcher_lock import WatcherLock
from ganeti.daemons.watcher_master import MasterWork
from ganeti.daemons.watcher_remote_api import RemoteApi
from ganeti.model.node_calls.programs import Phase
from ganeti.node.local_hooks import OwnHooks, scripts_in
from ganeti.system.accounts import LOG_DIR_MODE, make_shared_directory
from ganeti.system.environment import Environment, read_environment
from ganeti.system.files import read_if_there
from ganeti.system.logs import set_up_logs
from ganeti.system.ssconf import ssconf

NAME = "ganeti-watcher"
DEFAULT_JOB_AGE = "6h"
DAEMON_WITHIN_S = 120.0
HOOKS_PATH = "watcher"
_ANSWERING = ("ganeti-confd", "ganeti-mond")
_log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    options = make_parser().parse_args(sys.argv[1:] if arguments is None else arguments)
    try:
        job_age_s = -1 if options.job_age == "all" else parse_duration_s(options.job_age)
    except UnitParseError as err:
        print(f"{NAME}: --job-age: {err}", file=sys.stderr)
        return 1
    environment = read_environment()
    paths = environment.paths
    if not _is_node(paths) and not has_joining(paths):
        return 0  # no node of a cluster, so nothing to watch
    try:
        make_shared_directory(paths.log_dir, LOG_DIR_MODE)
        set_up_logs(NAME, paths.log_dir, debug=bool(options.debug), foreground=bool(options.debug))
        _end_joining(environment)
        if not _is_node(paths):
            return 0
        with WatcherLock(f"{paths.lock_dir}/ganeti-watcher.lock") as lock:
            if not lock.taken:
                _log.info("another watcher is at work: nothing done")
                return 0 if options.nodegroup is None else EXIT_WATCHED
            return _watch(environment, options, job_age_s, lock.release)
    except (GanetiError, OSError) as err:
        sentence = refusal_of_system(err) if isinstance(err, OSError) else str(err)
        _log.error("%s", sentence)
        print(f"{NAME}: {sentence}", file=sys.stderr)
        return 1


def _is_node(paths: Paths) -> bool:
    return os.path.exists(paths.ssconf_file("cluster_name"))


def _end_joining(environment: Environment) -> None:
    """What an interrupted joining has left here goes, or stays for good where this machine is a node."""
    if not has_joining(environment.paths):
        return
    from ganeti.daemons.watcher_joining import end_joining  # seldom needed, and slow to import

    end_joining(Machine(environment.paths.root, environment.hostname, lambda line: _log.info("%s", line)))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=NAME, description="Brings back daemons and instances; runs once.")
    parser.add_argument("-d", "--debug", action="count", default=0, help="log more, and to standard error")
    parser.add_argument("-g", "--nodegroup", metavar="UUID", default=None, help="look after this group only")
    parser.add_argument("-A", "--job-age", default=DEFAULT_JOB_AGE, help="archive older jobs; 'all' for every one")
    parser.add_argument("--ignore-pause", action="store_true", help="work although the watcher is paused")
    parser.add_argument(
        "--daemon-timeout", type=float, default=ANSWER_WITHIN_S, metavar="SECONDS", help="when a daemon counts as hung"
    )
    parser.add_argument(
        "--wait-children", dest="wait", action="store_true", default=True, help="wait for them, as without the option"
    )
    parser.add_argument(
        "--no-wait-children", dest="wait", action="store_false", help="do not wait for the children of the groups"
    )
    parser.add_argument("--no-verify-disks", action="store_true", help="do not look at mirrored disks")
    parser.add_argument(
        "--no-strict", action="store_true", help="look at disks without waiting for jobs that change instances"
    )
    parser.add_argument("--rapi-ip", default=None, metavar="ADDRESS", help="ask the remote API here whether it answers")
    return parser


def _watch(environment: Environment, options: argparse.Namespace, job_age_s: int, let_go: Callable[[], None]) -> int:
    paths = environment.paths
    until = paused_until(paths, time.time())
    if until is not None and not options.ignore_pause:
        _log.info("paused until %s: nothing done", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(until)))
        return 0
    ensure_daemon("ganeti-noded")
    _ensure_answering(environment)
    if options.nodegroup is not None:  # a part of a round, and no round of its own
        return _work(environment, options, job_age_s, let_go)
    _run_hooks(paths, "pre")
    try:
        _maintain_node(paths)
        return _work(environment, options, job_age_s, let_go)
    finally:
        _run_hooks(paths, "post")


def _work(environment: Environment, options: argparse.Namespace, job_age_s: int, let_go: Callable[[], None]) -> int:
    paths = environment.paths
    if not is_master(paths, environment.hostname):
        return _finish_take_over(environment) or 0
    try:
        api = RemoteApi(paths, ensure_daemon, restart_daemon, options.rapi_ip, options.daemon_timeout)
        return MasterWork(paths, ensure_daemon, restart_daemon, options.daemon_timeout, api.ensure).run(
            group=options.nodegroup,
            job_age_s=job_age_s,
            wait=options.wait,
            let_go=let_go,
            ignore_pause=options.ignore_pause,
            disks=None if options.no_verify_disks else partial(DiskWork, paths, strict=not options.no_strict),
        )
    except CommandError as err:
        if (status := _finish_take_over(environment)) is not None:
            return status
        if not isinstance(err, NotMasterError):
            raise
        _log.info("%s: its daemons stay down", err)
        return 0


def _finish_take_over(environment: Environment) -> int | None:
    """Where this node has begun to become the master and was interrupted, go on; None where nothing is to be done."""
    own = read_own_mastership(environment.paths, environment.hostname)
    if not own.may_go_on or _daemon_util("check", "ganeti-wconfd") == 0:
        return None
    from ganeti.bootstrap.failover import finish_take_over

    _log.warning("this node has begun to become the master and was interrupted: it continues now")
    machine = Machine(environment.paths.root, environment.hostname, lambda line: _log.warning("%s", line))
    return finish_take_over(machine, own.promised)


def _maintain_node(paths: Paths) -> None:
    """Where the cluster wants it, end what runs on this node although it was given up."""
    if ssconf(paths, "maintain_node_health") != "True":
        return
    import asyncio  # seldom needed, and slow to import

    from ganeti.daemons.watcher_health import end_guests_if_offline
    from ganeti.noded.access import own_name

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where our starter ignores it, no child can be waited for
    asyncio.run(end_guests_if_offline(paths, own_name(paths)))


def _run_hooks(paths: Paths, phase: Phase) -> None:
    """Run the scripts of `watcher-pre.d` or `watcher-post.d` here; one that fails is told in the log and stops nothing.

    A broken script must not keep instances down: to keep the watcher from work, there is the pause.
    """
    if not scripts_in(paths, HOOKS_PATH, phase):
        return
    import asyncio  # seldom needed, and slow to import

    from ganeti.noded.world import RealNodeWorld

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where our starter ignores it, no child can be waited for
    hooks = OwnHooks(RealNodeWorld(paths, ""), HOOKS_PATH, "", {}, may_refuse=False)
    asyncio.run(hooks.run_pre() if phase == "pre" else hooks.run_post())


def paused_until(paths: Paths, now_s: float) -> float | None:
    """Until when somebody wants the watcher to pause; a pause that is over is forgotten."""
    text = (read_if_there(paths.watcher_pause_file) or b"").decode(errors="replace").strip()
    try:
        until = float(text) if text else None
    except ValueError:
        _log.warning("%s holds no time: it counts for nothing", paths.watcher_pause_file)
        return None
    return until if until is not None and until > now_s else None


class NotMasterError(CommandError):
    """The others have another master, of which the files here do not know yet."""


def ensure_daemon(name: str) -> None:
    """Start a daemon unless it runs; raises `CommandError`, `NotMasterError` where the candidates have another."""
    if _daemon_util("check", name) == 0:
        return
    _log.warning("%s is not running: starting it", name)
    _start(name, "could not be started")


def _ensure_answering(environment: Environment) -> None:
    """Those without which the rest of a round is as good."""
    for name in (*_ANSWERING, *demanded(environment.paths, environment.hostname)):
        try:
            ensure_daemon(name)
        except CommandError as err:
            _log.error("%s", err)


def restart_daemon(name: str) -> None:
    """Raises as `ensure_daemon` does."""
    _log.warning("%s runs, but does not answer: restarting it", name)
    _daemon_util("stop", name)
    _start(name, "could not be started again")


def _start(name: str, failure: str) -> None:
    status = _daemon_util("check-and-start", name)
    if status == EXIT_NOT_MASTER:
        raise NotMasterError("This node is the master no longer")
    if status:
        raise CommandError(f"{name} {failure} (exit status {status}): see its log")


def _daemon_util(*words: str) -> int:
    program = os.path.join(os.path.dirname(os.path.realpath(sys.argv[0])), "daemon-util")
    try:
        return subprocess.run(
            [program, *words], stdin=subprocess.DEVNULL, timeout=DAEMON_WITHIN_S, check=False
        ).returncode
    except FileNotFoundError as err:
        raise CommandError(f"{program} is missing: is the installation complete?") from err
    except subprocess.TimeoutExpired as err:
        raise CommandError(f"daemon-util {' '.join(words)} did not end within {DAEMON_WITHIN_S:g} seconds") from err


if __name__ == "__main__":
    sys.exit(main())
