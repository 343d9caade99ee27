# SPDX-License-Identifier: BSD-2-Clause
"""Requests of `/2` without a network: every path of the specification, rights, errors, and what is submitted."""

import asyncio
import base64
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ganeti.base.errors import UNKNOWN_ENTITY, JobQueueFull, OpCodeUnknown, PrerequisiteError, TransportError
from ganeti.base.failed_logins import FAILURES_MAX, FAILURES_S
from ganeti.base.paths import Paths
from ganeti.model.data_collectors import is_command
from ganeti.rapi.callers import Callers
from ganeti.rapi.forwarding import Forwarder
from ganeti.rapi.reading import INSTANCE_FIELDS, JOB_FIELDS
from ganeti.rapi.routes import Route, routes
from ganeti.rapi.server import Api, path_table
from ganeti.rapi.users import UsersFile
from ganeti.system.http_relay import HttpRelay
from ganeti.system.http_server import HttpReply, HttpRequest

SPECIFICATION = Path(__file__).parents[3] / "docs/spec/rapi.md"
ADDED = [("/2/maintenance/incidents", "GET"), ("/2/maintenance/incidents/UUID", "DELETE")]
"""Of the design documents, not of 3.1."""
JSON = "application/json"

pytestmark = pytest.mark.requirement("S2.16")


class Luxi:
    """Keeps what it is asked, and gives what it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.gives: Any = 7
        self.lives = 1

    async def call(self, method: str, *arguments: Any, patience_s: float = 0.0, only_asks: bool = False) -> Any:
        self.asked.append((method, *arguments))
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.gives

    def life(self) -> object:
        return self.lives

    async def raw(self, method: str, *arguments: Any, patience_s: float = 0.0, only_asks: bool = False) -> Any:
        return msgspec.Raw(msgspec.json.encode(await self.call(method, *arguments)))


@pytest.fixture
def luxi() -> Luxi:
    return Luxi()


@pytest.fixture
def users(tmp_path: Path) -> UsersFile:
    (tmp_path / "users").write_text("alice pass write\nbob pass read\nnobody pass\n")
    return UsersFile(str(tmp_path / "users"))


@pytest.fixture
def api(luxi: Luxi, users: UsersFile) -> Api:
    return Api(luxi, Callers(users))


def login(user: str = "alice", password: str = "pass") -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def send(
    api: Api, method: str, target: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any, HttpReply]:
    path, _, query = target.partition("?")
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    told = {"Content-Type": JSON} | (login() if headers is None else headers)
    request = HttpRequest(method, path, data, "192.0.2.1", None, query, told)
    reply = asyncio.run(api.answer(request))
    assert reply.body.endswith(b"\n")
    return reply.status, json.loads(reply.body), reply


def submitted(luxi: Luxi) -> dict[str, Any]:
    [(method, [opcode])] = luxi.asked
    assert method == "SubmitJob"
    return opcode


def specified() -> list[tuple[str, str]]:
    section = SPECIFICATION.read_text().partition("## 3. Resources")[2].partition("## 4.")[0]
    return re.findall(r"^\| `(/[^`]*)` \| ([A-Z]+) \|", section, re.MULTILINE)


def shape(path: str) -> str:
    """With one sign for each part that varies."""
    return re.sub(r"\[[^]]+\]|(?<=/)(?:N|I|G|W|D|ID|RES|UUID)(?=/|$)", "*", path)


def test_every_path_and_method_of_the_specification_and_no_other():
    here = sorted((shape(path), method) for method, path in path_table().all())
    assert here == sorted((shape(path), method) for path, method in [*specified(), *ADDED])


def test_no_path_is_taken_for_another(api):
    for path, method in specified():
        asked = re.sub(r"(?<=/)(?:N|I|G|W|D|ID|RES|UUID)(?=/|$)", "x1", path)
        found = api.table.find(asked)
        assert found and shape(found[method][0]) == shape(path), asked


def test_errors_have_the_form_of_3_1(api):
    status, body, _ = send(api, "GET", "/2/nothing")
    assert (status, body["code"], body["message"]) == (404, 404, "Not Found") and body["explain"]
    assert send(api, "POST", "/2/info")[0] == 501
    assert send(api, "POST", "/2/groups", b"{")[0] == 400
    assert send(api, "POST", "/2/groups", {}, login() | {"Content-Type": "text/plain"})[0] == 415
    _, body, _ = send(api, "POST", "/2/groups", {"name": "g", "colour": "red"})
    assert "&#x27;colour&#x27;" in body["message"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (TransportError("gone"), 502),
        (JobQueueFull("full"), 503),
        (PrerequisiteError("which?", UNKNOWN_ENTITY), 404),
        (PrerequisiteError("Sync queries are not allowed"), 500),
        (OpCodeUnknown("Opcode OP_NEWS is not known here"), 501),
        (ZeroDivisionError("ours"), 500),
    ],
)
def test_what_luxid_answers_becomes_a_status(api, luxi, error, status):
    luxi.gives = error
    answer, body, _ = send(api, "GET", "/2/info")
    assert answer == body["code"] == status and "ours" not in body["message"]


def test_rights(api, luxi):
    assert send(api, "GET", "/version", headers={})[:2] == (200, 2)
    status, _, reply = send(api, "DELETE", "/2/groups/g", headers={})
    assert status == 401 and reply.headers["WWW-Authenticate"] == 'Basic realm="Ganeti Remote API"'
    assert send(api, "DELETE", "/2/groups/g", headers=login("alice", "wrong"))[0] == 401
    assert send(api, "DELETE", "/2/groups/g", headers=login("bob"))[0] == 403
    assert send(api, "GET", "/2/query/node?fields=name", headers=login("nobody"))[0] == 403
    assert luxi.asked == []
    assert send(api, "GET", "/2/query/node?fields=name", headers=login("bob"))[0] == 200
    assert send(api, "DELETE", "/2/groups/g")[:2] == (200, 7)


def test_reading_may_need_a_login_too(luxi, users):
    api = Api(luxi, Callers(users), needs_login=True)
    assert send(api, "GET", "/", headers={})[0] == 200
    assert send(api, "GET", "/version", headers={})[0] == 401
    assert send(api, "GET", "/version", headers=login("bob"))[0] == 200


def test_wrong_credentials_are_refused_where_anybody_may_read(api: Api, luxi: Luxi) -> None:
    for path in ("/", "/version", "/2/nodes"):
        status, _, reply = send(api, "GET", path, headers=login("alice", "wrong"))
        assert (status, reply.headers["WWW-Authenticate"]) == (401, 'Basic realm="Ganeti Remote API"')
        assert send(api, "GET", path, headers=login("carol"))[0] == 401
    assert luxi.asked == []
    luxi.gives = []
    assert send(api, "GET", "/2/nodes", headers=login("nobody"))[0] == 200


def test_an_address_that_guesses_passwords_has_to_wait(luxi, users):
    now = [0.0]
    api = Api(luxi, Callers(users, now_s=lambda: now[0]))
    for number in range(FAILURES_MAX):
        assert send(api, "DELETE", "/2/groups/g", headers=login("alice", f"guess{number}"))[0] == 401
    assert send(api, "DELETE", "/2/groups/g")[0] == 429
    now[0] += FAILURES_S + 1
    assert send(api, "DELETE", "/2/groups/g")[0] == 200


def test_failed_log_ins_are_in_the_log_of_the_daemon(
    luxi: Luxi, users: UsersFile, caplog: pytest.LogCaptureFixture
) -> None:
    """So that programs which lock out addresses can read them there; never with what was tried as the password."""
    api = Api(luxi, Callers(users, now_s=lambda: 0.0))
    for _ in range(3):
        send(api, "GET", "/2/nodes", headers=login("al\nice", "secret"))
    send(api, "GET", "/2/nodes", headers={"Authorization": "Bearer gnt_secret"})
    assert caplog.messages == [
        "a log-in from 192.0.2.1 has failed: user 'al\\nice'",
        "a log-in from 192.0.2.1 has failed: a token",
    ]
    for number in range(FAILURES_MAX):
        send(api, "GET", "/2/nodes", headers=login("alice", f"secret{number}"))
    assert len(caplog.messages) == FAILURES_MAX + 1
    assert caplog.messages[-1] == "no log-in from 192.0.2.1 is tried for a minute: 10 have failed"
    assert "secret" not in caplog.text


def test_answers_are_not_kept_nor_guessed_at(api: Api) -> None:
    for path in ("/version", "/2/nothing", "/3/whoami"):
        headers = send(api, "GET", path)[2].headers
        assert (headers["Cache-Control"], headers["X-Content-Type-Options"]) == ("no-store", "nosniff"), path


def test_a_program_with_an_old_password_keeps_no_other_program_of_its_address_out(api: Api) -> None:
    for _ in range(3 * FAILURES_MAX):
        assert send(api, "GET", "/version", headers=login("alice", "former"))[0] == 401
    assert send(api, "GET", "/version")[0] == 200


def test_parameters_come_from_path_arguments_and_body(api, luxi):
    target = "/2/instances/web1/shutdown?dry-run=1&no_remember=1&reason=night&unheard=of"
    assert send(api, "PUT", target, {"timeout": 5, "depends": [[3, ["success"]]]})[:2] == (200, 7)
    opcode = submitted(luxi)
    assert (opcode["OP_ID"], opcode["instance_name"], opcode["timeout"]) == ("OP_INSTANCE_SHUTDOWN", "web1", 5)
    assert (opcode["dry_run"], opcode["no_remember"], opcode["depends"]) == (True, True, [[3, ["success"]]])
    asked, library = opcode["reason"]
    assert asked[:2] == ["gnt:user", "night"] and library[0].startswith("gnt:library:rlib2:R_2_instances_name_shutdown")


@pytest.mark.parametrize(
    ("method", "target", "body", "expected"),
    [
        ("POST", "/2/groups", {"name": "g"}, {"group_name": "g"}),
        ("PUT", "/2/groups/g/modify", {"custom_ndparams": {"ssh_port": 23}}, {"ndparams": {"ssh_port": 23}}),
        ("PUT", "/2/nodes/n/tags?tag=a&tag=b", None, {"kind": "node", "name": "n", "tags": ["a", "b"]}),
        (
            "PUT",
            "/2/nodes/n/storage/modify?storage_type=lvm-pv&name=v&allocatable=0",
            None,
            {"changes": {"allocatable": False}},
        ),
        ("POST", "/2/nodes/n/powercycle?force=1", None, {"node_name": "n", "force": True}),
        ("DELETE", "/2/tags?tag=a", None, {"kind": "cluster", "tags": ["a"]}),
        ("PUT", "/2/instances/i/tags", None, {"kind": "instance", "name": "i", "tags": []}),
        ("DELETE", "/2/groups/g", ["no use"], {"group_name": "g"}),
        ("POST", "/2/instances/i/reboot?type=soft", None, {"reboot_type": "soft"}),
        ("POST", "/2/instances/i/reboot", None, {"reboot_type": "hard"}),
        ("POST", "/2/instances/i/reboot", {"shutdown_timeout": 3}, {"reboot_type": "hard", "shutdown_timeout": 3}),
        ("PUT", "/2/instances/i/activate-disks", {"of": "no use"}, {"instance_name": "i"}),
        ("PUT", "/2/instances/i/deactivate-disks?force=1", ["no use"], {"instance_name": "i", "force": True}),
        ("POST", "/2/groups", {"name": "g", "comment": "why", "debug_level": 1}, {"comment": "why", "debug_level": 1}),
        ("POST", "/2/groups", {"name": "g", "priority": -10}, {"group_name": "g", "priority": -10}),
        ("POST", "/2/instances/i/reboot?priority=10", None, {"reboot_type": "hard", "priority": 10}),
        ("PUT", "/2/nodes/n/role?force=1", "drained", {"drained": True, "force": True, "offline": None}),
        ("GET", "/2/instances/i/info?static=1", None, {"instances": ["i"], "static": True}),
        ("DELETE", "/2/instances/i", None, {"instance_name": "i", "ignore_failures": False}),
        ("PUT", "/2/instances/i/startup?force=1", {"of": "no use"}, {"instance_name": "i", "force": True}),
    ],
)
def test_what_is_irregular(api, luxi, method, target, body, expected):
    assert send(api, method, target, body)[:2] == (200, 7)
    opcode = submitted(luxi)
    assert {name: opcode[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("method", "target", "body", "status"),
    [
        ("POST", "/2/groups", [], 400),
        ("POST", "/2/groups", {"name": "g", "group_name": "h"}, 400),
        ("POST", "/2/groups", {"name": 1}, 400),
        ("POST", "/2/groups", {"name": "g", "depends": [[1]]}, 400),
        ("POST", "/2/groups", {"name": "g", "depends": [["one", ["success"]]]}, 400),
        ("POST", "/2/groups", {"name": "g", "depends": [[-1, ["success"]]]}, 400),
        ("POST", "/2/groups", {"name": "g", "priority": 5}, 400),
        ("POST", "/2/instances", {"name": "i"}, 400),
        ("POST", "/2/instances", {"__version__": 0, "name": "i"}, 400),
        ("DELETE", "/2/instances/i", {"ignore_failures": True}, 400),
        ("PUT", "/2/groups/g/rename", {"group_name": "h", "new_name": "i"}, 400),
        ("PUT", "/2/nodes/n/role", "king", 400),
        ("PUT", "/2/nodes/n/role", None, 400),
        ("DELETE", "/2/groups/g?dry-run=perhaps", None, 400),
        ("PUT", "/2/modify", {"compression_tools": []}, 403),
        ("PUT", "/2/modify?compression_tools=python3", {"candidate_pool_size": 2}, 403),
        ("PUT", "/2/modify?compression-tools=python3", None, 403),
        ("PUT", "/2/modify", {"ndparams": {"oob_program": "/bin/sh"}}, 403),
        ("POST", "/2/nodes/n/modify", {"ndparams": {"oob_program": "/bin/sh"}}, 403),
        ("POST", "/2/groups", {"name": "g", "ndparams": {"oob_program": "/bin/sh"}}, 403),
        ("PUT", "/2/groups/g/modify", {"custom_ndparams": {"oob_program": "/bin/sh"}}, 403),
        ("DELETE", "/2/tags", None, 400),
        ("GET", "/2/query/node", None, 400),
        ("GET", "/2/jobs/1/wait", None, 400),
        ("GET", "/2/jobs/one", None, 404),
        ("GET", f"/2/jobs/{'9' * 5000}", None, 404),
        ("GET", "/2/jobs/٣", None, 404),
        ("POST", "/2/instances/i/replace-disks", {"mode": "replace_auto", "disks": "9" * 5000}, 400),
        ("POST", "/2/groups", b'{"name": "\xff"}', 400),
        ("POST", "/2/filters", {"colour": 1}, 400),
        ("POST", "/2/filters", None, 400),
        ("GET", "/2/jobs/1/wait", {"fields": ["status"], "previous_log_serial": "3"}, 400),
    ],
)
def test_bad_input_reaches_nobody(api, luxi, method, target, body, status):
    assert send(api, method, target, body)[0] == status
    assert luxi.asked == []


def test_a_route_whose_opcode_does_not_exist_yet_says_so(api, luxi):
    for method, path in api.table.all():
        _, target = api.table.find(path)[method]
        if isinstance(target, Route) and target.operation is None:
            status, body, _ = send(api, method, path, {})
            assert status == 501 and "not possible yet" in body["message"], path
    assert luxi.asked == []


def test_lists_and_objects(api, luxi):
    luxi.gives = [["one"], ["two"]]
    assert send(api, "GET", "/2/nodes")[1][0] == {"id": "one", "uri": "/2/nodes/one"}
    assert send(api, "GET", "/2/groups")[1][1] == {"name": "two", "uri": "/2/groups/two"}
    luxi.gives = [["R"]]
    assert send(api, "GET", "/2/nodes/n/role")[1] == "regular"
    luxi.gives = [[None]]
    assert send(api, "GET", "/2/instances/i/console")[0] == 503
    luxi.gives = [[9, *[None] * 9]]
    job = send(api, "GET", "/2/jobs/9")[1]
    assert (job["id"], job["opresult"]) == (9, None)
    luxi.gives = [["success"], []]
    wait = send(api, "GET", "/2/jobs/9/wait", {"fields": ["status"]})
    assert wait[1] == {"job_info": ["success"], "log_entries": []}


def test_operating_systems_are_those_that_can_be_installed(api: Api, luxi: Luxi) -> None:
    rows = {
        "shown": (["one", "two"], True, False, False),
        "plain": ([], True, False, False),
        "broken": ([], False, False, False),
        "hidden": (["one"], True, True, False),
        "blacklisted": (["one"], True, False, True),
    }
    answers = {"SubmitJob": 7, "WaitForJobChange": [["success", [[[name, *row] for name, row in rows.items()]]], []]}
    told: list[Any] = []

    async def call(method: str, *arguments: Any, **_: Any) -> Any:
        told.append(arguments)
        return answers[method]

    luxi.call = call  # type: ignore[method-assign]
    assert send(api, "GET", "/2/os")[1] == ["shown+one", "shown+two", "plain"]
    assert told[0][0][0]["output_fields"] == ["name", "variants", "valid", "hidden", "blacklisted"]


def test_memory_of_instances_has_the_old_name_too(api: Api, luxi: Luxi) -> None:
    memory = {"maxmem": 512, "minmem": 128}
    row = [memory if name == "beparams" else None for name in INSTANCE_FIELDS]
    luxi.gives = [row]
    for path in ("/2/instances/web1", "/2/instances?bulk=1"):
        told = send(api, "GET", path)[1]
        shown = told[0] if isinstance(told, list) else told
        assert shown["beparams"] == memory | {"memory": 512}
        assert shown["custom_beparams"] is None


def test_a_reinstallation_is_a_chain(api: Api, luxi: Luxi) -> None:
    send(api, "POST", "/2/instances/web1/reinstall", {"os": "noop", "start": True})
    [(_, opcodes)] = luxi.asked
    assert [each["OP_ID"] for each in opcodes] == [
        "OP_INSTANCE_SHUTDOWN",
        "OP_INSTANCE_REINSTALL",
        "OP_INSTANCE_STARTUP",
    ]
    assert opcodes[1]["os_type"] == "noop"


def test_a_reinstallation_that_is_tried_or_waits_stops_nothing_before(api: Api, luxi: Luxi) -> None:
    send(api, "POST", "/2/instances/web1/reinstall?dry-run=1", {"os": "noop", "depends": [[3, ["success"]]]})
    [(_, [shutdown, install, startup])] = luxi.asked
    assert shutdown["dry_run"] and install["dry_run"] and startup["dry_run"]
    assert shutdown["depends"] == install["depends"] == [[3, ["success"]]]


def test_the_older_forms_of_requests(api: Api, luxi: Luxi) -> None:
    send(api, "POST", "/2/instances/web1/reinstall?os=noop&nostartup=1")
    [(_, opcodes)] = luxi.asked
    assert [each["OP_ID"] for each in opcodes] == ["OP_INSTANCE_SHUTDOWN", "OP_INSTANCE_REINSTALL"]
    luxi.asked.clear()
    send(api, "POST", "/2/instances/web1/replace-disks?disks=0,1&mode=replace_on_primary", {"mode": "replace_auto"})
    assert (submitted(luxi)["disks"], submitted(luxi)["mode"]) == ([0, 1], "replace_on_primary")
    luxi.asked.clear()
    send(api, "POST", "/2/instances/web1/replace-disks", {"disks": "0,1", "mode": "replace_auto"})
    assert submitted(luxi)["disks"] == [0, 1]
    luxi.asked.clear()
    send(api, "POST", "/2/instances/web1/replace-disks", {"disks": "", "mode": "replace_auto"})
    assert submitted(luxi)["disks"] == []


@pytest.mark.parametrize(("path", "fields"), [("/2/instances", INSTANCE_FIELDS), ("/2/jobs", JOB_FIELDS)])
def test_a_long_list_is_streamed_as_it_came(api: Api, luxi: Luxi, path: str, fields: Sequence[str]) -> None:
    luxi.gives = [[f"web{number}", *([1.5] * (len(fields) - 1))] for number in range(4500)]
    reply = asyncio.run(_whole(api, HttpRequest("GET", path, b"", "192.0.2.1", None, "bulk=1", {})))
    rows = json.loads(reply)
    assert [row[fields[0]] for row in rows] == [f"web{number}" for number in range(4500)]
    assert set(rows[0]) == set(fields)


async def _whole(api: Api, request: HttpRequest) -> bytes:
    reply = await api.answer(request)
    rest = b"".join([chunk async for chunk in reply.chunks]) if reply.chunks is not None else b""
    assert reply.chunks is not None and len(reply.body) < len(rest) + len(reply.body)
    return reply.body + rest


def test_policies_name_the_templates_of_3_1_alone(api: Api, luxi: Luxi) -> None:
    luxi.gives = {"ipolicy": {"disk-templates": ["plain", "mirror"]}}
    assert send(api, "GET", "/2/info")[1]["ipolicy"] == {"disk-templates": ["plain"]}


def test_requests_beyond_the_most_are_put_off(luxi: Luxi, users: UsersFile) -> None:
    assert send(Api(luxi, Callers(users), clients_max=0), "GET", "/version")[0] == 503


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Length": "4000000"}, 401),
        ({"Transfer-Encoding": "chunked"}, 401),
        ({"Content-Length": "4000000"} | login(password="wrong"), 401),
        ({"Content-Length": "4000000"} | login(), None),
        ({"Transfer-Encoding": "chunked"} | login(), None),
        ({"Content-Length": "100"}, None),
        ({}, None),
    ],
)
def test_long_bodies_of_strangers_are_not_taken_in(
    api: Api, tmp_path: Path, headers: dict[str, str], status: int | None
) -> None:
    (tmp_path / "data").mkdir()
    paths = Paths(str(tmp_path))
    forwarder = Forwarder(api.answer, paths, "node1", HttpRelay(None), 5080, api.door, lambda: "/nowhere")
    for path in ("/2/instances", "/3/operations/instance-create"):
        reply = forwarder.door(HttpRequest("POST", path, b"", "192.0.2.1", None, "", headers))
        assert (reply.status if reply is not None else None) == status


@pytest.mark.requirement("S4.13")
def test_no_request_runs_a_command_on_a_node_or_chooses_another_than_its_administrator():
    """Who has the remote API's password alone gets no command of his own onto a node."""
    operations_here = {route.op_id for route in routes()}
    assert not operations_here & {"OP_REPAIR_COMMAND", "OP_RESTRICTED_COMMAND"}
    for name in ("../../bin/sh", "/bin/sh", "a b", "a;b", "."):
        assert not is_command(name), "a name of a file in a directory that is root's, and nothing else"


