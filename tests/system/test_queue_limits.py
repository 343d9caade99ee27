# SPDX-License-Identifier: BSD-2-Clause
"""The limits of the queue on real daemons: changed by a job, in force when the job has ended, kept over a restart."""

import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.master_daemons import HOST, NODE_UUID, OFFLINE_UUID, Master, configuration, serving

from ganeti.base.paths import Paths
from ganeti.node.certificates import create_authority, issue_node_certificate
from ganeti.wire.job_file import FINAL_STATUSES

pytestmark = pytest.mark.daemons

PROGRAM = "import sys; sys.argv[0] = 'gnt'; from ganeti.cli.main import run; sys.exit(run(sys.argv.pop(1)))"
ENDLESS = {"OP_ID": "OP_TEST_DELAY", "duration": 3600.0, "no_locks": True}
WITH_LOCK = {"OP_ID": "OP_TEST_DELAY", "no_locks": False, "on_nodes": [OFFLINE_UUID]}
SHORT = {"OP_ID": "OP_TEST_DUMMY"}


ADDRESS = f"127.{64 + (os.getpid() >> 8) % 64}.{os.getpid() % 256}.1"
"""Of this test alone: the port of node daemons is always the same."""


class NoHooks(BaseHTTPRequestHandler):
    """A node daemon that has no hooks, and nothing else."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b"[true, []]"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


@contextlib.contextmanager
def node_daemon(paths: Paths) -> Iterator[None]:
    authority = create_authority("cluster.example.com")
    Path(paths.authority_cert).write_text(authority.certificate)
    Path(paths.client_cert).write_text(issue_node_certificate(authority, HOST, "cluster.example.com", [ADDRESS]))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(paths.client_cert)
    server = ThreadingHTTPServer((ADDRESS, 1811), NoHooks)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    master = Master(tmp_path_factory.mktemp("cluster"))
    config = configuration()
    config["nodes"][NODE_UUID] |= {"primary_ip": ADDRESS, "secondary_ip": ADDRESS}
    Path(master.paths.config_file).write_text(json.dumps(config))
    with node_daemon(master.paths), serving(master):
        yield master


@pytest.fixture
def master(running):
    """The daemons, for a test that may leave jobs, a limit and a drained queue behind."""
    yield running
    running.luxi("SetDrainFlag", False)
    for job_id, job_status in running.luxi("QueryJobs", None, ["id", "status"]):
        if job_status not in FINAL_STATUSES:
            running.luxi("CancelJob", job_id, True)
            running.wait(job_id)
    limit(running, 20)


def gnt(master: Master, *words: str, status: int = 0) -> str:
    """Run a command; gives what it printed, or, where it must fail, what it said."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], env=master.environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout.strip() if status == 0 else done.stderr


def limit(master: Master, most: int) -> None:
    job = master.wait(master.submit({"OP_ID": "OP_CLUSTER_SET_PARAMS", "max_running_jobs": most}))
    assert job.status == "success", job.ops[0].result


def status(master: Master, job_id: int) -> str:
    found: str = master.luxi("QueryJobs", [job_id], ["status"])[0][0]
    return found


def submit(master: Master, count: int) -> list[int]:
    return [job_id for _, job_id in master.luxi("SubmitManyJobs", [[ENDLESS]] * count)]


def until_running(master: Master, *jobs: int) -> None:
    for job_id in jobs:
        master.until(lambda job_id=job_id: status(master, job_id) == "running", f"job {job_id} runs")


def end(master: Master, job_id: int) -> None:
    ok, told = master.luxi("CancelJob", job_id, True)
    assert ok, told
    master.wait(job_id)


def stored(master: Master) -> dict[str, Any]:
    cluster: dict[str, Any] = json.loads(Path(master.paths.config_file).read_text())["cluster"]
    return cluster


