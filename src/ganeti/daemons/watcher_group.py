# SPDX-License-Identifier: BSD-2-Clause
"""What one child of the watcher does for its node group: see how its instances are, and start those that should run.

A job tells how they are (S1.57): it holds the locks, and renews for all what the master knows of the group. It is not
waited for long, so that a group on which a long job is at work has its instances started all the same (S1.60); then,
and where the master does not know such jobs, the nodes are asked without it. So they are before anything is started: a
guest may run in a group that was not asked, and another job may have changed one of the instances meanwhile.
"""

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from ganeti.base.errors import GanetiError, TransportError, refusal_of_system
from ganeti.base.paths import Paths
from ganeti.daemons.watcher_asking import ANSWER_WITHIN_S, WAIT_S, follow
from ganeti.daemons.watcher_disks import DiskWork
from ganeti.daemons.watcher_lock import WatcherLock
from ganeti.daemons.watcher_state import cluster_state
from ganeti.master.watcher import (
    GroupNow,
    WatcherState,
    decide,
    merged_status,
    read_group,
    read_state,
    status_text,
    without_attempts,
)
from ganeti.model.locks import ALL_INSTANCES, EXCLUSIVE, instance_lock
from ganeti.stores.watcher_pause import watcher_pause
from ganeti.system.files import read_if_there, write_atomically
from ganeti.wire.framing_sync import ask
from ganeti.wire.job_file import RUNNING, SUCCESS

EXIT_WATCHED = 15
"""Another watcher looks after the group already: of a child (S1.57), and where a group was named."""
STATE_WITHIN_S = 30.0
"""How long the job that renews the state may take: a node has 5 seconds to answer, the rest is for locks."""
STARTS_WITHIN_S = 240.0
"""How long all starts of a round may take together: another round begins every five minutes."""
STATUS_WITHIN_S = 10.0
REASON = "gnt:watcher"
RENEW = "OP_UPDATE_NODE_GROUP_CACHE"
LOW = 10
"""The priority of a job that only looks and needs all locks of the group: jobs that change something go first."""
GROUP_STATUS = "instance-status.group-"
_log = logging.getLogger(__name__)


