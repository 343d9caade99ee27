# SPDX-License-Identifier: BSD-2-Clause
"""The watcher's work on the master: daemons that answer, the cluster's address, old jobs, instances of each group."""

import logging
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from ganeti.base.errors import GanetiError, TransportError, from_wire
from ganeti.base.paths import Paths
from ganeti.bootstrap.node_call import call_node
from ganeti.master.watcher import SHOULD_RUN, InstanceNow, WatcherState, decide, read_state, status_text
from ganeti.runtime.files import read_if_there, write_atomically
from ganeti.wire.framing_sync import connect

ANSWER_WITHIN_S = 30.0
JOB_WITHIN_S = 900.0
WAIT_S = 60.0
ARCHIVE_FOR_S = 60
REASON = "gnt:watcher"
FINAL = ("canceled", "success", "error")
_MASTER_DAEMONS = {"ganeti-wconfd": "wconfd_socket", "ganeti-luxid": "luxi_socket"}
_ASKED = {"ganeti-wconfd": ("echo", "watcher"), "ganeti-luxid": ("QueryConfigValues", ["drain_flag"])}
NOW = {"cache": "off"}
"""What is done to instances is decided by what nodes say now."""
_PAUSE_S = 0.2
_LEAST_S = 0.1
_log = logging.getLogger(__name__)


