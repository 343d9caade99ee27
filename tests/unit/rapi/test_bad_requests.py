# SPDX-License-Identifier: BSD-2-Clause
"""Whatever comes in over the remote API, the answer is a status of 4xx with one sentence: no fault, and no job.

Every parameter of every operation is given wrongly, over `/3` and over the paths of `/2`; then requests are drawn at
random: a few thousand, and 100,000 in the campaign, during which memory must not grow.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.master.test_bad_parameters import OURS, UNKNOWN, fields_of, good, wrong
from tests.unit.rapi.test_third import World

from ganeti.rapi.routes import Route
from ganeti.rapi.v3.submission import path_word
from ganeti.system.http_server import HttpReply, HttpRequest

FUZZED = 100_000 if os.environ.get("GANETI_CAMPAIGN") else 3_000
GROWTH_MAX_KIB = 24 * 1024
OF_EVERY_OPERATION = ("OP_ID", "reason", "depends", "priority", "comment", "dry_run", "debug_level")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def refused(reply: HttpReply) -> bool:
    """Whether it is a refusal of one sentence."""
    told = json.loads(reply.body)
    sentence = told.get("detail") or told.get("message")
    return (
        400 <= reply.status < 500 and isinstance(sentence, str) and "\n" not in sentence and "Traceback" not in sentence
    )


@pytest.mark.parametrize("op_id", [op_id for op_id in OURS if op_id != "OP_PLAN"])
def test_each_parameter_that_is_wrong_is_refused(world: World, op_id: str) -> None:
    parameters = good(op_id)
    bodies = [parameters | {UNKNOWN: 1}, [parameters], "text", 7]
    for field in fields_of(OURS[op_id]):
        if field.name in OF_EVERY_OPERATION:
            continue
        if field.required:
            bodies.append({name: value for name, value in parameters.items() if name != field.name})
        bodies += [parameters | {field.encode_name: value} for value in wrong(field.type)]
    for number, body in enumerate(bodies):
        door = ("operations", "plan")[number % 2]
        status, told, reply = world.send("POST", f"/3/{door}/{path_word(op_id)}", body)
        assert refused(reply), (body, status, told)
    assert not world.luxi.jobs


def routes(world: World) -> list[Route]:
    found = [world.api.table.find(path)[method][1] for method, path in world.api.table.all()]  # type: ignore[index]
    return [target for target in found if isinstance(target, Route)]


def test_each_path_of_the_second_version_refuses_bodies_that_are_wrong(world: World) -> None:
    for route in routes(world):
        if not route.shape.body or route.path.endswith(("/tags", "/info", "/storage")):
            continue
        path = "/".join(
            "1" if part == "[disk]" else "one" if part[:1] == "[" else part for part in route.path.split("/")
        )
        for body in ({UNKNOWN: 1, "__version__": 1}, ["x"], "text"):
            status, told, reply = world.send(route.method, path, body)
            assert refused(reply), (route.method, path, body, status, told)
    assert not world.luxi.jobs


def accepted(route: Route) -> tuple[str, dict[str, Any]]:
    """A path and a body that are taken."""
    parameters = good(route.op_id)
    parts = {part[1:-1] for part in route.path.split("/") if part[:1] == "["}
    left_out = {"OP_ID", "dry_run", "reason", *route.shape.fixed, *parts, *("instances", "nodes") * bool(parts)}
    known = {field.name for field in fields_of(OURS[route.op_id])}
    names = {name: str(parameters.get(name, "one")) if name in known else "one" for name in parts}
    path = "/".join(names[part[1:-1]] if part[:1] == "[" else part for part in route.path.split("/"))
    body = {name: value for name, value in parameters.items() if name not in left_out}
    if route.path.endswith("assign-nodes"):
        body["nodes"] = parameters["nodes"]
    return path, body | ({"__version__": 1} if route.path == "/2/instances" else {})


def with_bodies(world: World) -> list[Route]:
    return [
        route for route in routes(world) if route.shape.body and not route.path.endswith(("/info", "/storage", "/role"))
    ]


def wrong_bodies(route: Route, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Bodies that differ from one that is taken in one value, which is wrong."""
    also = {name: alias for alias, name in route.shape.aliases.items()}
    given = {part[1:-1] for part in route.path.split("/") if part[:1] == "["} | route.shape.fixed.keys()
    for field in fields_of(OURS[route.op_id]):
        if field.name in given or field.name in ("OP_ID", "reason", "debug_level"):
            continue
        rest = {name: value for name, value in body.items() if name != field.name}
        for value in wrong(field.type):
            if field.name not in route.shape.comma_lists or value != "":
                yield from (rest | {name: value} for name in {field.name, also.get(field.name, field.name)})


def test_each_parameter_of_a_body_of_the_second_version_that_is_wrong_is_refused(world: World) -> None:
    """By its name, and by the other name that the path has for it; nothing is submitted."""

    async def play() -> int:
        walked = 0
        for route in with_bodies(world):
            path, body = accepted(route)
            assert (await answer(route.method, path, body)).status == 200, (route, body)
            world.luxi.jobs.clear()
            for given in wrong_bodies(route, body):
                reply = await answer(route.method, path, given)
                assert refused(reply), (route.method, path, given, reply.body)
                walked += 1
            assert not world.luxi.jobs, route
        return walked

    async def answer(method: str, path: str, body: Any) -> HttpReply:
        headers = {"Content-Type": "application/json", "Authorization": "Basic YWxpY2U6cGFzcw=="}
        data = json.dumps(body).encode()
        return await world.api.answer(HttpRequest(method, path, data, "192.0.2.1", None, "", headers))

    assert asyncio.run(play()) > 1000


