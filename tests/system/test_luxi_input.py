# SPDX-License-Identifier: BSD-2-Clause
"""The real master daemons and whatever comes in at their sockets: an answer for each, and nothing has changed."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.bad_parameters import OURS, good, refused_at_once
from tests.fakes.master_daemons import HOST, OFFLINE_UUID, Master, running_master

from ganeti.base.errors import INTERNAL_ERROR
from ganeti.daemons import luxid
from ganeti.ports.luxid import Question
from ganeti.wconfd import calls as wconfd_calls
from ganeti.wconfd.refused_calls import refused_calls
from ganeti.wire.framing_sync import SyncConnection, connect
from ganeti.wire.job_file import FINAL_STATUSES

pytestmark = pytest.mark.daemons
END = b"\x03"
QUIET = settings(
    max_examples=int(os.environ.get("GANETI_CAMPAIGN", 0)) * 1000 or 40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)

DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 0.01, "on_master": True}
ME: list[Any] = [10**9, "/nonexistent/lock", 1]
OTHER: list[Any] = [10**9 + 1, "/nonexistent/other", 1]
MAINTENANCE = [f"maintenance{what}" for what in ("RoundDelay", "Jobs", "Balancing", "Evacuated", "Incidents")]
REQUEST = [["cluster/BGL", "shared"], ["node/x", "exclusive"]]
MINIMUM = ["|", ["==", "name", "x"], ["!", ["=~", "name", "x"]]]

PLACE = {"type": "relocate", "name": "x", "relocate_from": [], "disk_space_total": 0}

LUXI_CALLS: dict[str, list[Any]] = {
    "AnswerPlacement": [PLACE, None, False],
    "DescribeForAllocator": [PLACE],
    "ArchiveJob": [10**6],
    "AutoArchiveJobs": [10**9, 1],
    "CancelJob": [10**6, False],
    "CancelUnbegun": [[10**6]],
    "ChangeJobPriority": [10**6, 10],
    "DeleteFilter": ["bogus"],
    "ExplainJob": [1],
    "ForgetRenewal": [10**6],
    "KeepCapacity": [ME, {"x": [{"tspecs": []}, 0.5]}],
    "KnownCapacity": [ME, {"x": {"iallocator": "hail"}}, True],
    "KnownIncidents": [],
    "MayContinue": [10**6, 1],
    "NodesWithHooks": ["instance-add", ["uuid-of-none"]],
    "PlanMaintenance": [],
    "ReadFlightRecord": [1, 0.5],
    "RenewGroupState": ["x"],
    "PickupJob": [1],
    "Query": ["node", ["name", "role"], MINIMUM],
    "QueryClusterInfo": [],
    "QueryConfigValues": [["cluster_name"]],
    "QueryExports": [[HOST], False],
    "QueryFields": ["job", ["id"]],
    "QueryFilters": [None, ["uuid"]],
    "QueryGroups": [["default"], ["name"], False],
    "QueryInstances": [[], ["name"], False],
    "QueryJobs": [[1, "1"], ["id", "status"]],
    "QueryNetworks": [[], ["name"], False],
    "QueryNodes": [[HOST], ["name"], False],
    "QueryTags": ["node", HOST],
    "ReplaceFilter": [None, 5, [["jobid", [">", "id", 10**6]]], "PAUSE", [["x", "y", 1]]],
    "SetDrainFlag": [False],
    "SetWatcherPause": [None],
    "SubmitJob": [[{**DELAY, "depends": [[1, ["success"]]], "priority": 10, "reason": [["x", "y", 1]]}]],
    "SubmitJobToDrainedQueue": [[DELAY]],
    "SubmitManyJobs": [[[DELAY], [{**DELAY, "depends": [[-1, ["success"]]]}]]],
    "Subscribe": [["job", "config"], "0-1-1.1", {"snapshot": True}],
    "WaitForJobChange": [1, ["status"], ["queued"], 0, 0.01],
}
CHANGES_OF_MAINTENANCE: dict[str, list[Any]] = {
    "addMaintdEvacuated": [["x"]],
    "appendMaintdJobs": [[10**9]],
    "clearMaintdJobs": [],
    "rmMaintdEvacuated": ["x"],
    "rmMaintdIncident": ["x"],
    "setMaintdBalance": [False],
    "setMaintdBalanceThreshold": [0.1],
    "setMaintdRoundDelay": [300],
    "updateMaintdIncident": [{"uuid": "a" * 36, "node": OFFLINE_UUID, "action": "evacuate", "original": {}}],
}
WCONFD_CALLS: dict[str, list[Any]] = {
    "askLocks": [[[ME, 0, REQUEST], [OTHER, 0, REQUEST]]],
    "cancelLockRequest": [ME],
    "changeLockPriority": [ME, 5],
    "claimLocks": [OTHER, ME, 0, REQUEST],
    "cleanupLocks": [],
    "commit": [[10**9, "/nonexistent/lock", 1], 1, "ReplaceFilterChange", {"uuid": "x"}, False],
    "downGradeLocksLevel": [ME, "node"],
    "compareQueue": [],
    "dropAllReservations": [ME],
    "echo": ["x"],
    "explainLocks": [ME],
    "flushConfig": [],
    "flushConfigGroup": ["a" * 36],
    "followLocks": [None],
    "freeLocks": [ME],
    "freeLocksLevel": [ME, "node"],
    "giveUpRoom": [ME],
    "guardedOpportunisticLockUnion": [1, ME, REQUEST],
    "handOverLocks": [ME, OTHER],
    "hasPendingRequest": [ME],
    "intersectLocks": [ME, ["node/x"]],
    "lastStep": [10**9],
    "listAllLocks": [],
    "listAllLocksOwners": [],
    "listLocks": [ME],
    "listLocksWaitingStatus": [],
    "listReservations": [],
    "lockSerial": [],
    **{name: [] for name in MAINTENANCE},
    **CHANGES_OF_MAINTENANCE,
    "opportunisticLockUnion": [ME, REQUEST],
    "opportunisticLockUnionWaiting": [1, 0.01, ME, REQUEST],
    "position": [],
    "reserveRoom": [ME, [{"instance": "x", "nodes": [OFFLINE_UUID], "memory_mib": 1}], 0],
    "readConfig": [],
    "replicateQueue": [["job-7", "drain"], [7]],
    "replicationState": [],
    "subscribe": [[1, 1]],
    "tryUpdateLocks": [ME, REQUEST],
    "updateLocksWaiting": [ME, 0, REQUEST],
    "verifyConfig": [],
    "waitLocks": [ME, 0, REQUEST],
    "waitPublished": [[1, 1]],
    "withdrawLocks": [[ME, OTHER]],
}
FIELDS = ["", "job", "node", "instance", "cluster", "name", "status", "id", "bogus", HOST, OFFLINE_UUID]
SIGNS = ["&", "|", "==", "?", "OP_TEST_DELAY", "OP_ID", "cluster/BGL", "exclusive", "shared", "release", "-1", "0", "7"]
WORDS = st.sampled_from([*FIELDS, *SIGNS, "\x00", "é" * 300, "("])
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, 7, -1, -20, 19, 2**31, 2**63, -(2**64), 10**30, 0.5, -1.5, 1e308]),
    WORDS,
    st.text(max_size=8),
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(WORDS, st.text(max_size=5)), inner, max_size=3),
    ),
    max_leaves=12,
)
ANYTHING = st.lists(VALUES, max_size=6)


@st.composite
def arguments_of(draw: st.DrawFn, example: list[Any]) -> list[Any]:
    """Sometimes anything at all; mostly right arguments with one thing in them left out, added or made wrong."""
    if not example or draw(st.integers(0, 4)) == 0:
        return draw(ANYTHING)
    changed: list[Any] = json.loads(json.dumps(example))
    place: Any = changed
    while True:
        keys = list(range(len(place))) if isinstance(place, list) else sorted(place)
        key = draw(st.sampled_from(keys))
        inner = place[key]
        if not isinstance(inner, list | dict) or not inner or draw(st.booleans()):
            break
        place = inner
    how = draw(st.sampled_from(["replace", "replace", "replace", "remove", "add"]))
    if how == "remove":
        del place[key]
    elif how == "add" and isinstance(place, list):
        place.insert(key, draw(VALUES))
    else:
        place[draw(WORDS) if how == "add" else key] = draw(VALUES)
    return changed


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    with running_master(tmp_path_factory.mktemp("master") / "root") as found:
        found.job = found.submit({"OP_ID": "OP_TEST_DELAY", "duration": 0.01, "on_master": True})
        found.wait(found.job)
        yield found


def state(master: Master) -> Any:
    """All that calls can change: job files, the configuration, locks, drain flag and watcher pause."""
    with connect(master.paths.wconfd_socket) as connection:
        answers = []
        for method in ("readConfig", "listAllLocksOwners", "listLocksWaitingStatus"):
            connection.send({"method": method, "args": []})
            answers.append(connection.receive()["result"])
    queue = Path(master.paths.queue_dir)
    files = {path.name: path.read_bytes() for path in queue.rglob("*") if path.is_file()}
    pause = Path(master.paths.data_dir, "watcher.pause")
    return answers, files, pause.exists() and pause.read_text()


def answered(connection: SyncConnection, method: str, arguments: Any) -> dict[str, Any]:
    connection.send({"method": method, "args": arguments})
    answer: dict[str, Any] = connection.receive()
    if "event" in answer:
        return {"success": True, "result": answer}
    assert set(answer) == {"success", "result"} and isinstance(answer["success"], bool)
    if not answer["success"]:
        result = answer["result"]
        assert isinstance(result, str) or (isinstance(result[0], str) and isinstance(result[1], list)), result
        assert INTERNAL_ERROR not in str(result), (method, arguments, result)
    return answer


def test_every_call_is_listed_here(master):
    with master.connection() as connection:
        for method in LUXI_CALLS:
            assert "there is no call" not in str(answered(connection, method, [[], [], [], [], [], [], []]))
    source = "".join(path.read_text() for path in Path(luxid.__file__).parents[1].glob("luxid/**/*.py"))
    named = set(re.findall(r'^ {4}@serves\("([A-Z][A-Za-z]+)"\)$', source, re.MULTILINE))
    assert len(named) > 20
    assert named | {question.__name__ for question in Question.__subclasses__()} <= set(LUXI_CALLS)
    known = set(wconfd_calls.calls_of(NoParts())) | {"subscribe", "followLocks"}
    assert known - {"prepareClusterDestruction"} - set(refused_calls()) == set(WCONFD_CALLS)


class NoParts:
    """Stands for what WConfD's calls work on: they are only named here."""

    def __getattr__(self, name: str) -> Any:
        return NoParts()


