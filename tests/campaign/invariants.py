# SPDX-License-Identifier: BSD-2-Clause
"""What must hold once the killing stops and every job has ended (`docs/design/never-lost.md`)."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

from tests.campaign.killing import Cluster
from tests.campaign.load import Client, History
from tests.campaign.opcode import BEGUN, CLASH, GROUPS, OP_ID, marks_of, trace_path
from tests.fakes.master_daemons import Master

from ganeti.master.config.publication import PublishedForm, ssconf_files
from ganeti.model.configuration import Configuration
from ganeti.stores.config_store import SqliteStore
from ganeti.stores.undo_files import jobs_with_undo, outstanding_undo
from ganeti.wire.framing_sync import connect
from ganeti.wire.job_file import FINAL_STATUSES, SUCCESS, JobFile

END_WITHIN_S = 60.0
SETTLE_WITHIN_S = 10.0
WAIT_AGAIN = "the locks of the dead"


class Violated(AssertionError):
    """An invariant is broken."""


class Invariants:
    """Remembers what was final, from round to round."""

    def __init__(self, cluster: Cluster, traces: str, history: History) -> None:
        self._cluster = cluster
        self._master: Master = cluster.master
        self._traces = traces
        self._history = history
        self._final: dict[int, tuple[Any, ...]] = {}
        self._files: dict[int, JobFile] = {}

    def check(self, clients: list[Client]) -> None:
        """Wait until all jobs have ended, then look at everything."""
        told = [job_id for client in clients for job_id in client.told]
        for client in clients:
            require(not client.faults, f"a client met a fault: {client.faults}")
        require(len(told) == len(set(told)), "an id was told to two clients")
        self._wait_for_the_end()
        self._read_files()
        lost = [job_id for job_id in told if job_id not in self._files]
        require(not lost, f"jobs {lost} were acknowledged and are lost")
        self._results_stand()
        self._nothing_ran_twice()
        self._locks_are_free()
        self._undo_logs_are_gone_or_named()
        self._configuration_agrees()
        self._marks_are_whole()
        self._nothing_is_left_over()
        self._logs_are_clean()
        self._queue_goes_on()

    def statuses(self) -> Counter[str]:
        return Counter(file.status for file in self._files.values())

    # The queue

    def _wait_for_the_end(self) -> None:
        def unfinished() -> list[str]:
            self._cluster.let_go_on()
            rows = self._master.luxi("QueryJobs", None, ["id", "status"])
            return [f"{job_id} {status}" for job_id, status in rows if status not in FINAL_STATUSES]

        try:
            self._master.until(lambda: not unfinished(), "every job ends", END_WITHIN_S)
        except AssertionError as err:
            raise Violated(f"jobs have not ended: {unfinished()}") from err

    def _read_files(self) -> None:
        files = self._master.files
        self._files = {}
        for job_id in [*files.ids(), *files.archived_ids()]:
            file = files.read(job_id)
            require(file is not None, f"the file of job {job_id} vanished while it was read")
            assert file is not None
            self._files[job_id] = file
            require(file.final, f"job {job_id} is not known to LuxiD as unfinished, and its file says {file.status}")

    def _results_stand(self) -> None:
        for job_id, file in self._files.items():
            now = (file.status, [(op.status, op.result, op.end_timestamp) for op in file.ops], file.end_timestamp)
            before = self._final.setdefault(job_id, now)
            require(now == before, f"job {job_id} had ended with {before} and now says {now}")
        gone = set(self._final) - set(self._files)
        require(not gone, f"jobs {sorted(gone)} had ended and are gone")

    def _nothing_ran_twice(self) -> None:
        lines = Path(trace_path(self._traces)).read_text().splitlines()
        clashes = [line for line in lines if line.startswith(CLASH)]
        require(not clashes, f"two owners met under one exclusive lock: {clashes}")
        begun: Counter[tuple[int, int]] = Counter()
        for line in lines:
            word, job_id, index, _ = line.split()
            begun[int(job_id), int(index)] += word == BEGUN
        twice = {key: count for key, count in begun.items() if count > 1}
        require(not twice, f"opcodes that ran more than once, by (job, opcode): {twice}")
        for job_id, file in self._files.items():
            for index, op in enumerate(file.ops):
                if op.input["OP_ID"] == OP_ID and op.status == SUCCESS:
                    require(begun[job_id, index] == 1, f"opcode {index} of job {job_id} succeeded and never ran")

    def _queue_goes_on(self) -> None:
        job_id = self._master.submit({"OP_ID": "OP_TEST_DELAY", "duration": 0})
        require(self._master.wait(job_id).status == SUCCESS, "a new job does not succeed")

    # Locks and undo

    def _locks_are_free(self) -> None:
        def held() -> list[str]:
            owners, waiting = self.wconfd("listLocksWaitingStatus")
            return [str(owner) for owner in [*owners, *(item[1] for item in waiting)]]

        try:
            self._master.until(lambda: not held(), "locks are free", 1.0)
        except AssertionError:
            self.wconfd("cleanupLocks")  # in nobody's way, they would be found at the next look at all owners
        still = held()
        require(not still, f"locks are held although no job runs: {still}, {self.wconfd('listAllLocksOwners')}")

    def _undo_logs_are_gone_or_named(self) -> None:
        paths = self._master.paths

        def silent() -> set[int]:
            return set(jobs_with_undo(paths)) - {item.job_id for item in outstanding_undo(paths)}

        try:
            self._master.until(lambda: not silent(), "undo logs go", SETTLE_WITHIN_S)
        except AssertionError as err:
            raise Violated(f"jobs {sorted(silent())} have ended and left undo logs that verify does not name") from err

    # The configuration

    def _configuration_agrees(self) -> None:
        self.wconfd("waitPublished", self.wconfd("position"))
        self.wconfd("verifyConfig")
        published = Path(self._master.paths.config_file).read_bytes()
        served = self.wconfd("readConfig")
        require(json.loads(published) == served, "config.data is not what WConfD serves")
        store = SqliteStore(self._master.paths.config_database)
        try:
            loaded = store.load()
        finally:
            store.close()
        assert loaded is not None
        form = PublishedForm(loaded.config, loaded.fragments, loaded.mtime_s)
        require(json.loads(b"".join(form.config_parts())) == served, "the database is not what WConfD serves")
        require(Configuration.from_plain(served).position is not None, "config.data cannot be read")
        for key, text in ssconf_files(form.ssconf_source()).items():
            found = Path(self._master.paths.ssconf_file(key)).read_text()
            require(found == text, f"ssconf_{key} does not agree with the configuration: {found!r} instead of {text!r}")

    def _marks_are_whole(self) -> None:
        groups = self.wconfd("readConfig")["nodegroups"]
        found = Counter(tag for group in GROUPS for tag in groups[group]["tags"])
        named = {sentence for _, sentence, _ in map(_fields, outstanding_undo(self._master.paths))}
        for job_id, file in self._files.items():
            for index, op in enumerate(file.ops):
                first, second = marks_of(job_id, index)
                counts = found.pop(first, 0), found.pop(second, 0)
                done = counts == (1, 1)
                wanted = op.input.get("marks", False)
                if op.status == SUCCESS:
                    require(counts == ((1, 1) if wanted else (0, 0)), f"job {job_id}.{index}: marks {counts}")
                elif not done and counts != (0, 0):
                    require(
                        counts == (1, 0) and any(first in sentence for sentence in named),
                        f"job {job_id}.{index} ended with {op.status} and left marks {counts}, named by nobody",
                    )
        require(not found, f"marks of no job: {found}")

    # What lies about

    def _nothing_is_left_over(self) -> None:
        wanted = {"luxid", "wconfd", "spawner"}

        def strays() -> list[str]:
            kinds = Counter(self._cluster.processes().values())
            kinds.pop("placement_worker", None)
            return [f"{count} {kind}" for kind, count in kinds.items() if kind not in wanted or count > 1]

        self._settle(strays, "processes")
        self.wconfd("cleanupLocks")

        def lock_files() -> list[str]:
            names = os.listdir(self._master.paths.livelock_dir)
            return [name for name in names if not name.startswith(f"luxi-daemon_{self._master.daemons['luxid'].pid}_")]

        self._settle(lock_files, "lock files")

    def _settle(self, found: Any, what: str) -> None:
        try:
            self._master.until(lambda: not found(), what, SETTLE_WITHIN_S)
        except AssertionError as err:
            raise Violated(f"{what} are left over: {found()}") from err

    def _logs_are_clean(self) -> None:
        for path in Path(self._master.paths.log_dir).iterdir():
            text = path.read_text(errors="replace")
            found = re.search(r"^.*\n?Traceback \(most recent call last\)[\s\S]{0,3000}", text, re.MULTILINE)
            require(found is None, f"{path.name} has a traceback:\n{found and found.group()}")

    def wconfd(self, method: str, *arguments: Any) -> Any:
        with connect(self._master.paths.wconfd_socket) as connection:
            connection.send({"method": method, "args": list(arguments)})
            answer = connection.receive()
        require(answer["success"], f"{method} answers {answer['result']}")
        return answer["result"]


def _fields(item: Any) -> tuple[int, str, str]:
    return item.job_id, item.sentence, item.reason


def require(condition: object, sentence: str) -> None:
    if not condition:
        raise Violated(sentence)