class MasterWork:
    """One round on the master; *ensure* starts a daemon unless it runs, *restart* one that hangs."""

    def __init__(
        self, paths: Paths, ensure: Callable[[str], None], restart: Callable[[str], None], answer_within_s: float
    ) -> None:
        self._paths = paths
        self._answer_within_s = answer_within_s
        self._ensure = ensure
        self._restart = restart

    def run(self, *, group: str | None, job_age_s: int, wait: bool) -> int:
        """Gives the exit status; raises `GanetiError` when the master's daemons cannot be brought back."""
        for name in _MASTER_DAEMONS:
            self._ensure(name)
            self.ensure_answer(name)
        self._ensure_address()
        if self._luxi("QueryConfigValues", ["drain_flag"])[0]:
            _log.info("the job queue is drained: nothing more is done")
            return 0
        with suppress(GanetiError):  # a queue that cannot archive is no reason to leave instances down
            self._luxi("AutoArchiveJobs", job_age_s, ARCHIVE_FOR_S)
        groups = [group] if group is not None else self._groups()
        status = 0
        for uuid in groups:
            try:
                self._watch_group(uuid, wait)
            except (GanetiError, OSError) as err:
                _log.error("group %s: %s", uuid, err)
                status = 1
        self._merge_status(self._groups())
        return status

    def ensure_answer(self, name: str) -> None:
        """Start a daemon again that runs and does not answer; raises `TransportError` if that does not help."""
        try:
            self._await_answer(name, self._answer_within_s)
        except TransportError:
            self._restart(name)
            self._await_answer(name, ANSWER_WITHIN_S)

    def _await_answer(self, name: str, within_s: float) -> None:
        """A daemon that is still reading its queue or configuration does not listen yet, and is not to be stopped."""
        method, argument = _ASKED[name]
        path = str(getattr(self._paths, _MASTER_DAEMONS[name]))
        give_up_s = time.monotonic() + within_s
        while True:
            left_s = give_up_s - time.monotonic()
            try:
                ask(path, max(left_s, _LEAST_S), method, argument)
            except TransportError:
                if left_s <= _PAUSE_S:
                    raise
                time.sleep(_PAUSE_S)
            else:
                return

    def _ensure_address(self) -> None:
        """After a power-on nobody else brings the cluster's address up; taken down on purpose it stays so."""
        ip = self._ssconf("master_ip")
        if self._paths.root or not ip or owns(ip) or os.path.exists(self._paths.given_up_address_file):
            return
        from ganeti.runtime.master_ending import master_address, uses_script  # seldom needed, and slow to import

        address = master_address(self._paths)
        if address is None:
            return
        primary = dict(line.split(" ", 1) for line in self._ssconf("node_primary_ips").splitlines() if " " in line)
        own = primary.get(self._ssconf("master_node"))
        if own is None:
            return
        arguments = {"master": msgspec.to_builtins(address), "use_external_mip_script": uses_script(self._paths)}
        try:
            call_node(self._paths, own, "node_activate_master_ip", arguments)
            _log.warning("the master IP %s was not up: it is now", address.ip)
        except GanetiError as err:
            _log.error("the master IP %s cannot be brought up: %s", address.ip, err)

    def _watch_group(self, uuid: str, wait: bool) -> None:
        instances, boot_ids = self._look(uuid)
        self._write_status(uuid, instances)
        before = read_state(read_if_there(self._file(uuid, "data")))
        down = [instance for instance in instances if instance.status == SHOULD_RUN]
        decision = decide(before, instances, boot_ids, self._busy() if down else frozenset(), time.time())
        for sentence in decision.sentences:
            _log.warning("%s", sentence)
        self._save(uuid, before, decision.state)
        if decision.start:
            self._start(uuid, decision.start, wait)
            self._write_status(uuid, self._look(uuid)[0])

    def _look(self, uuid: str) -> tuple[list[InstanceNow], dict[str, str | None]]:
        fields = ["name", "status", "pnode"]
        rows = self._luxi("Query", "instance", fields, ["==", "pnode.group.uuid", uuid], NOW)["data"]
        instances = [InstanceNow(*(str(value) for _, value in row)) for row in rows if all(not cell[0] for cell in row)]
        rows = self._luxi("Query", "node", ["name", "offline", "bootid"], ["==", "group.uuid", uuid], NOW)["data"]
        boot_ids = {
            str(name): str(boot_id) if not offline and status == 0 and boot_id else None
            for (_, name), (_, offline), (status, boot_id) in rows
        }
        return instances, boot_ids

    def _busy(self) -> frozenset[str]:
        """Instances that a job holds or waits for."""
        rows = self._luxi("Query", "lock", ["name", "mode", "pending"], None)["data"]
        held = [name for (_, name), (_, mode), (_, pending) in rows if mode or pending]
        return frozenset(name.removeprefix("instance/") for name in held if name.startswith("instance/"))

    def _start(self, uuid: str, names: list[str], wait: bool) -> None:
        """Start those that are still down: a job may have seen to one of them meanwhile."""
        again = {instance.name for instance in self._look(uuid)[0] if instance.status == SHOULD_RUN}
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
            if wait:
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

    def _save(self, uuid: str, before: WatcherState, after: WatcherState) -> None:
        if after != before:
            write_atomically(self._file(uuid, "data"), msgspec.json.encode(after), mode=0o600)

    def _write_status(self, uuid: str, instances: list[InstanceNow]) -> None:
        text = status_text(instances).encode()
        write_atomically(self._file(uuid, "instance-status"), text, mode=0o644, durable=False)

    def _merge_status(self, groups: list[str]) -> None:
        parts = [read_if_there(self._file(uuid, "instance-status")) or b"" for uuid in groups]
        write_atomically(f"{self._paths.run_dir}/instance-status", b"".join(parts), mode=0o644, durable=False)

    def _file(self, uuid: str, kind: str) -> str:
        return f"{self._paths.data_dir}/watcher.{os.path.basename(uuid)}.{kind}"

    def _groups(self) -> list[str]:
        return [line.split(" ", 1)[0] for line in self._ssconf("nodegroups").splitlines() if line.strip()]

    def _ssconf(self, key: str) -> str:
        return (read_if_there(self._paths.ssconf_file(key)) or b"").decode().strip()

    def _luxi(self, method: str, *arguments: Any) -> Any:
        return ask(self._paths.luxi_socket, ANSWER_WITHIN_S + WAIT_S, method, *arguments)


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


def owns(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