@pytest.mark.parametrize("method", LUXI_CALLS)
def test_luxi_calls_with_any_arguments(master, method):
    """A wrong call is refused in words and changes nothing; the connection and the daemon go on."""

    @QUIET
    @given(arguments_of(LUXI_CALLS[method]))
    def try_it(arguments: list[Any]) -> None:
        if method == "WaitForJobChange" and len(arguments) == 5:
            arguments = [*arguments[:4], 0 if isinstance(arguments[4], int | float) else arguments[4]]
        before = state(master)
        with master.connection() as connection:
            answer = answered(connection, method, arguments)
            if not answer["success"]:
                assert state(master) == before, (method, arguments)
                assert answered(connection, "QueryConfigValues", [["cluster_name"]])["result"] == [
                    "cluster.example.com"
                ]
        if answer["success"] and method == "SetDrainFlag":
            master.luxi("SetDrainFlag", False)
        if answer["success"] and method == "ReplaceFilter":
            master.luxi("DeleteFilter", answer["result"])
        if answer["success"] and method.startswith("Submit"):
            end_jobs(master)

    try_it()
    assert master.daemons["luxid"].poll() is None


@pytest.mark.parametrize("op_id", [op_id for op_id in OURS if op_id.startswith("OP_INSTANCE_")])
def test_wrong_parameters_of_instances_are_refused_at_the_door(master, op_id):
    """Each missing, of each wrong type, out of its bounds: one message that names it, no job, the configuration stands.

    What can be wrong follows from the declarations; `test_bad_input.py` goes on with what only a job finds out.
    """
    cases = list(refused_at_once(op_id, good(op_id)))
    before = state(master)
    answers = master.luxi("SubmitManyJobs", [[{"OP_ID": op_id, **parameters}] for _, parameters in cases])
    for (name, parameters), (accepted, said) in zip(cases, answers, strict=True):
        assert accepted is False, (parameters, said)
        assert name.lower() in said.lower() and said.isprintable() and "`" not in said, (parameters, said)
    assert before[0][0]["serial_no"] > 0 and state(master) == before


