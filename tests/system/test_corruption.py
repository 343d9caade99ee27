# SPDX-License-Identifier: BSD-2-Clause
"""Files are damaged while the daemons are down: each goes on and says so, or refuses with one sentence and a remedy.

Never a traceback, never a silent loss: job files that cannot be read are set aside, and everything else is there.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fakes.master_daemons import OFFLINE_UUID, WITHIN_S, Master

from ganeti.base.errors import INTERNAL_ERROR
from ganeti.base.paths import Paths
from ganeti.master import operations
from ganeti.master.queue.undo import encode_line
from ganeti.stores.job_files import JobFiles
from ganeti.stores.undo_files import outstanding_undo, undo_path
from ganeti.wire.job_file import JobFile, OpcodeEntry

pytestmark = pytest.mark.daemons

operations.load()
DUMMY = {"OP_ID": "OP_TEST_DUMMY", "result": "done"}
JOBS = 4
NOISE = bytes(range(256)) * 4
DEEP = b"[" * 200_000


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """What an orderly stop leaves of a cluster that has a history."""
    master = Master(tmp_path_factory.mktemp("template") / "cluster")
    try:
        master.start("wconfd")
        master.start("luxid")
        for job_id in [master.submit(DUMMY) for _ in range(JOBS)]:
            master.wait(job_id)
        master.luxi("ArchiveJob", 1)
        for name in ("luxid", "wconfd"):
            assert master.kill(name, signal.SIGTERM) == 0
    finally:
        master.stop_all()
    return master.root


@pytest.fixture
def master(template, tmp_path):
    """The same cluster at rest, to be damaged."""
    copied = Master(tmp_path / "cluster")
    shutil.rmtree(copied.root)
    shutil.copytree(template, copied.root)
    shutil.rmtree(copied.paths.log_dir)
    os.makedirs(copied.paths.log_dir)
    try:
        yield copied
    finally:
        copied.stop_all()
        for path in Path(copied.paths.log_dir).iterdir():
            assert "Traceback" not in path.read_text(errors="replace"), path.read_text(errors="replace")


def refused(master: Master, name: str, status: int = 1) -> str:
    """Start a daemon that must refuse, as the command that starts it does; gives the one sentence it says."""
    command = [sys.executable, "-m", f"ganeti.daemons.{name}"]
    done = subprocess.run(
        command, env=master.environment, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    if done.returncode == 0:
        pid = int(Path(master.paths.pid_file(f"ganeti-{name}")).read_text())
        os.kill(pid, signal.SIGTERM)
        raise AssertionError(f"{name} starts")
    assert done.returncode == status, done
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith(f"ganeti-{name}: ") and INTERNAL_ERROR not in sentence, sentence
    return sentence


def goes_on(master: Master) -> None:
    """Both daemons run, the old jobs are known, and a new job succeeds with an id nobody had."""
    if "wconfd" not in master.daemons:
        master.start("wconfd")
    master.start("luxid")
    job_id = master.submit(DUMMY)
    assert job_id > JOBS
    assert master.wait(job_id).status == "success"
    wanted = [[each, "success"] for each in range(2, JOBS + 1)]
    assert [row for row in master.luxi("QueryJobs", None, ["id", "status"]) if row[0] <= JOBS] == wanted


def log_of(master: Master, name: str) -> str:
    return Path(f"{master.paths.log_dir}/{name}-daemon.log").read_text()


# Damages


def write(data: bytes) -> Callable[[str], None]:
    return lambda path: Path(path).write_bytes(data) and None


def cut_in_half(path: str) -> None:
    os.truncate(path, os.path.getsize(path) // 2)


def flip_in(first: int, length: int) -> Callable[[str], None]:
    """Turn all bits of some bytes."""

    def flip(path: str) -> None:
        with open(path, "r+b") as file:
            file.seek(first)
            found = file.read(length)
            file.seek(first)
            file.write(bytes(byte ^ 0xFF for byte in found))

    return flip


def in_database(*statements: str) -> Callable[[str], None]:
    def act(path: str) -> None:
        with sqlite3.connect(path) as db:
            for statement in statements:
                db.execute(statement)
        db.close()

    return act


def a_directory(path: str) -> None:
    if os.path.exists(path):
        os.unlink(path)
    os.mkdir(path)


def a_fifo(path: str) -> None:
    Path(path).unlink(missing_ok=True)
    os.mkfifo(path)


def a_socket(path: str) -> None:
    Path(path).unlink(missing_ok=True)
    directory, name = os.path.split(path)
    program = f"import os, socket; os.chdir({directory!r}); socket.socket(socket.AF_UNIX).bind({name!r})"
    subprocess.run([sys.executable, "-c", program], check=True)


def a_link_to_itself(path: str) -> None:
    Path(path).unlink(missing_ok=True)
    os.symlink(path, path)


NO_FILES = (a_fifo, a_socket, a_link_to_itself, a_directory)


def edit_config(change: Callable[[dict], None]) -> Callable[[str], None]:
    def edit(path: str) -> None:
        config = json.loads(Path(path).read_text())
        change(config)
        Path(path).write_text(json.dumps(config))

    return edit


REFUSALS: dict[str, tuple[str, Callable[[str], None], str]] = {
    "database cut in half": ("config.sqlite", cut_in_half, "move it away"),
    "database header": ("config.sqlite", flip_in(0, 16), "move it away"),
    "database schema page": ("config.sqlite", flip_in(100, 200), "move it away"),
    "database page size": ("config.sqlite", flip_in(16, 2), "move it away"),
    "database is noise": ("config.sqlite", write(NOISE * 16), "move it away"),
    "database of another layout": ("config.sqlite", in_database("PRAGMA user_version = 99"), "layout 99.*move it away"),
    "database without a table": ("config.sqlite", in_database("DROP TABLE steps"), "move it away"),
    "database without a header": (
        "config.sqlite",
        in_database("DELETE FROM meta WHERE key = 'header'"),
        "move it away",
    ),
    "database with nonsense in meta": (
        "config.sqlite",
        in_database("UPDATE meta SET value = 'x' WHERE key = 'mtime'"),
        "move it away",
    ),
    "database with a damaged object": (
        "config.sqlite",
        in_database("UPDATE objects SET data = '{' WHERE kind = 'nodes'"),
        "object nodes/.*move it away",
    ),
    "database with an object of no kind": (
        "config.sqlite",
        in_database("UPDATE objects SET kind = 'nodess' WHERE kind = 'nodes'"),
        "move it away",
    ),
    "database without a cluster": (
        "config.sqlite",
        in_database("DELETE FROM objects WHERE kind = 'cluster'"),
        "move it away",
    ),
    "database is a directory": ("config.sqlite", a_directory, "config.sqlite"),
    "config.data cut in half": ("config.data", cut_in_half, "config.data is not JSON.*move it away"),
    "config.data empty": ("config.data", write(b""), "config.data is not JSON.*move it away"),
    "config.data is noise": ("config.data", write(NOISE), "config.data is not JSON.*move it away"),
    "config.data nested": ("config.data", write(DEEP), "config.data cannot be used.*move it away"),
    "config.data is a list": ("config.data", write(b"[]"), "must be a JSON object.*move it away"),
    "config.data of another version": (
        "config.data",
        edit_config(lambda config: config.update(version=2000000)),
        "version 2.0",
    ),
    "config.data without a cluster": ("config.data", edit_config(lambda config: config.pop("cluster")), "config.data"),
    "config.data with nodes that are none": (
        "config.data",
        edit_config(lambda config: config.update(nodes=[1])),
        "config.data",
    ),
    "config.data with a node that is none": (
        "config.data",
        edit_config(lambda config: config["nodes"].update(x=5)),
        "config.data",
    ),
    "config.data is a directory": ("config.data", a_directory, "config.data"),
    "locks cut in half": ("locks.data", cut_in_half, "locks.data.*remove the file once no job runs"),
    "locks empty": ("locks.data", write(b""), "locks.data.*remove the file once no job runs"),
    "locks are noise": ("locks.data", write(NOISE), "locks.data.*remove the file once no job runs"),
    "locks nested": ("locks.data", write(DEEP), "locks.data.*remove the file once no job runs"),
    "locks are a number": ("locks.data", write(b"5"), "remove the file once no job runs"),
    "locks of another version": ("locks.data", write(b'{"version": 7}'), "version 7.*remove the file"),
    "locks with nonsense": (
        "locks.data",
        write(b'{"version": 1, "arrivals": 0, "held": [[5, {"x": "y"}]], "waiting": []}'),
        "remove the file once no job runs",
    ),
}


NAMED_IN_REFUSALS = {
    "wconfd": ("config.data", "config.sqlite", "config.sqlite-wal", "locks.data"),
    "luxid": ("queue/serial", "queue/version"),
}


@pytest.mark.parametrize("make", [a_fifo, a_link_to_itself])
@pytest.mark.parametrize(
    ("daemon", "name"), [(each, name) for each in NAMED_IN_REFUSALS for name in NAMED_IN_REFUSALS[each]]
)
def test_what_is_no_file_is_named_by_the_daemon_that_does_not_start(master, make, daemon, name):
    if daemon == "luxid":
        master.start("wconfd")
    path = f"{master.paths.data_dir}/{name}"
    before = Path(path).read_bytes() if os.path.exists(path) else None
    make(path)
    assert name in refused(master, daemon)
    if daemon == "luxid":
        os.rmdir(path) if make is a_directory else os.unlink(path)
        if before is not None:
            Path(path).write_bytes(before)
        goes_on(master)


@pytest.mark.parametrize("case", REFUSALS)
def test_the_configuration_daemon_refuses_in_one_sentence_and_runs_once_told_to(master, case):
    name, damage, wanted = REFUSALS[case]
    path = f"{master.paths.data_dir}/{name}"
    damage(path)
    sentence = refused(master, "wconfd")
    assert re.search(wanted, sentence), sentence
    assert log_of(master, "wconf").count(" ERROR ") == 1
    if "move it away" in sentence or "remove the file" in sentence:
        for each in Path(master.paths.data_dir).glob(f"{name}*"):
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        master.start("wconfd")
        goes_on(master)


WHOLE: dict[str, tuple[str, Callable[[str], None]]] = {
    "no database": ("config.sqlite", os.unlink),
    "database never filled": ("config.sqlite", write(b"")),
    "no config.data": ("config.data", os.unlink),
    "no locks": ("locks.data", os.unlink),
    "noise in the database's log": ("config.sqlite-wal", write(NOISE)),
    "no serial": ("queue/serial", os.unlink),
    "serial is noise": ("queue/serial", write(NOISE)),
    "serial empty": ("queue/serial", write(b"")),
    "serial too long": ("queue/serial", write(b"9" * 10_000)),
    "serial negative": ("queue/serial", write(b"-7\n")),
    "no version": ("queue/version", os.unlink),
    "version is noise": ("queue/version", write(NOISE)),
    "version empty": ("queue/version", write(b"")),
}


@pytest.mark.parametrize("case", WHOLE)
def test_daemons_go_on(master, case):
    name, damage = WHOLE[case]
    before = json.loads(Path(master.paths.config_file).read_text())
    damage(f"{master.paths.data_dir}/{name}")
    goes_on(master)
    after = json.loads(Path(master.paths.config_file).read_text())
    assert {**after, "serial_no": 0, "mtime": 0} == {**before, "serial_no": 0, "mtime": 0}
    if "noise" in case and "queue" in name:
        assert name.rpartition("/")[2] in log_of(master, "luxi"), "it does not say what it found"


def test_a_queue_of_another_version_is_refused(master):
    Path(f"{master.paths.queue_dir}/version").write_text("2\n")
    master.start("wconfd")
    assert "version 2" in refused(master, "luxid")


@pytest.mark.parametrize("seed", range(6))
def test_bytes_anywhere_in_the_database(master, seed):
    """Whatever is hit: a refusal in one sentence, or a configuration that verifies and can be changed."""
    choice = random.Random(seed)
    path = master.paths.config_database
    for _ in range(choice.choice([1, 1, 8])):
        flip_in(choice.randrange(os.path.getsize(path)), choice.choice([1, 4, 64]))(path)
    process = subprocess.Popen(
        [sys.executable, "-m", "ganeti.daemons.wconfd", "-f"], env=master.environment, stderr=subprocess.PIPE, text=True
    )
    master.until(lambda: process.poll() is not None or master._answers(master.paths.wconfd_socket), "it has decided")
    if process.poll() is None:
        master.daemons["wconfd"] = process
        goes_on(master)
    else:
        assert process.stderr is not None
        last = process.stderr.read().splitlines()[-1]
        assert process.returncode == 1 and "move it away" in last, last


DAMAGED_JOBS: dict[str, Callable[[str], None]] = {
    "cut": cut_in_half,
    "empty": write(b""),
    "noise": write(NOISE),
    "nested": write(DEEP),
    "list": write(b"[]"),
    "nothing": write(b"{}"),
    "no opcodes": write(b'{"id": 2, "ops": []}'),
    "opcode is none": write(b'{"id": 2, "ops": [5]}'),
    "status is none": write(b'{"id": 2, "ops": [{"status": "queued", "input": {"OP_ID": 5}, "priority": "x"}]}'),
    "unknown status": write(b'{"id": 2, "ops": [{"status": "lost", "input": {"OP_ID": "OP_TEST_DUMMY"}}]}'),
    "someone else's": write(b'{"id": 77, "ops": [{"status": "queued", "input": {"OP_ID": "OP_TEST_DUMMY"}}]}'),
    "bad text": write(b'{"id": 2, "ops": [{"status": "\xff\xfe"}]}'),
    "directory": a_directory,
    "FIFO": a_fifo,
    "socket": a_socket,
    "link to itself": a_link_to_itself,
}


def test_damaged_job_files_are_set_aside(master):
    """All kinds at once; each is named in the log, stays for a human, and its number is not given again."""
    files = master.files
    path, first = Path(files.path(2)), JOBS + 10
    for job_id in range(first, first + len(DAMAGED_JOBS)):
        shutil.copy(path, files.path(job_id))
    for job_id, damage in enumerate(DAMAGED_JOBS.values(), first):
        damage(files.path(job_id))
    goes_on(master)
    log = log_of(master, "luxi")
    for job_id, case in enumerate(DAMAGED_JOBS, first):
        assert os.path.lexists(f"{master.paths.queue_dir}/damaged-job-{job_id}"), case
        assert f"the file of job {job_id} is damaged" in log, case
        assert master.luxi("QueryJobs", [job_id], ["id", "status"]) == [[job_id, None]]
    assert max(files.ids()) >= first + len(DAMAGED_JOBS)
    master.kill("luxid", signal.SIGTERM)
    shutil.rmtree(f"{master.paths.queue_dir}/archive")
    for job_id in files.ids():
        os.unlink(files.path(job_id))
    os.unlink(f"{master.paths.queue_dir}/serial")
    master.start("luxid")
    assert master.submit(DUMMY) > first + len(DAMAGED_JOBS) - 1, "the number of a damaged job was given again"


@pytest.mark.parametrize("damage", [cut_in_half, write(b""), write(NOISE), write(b'{"id": 2, "ops": [5]}'), *NO_FILES])
def test_a_job_file_damaged_under_a_running_daemon_is_said_to_who_asks(master, damage):
    master.start("wconfd")
    master.start("luxid")
    damage(master.files.path(2))
    assert master.luxi("QueryJobs", [2, 3], ["id", "status"])[1] == [3, "success"]
    success, error = master.raw_luxi("WaitForJobChange", 2, ["status"], None, None, 1)
    assert not success and error[0] == "JobFileCorrupted", error
    assert master.raw_luxi("Query", "job", ["id", "status"], None)[0]
    assert master.wait(master.submit(DUMMY)).status == "success"


def dead_job(paths: Paths, files: JobFiles, job_id: int) -> None:
    """A job that had begun and died: its process is gone and so is its lock file's lock."""
    lock = f"{paths.livelock_dir}/job_{job_id:06d}_1"
    Path(lock).touch()
    entry = OpcodeEntry(input={"OP_ID": "OP_TEST_DELAY", "duration": 0}, status="running")
    file = JobFile(id=job_id, ops=[entry], livelock=lock, process_id=2**22 + 1)
    files.write(file, durable=False)


