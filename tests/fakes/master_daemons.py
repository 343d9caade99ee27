# SPDX-License-Identifier: BSD-2-Clause
"""Real WConfD and LuxiD in a temporary root, without privileges and without nodes: enough for jobs to live and die."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ganeti.base.errors import TransportError
from ganeti.base.paths import Paths
from ganeti.model.configuration import Configuration
from ganeti.model.objects import Cluster, Node, NodeGroup
from ganeti.stores.job_files import JobFiles
from ganeti.wire.framing_sync import SyncConnection, connect
from ganeti.wire.job_file import FINAL_STATUSES, JobFile
from ganeti.wire.luxi import VERSION

HOST = "node1.example.com"
NODE_UUID = "00000000-0000-4000-8000-000000000001"
OFFLINE_UUID = "00000000-0000-4000-8000-000000000003"
GROUP_UUID = "00000000-0000-4000-8000-000000000002"
WITHIN_S = 60.0
START_WITHIN_S = 60.0
ABSENT: dict[str, Any] = {
    "primary_ip": "127.0.0.2",
    "secondary_ip": "127.0.0.2",
    "offline": True,
    "master_candidate": False,
}


def configuration() -> dict[str, Any]:
    config = Configuration()
    cluster = Cluster(
        uuid="00000000-0000-4000-8000-000000000000",
        cluster_name="cluster.example.com",
        master_node=NODE_UUID,
        master_ip="127.0.0.1",
        master_netdev="lo",
        enabled_hypervisors=["fake"],
        hvparams={"fake": {}},
        enabled_disk_templates=["diskless"],
    )
    node = Node(
        uuid=NODE_UUID,
        name=HOST,
        primary_ip="127.0.0.1",
        secondary_ip="127.0.0.1",
        group=GROUP_UUID,
        master_candidate=True,
    )
    config.put("cluster", "cluster", cluster)
    config.put("nodes", NODE_UUID, node)
    config.put("nodes", OFFLINE_UUID, replace(node, uuid=OFFLINE_UUID, name="node2.example.com", **ABSENT))
    config.put("nodegroups", GROUP_UUID, NodeGroup(uuid=GROUP_UUID, name="default"))
    return config.to_plain()


class Master:
    """The master daemons of a cluster of one node that has no node daemon."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths = Paths(str(root))
        self.files = JobFiles(self.paths)
        self.environment = {**os.environ, "GANETI_ROOTDIR": str(root), "GANETI_HOSTNAME": HOST}
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        for directory in (self.paths.data_dir, self.paths.run_dir, self.paths.log_dir):
            os.makedirs(directory)
        Path(self.paths.config_file).write_text(json.dumps(configuration()))

    # Daemons

    def start(self, name: str, **variables: str) -> subprocess.Popen[bytes]:
        """Start a daemon and wait until it serves, or has stopped itself at a pause point."""
        with open(f"{self.paths.log_dir}/{name}.output", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"ganeti.daemons.{name}", "-f"],
                env={**self.environment, **variables},
                stdout=log,
                stderr=log,
            )
        self.daemons[name] = process
        socket_path = {"wconfd": self.paths.wconfd_socket, "luxid": self.paths.master_socket}[name]
        self.until(
            lambda: process.poll() is not None or is_stopped(process.pid) or self._answers(socket_path),
            f"{name} serves",
            START_WITHIN_S,
        )
        assert process.poll() is None, self.output(name)
        return process

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        """End a daemon and give its exit status."""
        process = self.daemons.pop(name)
        process.send_signal(number)
        return process.wait(WITHIN_S)

    def stop_all(self) -> None:
        for name in ("luxid", "wconfd"):
            process = self.daemons.pop(name, None)
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
                try:
                    process.wait(WITHIN_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        for pid in self.job_pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def output(self, name: str) -> str:
        return Path(f"{self.paths.log_dir}/{name}.output").read_text()

    def _answers(self, path: str) -> bool:
        try:
            connect(path, 1.0).close()
        except TransportError:
            return False
        return True

    # Waiting

    def until(self, condition: Callable[[], Any], what: str, within_s: float = WITHIN_S) -> Any:
        """Wait for something only other processes can bring about; they give no event to wait for."""
        deadline = time.monotonic() + within_s
        while not (value := condition()):
            assert time.monotonic() < deadline, f"{what}: not within {within_s} s"
            select.select([], [], [], 0.01)
        return value

    # LUXI

    def luxi(self, method: str, *arguments: Any, timeout_s: float = 60.0) -> Any:
        """Make one call; gives the result, or raises `AssertionError` with the error."""
        success, result = self.raw_luxi(method, *arguments, timeout_s=timeout_s)
        assert success, result
        return result

    def raw_luxi(self, method: str, *arguments: Any, timeout_s: float = 60.0) -> tuple[bool, Any]:
        with self.connection(timeout_s) as connection:
            connection.send({"method": method, "args": list(arguments), "version": VERSION})
            answer = connection.receive()
        return answer["success"], answer["result"]

    def connection(self, timeout_s: float = 60.0) -> SyncConnection:
        return connect(self.paths.luxi_socket, timeout_s)

    def submit(self, *opcodes: dict[str, Any]) -> int:
        job_id: int = self.luxi("SubmitJob", list(opcodes))
        return job_id

    def wait(self, job_id: int, within_s: float = WITHIN_S) -> JobFile:
        """Wait by LUXI until a job has ended; gives its file."""
        deadline = time.monotonic() + within_s
        previous, serial = None, None
        while True:
            previous, log = self.luxi("WaitForJobChange", job_id, ["status"], previous, serial, 5)
            serial = log[-1][0] if log else serial
            if previous[0] in FINAL_STATUSES:
                return self.file(job_id)
            assert time.monotonic() < deadline, f"job {job_id} is still {previous[0]}"

    def waits_for_locks(self, job_id: int) -> bool:
        """Whether WConfD has a waiting request of the job."""
        locks = self.luxi("Query", "lock", ["pending"], None)["data"]
        return any(str(job_id) in owners for ((_, pending),) in locks for _, owners in pending)

    def file(self, job_id: int) -> JobFile:
        file = self.files.read(job_id)
        assert file is not None
        return file

    # Processes

    def job_pids(self) -> list[int]:
        """Processes of jobs of this cluster, by their lock files."""
        found = []
        directory = Path(self.paths.livelock_dir)
        names = {str(path) for path in directory.glob("job_*")} if directory.is_dir() else set()
        for entry in os.listdir("/proc"):
            if entry.isdigit() and names & _open_files(int(entry)):
                found.append(int(entry))
        return found


def is_stopped(pid: int | None) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def _open_files(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
    return found


def running_master(root: Path) -> contextlib.AbstractContextManager[Master]:
    return serving(Master(root))


@contextlib.contextmanager
def serving(master: Master) -> Iterator[Master]:
    """With its daemons running, as its files are by then."""
    try:
        master.start("wconfd")
        master.start("luxid")
        yield master
    finally:
        master.stop_all()


def children_of(pid: int) -> list[int]:
    """Process ids of the children of a process; none if it is gone."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []
