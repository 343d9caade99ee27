# SPDX-License-Identifier: BSD-2-Clause
"""Requests of `/3` without a network: rights by scopes, queries, submissions once only, the document, the audit log."""

from __future__ import annotations

import asyncio
import base64
import errno
import json
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ganeti.base.errors import UNKNOWN_ENTITY, GanetiError, JobLost, OpCodeUnknown, PrerequisiteError, TransportError
from ganeti.rapi.audit import AuditLog
from ganeti.rapi.callers import Callers, TokensFile
from ganeti.rapi.server import Api
from ganeti.rapi.users import UsersFile
from ganeti.rapi.v3.submission import Submitter
from ganeti.system.http_server import HttpReply, HttpRequest
from ganeti.wire.api_tokens import KINDS, Token, hash_of, read_scope, shown_once, write_tokens
from ganeti.wire.audit_lines import AuditFault, verified

TAGS = {("node", "n1"): ["mine"], ("node", "n2"): [], ("instance", "web1"): ["shop"], ("nodegroup", "g"): ["own"]}
GROUP = {"group_name": "g1"}
MOVE = ("POST", "/3/operations/instance-move", {"instance_name": "web1", "target_node": "n1"})


def attached(action: str, values: dict[str, Any]) -> tuple[str, str, Any]:
    body = {"instance_name": "web1", "disks": [[action, -1, values]]}
    return "POST", "/3/operations/instance-set-params", body