RECORD = {"record": 1, "opcode": 0, "attempt": 1, "sentence": "take node2 out again"}
RECORD |= {"change": {"name": "RemoveNode", "fields": {"node_uuid": OFFLINE_UUID}}}
WHOLE_LINE = encode_line(RECORD)
DAMAGED_UNDO = {
    "noise in the middle": WHOLE_LINE + b"\x00\xff{]\n" + encode_line({**RECORD, "record": 2}),
    "first line cut": WHOLE_LINE[:20] + b"\n" + WHOLE_LINE,
    "a list": b"[]\n" + WHOLE_LINE,
    "nested": DEEP + b"\n",
    "no opcode": encode_line({key: value for key, value in RECORD.items() if key != "opcode"}),
    "number is none": encode_line({**RECORD, "record": "x"}),
    "no way back": encode_line({key: value for key, value in RECORD.items() if key != "change"}),
    "change is none": encode_line({**RECORD, "change": 5}),
    "change is not known": encode_line({**RECORD, "change": {"name": "RemoveNodd", "fields": {}}}),
    "fields are wrong": encode_line({**RECORD, "change": {"name": "RemoveNode", "fields": {"node": 5}}}),
    "settles is none": WHOLE_LINE + encode_line({"settles": None}),
    "closed without a reason": WHOLE_LINE + encode_line({"given_up": 1}),
}