def end_jobs(master: Master) -> None:
    """What was submitted by chance changes nothing any more."""
    for job_id, status in master.luxi("QueryJobs", None, ["id", "status"]):
        if status not in FINAL_STATUSES:
            master.luxi("CancelJob", job_id, True)
            master.wait(job_id)
    master.until(lambda: not master.job_pids(), "the jobs' processes have ended")


@pytest.mark.parametrize("method", WCONFD_CALLS)
def test_wconfd_calls_with_any_arguments(master, method):
    @QUIET
    @given(arguments_of(WCONFD_CALLS[method]))
    def try_it(arguments: list[Any]) -> None:
        before = state(master)
        with connect(master.paths.wconfd_socket, 20.0) as connection:
            answer = answered(connection, method, arguments)
            if not answer["success"]:
                assert state(master) == before, (method, arguments)
                assert answered(connection, "echo", [7])["result"] == 7

    try_it()
    assert master.daemons["wconfd"].poll() is None


BROKEN = [
    b"{",
    b"[" * 100_000,
    b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    b'{"method": "echo", "args": ["\xff\xfe"]}',
    b'{"method": "echo", "args": [1e999]}',
    b"null",
    b'{"method": 7, "args": []}',
    b'{"method": "nosuch", "args": []}',
    b'{"method": "\\ud800", "args": []}',
]


@pytest.mark.parametrize("data", BROKEN)
@pytest.mark.parametrize("daemon", ["luxid", "wconfd"])
def test_what_is_no_request_is_answered_in_words(master, daemon, data):
    path = {"luxid": master.paths.luxi_socket, "wconfd": master.paths.wconfd_socket}[daemon]
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(path)
        client.sendall(data + END)
        answer = json.loads(read_message(client))
        assert answer["success"] is False and INTERNAL_ERROR not in str(answer)
    assert master.daemons[daemon].poll() is None and master.luxi("QueryConfigValues", ["cluster_name"])


def test_numbers_of_thousands_of_digits_are_refused_or_read(master):
    for method, arguments in (("ArchiveJob", "[%s]"), ("AutoArchiveJobs", "[%s, 1]"), ("SetWatcherPause", "[%s]")):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(master.paths.luxi_socket)
            client.sendall(f'{{"method": "{method}", "args": {arguments % ("9" * 3000)}}}'.encode() + END)
            answer = json.loads(read_message(client))
            assert answer["success"] is False and INTERNAL_ERROR not in str(answer), answer


def read_message(client: socket.socket) -> bytes:
    data = b""
    while not data.endswith(END):
        block = client.recv(65536)
        assert block, data
        data += block
    return data[:-1]


def test_one_that_drips_and_one_that_does_not_read_hold_up_nobody(master):
    with socket.socket(socket.AF_UNIX) as dripping, socket.socket(socket.AF_UNIX) as greedy:
        dripping.connect(master.paths.luxi_socket)
        greedy.connect(master.paths.luxi_socket)
        greedy.settimeout(0.2)
        question = json.dumps({"method": "QueryFields", "args": ["instance"]}).encode() + END
        try:
            while True:  # until neither the questions nor the answers fit anywhere
                greedy.sendall(question)
        except TimeoutError:
            pass
        for letter in b'{"method": "Query':
            dripping.sendall(bytes([letter]))
            assert master.luxi("QueryConfigValues", ["cluster_name"], timeout_s=5.0) == ["cluster.example.com"]


def test_many_clients_wait_for_one_job_and_all_are_told(master):
    """Nobody polls: while nothing happens the daemon does nothing, and one change reaches everybody."""
    count = 300
    job = master.submit({**DELAY, "duration": 600})
    master.until(lambda: master.luxi("QueryJobs", [job], ["status"]) == [["running"]], "the job runs")
    clients = [master.connection() for _ in range(count)]
    try:
        for client in clients:
            client.send({"method": "WaitForJobChange", "args": [job, ["status"], ["running"], 0, 60]})
        master.luxi("CancelJob", job, True)
        told = [client.receive()["result"][0] for client in clients]
        assert set(map(tuple, told)) <= {("canceling",), ("canceled",), ("error",)} and len(told) == count
    finally:
        for client in clients:
            client.close()


def test_a_client_that_goes_while_it_waits_leaves_nothing(master):
    job = master.submit({**DELAY, "duration": 600})
    pid = master.daemons["luxid"].pid
    before = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    for _ in range(50):
        with master.connection() as client:
            client.send({"method": "WaitForJobChange", "args": [job, ["status"], ["running"], 0, 80]})
    try:
        master.until(lambda: len(list(Path(f"/proc/{pid}/fd").iterdir())) <= before + 5, "their connections are gone")
    finally:
        master.luxi("CancelJob", job, True)