class Luxi:
    """A LuxiD with some nodes, which takes every job."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.jobs: list[list[dict[str, Any]]] = []
        self.fails: GanetiError | None = None
        self.knows_nothing = False
        self.ended: list[Any] | JobLost | None = None
        """Status and results of any job; None where LuxiD does not say."""
        self.lives = 1
        self.longest = 0
        """The most jobs whose opcodes were asked for at once."""

    async def call(self, method: str, *arguments: Any, patience_s: float = 0.0, only_asks: bool = False) -> Any:
        self.asked.append((method, *arguments))
        if self.knows_nothing:
            raise PrerequisiteError("not known", UNKNOWN_ENTITY)
        if method == "QueryTags":
            if arguments not in TAGS:
                raise PrerequisiteError("not known", UNKNOWN_ENTITY)
            return TAGS[arguments]
        if method == "QueryJobs":
            numbers, fields = arguments
            if fields == ["id"]:
                return [[number] for number in range(1, len(self.jobs) + 1)]
            self.longest = max(self.longest, len(numbers))
            return [[number, self.jobs[number - 1]] for number in numbers]
        if method == "SubmitJob":
            self.jobs.append(arguments[0])
            if self.fails is not None:
                raise self.fails
            return len(self.jobs)
        if method == "WaitForJobChange":
            if isinstance(self.ended, JobLost):
                raise self.ended
            if self.ended is None:
                raise TransportError("gone")
            return [self.ended, []]
        assert method == "Query", method
        if arguments[0] == "job" and arguments[2][2] > len(self.jobs):
            rows = [[[0, arguments[2][2]] if name == "id" else [2, None] for name in arguments[1]]]
        else:
            rows = [] if arguments[2] == ["=", "name", "none"] else [[[0, "n1"], [4, None]]]
        kinds = {name: "unknown" if name == "colour" else "text" for name in arguments[1]}
        return {"fields": [{"name": name, "kind": kind} for name, kind in kinds.items()], "data": rows}

    def life(self) -> object:
        return self.lives

    async def raw(self, method: str, *arguments: Any, patience_s: float = 0.0, only_asks: bool = False) -> Any:
        return msgspec.Raw(msgspec.json.encode(await self.call(method, *arguments)))


class SlowLuxi(Luxi):
    """Takes its time for each answer; the first submission is lost."""

    is_first = True

    async def call(self, method: str, *arguments: Any, patience_s: float = 0.0, only_asks: bool = False) -> Any:
        for _ in range(5):
            await asyncio.sleep(0)
        if method == "SubmitJob" and self.is_first:
            self.is_first = False
            raise TransportError("gone")
        return await super().call(method, *arguments)


class World:
    def __init__(self, directory: Path) -> None:
        self.luxi = Luxi()
        self.fan: Any = None
        self.needs_login = False
        self.now = [1000.0]
        (directory / "users").write_text("alice pass write\n")
        self.audit_path = directory / "audit"
        self._tokens: dict[str, Token] = {}
        self._tokens_path = directory / "tokens"
        self.directory = directory
        self.api = self.started()

    def started(self) -> Api:
        """As after a restart of the daemon."""
        tokens = TokensFile(str(self._tokens_path), lambda: self.now[0])
        callers = Callers(UsersFile(str(self.directory / "users")), tokens)
        return Api(self.luxi, callers, needs_login=self.needs_login, audit=AuditLog(str(self.audit_path)), fan=self.fan)

    def token(self, *scopes: str, expires: int | None = None) -> str:
        name = f"t{len(self._tokens)}"
        self._tokens[name] = Token(name, name, hash_of(f"secret-{name}"), scopes, 0, expires)
        self._tokens_path.write_text(write_tokens(self._tokens))
        return shown_once(name, f"secret-{name}")

    def send(
        self, method: str, target: str, body: Any = None, token: str | None = "", **headers: str
    ) -> tuple[int, Any, HttpReply]:
        path, _, query = target.partition("?")
        told = {"Content-Type": "application/json"} | {name.replace("_", "-"): each for name, each in headers.items()}
        if token is not None:
            basic = "Basic " + base64.b64encode(b"alice:pass").decode()
            told["Authorization"] = f"Bearer {token}" if token else basic
        data = b"" if body is None else json.dumps(body).encode()
        reply = asyncio.run(self.api.answer(HttpRequest(method, path, data, "192.0.2.1", None, query, told)))
        return reply.status, json.loads(reply.body), reply


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_nothing_is_open_but_the_document(world: World) -> None:
    assert world.send("GET", "/3", token=None)[0] == world.send("GET", "/3/openapi.json", token=None)[0] == 200
    for path in ("/3/nodes", "/3/whoami", "/3/jobs/1", "/3/events", "/metrics", "/3/cluster"):
        assert world.send("GET", path, token=None)[0] == 401, path
    assert world.send("POST", "/3/operations/group-add", GROUP, token=None)[0] == 401


def test_errors_are_problem_details(world: World) -> None:
    status, body, reply = world.send("GET", "/3/nothing")
    assert (status, body["status"], reply.content_type) == (404, 404, "application/problem+json")
    status, _, reply = world.send("DELETE", "/3/nodes")
    assert (status, reply.headers["Allow"]) == (405, "GET, HEAD")
    assert world.send("POST", "/3/operations/nothing", {})[0] == 404
    assert world.send("POST", "/3/operations/group-add", ["x"])[0] == 400
    assert world.send("POST", "/3/operations/group-add", GROUP | {"OP_ID": "OP_GROUP_REMOVE"})[0] == 400
    assert world.send("GET", "/3/nodes?filter={")[0] == 400
    assert world.send("GET", "/3/jobs/x")[0] == 404
    status, body, _ = world.send("GET", "/3/jobs/7?fields=id")
    assert (status, body["detail"]) == (404, "Job 7 not found")
    assert world.send("GET", "/3/jobs/" + "9" * 5000)[0] == world.send("DELETE", "/3/jobs/٣")[0] == 404
    assert not world.luxi.jobs


def test_head_is_answered_as_get(world: World) -> None:
    for path, status in (("/3", 200), ("/3/nodes?fields=name,mfree", 200), ("/3/nodes?feilds=name", 400)):
        answer = world.send("HEAD", path)
        assert answer[:2] == world.send("GET", path)[:2] and answer[0] == status, path
    assert world.send("HEAD", "/3/operations/group-add")[0] == 405 and not world.luxi.jobs
    assert not world.audit_path.exists()


def test_nothing_is_open_where_a_log_in_is_demanded(world: World) -> None:
    world.needs_login = True
    world.api = world.started()
    for path in ("/3", "/3/openapi.json", "/3/nodes"):
        assert world.send("GET", path, token=None)[0] == 401, path
    assert world.send("GET", "/3/openapi.json")[0] == 200


def test_what_is_nested_too_deeply_is_refused(world: World) -> None:
    for deep in (990, 100_000):
        assert world.send("GET", "/3/nodes?fields=name,mfree&filter=" + "[" * deep + "]" * deep)[0] in (200, 400)
    assert world.send("GET", "/3/nodes?filter=" + "[" * 100_000)[0] == 400


def test_a_body_that_is_no_text_is_refused(world: World) -> None:
    told = {"Content-Type": "application/json", "Authorization": "Basic YWxpY2U6cGFzcw=="}
    for path in ("/3/operations/group-add", "/2/groups"):
        asked = HttpRequest("POST", path, b'{"group_name": "\xff"}', "192.0.2.1", None, "", told)
        assert asyncio.run(world.api.answer(asked)).status == 400


def test_a_list_has_objects_of_the_fields_that_are_asked_for(world: World) -> None:
    assert world.send("GET", "/3/nodes?fields=name,mfree")[:2] == (200, [{"name": "n1", "mfree": None}])
    assert world.send("GET", "/3/nodes/n1?fields=name,mfree")[:2] == (200, {"name": "n1", "mfree": None})
    assert world.send("GET", "/3/nodes/none?fields=name,mfree")[0] == 404


def test_an_operation_becomes_a_job(world: World) -> None:
    status, body, reply = world.send("POST", "/3/operations/group-add?reason=growth", GROUP)
    assert (status, body["job"], reply.headers["Location"]) == (202, 1, "/3/jobs/1")
    [[opcode]] = world.luxi.jobs
    assert (opcode["OP_ID"], opcode["group_name"]) == ("OP_GROUP_ADD", "g1")
    assert [entry[:2] for entry in opcode["reason"]] == [["gnt:user", "growth"], ["gnt:rapi3", "alice"]]


def test_a_plan_named_by_a_submission_is_told_to_its_job(world: World) -> None:
    plan = "0" * 32
    world.send("POST", f"/3/operations/group-add?plan={plan}", GROUP)
    assert world.luxi.jobs[0][0]["reason"][-1][:2] == ["gnt:plan", plan]
    assert world.send("POST", "/3/operations/group-add?plan=abc", GROUP)[0] == 400 and len(world.luxi.jobs) == 1


REMOVAL = {"action": "remove", "schedule_name": "nightly"}


@pytest.mark.parametrize(
    ("scopes", "method", "path", "body", "status"),
    [
        (["*:read"], "GET", "/3/nodes?fields=name,mfree", None, 200),
        (["*:read"], "POST", "/3/operations/group-add", GROUP, 403),
        (["group:write"], "POST", "/3/operations/group-add", GROUP, 202),
        (["group:write"], "GET", "/3/nodes", None, 403),
        (["node:read@mine"], "GET", "/3/nodes/n1?fields=name,mfree", None, 200),
        (["node:read@mine"], "GET", "/3/nodes/n2?fields=name,mfree", None, 403),
        (["node:read@mine"], "GET", "/3/nodes/unknown?fields=name,mfree", None, 403),
        (["instance:write@shop"], "POST", "/3/operations/instance-startup", {"instance_name": "web1"}, 202),
        (["instance:write@shop"], "POST", "/3/operations/instance-startup", {"instance_name": "other"}, 403),
        (["instance:write@shop"], "POST", "/3/operations/group-add", GROUP, 403),
        (["instance:write@shop"], "POST", "/3/operations/tags-set", {"kind": "node", "name": "n1", "tags": ["a"]}, 403),
        (["node:write@mine"], "POST", "/3/operations/tags-set", {"kind": "node", "name": "n1", "tags": ["a"]}, 202),
        (["group:write@own"], "POST", "/3/operations/group-assign-nodes", {"group_name": "g", "nodes": ["n1"]}, 403),
        (
            ["group:write@own", "node:write@mine"],
            *("POST", "/3/operations/group-assign-nodes", {"group_name": "g", "nodes": ["n1", "n2"]}, 403),
        ),
        (
            ["group:write@own", "node:write@mine"],
            *("POST", "/3/operations/group-assign-nodes", {"group_name": "g", "nodes": ["n1"]}, 202),
        ),
        (["group:write"], "POST", "/3/operations/group-assign-nodes", {"group_name": "g", "nodes": ["n2"]}, 202),
        (["instance:write@shop"], *MOVE, 403),
        (["instance:write@shop", "node:read@mine"], *MOVE, 202),
        (["instance:write@shop"], *attached("attach", {"name": "theirs"}), 403),
        (["instance:write@shop"], *attached("add", {"size": 1, "adopt": "theirs"}), 403),
        (["instance:write@shop"], *attached("add", {"size": 1}), 202),
        (["instance:write@shop"], "POST", "/3/operations/backup-schedule", REMOVAL | {"instance": "web1"}, 403),
        (["instance:write"], "POST", "/3/operations/backup-key", {}, 403),
        (["cluster:write"], "POST", "/3/operations/backup-schedule", REMOVAL, 202),
        (["job:read"], "DELETE", "/3/jobs/1", None, 403),
        (["metrics:read"], "GET", "/3/cluster", None, 403),
        (["*:read"], "POST", "/3/operations/instance-query-data", {"instances": ["web1"]}, 202),
    ],
)
def test_scopes(world: World, scopes: list[str], method: str, path: str, body: Any, status: int) -> None:
    assert world.send(method, path, body, world.token(*scopes))[0] == status
    assert bool(world.luxi.jobs) == (status == 202)


def test_a_stream_of_events_ends_with_the_token_that_opened_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ganeti.rapi.v3.event_fan._LOOK_S", 0.0)

    async def frames() -> AsyncGenerator[bytes, None]:
        for number in range(1000):
            yield b"%d" % number

    class Fan:
        listeners = 0

        async def listen(self, kinds: list[str], position: str | None) -> AsyncGenerator[bytes, None]:
            return frames()

    async def heard(token: str, told: Callable[[], None]) -> list[bytes]:
        request = HttpRequest("GET", "/3/events", b"", "192.0.2.1", None, "", {"Authorization": f"Bearer {token}"})
        reply = await world.api.answer(request)
        assert reply.chunks is not None
        found = [reply.body]
        async for frame in reply.chunks:
            found.append(frame)
            if len(found) == 3:
                told()
        return found

    world.fan = Fan()
    world.api = world.started()
    token = world.token("event:read", expires=2000)
    assert len(asyncio.run(heard(token, lambda: None))) == 1000
    assert len(asyncio.run(heard(token, lambda: world.now.__setitem__(0, 2000.0)))) == 3
    other = world.token("event:read")
    assert len(asyncio.run(heard(other, lambda: (world.directory / "tokens").unlink()))) == 3


def test_a_list_holds_only_what_a_scope_with_a_tag_covers(world: World) -> None:
    world.send("GET", "/3/nodes?fields=name,mfree", token=world.token("node:read@mine"))
    assert world.luxi.asked[-1][3] == ["|", ["=[]", "tags", "mine"]]


def test_instances_are_made_with_a_tag_that_the_scope_names(world: World) -> None:
    token = world.token("instance:write@shop")
    new = {"instance_name": "new", "mode": "create", "disks": [], "nics": [], "disk_template": "diskless"}
    assert world.send("POST", "/3/operations/instance-create", new, token)[0] == 403
    assert world.send("POST", "/3/operations/instance-create", new | {"tags": ["shop"]}, token)[0] == 202


@pytest.mark.parametrize(
    "more",
    [
        {"mode": "import", "src_node": "n1", "src_path": "theirs"},
        {"mode": "import", "src_path": "theirs"},
        {"disk_template": "plain", "disks": [{"adopt": "web2.disk0.snap-a"}]},
        {"pnode": "n1"},
    ],
)
def test_who_has_a_tag_alone_takes_no_data_of_others(world: World, more: dict[str, Any]) -> None:
    new = {"instance_name": "new", "mode": "create", "disks": [], "nics": [], "disk_template": "diskless"}
    given = {**new, "tags": ["shop"], **more}
    for door in ("operations", "plan"):
        assert world.send("POST", f"/3/{door}/instance-create", given, world.token("instance:write@shop"))[0] == 403
    assert not world.luxi.jobs
    assert world.send("POST", "/3/operations/instance-create", given, world.token("instance:write"))[0] == 202


@pytest.mark.parametrize("door", ["operations", "plan"])
def test_no_request_chooses_the_programs_that_nodes_run(world: World, door: str) -> None:
    status, told, _ = world.send("POST", f"/3/{door}/cluster-set-params", {"compression_tools": ["gzip", "python3"]})
    assert (status, "compression_tools" in told["detail"]) == (403, True)
    for operation, named in (("node-set-params", {"node_name": "n"}), ("group-add", {"group_name": "g"})):
        given = {**named, "ndparams": {"oob_program": "/bin/sh"}}
        status, told, _ = world.send("POST", f"/3/{door}/{operation}", given)
        assert (status, "oob_program" in told["detail"]) == (403, True)
    assert not world.luxi.jobs
    schemas = world.send("GET", "/3/openapi.json", token=None)[1]["components"]["schemas"]
    assert "compression_tools" not in schemas["OP_CLUSTER_SET_PARAMS"]["properties"]


def test_tokens_end(world: World) -> None:
    token = world.token("*:write", expires=2000)
    assert world.send("GET", "/3/whoami", token=token)[1]["scopes"] == ["*:write"]
    world.now[0] = 2000.0
    assert world.send("GET", "/3/whoami", token=token)[0] == 401
    assert world.send("GET", "/3/whoami", token=token + "x")[0] == 401
    assert token.rpartition("_")[2] not in (world.directory / "tokens").read_text()


def test_tokens_for_everything_open_the_second_version_too(world: World) -> None:
    assert world.send("PUT", "/2/tags?tag=a", token=world.token("*:write"))[0] == 200
    assert world.send("PUT", "/2/tags?tag=a", token=world.token("instance:write"))[0] == 403


def test_a_scope_that_cannot_be_is_refused() -> None:
    for text in ("", "instance", "instance:own", "thing:read", "job:read@x", "instance:read@", "*:write@x"):
        with pytest.raises(ValueError, match="is no scope"):
            read_scope(text)


def test_a_key_makes_one_job_of_requests_that_are_sent_again(world: World) -> None:
    assert world.send("POST", "/3/operations/group-add", GROUP, Idempotency_Key="k")[1]["job"] == 1
    assert world.send("POST", "/3/operations/group-add", GROUP, Idempotency_Key="k")[1]["job"] == 1
    world.api = world.started()
    assert world.send("POST", "/3/operations/group-add", GROUP, Idempotency_Key="k")[1]["job"] == 1
    assert world.send("POST", "/3/operations/group-add", {"group_name": "g2"}, Idempotency_Key="k")[0] == 422
    assert world.send("POST", "/3/operations/group-add", GROUP, Idempotency_Key="two words")[0] == 400
    assert len(world.luxi.jobs) == 1


def test_a_key_belongs_to_its_caller(world: World) -> None:
    """Two programs may choose the same one, and each gets its own job, also after a restart."""
    tokens = [world.token("*:write"), world.token("*:write")]
    for _ in range(2):
        for number, token in enumerate(tokens):
            asked = world.send("POST", "/3/operations/group-add", GROUP, token, Idempotency_Key="nightly")
            assert asked[1]["job"] == number + 1
        world.api = world.started()
    other = {"group_name": "g2"}
    assert world.send("POST", "/3/operations/group-add", other, tokens[0], Idempotency_Key="nightly")[0] == 422


def test_a_key_makes_one_job_of_requests_that_come_together_after_one_that_failed(world: World) -> None:
    """The second waits for the first; the third comes just as that has failed, and waits for the second."""
    luxi = SlowLuxi()
    submitter = Submitter(luxi)  # type: ignore[arg-type]
    opcodes = [{"OP_ID": "OP_GROUP_ADD", "reason": []}]

    async def play() -> list[Any]:
        async def submit() -> Any:
            try:
                return await submitter.submit(opcodes, "k", "digest")
            except TransportError:
                later.append(asyncio.ensure_future(submit()))
                return "failed"

        later: list[Any] = []
        answers = await asyncio.gather(submit(), submit())
        return [*answers, *await asyncio.gather(*later)]

    assert asyncio.run(play()) == ["failed", 1, 1]
    assert len(luxi.jobs) == 1


def test_a_key_tells_nothing_of_secrets(world: World) -> None:
    """A digest of a short secret would let readers of the reason trail try all there are."""
    trails = []
    for number, word in enumerate(("hunter2", "hunter3")):
        secret = {"instance_name": "web1", "osparams_private": {"password": word}}
        world.send("POST", "/3/operations/instance-set-params", secret, Idempotency_Key=f"k{number}")
        trails.append(world.luxi.jobs[-1][0]["reason"][-1][1].split()[1])
    assert trails[0] == trails[1]
    named = {"instance_name": "web1", "osparams_private": {"other": "x"}}
    assert world.send("POST", "/3/operations/instance-set-params", named, Idempotency_Key="k0")[0] == 422


def test_a_submission_without_an_answer_is_looked_for_before_it_is_made_again(world: World) -> None:
    world.send("POST", "/3/operations/group-add", GROUP, Idempotency_Key="first")
    world.luxi.fails = TransportError("gone")
    assert world.send("POST", "/3/operations/group-add", GROUP, Idempotency_Key="k")[0] == 502
    world.luxi.fails = None
    assert world.send("POST", "/3/operations/group-add", GROUP, Idempotency_Key="k")[1]["job"] == 2
    assert len(world.luxi.jobs) == 2


def test_a_submission_may_wait_for_its_job(world: World) -> None:
    for ended, status, told in (
        (["success", [5]], 200, {"job": 1, "uri": "/3/jobs/1", "results": [5]}),
        (["error", [["OpPrereqError", ["no such group", "unknown_entity"]]]], 404, "Job 2: no such group"),
        (
            ["error", [["HooksAbort", [[["node1", "10-no", "busy"]]]]]],
            409,
            "Job 3: Hooks refused it: node node1, script 10-no: busy",
        ),
        (["error", [["OpExecError", ["the disk is full"]]]], 409, "Job 4: the disk is full"),
        (["canceled", [None]], 409, "Job 5: "),
        (["running", [None]], 202, {"job": 6, "uri": "/3/jobs/6"}),
        (None, 202, {"job": 7, "uri": "/3/jobs/7"}),
        (JobLost("Job 8 is archived"), 202, {"job": 8, "uri": "/3/jobs/8"}),
    ):
        world.luxi.ended = ended
        found, body = world.send("POST", "/3/operations/group-add?wait_s=0.01", GROUP)[:2]
        assert found == status and (body == told if isinstance(told, dict) else told in body["detail"]), body
    assert world.send("POST", "/3/operations/group-add", GROUP)[0] == 202
    for wrong in ("x", "-1", "601", "nan"):
        assert world.send("POST", f"/3/operations/group-add?wait_s={wrong}", GROUP)[0] == 400, wrong
    assert len(world.luxi.jobs) == 9


def test_a_field_that_a_list_does_not_have_is_refused(world: World) -> None:
    for path in ("/3/nodes", "/3/nodes/n1"):
        status, body = world.send("GET", f"{path}?fields=name,colour")[:2]
        assert status == 400 and "'colour'" in body["detail"] and "/3/fields" in body["detail"], path


def test_an_argument_that_a_path_does_not_take_is_refused(world: World) -> None:
    for target, told in (
        ("/3/nodes?feilds=name", "there are fields, filter"),
        ("/3/nodes/n1?filter=1", "there are fields"),
        ("/3/whoami?verbose=1", "there are none"),
        ("/3/nodes?fields=name&fields=role", "'fields' is given twice"),
        ("/3/events?kinds=job&kinds=config", "'kinds' is given twice"),
    ):
        status, body = world.send("GET", target)[:2]
        assert status == 400 and told in body["detail"], target
    assert world.send("POST", "/3/operations/group-add?dry-run=1", GROUP)[0] == 400 and world.luxi.jobs == []
    assert world.send("POST", "/3/operations/group-add?reason=x", GROUP)[0] == 202


def test_a_long_queue_is_read_in_pieces(world: World) -> None:
    world.luxi.jobs = [[{"reason": []}] for _ in range(1200)]
    assert world.send("POST", "/3/operations/group-add", GROUP, Idempotency_Key="k")[1]["job"] == 1201
    world.luxi.lives += 1
    assert world.send("POST", "/3/operations/group-add", GROUP, Idempotency_Key="k")[1]["job"] == 1201
    world.api = world.started()
    assert world.send("POST", "/3/operations/group-add", GROUP, Idempotency_Key="k")[1]["job"] == 1201
    assert world.luxi.longest == 500


def test_an_older_luxid_is_told_from_a_fault(world: World) -> None:
    world.luxi.fails = OpCodeUnknown("Opcode OP_GROUP_ADD is not known here")
    status, body = world.send("POST", "/3/operations/group-add", GROUP)[:2]
    assert status == 501 and "older version" in body["detail"] and "OP_GROUP_ADD" in body["detail"]


def test_keys_of_jobs_that_another_master_took_are_looked_for(world: World) -> None:
    world.send("POST", "/3/operations/group-add", GROUP, Idempotency_Key="first")
    elsewhere = World(world.directory)
    elsewhere.luxi.jobs = world.luxi.jobs
    assert elsewhere.send("POST", "/3/operations/group-add", GROUP, Idempotency_Key="k")[1]["job"] == 2
    world.luxi.lives += 1
    assert world.send("POST", "/3/operations/group-add", GROUP, Idempotency_Key="k")[1]["job"] == 2
    assert len(world.luxi.jobs) == 2


def test_a_scope_that_the_document_names_is_enough(world: World) -> None:
    """And without it nobody gets in: for all but operations, whose scopes may be for tags."""
    world.luxi.ended = ["success", []]
    paths = world.send("GET", "/3/openapi.json", token=None)[1]["paths"]
    asked = 0
    for path, methods in paths.items():
        for method, said in methods.items():
            wanted = said["security"][1]["token"] if said["security"] else []
            if not wanted or path.startswith(("/3/operations/", "/3/plan/")) or path == "/metrics":
                continue
            target = path.replace("{name}", "1" if path.startswith("/3/jobs") else "n1") + (
                "?fields=name,mfree" if "fields" in str(said.get("parameters")) else ""
            )
            world.luxi.jobs = [[{"reason": []}]]
            assert world.send(method.upper(), target, token=world.token(*wanted))[0] != 403, path
            kind = wanted[0].partition(":")[0]
            others = [f"{each}:write" for each in KINDS if each != kind]
            assert world.send(method.upper(), target, token=world.token(*others))[0] == 403, path
            asked += 1
    assert asked > 20


def test_the_document_describes_every_path(world: World) -> None:
    paths = world.send("GET", "/3/openapi.json", token=None)[1]["paths"]
    for method, path in world.api.third.table.all():
        said = path.replace("[", "{").replace("]", "}")
        if said in ("/3/operations/{operation}", "/3/plan/{operation}"):
            assert "post" in paths[said.replace("{operation}", "instance-create")]
        else:
            assert method.lower() in paths[said], said
            parameters = paths[said][method.lower()].get("parameters", [])
            described = [each["name"] for each in parameters if each["in"] == "query"]
            route = world.api.third.table.find(path)[method][1]  # type: ignore[index]
            assert sorted(described) == sorted(argument.name for argument in route.arguments), said


def test_the_audit_log_tells_who_asked_for_what_and_no_secret(world: World) -> None:
    secret = {"instance_name": "web1", "osparams_private": {"password": "hunter2"}}
    world.send("POST", "/3/operations/instance-set-params", secret)
    world.send("PUT", "/2/instances/web1/startup")
    world.send("POST", "/3/operations/group-add", GROUP, token="gnt_x_wrong")
    text = world.audit_path.read_text()
    assert "hunter2" not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["who"], line["status"]) for line in lines] == [("alice", 202), ("alice", 200), (None, 401)]
    assert lines[0]["summary"] == "INSTANCE_SET_PARAMS(web1)" and lines[1]["objects"] == {"instance_name": "web1"}


def test_the_audit_log_is_whole_after_a_write_that_failed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.send("PUT", "/2/tags?tag=a")
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        write(descriptor, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "no space")

    for failing in (full, lambda descriptor, data: write(descriptor, data[:9])):
        monkeypatch.setattr(os, "write", failing)
        world.send("PUT", "/2/tags?tag=lost")
        monkeypatch.setattr(os, "write", write)
        world.send("PUT", "/2/tags?tag=b")
    assert verified(world.audit_path.read_text().splitlines())[0] == 3


def test_the_audit_log_begins_anew_where_its_file_was_moved_away(world: World) -> None:
    for _ in range(2):
        world.send("PUT", "/2/tags?tag=a")
    world.audit_path.rename(world.directory / "audit.1")
    for _ in range(2):
        world.send("PUT", "/2/tags?tag=b")
    for name in ("audit", "audit.1"):
        assert verified((world.directory / name).read_text().splitlines())[0] == 2


def test_each_new_audit_log_belongs_to_the_group_of_the_daemons(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As verification demands of it, also after a rotation."""
    given: list[str] = []
    monkeypatch.setattr("ganeti.rapi.audit.give_group", lambda path, group, descriptor: given.append(group))
    for expected in (1, 1, 2):
        world.send("PUT", "/2/instances/web1/startup")
        assert given == ["gnt-daemons"] * expected
        if world.audit_path.read_text().count("\n") == 2:
            world.audit_path.rename(world.directory / "audit.1")


def test_the_audit_log_shows_what_was_changed_in_it(world: World) -> None:
    for _ in range(2):
        world.send("PUT", "/2/tags?tag=a")
    world.api = world.started()
    world.send("PUT", "/2/tags?tag=b")
    lines = world.audit_path.read_text().splitlines()
    assert verified(lines)[0] == 3
    changed = [lines[0], lines[1].replace("alice", "mallory"), lines[2]]
    for broken, said in ((changed, "line 2 was changed"), ([lines[0], lines[2]], "line 2 does not follow")):
        with pytest.raises(AuditFault, match=said):
            verified(broken)
