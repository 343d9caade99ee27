# SPDX-License-Identifier: BSD-2-Clause
"""Ending what only a master may run, on a node that is master no longer: its daemons, its jobs, the cluster's address.

LuxiD goes first, or it would start successors for the jobs that are ended here; they are undone by the new master. A
daemon is known by the lock on its pid file, a job's process by the lock it holds on its own lock file: a process id
alone could be another process's by now.
"""

import asyncio
import contextlib
import logging
import os
import signal
import time
from dataclasses import dataclass

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, GanetiError
from ganeti.base.paths import Paths
from ganeti.model.node_calls.mastership import MasterAddress, NodeDeactivateMasterIp
from ganeti.model.objects import Cluster
from ganeti.node.actions.master_ip import node_deactivate_master_ip
from ganeti.node.state import NodeState
from ganeti.noded.world import RealNodeWorld
from ganeti.system.daemonize import DEPOSED
from ganeti.system.files import read_if_there
from ganeti.system.pid_files import living_process
from ganeti.system.ssconf import ssconf

MASTER_DAEMONS = ("ganeti-maintd", "ganeti-luxid", "ganeti-wconfd")
"""In the order in which they are ended. A ganeti-rapi stays: where it is not on the master, it passes requests on."""
TERMINATION_GRACE_S = 5.0
KILL_WITHIN_S = 2.0
_POLL_S = 0.01
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ended:
    """What was running, and does no more."""

    daemons: tuple[str, ...]
    jobs: int


async def end_master_daemons(paths: Paths, grace_s: float = TERMINATION_GRACE_S, *, besides: str = "") -> Ended:
    """End the daemons of the master on this machine, the processes of its jobs, and give the cluster's address up.

    *besides* is the daemon that does so, which ends by itself. Harmless where nothing of it is. Raises nothing: what
    cannot be ended is in the log.
    """
    ended = []
    jobs = 0
    for daemon in MASTER_DAEMONS:
        if daemon == "ganeti-wconfd":
            jobs = await end_jobs(paths)
        if daemon != besides and await end_daemon(paths, daemon, grace_s):
            ended.append(daemon)
    await give_up_address(paths)
    if ended or jobs:
        _log.warning(
            "This node is no longer the master: %s ended, and %d processes of jobs", ", ".join(ended) or "nothing", jobs
        )
    return Ended(tuple(ended), jobs)


def _living_process(path: str) -> int | None:
    try:
        return living_process(path)
    except OSError:
        return None


async def end_daemon(paths: Paths, daemon: str, grace_s: float) -> bool:
    """End a daemon if it runs, by force after *grace_s*; gives whether it ran.

    It is told why: one that is only starting must not look as if it had failed.
    """
    path = paths.pid_file(daemon)
    pid = _living_process(path)
    if pid is None:
        return False
    for number, wait_s in ((DEPOSED, grace_s), (signal.SIGKILL, KILL_WITHIN_S)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)  # one that was stopped could not end
        deadline = time.monotonic() + wait_s
        while _living_process(path) == pid:
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(_POLL_S)
        else:
            return True
    _log.error("%s with process id %d cannot be ended", daemon, pid)
    return True


async def end_jobs(paths: Paths) -> int:
    """Kill the processes of jobs; gives how many there were. LuxiD has ended: there come no new ones."""
    killed = []
    for pid, lock_file in job_processes(paths):
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            continue
        try:
            if holds_lock(pid, lock_file):  # still the same process
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                killed.append((pid, lock_file))
        except OSError:
            continue
        finally:
            os.close(handle)
    deadline = time.monotonic() + KILL_WITHIN_S
    for pid, lock_file in killed:
        while holds_lock(pid, lock_file):
            if time.monotonic() > deadline:
                _log.error("The process %d of a job cannot be ended", pid)
                break
            await asyncio.sleep(_POLL_S)
    return len(killed)


def job_processes(paths: Paths) -> list[tuple[int, str]]:
    """(process id, lock file) of the living processes of jobs."""
    beginning = os.path.realpath(paths.livelock_dir) + "/job_"
    found = []
    for entry in sorted(os.listdir("/proc")):
        if entry.isdigit():
            found += [(int(entry), path) for path in _held_files(int(entry), beginning)]
    return found


def holds_lock(pid: int, lock_file: str) -> bool:
    """Whether the process itself holds the lock of *lock_file*, which others open too, to look whether it lives."""
    return lock_file in _held_files(pid, lock_file)


def _held_files(pid: int, beginning: str) -> list[str]:
    found = []
    with contextlib.suppress(OSError):
        for descriptor in sorted(os.listdir(f"/proc/{pid}/fd")):
            with contextlib.suppress(OSError):
                path = os.readlink(f"/proc/{pid}/fd/{descriptor}")
                if path.startswith(beginning) and _is_locked(pid, descriptor):
                    found.append(path)
    return found


def _is_locked(pid: int, descriptor: str) -> bool:
    """Whether the lock of the file belongs to this very descriptor, and is an owner's, not that of a probe."""
    with open(f"/proc/{pid}/fdinfo/{descriptor}", encoding="ascii", errors="replace") as file:
        return any(line.startswith("lock:") and " FLOCK " in line and " WRITE " in line for line in file)


async def give_up_address(paths: Paths) -> None:
    """Take the cluster's address off this machine; harmless where it is not here."""
    address = master_address(paths)
    if address is None:
        return
    world = RealNodeWorld(paths, "")
    node = NodeState(world, _NoDaemon(), _NoDaemon())
    try:
        external = await asyncio.to_thread(uses_script, paths)
        await node_deactivate_master_ip(node, NodeDeactivateMasterIp(master=address, use_external_mip_script=external))
    except GanetiError as err:
        _log.error("The master IP %s stays on this node: %s", address.ip, err)


def master_address(paths: Paths) -> MasterAddress | None:
    """The cluster's address as ssconf has it; None where there is none."""
    ip, netdev, netmask, family = (
        ssconf(paths, key) for key in ("master_ip", "master_netdev", "master_netmask", "primary_ip_family")
    )
    if not ip or not netdev or not netmask.isdigit():
        return None
    return MasterAddress(ip=ip, netdev=netdev, netmask=int(netmask), ip_family=int(family) if family.isdigit() else 2)


class _Head(msgspec.Struct, frozen=True):
    cluster: msgspec.Raw


def uses_script(paths: Paths) -> bool:
    """Whether the site's own script sets the address up: the configuration alone says so."""
    data = read_if_there(paths.config_file)
    try:
        plain = msgspec.json.decode(msgspec.json.decode(data or b"", type=_Head).cluster)
        return bool(Cluster.from_plain(plain).use_external_mip_script)
    except (*UNREADABLE_JSON, GanetiError):
        return False


class _NoDaemon:
    """Giving the address up asks nothing of the node daemon."""

    async def abort(self, job: int, attempt: int) -> int:
        return 0

    def stop_after_answer(self) -> None:
        return