class GroupWork:
    """One round for one node group; *groups* gives the uuids of those there are, *disks* looks after its disks."""

    def __init__(
        self,
        paths: Paths,
        uuid: str,
        groups: Callable[[], list[str]],
        *,
        ignore_pause: bool = False,
        disks: Callable[[str], DiskWork] | None = None,
    ) -> None:
        self._disks = disks
        self._paths = paths
        self._uuid = uuid
        self._groups = groups
        self._ignore_pause = ignore_pause

    def run(self) -> int:
        """Gives the exit status; raises `GanetiError` where the master does not answer."""
        with WatcherLock(f"{self._paths.lock_dir}/ganeti-watcher.{self._uuid}.lock") as lock:
            if not lock.taken:
                return EXIT_WATCHED
            self._watch()
            if self._disks is not None and self._held_back() is None:
                self._disks(self._uuid).run()
            return 0

    def _watch(self) -> None:
        now = self._renewed() or self._look()
        locks: frozenset[str] = frozenset()
        if now.down:  # a job that ends, or begins, while the nodes answer is seen before, or after
            locks = self._locks()
            now = self._look()
            locks |= self._locks() if now.down else locks
        if self._uuid not in self._groups():
            _log.info("group %s was removed: nothing is left to do", self._uuid)
            return
        self._tell_status(now)
        if now.down and (why := self._held_back()):
            _log.info("group %s: nothing is started: %s", self._uuid, why)
            return
        before = read_state(read_if_there(data_file(self._paths, self._uuid)))
        busy = [each.name for each in now.down if ALL_INSTANCES in locks or instance_lock(each.name) in locks]
        decision = decide(before, now.instances, now.boot_ids, frozenset(busy), time.time())
        for sentence in decision.sentences:
            _log.warning("%s", sentence)
        self._save(before, decision.state)
        jobs = [_start_job(name) for name in decision.start] + [_mark_job(name) for name in decision.shut_down]
        if jobs:
            self._submit(jobs, before, decision.state, decision.shut_down)
            self._tell_status(self._look())

    # How things are

    def _renewed(self) -> GroupNow | None:
        """What a job says of the group; None where it cannot, and then the log says why."""
        try:
            return self._ask_job()
        except GanetiError as err:
            _log.warning("group %s: its nodes are asked without a job: %s", self._uuid, err)
            return None

    def _ask_job(self) -> GroupNow:
        opcode = {
            "OP_ID": RENEW,
            "group_name": self._uuid,
            "priority": LOW,
            "reason": [[REASON, "renew", time.time_ns()]],
        }
        job_id = int(ask(self._paths.luxi_socket, ANSWER_WITHIN_S, "SubmitJob", [opcode]))
        ended = follow(self._paths.luxi_socket, job_id, ["status", "opresult"], time.monotonic() + STATE_WITHIN_S)
        if ended is None:
            with suppress(GanetiError):
                self._luxi("CancelJob", job_id)
            raise GanetiError(f"job {job_id} has not ended within {STATE_WITHIN_S:g} seconds (gnt-job why {job_id})")
        status, results = ended
        if status != SUCCESS:
            raise GanetiError(f"job {job_id} ended with {status}: see gnt-job info {job_id}")
        found = read_group(results[0] if results else None)
        with suppress(GanetiError):  # it is read, and one in five minutes would soon fill lists of jobs, and the disk
            self._luxi("ForgetRenewal", job_id)
        return found

    def _look(self) -> GroupNow:
        return cluster_state(self._paths, self._uuid)

    def _locks(self) -> frozenset[str]:
        """Locks that a job has for itself, or waits to have so: who only shares one changes nothing."""
        rows = self._luxi("Query", "lock", ["name", "mode", "pending"], None)["data"]
        return frozenset(
            name
            for (_, name), (_, mode), (_, pending) in rows
            if mode == EXCLUSIVE or any(each == EXCLUSIVE for each, _ in pending or ())
        )

    def _held_back(self) -> str | None:
        """Why nothing may be started now, though it might when this round began."""
        until = watcher_pause(self._paths)
        if until is not None and until > time.time() and not self._ignore_pause:
            return "the watcher is paused"
        return "the job queue is drained" if self._luxi("QueryConfigValues", ["drain_flag"])[0] else None

    # What is done

    def _submit(self, jobs: list[dict[str, Any]], before: WatcherState, state: WatcherState, marked: list[str]) -> None:
        """Start instances, or mark them as down (*marked*); *state* counts the attempts, and is saved: they count even
        if the watcher dies over them. An attempt that was none is taken back to what was *before*. One that is marked
        begins again at none: its user had it run, and shut it down.
        """
        deadline_s = time.monotonic() + STARTS_WITHIN_S
        names = [str(job["instance_name"]) for job in jobs]
        try:
            answers = self._luxi("SubmitManyJobs", [[job] for job in jobs])
        except TransportError:
            raise  # the jobs may have been taken
        except GanetiError:
            self._save(state, before)
            raise
        taken = {name: int(answer) for name, (ok, answer) in zip(names, answers, strict=True) if ok}
        for name, (ok, answer) in zip(names, answers, strict=True):
            if ok:
                _log.info("job %s was submitted for %s", answer, name)
            else:
                _log.error("%s cannot be started or marked as down: %s", name, answer)
        tried = without_attempts(state, before, [name for name in names if name not in taken])
        self._save(state, tried)
        ended = {name: self._await_job(job_id, name, deadline_s) for name, job_id in taken.items()}
        after = without_attempts(tried, before, [name for name, status in ended.items() if status is None])
        after = without_attempts(after, WatcherState(), [name for name in marked if ended.get(name) == SUCCESS])
        self._save(tried, after)

    def _await_job(self, job_id: int, name: str, deadline_s: float) -> str | None:
        """How a job stands at the end; None where it has not tried: one that has not begun by then is cancelled, or the
        next round would add another.
        """
        ended = follow(self._paths.luxi_socket, job_id, ["status"], deadline_s)
        if ended is None:
            cancelled, said = self._luxi("CancelJob", job_id)
            _log.error("job %d for %s has not ended within %g seconds: %s", job_id, name, STARTS_WITHIN_S, said)
            return None if cancelled else RUNNING
        if ended[0] != SUCCESS:
            _log.error("job %d for %s ended with %s", job_id, name, ended[0])
        return str(ended[0])

    # Files

    def _save(self, before: WatcherState, after: WatcherState) -> None:
        if after != before:
            write_atomically(data_file(self._paths, self._uuid), msgspec.json.encode(after), mode=0o600)

    def _tell_status(self, now: GroupNow) -> None:
        """Where there is no room for the files, instances are started all the same."""
        try:
            self._write_status(now)
        except OSError as err:
            _log.error("group %s: how its instances are is not written: %s", self._uuid, refusal_of_system(err))

    def _write_status(self, now: GroupNow) -> None:
        """The group's own files, where 3.1 has it and where S1.62 wants it, and that of all groups."""
        text = status_text(now.instances).encode()
        for path in (status_file(self._paths, self._uuid), f"{self._paths.run_dir}/{GROUP_STATUS}{self._uuid}"):
            write_atomically(path, text, mode=0o644, durable=False)
        path = f"{self._paths.lock_dir}/ganeti-watcher-status.lock"
        with WatcherLock(path, within_s=STATUS_WITHIN_S) as lock:
            if not lock.taken:
                _log.warning("instance-status stays as it is: for %g seconds somebody held %s", STATUS_WITHIN_S, path)
                return
            files = sorted(status_file(self._paths, uuid) for uuid in self._groups())
            parts = [read_if_there(path) or b"" for path in sorted(files, key=_written_ns)]
            text = merged_status(part.decode() for part in parts).encode()
            write_atomically(f"{self._paths.run_dir}/instance-status", text, mode=0o644, durable=False)

    def _luxi(self, method: str, *arguments: Any) -> Any:
        return ask(self._paths.luxi_socket, ANSWER_WITHIN_S + WAIT_S, method, *arguments)


def _start_job(name: str) -> dict[str, Any]:
    return {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": name, **_said("restart", "started by the watcher")}


def _mark_job(name: str) -> dict[str, Any]:
    comment = "its user shut it down"
    shutdown = {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": name, "admin_state_source": "user"}
    return shutdown | _said("cleanup", comment)


def _said(why: str, comment: str) -> dict[str, Any]:
    return {"comment": comment, "reason": [[REASON, why, time.time_ns()]]}


def data_file(paths: Paths, uuid: str) -> str:
    return f"{paths.data_dir}/watcher.{uuid}.data"


def status_file(paths: Paths, uuid: str) -> str:
    return f"{paths.data_dir}/watcher.{uuid}.instance-status"


def _written_ns(path: str) -> int:
    """When a file was written; before all others if there is none."""
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return 0
