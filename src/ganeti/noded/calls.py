# SPDX-License-Identifier: BSD-2-Clause
"""Carrying out node calls: strict at the door, once for each number, ended when superseded (D5).

`noded-epoch.json` holds what must survive a power loss. Answers are kept in ``run/ganeti/node-answers.jsonl``: what
they speak of (guests, opened disks) ends with the machine, so they need no sync, and a file of an earlier power-on
counts for nothing. A call that was running when the daemon was killed has a line without an answer; it may run again.
"""

import asyncio
import base64
import errno
import hashlib
import logging
import os
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ganeti.base.clocks import sent_fault
from ganeti.base.errors import UNREADABLE_JSON, GanetiError, NodeCallError, NodeTimeoutError, ParameterError
from ganeti.base.paths import Paths
from ganeti.base.registry import find
from ganeti.node.actions.registry import REGISTRY, NodeCall
from ganeti.node.answering_modules import HANDLERS
from ganeti.node.ledger import KEPT_ANSWERS, Answer, CallLedger, Fences, Number
from ganeti.node.promises import Promise
from ganeti.node.state import NodeState
from ganeti.noded.access import CandidateCertificates
from ganeti.system.accounts import MASTER, RUN_DIR_MODE, give_group
from ganeti.system.boot import boot_identity
from ganeti.system.files import open_among_others, plain_file
from ganeti.system.pause_points import reach

DEFAULT_MAX_RUNNING = 100
LEAVE_CALL = "node_leave_cluster"
STUCK_AFTER_S = 5.0
"""An ended call whose storage hangs holds no stop up any longer: the port must be free for the next daemon."""
GONE_EVERY_S = 0.5
"""How often to look whether somebody waits for a program."""
_log = logging.getLogger(__name__)


IsGone = Callable[[], bool]
Tell = Callable[[int, str, Mapping[str, Any], bytes, float], None]
"""Job, name of the call, its arguments, the answer, and how long it took in seconds."""


def _tell_nobody(job: int, call: str, arguments: Mapping[str, Any], answer: bytes, took_s: float) -> None:
    return


class StoppingError(Exception):
    """The daemon ends: the call is not answered, and its caller repeats it to the next daemon."""


class Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a request."""

    epoch: int
    job: int
    attempt: int
    step: int
    arguments: dict[str, Any]
    timeout_s: float | None = None
    """How long the caller waits, where that is longer than the call's declared time."""


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the answers file: a call began, or was answered."""

    number: Number
    call: str
    digest: str = ""
    body: str | None = None


@dataclass
class _Running:
    number: Number
    call: str
    digest: str
    task: "asyncio.Task[Any]"
    is_looking: bool = False
    """It changes nothing, and *task* is that of the request, which has more to do when the call has ended."""
    is_ended: bool = False
    """By `abort` or `close`, not by the HTTP server."""
    over: "asyncio.Future[None] | None" = None
    """Of a call that only looks: done when it is over."""

    def end(self) -> "asyncio.Future[Any]":
        """Give what is done when this is over."""
        self.is_ended = True
        self.task.cancel()
        return self.when_over()

    def when_over(self) -> "asyncio.Future[Any]":
        if not self.is_looking:
            return self.task
        if self.over is None:
            self.over = self.task.get_loop().create_future()
        return self.over


class NodeCalls:
    """All calls of one node daemon."""

    def __init__(
        self,
        paths: Paths,
        certificates: CandidateCertificates | None = None,
        *,
        max_running: int = DEFAULT_MAX_RUNNING,
        tell: Tell = _tell_nobody,
    ) -> None:
        """*certificates* is told whose calls are taken besides those of published candidates: the promise's holder.

        *tell* hears of each call of a job that was to change something, when it has ended.
        """
        self._paths = paths
        self._certificates = certificates or CandidateCertificates(paths)
        fences, self._holder_certificate = _read_fences(paths)
        self._ledger = CallLedger(fences)
        self._certificates.admit_promised(self._ledger.promise.holder, self._holder_certificate)
        self._fences_owed = False
        self._running: list[_Running] = []
        self._slots = asyncio.Semaphore(max_running)
        self._answers_path = paths.answers_file
        self._tell = tell
        self._lines = 0
        self._closing = False
        self._leaving = False
        """This node is leaving its cluster: whatever else is asked of it would write where nothing must be left."""
        self._restore_answers()
        self._answers_file = self._rewrite_answers()

    @property
    def promise(self) -> Promise:
        """The highest epoch this node knows of, and who holds it."""
        return self._ledger.promise

    def keep_promise(self, promise: Promise) -> None:
        """Make *promise* durable, and only then the one that counts; raises `NodeCallError` if it cannot be.

        What could not be written may be on disk all the same: then the next daemon keeps it, and nobody was told.
        """
        if promise != self._ledger.promise:
            self._write(self._ledger.fences_with(promise))
            self._ledger.promise = promise
            self._fences_owed = False
        self._keep_fences(False)

    async def serve(
        self, state: NodeState, name: str, body: bytes, sent_at: str = "", *, is_gone: IsGone = lambda: False
    ) -> bytes:
        """Give the answer's body for a request's. Raises `StoppingError`, and nothing for what the request asks.

        *sent_at* is the caller's clock (`SENT_AT`): a job's call that is to change something is refused where that and
        this node's are too far apart. *is_gone* says whether the caller has closed its connection.
        """
        if self._closing or (self._leaving and name != LEAVE_CALL):
            raise StoppingError
        try:
            call = find(REGISTRY, HANDLERS, name)
            if call is None:
                raise ParameterError(f"Node call '{name}' is not known here")
            try:
                envelope = msgspec.json.decode(body, type=Envelope)
            except UNREADABLE_JSON as err:
                raise ParameterError(f"Node call {name}: the request cannot be read: {err}") from err
            if call.changes and envelope.job and (fault := sent_fault(state.world.node_name, sent_at, time.time())):
                raise NodeCallError(fault)
            arguments = call.decode(envelope.arguments)
            if not call.changes:
                return await self._look(state, call, envelope, arguments, is_gone)
            return await self._serve(state, call, envelope, arguments)
        except GanetiError as err:
            return _failure(err)

    async def abort(self, job: int, attempt: int) -> int:
        """See `CallsPort.abort`."""
        self._keep_fences(self._ledger.supersede(job, attempt))
        current = asyncio.current_task()
        ended = [
            running
            for running in self._running
            if running.number[0] == job and running.number[1] <= attempt and running.task is not current
        ]
        for running in ended:
            _log.info("call %s of job %d attempt %d ended: superseded", running.call, job, running.number[1])
        if ended:
            await asyncio.wait([running.end() for running in ended])
        return len(ended)

    async def close(self, grace_s: float) -> None:
        """Let calls end for *grace_s*, then end them; they count as interrupted and may be repeated."""
        self._closing = True
        if self._running:
            await asyncio.wait([running.when_over() for running in self._running], timeout=grace_s)
        if self._running:
            await asyncio.wait([running.end() for running in self._running], timeout=STUCK_AFTER_S)
            for running in self._running:
                _log.warning("call %s waits for a device and cannot be ended", running.call)
        os.close(self._answers_file)

    async def _serve(self, state: NodeState, call: NodeCall, envelope: Envelope, arguments: dict[str, Any]) -> bytes:
        number = (envelope.job, envelope.attempt, envelope.step)
        digest = ""
        self._keep_fences(self._ledger.admit(envelope.epoch, number))
        if envelope.job:
            digest = hashlib.sha256(msgspec.json.encode(envelope.arguments, order="sorted")).hexdigest()
            if (known := self._ledger.answered(number, call.name, digest)) is not None:
                return known
            if (same := self._find_running(number, call.name, digest)) is not None:
                return await self._outcome(same)
        work = self._carry_out(state, call, envelope, arguments, number, digest)
        running = _Running(number, call.name, digest, asyncio.create_task(work, name=call.name))
        self._running.append(running)
        running.task.add_done_callback(lambda _: self._running.remove(running))
        return await self._outcome(running)

    async def _look(
        self, state: NodeState, call: NodeCall, envelope: Envelope, arguments: dict[str, Any], is_gone: IsGone
    ) -> bytes:
        """Run the handler of a call that changes nothing, for its caller alone: no task needs to outlive that."""
        number = (envelope.job, envelope.attempt, envelope.step)
        task = asyncio.current_task()
        assert task is not None
        running = _Running(number, call.name, "", task, is_looking=True)
        self._running.append(running)
        try:
            work = _answer(state, call, arguments, max(call.timeout_s, envelope.timeout_s or 0.0))
            return await (_while_awaited(call.name, work, is_gone) if call.request.ends_with_caller else work)
        except asyncio.CancelledError:
            if not running.is_ended:
                raise
            task.uncancel()
            raise self._ended(running) from None
        finally:
            self._running.remove(running)
            if running.over is not None and not running.over.done():
                running.over.set_result(None)

    def _ended(self, running: _Running) -> Exception:
        """What the caller of a call that was ended is told."""
        if self._closing:
            return StoppingError()
        return NodeCallError(f"Call {running.call} was ended: its attempt was superseded")

    def _keep_fences(self, raised: bool) -> None:
        """Make raised fences durable; those that could not be (a full disk) hold up every later call until they are."""
        self._fences_owed = self._fences_owed or raised
        if not self._fences_owed:
            return
        self._write(self._ledger.fences)
        self._fences_owed = False

    def _write(self, fences: Fences) -> None:
        holder = fences.promise.holder
        try:
            certificate = self._certificate_of(holder)
            _write_fences(self._paths, fences, certificate)
        except OSError as err:
            raise NodeCallError(f"{self._paths.epoch_file} cannot be written: {err.strerror}") from err
        self._holder_certificate = certificate
        self._certificates.admit_promised(holder, certificate)

    def _certificate_of(self, holder: str | None) -> str | None:
        """The digest of a candidate's; who was one when it was promised something stays known by what it had then."""
        if holder is None:
            return None
        known = self._holder_certificate if holder == self._ledger.promise.holder else None
        return self._certificates.digest_of(holder) or known

    async def _outcome(self, running: _Running) -> bytes:
        """Wait for a call without ending it when its caller goes away."""
        await asyncio.wait([running.task])
        if running.task.cancelled():
            raise self._ended(running)
        outcome: bytes = running.task.result()
        return outcome

    def _find_running(self, number: Number, call: str, digest: str) -> _Running | None:
        for running in self._running:
            if running.number == number and running.digest:
                if (running.call, running.digest) != (call, digest):
                    raise ParameterError(
                        f"Step {number[2]} of job {number[0]} is the call {running.call}, still running"
                    )
                return running
        return None

    async def _carry_out(
        self,
        state: NodeState,
        call: NodeCall,
        envelope: Envelope,
        arguments: dict[str, Any],
        number: Number,
        digest: str,
    ) -> bytes:
        """Run the handler. The task has no caller: every outcome but being ended is an answer."""
        if call.takes_slot:
            await self._slots.acquire()
        try:
            if digest:
                self._append(_Line(number, call.name))
            self._leaving = self._leaving or call.name == LEAVE_CALL
            began_s = time.monotonic()
            body = await _answer(state, call, arguments, max(call.timeout_s, envelope.timeout_s or 0.0))
            if envelope.job:
                self._tell(envelope.job, call.name, arguments, body, time.monotonic() - began_s)
            if call.name == LEAVE_CALL and not body.startswith(b"[true"):
                self._leaving = False
            if digest:
                self._ledger.keep(number, Answer(call.name, digest, body))
                self._append(_Line(number, call.name, digest, base64.b64encode(body).decode()))
            return body
        finally:
            if call.takes_slot:
                self._slots.release()

    def _append(self, line: _Line) -> None:
        os.write(self._answers_file, msgspec.json.encode(line) + b"\n")
        self._lines += 1
        if self._lines > 8 * KEPT_ANSWERS:
            os.close(self._answers_file)
            self._answers_file = self._rewrite_answers()

    def _restore_answers(self) -> None:
        try:
            with open(self._answers_path, "rb", opener=plain_file) as file:
                boot, *lines = file.read().split(b"\n")
        except (FileNotFoundError, ValueError):
            return
        if boot.decode("ascii", "replace") != boot_identity():
            return
        interrupted: dict[Number, str] = {}
        for raw in lines:
            try:
                line = msgspec.json.decode(raw, type=_Line)
            except UNREADABLE_JSON:
                continue  # the daemon was killed while it wrote this line
            if line.body is None:
                interrupted[line.number] = line.call
            else:
                interrupted.pop(line.number, None)
                self._ledger.keep(line.number, Answer(line.call, line.digest, base64.b64decode(line.body)))
        for number, name in interrupted.items():
            _log.warning("call %s of job %d step %d was interrupted when the daemon ended", name, number[0], number[2])

    def _rewrite_answers(self) -> int:
        fresh = f"{self._answers_path}.new"
        os.makedirs(os.path.dirname(fresh), mode=RUN_DIR_MODE, exist_ok=True)
        descriptor = open_among_others(fresh, os.O_WRONLY | os.O_TRUNC | os.O_APPEND, 0o600)
        lines = [boot_identity().encode()]
        for running in self._running:
            if running.digest:
                lines.append(msgspec.json.encode(_Line(running.number, running.call)))
        for number, answer in self._ledger.answers.items():
            text = base64.b64encode(answer.body).decode()
            lines.append(msgspec.json.encode(_Line(number, answer.call, answer.digest, text)))
        with open(descriptor, "wb", closefd=False) as file:
            file.write(b"\n".join(lines) + b"\n")
        os.replace(fresh, self._answers_path)
        self._lines = len(lines)
        return descriptor