WRONG: list[Any] = [7, -1, 1.5, True, None, "x", "", [], ["x"], [7], [None], [[]], {}, {"a": 1}, [{"a": 1}], 2**70]
READ = {
    ("GET", "/2/jobs/1/wait"): ({"fields": ["status"]}, {"fields": [[], ["x"]], "previous_log_serial": [7, -1, None]}),
    ("PUT", "/2/query/node"): ({"fields": ["name"]}, {"fields": [[], ["x"]], "qfilter": [None]}),
}
"""What may stand in a body of requests that submit nothing, and which of `WRONG` is not wrong there."""


def test_each_key_of_a_body_that_is_read_is_of_its_type(world: World) -> None:
    for (method, path), (body, fine) in READ.items():
        for key, right in fine.items():
            for value in WRONG:
                world.luxi.asked.clear()
                if value in right and not isinstance(value, bool):
                    continue
                if isinstance(value, list) and key == "qfilter":
                    continue  # the query language says what is wrong with it
                if value == 2**70 and key == "previous_log_serial":
                    continue
                status, told, reply = world.send(method, path, body | {key: value})
                assert refused(reply) and not world.luxi.asked, (method, path, key, value, status, told)


def test_requests_at_random(world: World) -> None:
    draw = random.Random(FUZZED)
    paths = [path for table in (world.api.table, world.api.third.table) for _, path in table.all()]
    words = [*(path_word(op_id) for op_id in OURS), "one", "1", "é", "%00", "..", "a" * 300, "{}", "9" * 40]
    bodies = [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"fields": 7}', b"[" * 3000, b'{"a":1e999}', b"{}"]
    values = (b"7", b"[7]", b'[["x"]]', b'{"a": []}', b'"\\u0000"', b"true")
    names = (b"name", b"depends", b"tags", b"fields", b"reason", b"instances")
    keys = [b'{"%s": %s}' % (name, value) for name in names for value in values]
    queries = ["", "bulk=x", "bulk=1", "fields=", "filter=[", 'filter=["=",1]', "tag=%ff", "timeout_s=nan"]
    queries += ["kinds=none", "reason=%0a", "dry-run=2", "lock=y", "&&&=", "plan=" + "x" * 5000]
    logins = [None, "", "gnt_x_y", "gnt_", "\udcff"]
    begun = 0

    async def play() -> None:
        nonlocal begun
        for number in range(FUZZED):
            path = "/".join(draw.choice(words) if part[:1] == "[" else part for part in draw.choice(paths).split("/"))
            method = draw.choice(["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD"])
            if draw.random() < 0.1:
                path = "/" + "/".join(draw.choice(words) for _ in range(draw.randrange(6)))
            if (method, path) == ("GET", "/3/events") or path.endswith("/wait"):
                continue
            headers = {"Content-Type": draw.choice(["application/json", "application/json", "text/plain", ""])}
            login = draw.choice(logins)
            if login is not None:
                headers["Authorization"] = f"Bearer {login}" if login else "Basic YWxpY2U6cGFzcw=="
            if draw.random() < 0.3:
                headers["Idempotency-Key"] = draw.choice(["k", "", "a b", "x" * 500, "é"])
            body = draw.choice(bodies + keys)
            asked = HttpRequest(method, path, body, f"192.0.2.{number % 250}", None, draw.choice(queries), headers)
            reply = await world.api.answer(asked)
            json.loads(reply.body)
            is_fault = b"could not be answered" in reply.body or (reply.status == 500 and path.startswith("/3"))
            assert not is_fault, (asked, reply.body)  # some refusals of `/2` are 500, as in 3.1
            if number == FUZZED // 4:
                begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                world.luxi.asked.clear()
            world.luxi.asked.clear()
            world.luxi.jobs.clear()

    world.luxi.knows_nothing = True
    asyncio.run(play())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begun < GROWTH_MAX_KIB


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/2/networks", {"network_name": "new", "network": "bogus"}),
        ("POST", "/2/networks", {"network_name": "new", "network": "10.0.0.1/24"}),
        ("POST", "/2/networks", {"network_name": "new", "network": "10.3.0.0/24", "gateway": "bogus"}),
        ("POST", "/2/networks", {"network_name": "new", "network": "10.3.0.0/24", "gateway6": "10.3.0.1"}),
        ("PUT", "/2/networks/dmz/modify", {"add_reserved_ips": ["bogus"]}),
        ("PUT", "/2/networks/dmz/modify", {"network6": "bogus"}),
    ],
)
def test_what_is_no_address_becomes_no_job(world: World, method: str, path: str, body: dict[str, Any]) -> None:
    status, told, _ = world.send(method, path, body)
    assert status == 400, told
    assert not world.luxi.jobs