def test_damaged_undo_logs_are_named_and_keep_nobody_waiting(master):
    first = JOBS + 10
    for job_id, data in enumerate(DAMAGED_UNDO.values(), first):
        dead_job(master.paths, master.files, job_id)
        Path(undo_path(master.paths, job_id)).write_bytes(data)
    torn = first + len(DAMAGED_UNDO)
    dead_job(master.paths, master.files, torn)
    Path(undo_path(master.paths, torn)).write_bytes(WHOLE_LINE + WHOLE_LINE[:30])
    goes_on(master)
    named = {item.job_id: item.sentence for item in outstanding_undo(master.paths)}
    for job_id, case in enumerate(DAMAGED_UNDO, first):
        file = master.wait(job_id)
        assert file.status == "error", case
        assert job_id in named, f"{case}: verify does not name it"
    file = master.wait(torn)
    assert file.ops[0].log[-1][3] == "undone: take node2 out again", "a last line cut short is no damage"
    master.until(lambda: not os.path.exists(undo_path(master.paths, torn)), "its records go")


def test_a_damaged_job_file_with_undo_records_is_named(master):
    job_id = JOBS + 10
    dead_job(master.paths, master.files, job_id)
    Path(undo_path(master.paths, job_id)).write_bytes(WHOLE_LINE)
    cut_in_half(master.files.path(job_id))
    goes_on(master)
    named = {item.job_id: item.sentence for item in outstanding_undo(master.paths)}
    assert named == {job_id: "take node2 out again"}


def test_a_noisy_ssconf_file_stops_no_master(master):
    """Its database says that it is the master, and the file is written again."""
    path = Path(master.paths.ssconf_file("master_node"))
    name = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(b"\xff\xfe")
    goes_on(master)
    assert path.read_bytes() == name