async def _while_awaited(name: str, work: Coroutine[Any, Any, bytes], is_gone: IsGone) -> bytes:
    """Give the answer of *work*, which is ended when nobody waits for it any more."""
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait([task], timeout=GONE_EVERY_S))[0]:
            if is_gone():
                _log.info("call %s ended: its caller has gone", name)
                return _failure(NodeCallError(f"Call {name} was ended: its caller has gone"))
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])


async def _answer(state: NodeState, call: NodeCall, arguments: dict[str, Any], limit_s: float) -> bytes:
    try:
        async with asyncio.timeout(limit_s):
            value = await call.run(state, arguments)
        return msgspec.json.encode([True, value])
    except TimeoutError:
        return _failure(NodeTimeoutError(f"Call {call.name} did not end within {limit_s:g} seconds and was stopped"))
    except GanetiError as err:
        return _failure(err)
    except OSError as err:  # a disk that is full or fails is no fault of the program
        where = f"{err.filename}: " if err.filename else ""
        _log.error("call %s failed: %s%s", call.name, where, err.strerror or err)
        return _failure(NodeCallError(f"Call {call.name} failed: {where}{err.strerror or err}"))
    except Exception as err:
        _log.exception("call %s failed in a way nobody thought of", call.name)
        return _failure(GanetiError(f"Call {call.name} failed: {type(err).__name__}: {err}"))