class TestRunningJobs:
    def test_a_higher_limit_starts_those_that_wait(self, master):
        limit(master, 3)
        jobs = submit(master, 6)
        until_running(master, *jobs[:3])
        assert [status(master, job_id) for job_id in jobs[3:]] == ["queued"] * 3
        change = master.submit({"OP_ID": "OP_CLUSTER_SET_PARAMS", "max_running_jobs": 9, "priority": -10})
        assert status(master, change) == "queued", "it needs a place as well"
        end(master, jobs[0])
        assert master.wait(change).status == "success"
        until_running(master, *jobs[1:])

    def test_a_lower_limit_ends_nothing_and_starts_nothing_until_there_is_room(self, master):
        jobs = submit(master, 4)
        until_running(master, *jobs)
        limit(master, 2)
        later = submit(master, 2)
        assert [status(master, job_id) for job_id in jobs] == ["running"] * 4
        end(master, jobs[0])
        end(master, jobs[1])
        assert [status(master, job_id) for job_id in (*jobs[2:], *later)] == ["running"] * 2 + ["queued"] * 2
        end(master, jobs[2])
        until_running(master, later[0])
        assert status(master, later[1]) == "queued"

    def test_it_is_shown_published_and_kept(self, master):
        assert gnt(master, "gnt-cluster", "modify", "--max-running-jobs=2", "--max-tracked-jobs=1") == ""
        assert (stored(master)["max_running_jobs"], stored(master)["max_tracked_jobs"]) == (2, 1)
        master.kill("luxid", signal.SIGKILL)
        master.start("luxid")
        told = master.luxi("QueryClusterInfo")
        assert (told["max_running_jobs"], told["max_tracked_jobs"]) == (2, 1)
        jobs = submit(master, 3)
        until_running(master, *jobs[:2])
        assert status(master, jobs[2]) == "queued"

    @pytest.mark.parametrize("number", ["0", "-1", "99999999999"])
    def test_numbers_that_cannot_be(self, master, number):
        told = gnt(master, "gnt-cluster", "modify", f"--max-running-jobs={number}", status=1)
        assert "parameter 'max_running_jobs': it must be" in told
        assert stored(master)["max_running_jobs"] == 20

    @pytest.mark.parametrize("value", ["5", 2.5, True, [5], {}])
    def test_what_is_no_number(self, master, value):
        opcode = {"OP_ID": "OP_CLUSTER_SET_PARAMS", "max_running_jobs": value}
        ok, (name, details) = master.raw_luxi("SubmitJob", [opcode])
        assert (ok, name) == (False, "OpPrereqError")
        assert "parameter 'max_running_jobs': it must be a whole number" in details[0]

    def test_on_the_command_line(self, master):
        assert "not a whole number" in gnt(master, "gnt-cluster", "modify", "--max-running-jobs=many", status=2)
        told = gnt(master, "gnt-cluster", "modify", status=1)
        assert told == "Please give at least one of the parameters to change: see 'gnt-cluster modify --help'\n"
        told = gnt(master, "gnt-cluster", "modify", "--install-image=base", status=1)
        assert "cannot be the install image: give an absolute path" in told

    def test_a_dry_run_changes_nothing(self, master):
        gnt(master, "gnt-cluster", "modify", "--max-running-jobs=2", "--dry-run")
        assert stored(master)["max_running_jobs"] == 20


class TestSwitches:
    def test_a_drained_queue_takes_no_jobs_and_goes_on_with_those_it_has(self, master):
        holder = master.submit({**WITH_LOCK, "duration": 3600.0})
        until_running(master, holder)
        parked = master.submit({**WITH_LOCK, "duration": 0.0})
        master.until(lambda: master.waits_for_locks(parked), "it waits for its lock")
        gnt(master, "gnt-cluster", "queue", "drain")
        assert gnt(master, "gnt-cluster", "queue", "info") == "The drain flag is set"
        told = gnt(master, "gnt-debug", "delay", "0", status=1)
        assert told == "Failure: the job queue is marked for drain and doesn't accept new requests\n"
        assert master.raw_luxi("SubmitManyJobs", [[SHORT]]) == (False, ["GenericError", ["Queue drained"]])
        assert status(master, parked) == "queued"
        end(master, holder)
        assert master.wait(parked).ops[0].exec_timestamp is not None, "it has not begun"
        gnt(master, "gnt-cluster", "queue", "undrain")
        assert gnt(master, "gnt-cluster", "queue", "info") == "The drain flag is unset"
        assert master.wait(master.submit(SHORT)).id > parked

    def test_the_watcher_is_paused_and_goes_on(self, master):
        assert gnt(master, "gnt-cluster", "watcher", "info") == "The watcher is not paused."
        until = gnt(master, "gnt-cluster", "watcher", "pause", "30m")
        assert until.startswith("The watcher is paused until ")
        assert gnt(master, "gnt-cluster", "watcher", "info") == until
        assert gnt(master, "gnt-cluster", "watcher", "continue") == "The watcher is no longer paused."
        assert gnt(master, "gnt-cluster", "watcher", "info") == "The watcher is not paused."


def test_a_full_queue_says_so(tmp_path):
    """On daemons of its own: to end 5,000 jobs one by one takes longer than the test."""
    master = Master(tmp_path)
    config = configuration()
    config["cluster"]["max_running_jobs"] = 1
    Path(master.paths.config_file).write_text(json.dumps(config))
    try:
        master.start("wconfd")
        master.start("luxid")
        jobs = submit(master, 5000)
        told = gnt(master, "gnt-debug", "delay", "0", status=1)
        assert told == "Failure: The queue is full: 5000 jobs are unfinished, and 5000 may be; wait for some to end\n"
        assert master.raw_luxi("SubmitManyJobs", [[SHORT]])[1][0] == "JobQueueFull"
        end(master, jobs[-1])
        assert status(master, master.submit(SHORT)) == "queued"
    finally:
        master.stop_all()
