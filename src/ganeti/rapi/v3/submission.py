# SPDX-License-Identifier: BSD-2-Clause
"""Submitting operations over `/3`, each once only where the request has an idempotency key.

A key is kept with its job, as an entry of the reason trail with a digest of the request: the next process that serves
the API, after a restart or on another master, finds it in the queue. Keys are looked up there once, and again whenever
a submission has ended without an answer, for then nobody else knows whether it has become a job, and whenever another
LuxiD answers, for another node may have been the master meanwhile.
"""

import asyncio
import hashlib
import time
from collections import Counter
from typing import Any, Final

import msgspec

from ganeti.base.errors import GanetiError, TransportError
from ganeti.master.operation import Operation, decode, find
from ganeti.master.planning.fingerprint import without_secrets
from ganeti.master.queue.submission import require_submittable
from ganeti.rapi.answers import RequestRefused
from ganeti.rapi.caller import Caller
from ganeti.rapi.reading import Luxi, ask
from ganeti.rapi.submission import refuse_local

KEY_SOURCE: Final = "gnt:idempotency"
USER_SOURCE: Final = "gnt:user"
API_SOURCE: Final = "gnt:rapi3"
KEY_LENGTH_MAX: Final = 128
_KEYS_MAX: Final = 100_000
_JOBS_AT_ONCE: Final = 500


def operation_id(word: str) -> str:
    """Give the `OP_ID` for the word of a path, such as ``instance-create``; raises `RequestRefused`."""
    op_id = f"OP_{word.upper().replace('-', '_')}"
    if word != word.lower() or find(op_id) is None:
        raise RequestRefused(404, f"There is no operation '{word}': /3/openapi.json names all")
    return op_id


def path_word(op_id: str) -> str:
    return op_id.removeprefix("OP_").lower().replace("_", "-")


def read_operation(op_id: str, body: Any, caller: Caller, reason: str | None) -> Operation[Any]:
    """Read the parameters of a request's body; raises `RequestRefused`."""
    if not isinstance(body, dict):
        raise RequestRefused(400, "The body must be a JSON object with the parameters by their names")
    given = {key: value for key, value in body.items() if key != "reason"}
    if "OP_ID" in given:
        raise RequestRefused(400, "The path names the operation: leave OP_ID out of the body")
    if (declared := find(op_id)) is not None:
        refuse_local(declared, given)
    told = body.get("reason", reason)
    if told is not None and not isinstance(told, str):
        raise RequestRefused(400, "The parameter 'reason' must be text")
    now_ns = time.time_ns()
    trail = [[USER_SOURCE, told, now_ns]] if told else []
    given["reason"] = [*trail, [API_SOURCE, caller.name, now_ns]]
    try:
        operation = decode({**given, "OP_ID": op_id})
        operation.refuse_unsupported()
        require_submittable(operation.priority)
    except GanetiError as err:
        raise RequestRefused(400, str(err)) from err
    return operation


_Key = tuple[str, str]
"""The name of the caller, and the key: two programs may choose the same one."""


class Submitter:
    """Gives jobs to LuxiD."""

    def __init__(self, luxi: Luxi) -> None:
        self._luxi = luxi
        self._jobs: dict[_Key, tuple[str, int]] = {}
        """Digest of the request, and the job."""
        self._known: object = None
        """Of which LuxiD all keys are known."""
        self._busy: dict[_Key, asyncio.Lock] = {}
        self._waiting: Counter[_Key] = Counter()
        """How many requests have or want the lock of a key."""

    async def submit(self, opcodes: list[dict[str, Any]], key: str | None, digest: str = "") -> int:
        """Give the number of the job, which with a *key* that its caller has used is one from before.

        The caller is the one in the reason trails (`read_operation`). Raises `RequestRefused`.
        """
        if key is None:
            return int(await self._luxi.call("SubmitJob", opcodes))
        if not 1 <= len(key) <= KEY_LENGTH_MAX or not key.isascii() or not key.isprintable() or " " in key:
            raise RequestRefused(
                400, f"An Idempotency-Key has 1 to {KEY_LENGTH_MAX} printable characters, and no space"
            )
        own = (_caller_in(opcodes[0]), key)
        lock = self._busy.setdefault(own, asyncio.Lock())
        self._waiting[own] += 1
        try:
            async with lock:
                return await self._once(opcodes, own, digest)
        finally:
            self._waiting[own] -= 1
            if not self._waiting[own]:
                del self._waiting[own], self._busy[own]

    async def _once(self, opcodes: list[dict[str, Any]], key: _Key, digest: str) -> int:
        if key not in self._jobs and (self._known is None or self._known != self._luxi.life()):
            await self._look_up()
        if key in self._jobs:
            before, job = self._jobs[key]
            if before != digest:
                raise RequestRefused(422, f"The Idempotency-Key was used for another request, which became job {job}")
            return job
        entry = [KEY_SOURCE, f"{key[1]} {digest}", time.time_ns()]
        told = [{**opcode, "reason": [*opcode["reason"], entry]} for opcode in opcodes]
        try:
            job = int(await self._luxi.call("SubmitJob", told))
        except TransportError:
            self._known = None
            raise
        self._note(key, digest, job)
        return job

    async def _look_up(self) -> None:
        """Read the reason trails of all jobs, some at a time: all of a long queue would hold up other requests."""
        life = self._luxi.life()
        numbers = [job for [job] in await ask(self._luxi, "QueryJobs", None, ["id"])]
        for begin in range(0, len(numbers), _JOBS_AT_ONCE):
            for job, ops in await ask(self._luxi, "QueryJobs", numbers[begin : begin + _JOBS_AT_ONCE], ["id", "ops"]):
                for opcode in ops or ():  # none of a job that was archived meanwhile
                    self._note_key(opcode, job)
        self._known = life

    def _note_key(self, opcode: dict[str, Any], job: int) -> None:
        for entry in opcode.get("reason") or ():
            if isinstance(entry, list) and entry[:1] == [KEY_SOURCE]:
                key, _, digest = str(entry[1]).partition(" ")
                self._note((_caller_in(opcode), key), digest, job)

    def _note(self, key: _Key, digest: str, job: int) -> None:
        if len(self._jobs) >= _KEYS_MAX:
            del self._jobs[next(iter(self._jobs))]
        self._jobs[key] = (digest, job)


def _caller_in(opcode: dict[str, Any]) -> str:
    """Give the name of the caller that the reason trail of an opcode has; nothing where it came another way."""
    trail = [entry for entry in opcode.get("reason") or () if isinstance(entry, list)]
    return next((str(entry[1]) for entry in trail if entry[:1] == [API_SOURCE]), "")


def digest_of(*parts: Any) -> str:
    """Tell one request from another, in what readers of the reason trail see: values of secrets do not count."""
    return hashlib.sha256(msgspec.json.encode(without_secrets(parts))).hexdigest()[:32]
