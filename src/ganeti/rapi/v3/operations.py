# SPDX-License-Identifier: BSD-2-Clause
"""`/3/operations` and `/3/plan`: operations submitted as jobs, and what they would do."""

import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ganeti.base.errors import JobLost, TransportError, from_wire
from ganeti.master.operation import Operation
from ganeti.master.planning.fingerprint import SOURCE as PLAN_SOURCE
from ganeti.master.planning.fingerprint import is_fingerprint
from ganeti.rapi.answers import RequestRefused
from ganeti.rapi.request_spans import traced
from ganeti.rapi.v3.jobs import WAIT_MAX_S, ended, lost_is_not_found, seconds, up_to
from ganeti.rapi.v3.rights import require_operation
from ganeti.rapi.v3.route import OF_OPERATION, TEXT, Answer, Argument, Schema, Services, Turn, route
from ganeti.rapi.v3.submission import KEY_LENGTH_MAX, digest_of, operation_id, read_operation
from ganeti.system.http_server import HttpReply

SUBMISSION_WAIT_MAX_S: Final = 600.0
_PARTS: Final = {"operation": "the operation, such as instance-create"}
_REASON: Final = Argument("reason", "why, for the job's reason trail")
_LISTS: Final[Schema] = {"type": "array", "items": {"type": "array", "items": TEXT}}
_SUBMITTED: Final = {"job": {"type": "integer"}, "uri": TEXT}
SCHEMAS: Final[dict[str, Schema]] = {
    "Submitted": {"type": "object", "required": ["job", "uri"], "properties": _SUBMITTED},
    "Ended": {
        "type": "object",
        "required": ["job", "uri", "results"],
        "properties": {**_SUBMITTED, "results": {"type": "array"}},
    },
    "Plan": {
        "type": "object",
        "required": ["operation", "changes", "locks", "node_calls", "jobs", "notes", "complete", "fingerprint"],
        "properties": {
            "operation": TEXT,
            "summary": TEXT,
            "changes": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "kind": TEXT,
                        "name": TEXT,
                        "action": {"enum": ["add", "change", "remove"]},
                        "fields": {"type": "object", "description": "each with its value before and after"},
                    },
                },
            },
            "locks": _LISTS,
            "node_calls": _LISTS,
            "jobs": _LISTS,
            "notes": {"type": "array", "items": TEXT},
            "complete": {"type": "boolean", "description": "false where what follows depends on answers of nodes"},
            "fingerprint": TEXT,
            "job": {"type": "integer"},
        },
    },
}


def _answer(text: str, schema: str) -> Answer:
    return Answer(text, {"$ref": f"#/components/schemas/{schema}"})


@route(
    *("POST", "/3/operations/[operation]", "submit", "{}"),
    access=OF_OPERATION,
    tag="operations",
    parts=_PARTS,
    headers=(
        Argument(
            "Idempotency-Key",
            "the same request with the same key becomes one job only",
            {"type": "string", "minLength": 1, "maxLength": KEY_LENGTH_MAX, "pattern": "^[!-~]+$"},
        ),
    ),
    arguments=(
        Argument("plan", "fingerprint of a plan: refused by the job if the cluster has changed since"),
        Argument(
            "wait_s",
            f"how long to wait for the end of the job, at most {SUBMISSION_WAIT_MAX_S:g}: 200 with its results, or why "
            "it failed",
            up_to(SUBMISSION_WAIT_MAX_S),
        ),
        _REASON,
    ),
    answers={200: _answer("the job, which has ended well", "Ended"), 202: _answer("the job", "Submitted")},
    errors=(409, 422, 501),
    is_for_each_operation=True,
)
async def _submit(services: Services, turn: Turn) -> HttpReply:
    operation = await _operation(services, turn)
    plain = operation.to_plain()
    wait_s = seconds(turn.request, "wait_s", 0.0, SUBMISSION_WAIT_MAX_S)
    plan = turn.request.word("plan")
    if plan is not None:
        if not is_fingerprint(plan):
            raise RequestRefused(400, f"'{plan[:40]}' is no fingerprint: /3/plan/OPERATION gives one")
        plain["reason"] = [*plain["reason"], [PLAN_SOURCE, plan, time.time_ns()]]
    digest = "" if turn.key is None else digest_of(turn.request.parts["operation"], turn.request.body, plan)
    job = await services.submitter.submit(traced([plain], turn.place), turn.key, digest)
    turn.told["job"] = job
    return await _submitted(services, job, wait_s)


async def _submitted(services: Services, job: int, wait_s: float) -> HttpReply:
    """Say which job it is, after its end if that is waited for; raises `RequestRefused` for one that has failed."""
    uri = f"/3/jobs/{job}"
    told, headers = {"job": job, "uri": uri}, {"Location": uri}
    try:
        status, results = await ended(services.luxi, job, wait_s) if wait_s else (None, None)
    except (TransportError, JobLost):  # the job was taken all the same
        status, results = None, None
    if status is None:
        return HttpReply(202, msgspec.json.encode(told) + b"\n", headers=headers)
    if status != "success":
        raise _failed(results, f"Job {job}: ", headers)
    return HttpReply(200, msgspec.json.encode(told | {"results": results}) + b"\n", headers=headers)


@route(
    *("POST", "/3/plan/[operation]", "plan", "What this would do: {}"),
    access=OF_OPERATION,
    tag="plans",
    parts=_PARTS,
    arguments=(_REASON,),
    answers={200: _answer("the plan", "Plan")},
    errors=(409, 501, 504),
    is_for_each_operation=True,
)
async def _plan(services: Services, turn: Turn) -> Any:
    operation = await _operation(services, turn)
    plain = operation.to_plain()
    planned = {key: value for key, value in plain.items() if key != "reason"}
    wrapped = {"OP_ID": "OP_PLAN", "operation": planned, "reason": plain["reason"]}
    job = await services.submitter.submit(traced([wrapped], turn.place), None)
    turn.told["job"] = job
    with lost_is_not_found():
        status, results = await ended(services.luxi, job, WAIT_MAX_S)
    if status is None:
        raise RequestRefused(504, f"The plan waits for locks: job {job} makes it, its result is the plan")
    if status != "success" or not results:
        raise _failed(results)
    return results[0] | {"job": job}


async def _operation(services: Services, turn: Turn) -> Operation[Any]:
    """Read the operation of a request that its caller may submit; raises `RequestRefused`."""
    op_id = operation_id(turn.request.parts["operation"])
    turn.told["operation"] = op_id
    if op_id == "OP_PLAN":
        raise RequestRefused(400, "Plans are made by /3/plan/OPERATION")
    body = turn.request.body if turn.request.has_body else {}
    operation = read_operation(op_id, body, turn.caller, turn.request.word("reason"))
    turn.told["summary"] = operation.summary()
    await require_operation(services.luxi, turn.caller, operation)
    return operation


def _failed(results: list[Any] | None, before: str = "", headers: Mapping[str, str] | None = None) -> RequestRefused:
    """Say why a job failed, with the status that fits its error."""
    error = next((each for each in results or [] if isinstance(each, list) and len(each) == 2), ["", ["it failed"]])
    details = error[1] if isinstance(error[1], list | tuple) else [error[1]]
    code = details[1] if len(details) > 1 else ""
    status = 501 if error[0] == "OpCodeUnknown" else {"unknown_entity": 404, "wrong_input": 400}.get(str(code), 409)
    text = from_wire(["HooksAbort", details]) if error[0] == "HooksAbort" else details[0]
    return RequestRefused(status, f"{before}{text}", headers)