_OF_ANOTHER_SITE = (
    {"Sec-Fetch-Site": "cross-site", "Origin": "https://elsewhere.example.com", "Host": "master:5080"},
    {"Sec-Fetch-Site": "same-site", "Host": "master:5080"},
    {"Origin": "https://elsewhere.example.com", "Host": "master:5080"},
    {"Origin": "null", "Host": "master:5080"},
)
_OF_NO_OTHER_SITE = (
    {},
    {"Sec-Fetch-Site": "none"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "https://panel.example.com", "Host": "master:5080"},
    {"Origin": "https://master:5080", "Host": "master:5080"},
)


@pytest.mark.parametrize("headers", _OF_ANOTHER_SITE)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_page_of_another_site_changes_nothing_with_the_password_a_browser_knows(api, luxi, method, headers):
    """A form of any page makes a browser send POST without a body, with the password that was typed for this server."""
    path = {"POST": "/2/instances/web1/reboot?type=hard", "PUT": "/2/nodes/n1/role", "DELETE": "/2/instances/web1"}
    status, body, _ = send(api, method, path[method], headers=login() | headers)
    assert (status, luxi.asked) == (403, [])
    assert "page of another site" in body["message"]
    third, told, _ = send(api, "POST", "/3/operations/instance-reboot", headers=login() | headers)
    assert (third, "page of another site" in told["detail"]) == (403, True)


@pytest.mark.parametrize("headers", _OF_NO_OTHER_SITE)
def test_programs_and_pages_of_the_same_server_are_answered(api, luxi, headers):
    assert send(api, "POST", "/2/instances/web1/reboot?type=hard", headers=login() | headers)[0] == 200
    assert submitted(luxi)["OP_ID"] == "OP_INSTANCE_REBOOT"


def test_a_page_of_another_site_may_ask_without_reading_the_answer(api):
    headers = login() | _OF_ANOTHER_SITE[0]
    status, _, reply = send(api, "GET", "/2/features", headers=headers)
    assert (status, [name for name in reply.headers if name.startswith("Access-Control")]) == (200, [])
