# SPDX-License-Identifier: BSD-2-Clause
"""What one child of the watcher does for its node group: see how its instances are, and start those that should run.

A job tells how they are (S1.57): it holds the locks, and renews for all what the master knows of the group. It is not
waited for long, so that a group on which a long job is at work has its instances started all the same (S1.60); then,
and where the master does not know such jobs, the nodes are asked without it. So they are before anything is started: a
guest may run in a group that was not asked.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from ganeti.base.errors import GanetiError, TransportError, from_wire
from ganeti.base.paths import Paths
from ganeti.daemons.watcher_lock import WatcherLock
from ganeti.master.watcher import (
    GroupNow,
    InstanceNow,
    WatcherState,
    decide,
    read_group,
    read_state,
    status_text,
)
from ganeti.runtime.files import read_if_there, write_atomically
from ganeti.wire.framing_sync import connect

EXIT_WATCHED = 15
"""Of a child: another one looks after the group already (S1.57)."""
ANSWER_WITHIN_S = 30.0
STATE_WITHIN_S = 30.0
"""How long the job that renews the state may take: a node has 5 seconds to answer, the rest is for locks."""
JOB_WITHIN_S = 900.0
WAIT_S = 60.0
REASON = "gnt:watcher"
FINAL = ("canceled", "success", "error")
NOW = {"cache": "off"}
"""What is done to instances is decided by what nodes say now."""
RENEW = "OP_UPDATE_NODE_GROUP_CACHE"
LOW = 10
"""The priority of a job that wants all locks of the group to look: whoever wants one to work goes first."""
GROUP_STATUS = "instance-status.group-"
_log = logging.getLogger(__name__)


class GroupWork:
    """One round for one node group; *groups* gives the uuids of those there are."""

    def __init__(self, paths: Paths, uuid: str, groups: Callable[[], list[str]]) -> None:
        self._paths = paths
        self._uuid = uuid
        self._groups = groups

    def run(self) -> int:
        """Gives the exit status; raises `GanetiError` where the master does not answer."""
        with WatcherLock(f"{self._paths.lock_dir}/ganeti-watcher.{self._uuid}.lock") as lock:
            if not lock.taken:
                return EXIT_WATCHED
            self._watch()
            return 0

    def _watch(self) -> None:
        now = self._renewed()
        if now is None or now.down:
            now = self._look()
        if self._uuid not in self._groups():
            _log.info("group %s was removed: nothing is left to do", self._uuid)
            return
        self._write_status(now)
        before = read_state(read_if_there(data_file(self._paths, self._uuid)))
        busy = self._busy() if now.down else frozenset()
        decision = decide(before, now.instances, now.boot_ids, busy, time.time())
        for sentence in decision.sentences:
            _log.warning("%s", sentence)
        self._save(before, decision.state)
        if decision.start:
            self._start(decision.start)
            self._write_status(self._look())

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
        status, results = self._await_state(job_id)
        if status != "success":
            raise GanetiError(f"job {job_id} ended with {status}: see gnt-job info {job_id}")
        found = read_group(results[0] if results else None)
        with suppress(GanetiError):  # it is read, and one in five minutes would soon fill lists of jobs
            self._luxi("ArchiveJob", job_id)
        return found

    def _await_state(self, job_id: int) -> tuple[str, Any]:
        """Status and results of the opcodes of a job that has ended; one that takes too long is cancelled."""
        deadline_s = time.monotonic() + STATE_WITHIN_S
        values: list[Any] | None = None
        while (left_s := deadline_s - time.monotonic()) > 0:
            arguments = (job_id, ["status", "opresult"], values, None, left_s)
            values, _ = ask(self._paths.luxi_socket, left_s + ANSWER_WITHIN_S, "WaitForJobChange", *arguments)
            if values and values[0] in FINAL:
                return str(values[0]), values[1]
        with suppress(GanetiError):
            self._luxi("CancelJob", job_id)
        raise GanetiError(f"job {job_id} has not ended within {STATE_WITHIN_S:g} seconds (gnt-job why {job_id})")

    def _look(self) -> GroupNow:
        """Ask the nodes: those of the group how they are, and all of them for guests."""
        fields = ["name", "status", "pnode"]
        rows = self._luxi("Query", "instance", fields, ["==", "pnode.group.uuid", self._uuid], NOW)["data"]
        instances = [InstanceNow(*(str(value) for _, value in row)) for row in rows if all(not cell[0] for cell in row)]
        wanted = ["==", "group.uuid", self._uuid]
        rows = self._luxi("Query", "node", ["name", "offline", "bootid"], wanted, NOW)["data"]
        boot_ids = {
            str(name): str(boot_id) if not offline and status == 0 and boot_id else None
            for (_, name), (_, offline), (status, boot_id) in rows
        }
        return GroupNow(instances, boot_ids)

    def _busy(self) -> frozenset[str]:
        """Instances that a job has for itself, or waits for; those who only look change nothing."""
        rows = self._luxi("Query", "lock", ["name", "mode", "pending"], None)["data"]
        held = [name for (_, name), (_, mode), (_, pending) in rows if mode == "exclusive" or pending]
        return frozenset(name.removeprefix("instance/") for name in held if name.startswith("instance/"))

    # What is done

    def _start(self, names: list[str]) -> None:
        """Start those that are still down: a job may have seen to one of them meanwhile."""
        again = {instance.name for instance in self._look().down}
        reason = [REASON, "restart", time.time_ns()]
        jobs = [
            [
                {
                    "OP_ID": "OP_INSTANCE_STARTUP",
                    "instance_name": name,
                    "comment": "started by the watcher",
                    "reason": [reason],
                }
            ]
            for name in names
            if name in again
        ]
        if not jobs:
            return
        answers = self._luxi("SubmitManyJobs", jobs)
        for job, (ok, answer) in zip(jobs, answers, strict=True):
            name = job[0]["instance_name"]
            if not ok:
                _log.error("%s cannot be started: %s", name, answer)
                continue
            _log.info("job %s starts %s", answer, name)
            self._wait(int(answer), str(name))

    def _wait(self, job_id: int, name: str) -> None:
        """Follow a job to its end, so that the next round does not submit the same again."""
        deadline = time.monotonic() + JOB_WITHIN_S
        previous: list[Any] | None = None
        while time.monotonic() < deadline:
            answer = self._luxi("WaitForJobChange", job_id, ["status"], previous, None, WAIT_S)
            previous = answer[0]
            status = previous[0] if previous else None
            if status in FINAL:
                if status != "success":
                    _log.error("job %d could not start %s: it ended with %s", job_id, name, status)
                return
        _log.error("job %d has not started %s within %g seconds", job_id, name, JOB_WITHIN_S)

    # Files

    def _save(self, before: WatcherState, after: WatcherState) -> None:
        if after != before:
            write_atomically(data_file(self._paths, self._uuid), msgspec.json.encode(after), mode=0o600)

    def _write_status(self, now: GroupNow) -> None:
        """The group's own files, where 3.1 has it and where S1.62 wants it, and that of all groups."""
        text = status_text(now.instances).encode()
        for path in (status_file(self._paths, self._uuid), f"{self._paths.run_dir}/{GROUP_STATUS}{self._uuid}"):
            write_atomically(path, text, mode=0o644, durable=False)
        with WatcherLock(f"{self._paths.lock_dir}/ganeti-watcher-status.lock", waits=True):
            parts = [read_if_there(status_file(self._paths, uuid)) or b"" for uuid in self._groups()]
            write_atomically(f"{self._paths.run_dir}/instance-status", b"".join(parts), mode=0o644, durable=False)

    def _luxi(self, method: str, *arguments: Any) -> Any:
        return ask(self._paths.luxi_socket, ANSWER_WITHIN_S + WAIT_S, method, *arguments)


def data_file(paths: Paths, uuid: str) -> str:
    return f"{paths.data_dir}/watcher.{uuid}.data"


def status_file(paths: Paths, uuid: str) -> str:
    return f"{paths.data_dir}/watcher.{uuid}.instance-status"


def ask(path: str, timeout_s: float, method: str, *arguments: Any) -> Any:
    """One question to a daemon's Unix socket; raises `TransportError`, or the error it answers."""
    with connect(path, timeout_s) as connection:
        connection.send({"method": method, "args": list(arguments)})
        answer = connection.receive()
    if not isinstance(answer, dict) or "success" not in answer:
        raise TransportError(f"{path} gave an answer that is none")
    if not answer["success"]:
        raise from_wire(answer.get("result"))
    return answer["result"]