def _failure(err: GanetiError) -> bytes:
    return msgspec.json.encode([False, err.to_wire()])


class _FencesFile(msgspec.Struct, frozen=True):
    epoch: int
    attempts: dict[int, int] = {}
    holder: str | None = None
    """Missing in files of earlier releases, as is what follows."""
    certificate: str | None = None
    """The digest of the holder's."""


def _read_fences(paths: Paths) -> tuple[Fences | None, str | None]:
    """Give what is on disk, with the digest of the certificate of the promise's holder.

    Raises `NodeCallError` for a file that cannot be read: without it, a former master could not be told.
    """
    try:
        with open(paths.epoch_file, "rb", opener=plain_file) as file:
            data = file.read()
    except FileNotFoundError:
        return None, None
    try:
        found = msgspec.json.decode(data, type=_FencesFile)
    except UNREADABLE_JSON as err:
        raise NodeCallError(
            f"{paths.epoch_file} cannot be read ({err}): remove it if this node has one master"
        ) from err
    return Fences(Promise(found.epoch, found.holder), found.attempts), found.certificate


def _write_fences(paths: Paths, fences: Fences, certificate: str | None) -> None:
    fresh = f"{paths.epoch_file}.new"
    promise = fences.promise
    content = msgspec.json.encode(_FencesFile(promise.epoch, fences.attempts, promise.holder, certificate))
    os.makedirs(os.path.dirname(fresh), mode=0o755, exist_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
    try:
        if os.write(descriptor, content) != len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    give_group(fresh, MASTER)
    reach("fences-written")
    os.replace(fresh, paths.epoch_file)
    directory = os.open(os.path.dirname(fresh), os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
