# SPDX-License-Identifier: BSD-2-Clause
"""An operation's context in memory: what was committed, called, logged and pushed can be read afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pkgutil
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import msgspec

from ganeti.base.errors import GanetiError, NodeUnreachableError
from ganeti.master.allocators import BUILT_IN
from ganeti.master.operation import Operation
from ganeti.model import node_calls
from ganeti.model.capacity import Capacity
from ganeti.model.configuration import Configuration, Draft
from ganeti.model.copies import IN_SYNC, MASTER, Copies, Copy
from ganeti.model.membership import Membership
from ganeti.model.node_calls import NodeRequest
from ganeti.model.node_calls.node import NodeInfo
from ganeti.model.node_calls.verify import NodeChecks
from ganeti.model.placement_requests import to_protocol
from ganeti.model.reservations import Reservation, Reservations
from ganeti.model.traits import Catalogue
from ganeti.ports.config import Change
from ganeti.ports.context import JobIdentity, UndoChange, UndoNodeCall
from ganeti.ports.luxid import (
    AnswerPlacement,
    CancelUnbegun,
    Client,
    DescribeForAllocator,
    KeepCapacity,
    KnownCapacity,
    NodesWithHooks,
    Question,
    RenewGroupState,
)
from ganeti.ports.nodes import NodeAnswer

Handler = Callable[..., Any]


class FakeConfig:
    def __init__(self, config: Configuration, story: list[str]) -> None:
        self.config = config
        self.story = story
        self.settled: list[bool] = []
        self.on_flush: Callable[[], None] = lambda: None
        self.flushed: list[str | None] = []
        """The group of each flush."""
        self.not_in_sync: dict[str, Copy] = {}
        """What is told of candidates (by uuid) instead of their being in sync."""
        self.copies_error: GanetiError | None = None

    def view(self) -> Configuration:
        return self.config

    async def commit(self, change: Change, *, settles: bool = False) -> Any:
        # The round trip through JSON is what happens on the way to WConfD.
        change = msgspec.json.decode(msgspec.json.encode(change), type=type(change))
        draft = Draft(self.config, 1000.0)
        answer = change.apply(draft)
        for (kind, uuid), obj in draft.touched.items():
            if obj is None:
                self.config.remove(kind, uuid)
            else:
                self.config.put(kind, uuid, obj)
        self.story.append(f"commit {type(change).__name__}{' settles' if settles else ''}")
        self.settled.append(settles)
        return answer

    async def flush(self, group: str | None = None) -> None:
        self.story.append("flush")
        self.flushed.append(group)
        self.on_flush()

    async def copies(self) -> Copies:
        if self.copies_error is not None:
            raise self.copies_error
        master = self.config.cluster.master_node
        copies = {
            node.uuid: Copy(state=MASTER if node.uuid == master else IN_SYNC, position=(1, 9))
            for node in self.config.nodes()
            if node.master_candidate and not node.offline
        } | self.not_in_sync
        members = [uuid for uuid, copy in copies.items() if copy.in_sync]
        return Copies(
            epoch=1, membership=Membership(version=(1, 1), members=tuple(members)), position=(1, 9), nodes=copies
        )


class FakeNodes:
    """Answers calls from handlers by name; an exception instance as handler is raised."""

    def __init__(self, config: Configuration, story: list[str]) -> None:
        self.config = config
        self.story = story
        self.handlers: dict[str, Handler | BaseException] = {
            "hooks_runner": lambda name, **_: [],
            "os_validate": lambda _, **asked: {"name": "noop", "path": "/srv/ganeti/os", "valid": True},
        }
        self.dead: set[str] = set()
        self.ill_formed: set[str] = set()
        """Calls to which a test gives answers as no node gives them."""

    async def call(self, node_uuid: str, call: str, /, *, deadline_s: float | None = None, **arguments: Any) -> Any:
        name = self.config.node(node_uuid).name
        self.story.append(f"{name} {call}")
        if name in self.dead:
            raise NodeUnreachableError(f"Node {name} does not answer")
        handler = self.handlers.get(call)
        if isinstance(handler, BaseException):
            raise handler
        if isinstance(checks := arguments.get("checks"), NodeChecks):
            arguments["checks"] = msgspec.to_builtins(checks)  # by 3.1's keys, as the node is asked
        if handler is None:
            return made_up(call)
        answer = handler(name, **arguments)
        if call == NodeInfo.call and isinstance(answer, dict) and answer["storage"]:
            answer = {**answer, "storage": _for_each_unit(answer["storage"], arguments["storage"])}
        return answer if call in self.ill_formed else well_formed(call, answer)

    async def call_many(
        self, node_uuids: Iterable[str], call: str, /, *, deadline_s: float | None = None, **arguments: Any
    ) -> list[NodeAnswer]:
        answers = []
        for uuid in node_uuids:
            try:
                answers.append(NodeAnswer(uuid, await self.call(uuid, call, **arguments)))
            except GanetiError as err:
                answers.append(NodeAnswer(uuid, error=err))
        return answers


def _for_each_unit(told: list[Any], units: Sequence[Any]) -> list[Any]:
    """As many entries as were asked for: tests say one, for whatever is asked."""
    return [*told, *([told[-1]] * len(units))][: len(units)]


def well_formed(call: str, value: Any) -> Any:
    """*value*, which is what a node may answer to *call*; raises `AssertionError` where a node never answers so.

    A call that no node has, of a test of the engine, may be answered by anything.
    """
    if call not in requests():
        return value
    try:
        unknown = _unknown(value, requests()[call].read(value))
    except msgspec.ValidationError as err:
        raise AssertionError(f"no node answers {call} so: {err}: {value!r}") from err
    assert not unknown, f"no node's answer to {call} has these fields: {', '.join(unknown)}: {value!r}"
    return value


def _unknown(given: Any, typed: Any) -> list[str]:
    """The fields of *given*, at any depth, that its type does not have."""
    if isinstance(given, dict) and isinstance(typed, msgspec.Struct):
        names = dict(zip(typed.__struct_encode_fields__, typed.__struct_fields__, strict=True))
        lacking = [str(key) for key in given if key not in names]
        pairs = [(given[key], getattr(typed, name)) for key, name in names.items() if key in given]
    elif isinstance(given, dict) and isinstance(typed, dict):
        lacking, pairs = [], list(zip(given.values(), typed.values(), strict=True))
    elif isinstance(given, list | tuple) and isinstance(typed, list | tuple):
        lacking, pairs = [], list(zip(given, typed, strict=False))
    else:
        return []
    return lacking + [name for each in pairs for name in _unknown(*each)]


def made_up(call: str) -> Any:
    """An answer of the call's type with nothing in it; None where there is none."""
    for value in (None, [], {}, {"settled": True}, {"status": "completed"}, False, "", 0):
        with contextlib.suppress(KeyError, msgspec.ValidationError):
            msgspec.convert(value, requests()[call].answer)
            return value
    return None


@cache
def requests() -> dict[str, type[NodeRequest[Any]]]:
    for module in pkgutil.iter_modules(node_calls.__path__, f"{node_calls.__name__}."):
        import_module(module.name)
    found, kinds = {}, [NodeRequest]
    while kinds:
        kinds += (below := kinds.pop().__subclasses__())
        found |= {kind.call: kind for kind in below}
    return found


class FakeContext:
    """Everything an operation asks for; `story` tells what happened, in order."""

    def __init__(self, config: Configuration, catalogue: Catalogue) -> None:
        self.story: list[str] = []
        self.config = FakeConfig(config, self.story)
        self.nodes = FakeNodes(config, self.story)
        self.catalogue = catalogue
        self.job = JobIdentity(job_id=1, attempt=0, opcode_index=0, priority=0)
        self.lines: list[str] = []
        self.records: list[UndoNodeCall | UndoChange] = []
        self.pushes: list[int] = []
        """How many records there were after each push: what may be found after a death."""
        self.time_s = 1000.0
        self.count = 0
        self.allocations: list[dict[str, Any]] = []
        self.allocation: dict[str, Any] = {"success": True, "info": "", "result": ["node2"]}
        self.asked: list[tuple[str, bool]] = []
        """Which allocators, and whether with a reservation."""
        self.held: list[tuple[int | str, Reservation]] = []
        """What is reserved: job id and reservation."""
        self.capacities: dict[str, Capacity] = {}
        """What LuxiD keeps of capacity, by group."""
        self.group_states: dict[str, dict[str, Any]] = {}
        """What LuxiD would say of each group (uuid) that is renewed."""
        self.hooks_present: dict[str, list[str]] = {}
        """The phases for which nodes (uuids) say that they have scripts; the others do not say."""
        self.set_aside: list[tuple[int, str]] = []
        """Jobs whose files are damaged."""
        self.quicker: list[str] = []
        """Nodes (uuids) on which somebody else reserves room first, once each."""
        self.nodes.handlers["iallocator_runner"] = self._run_allocator
        self.nodes.handlers["instance_disks_in_use"] = lambda name, **_: []
        self.rings = False
        self.log = self.locks = self.undo = self.clock = self.entropy = self.names = self
        self.luxid = self.reservations = self.master = self

    def info(self, text: str) -> None:
        self.lines.append(text)

    warning = info

    def progress(self, text: str, done: float, total: float) -> None: ...

    def step_told(self) -> None: ...

    def add(self, kind: str, value: object) -> None:
        self.lines.append(f"{kind} {value}")

    @contextlib.asynccontextmanager
    async def bell(self, job: JobIdentity) -> AsyncIterator[FakeContext]:
        """*rings* says whether somebody does, at once."""
        del job
        yield self

    @property
    def path(self) -> str:
        return "/run/bell"

    async def rung(self, within_s: float) -> bool:
        self.time_s += 0 if self.rings else within_s
        return self.rings

    def hook_phases(self, path: str) -> list[str]:
        return ["pre", "post"]

    def domain_secret(self) -> str:
        return "the secret of both"

    def stop_if_cancelled(self) -> None: ...

    def damaged_jobs(self) -> list[tuple[int, str]]:
        return self.set_aside

    async def release(self, locks: list[str]) -> None:
        self.story.append(f"release {' '.join(locks)}")

    async def downgrade(self, level: str) -> None:
        self.story.append(f"downgrade {level}")

    async def push(self, *records: UndoNodeCall | UndoChange) -> None:
        self.story += [f"undo: {record.sentence}" for record in records]
        self.records += records
        self.pushes.append(len(self.records))

    def now_s(self) -> float:
        return self.time_s

    async def sleep(self, seconds: float) -> None:
        self.time_s += seconds

    def uuid(self) -> str:
        self.count += 1
        return f"00000000-0000-4000-8000-{self.count:012d}"

    def token(self, size_bytes: int) -> bytes:
        self.count += 1
        return self.count.to_bytes(size_bytes, "big")

    async def resolve(self, name: str, family: int = 2) -> tuple[str, str]:
        return name, "10.77.0.9"

    @property
    def client(self) -> Client:
        return self.job.job_id, "lock-1", 0

    async def ask(self, question: Question[Any], *, patience_s: float = 0.0) -> Any:
        """As LuxiD, over the wire."""
        arguments = msgspec.json.encode(question)
        answer = self._answer(msgspec.json.decode(arguments, type=type(question)))
        return msgspec.json.decode(msgspec.json.encode(answer), type=question.answer_type())

    def _answer(self, question: Question[Any]) -> Any:
        match question:
            case AnswerPlacement(request, client):
                beside = {name: getattr(request, name, None) for name in ("ignore_soft_errors", "unsuitable")}
                given = {name: value for name, value in beside.items() if value}
                self._note(BUILT_IN, to_protocol(request) | given, reserve=client is not None)
                return self.allocation
            case DescribeForAllocator():
                return {"serial": len(self.held), "input": {"version": 2}}
            case KnownCapacity(_, questions, cached):
                return {group: self.capacities[group] for group in questions if cached and group in self.capacities}
            case KeepCapacity(_, counted):
                self.capacities |= counted
                return list(counted)
            case CancelUnbegun(numbers):
                self.story.append(f"cancel {numbers}")
                return numbers
            case NodesWithHooks(_, nodes):
                return {uuid: self.hooks_present[uuid] for uuid in nodes if uuid in self.hooks_present}
            case RenewGroupState(uuid):
                self.story.append(f"renew {uuid}")
                return self.group_states[uuid]
        raise AssertionError(question)

    def _run_allocator(self, _: str, *, name: str, idata: str, default_iallocator_params: Any) -> str:
        self._note(name, json.loads(idata)["request"], reserve=False)
        return json.dumps(self.allocation)

    def _note(self, allocator: str, request: dict[str, Any], *, reserve: bool) -> None:
        self.allocations.append(request)
        self.asked.append((allocator, reserve))

    async def current(self) -> Reservations:
        return Reservations(serial=len(self.held), position=(0, 0), held=list(self.held))

    async def reserve(self, reservations: Sequence[Reservation], seen: int) -> str | None:
        for reservation in reservations:
            for node in reservation.nodes:
                if node in self.quicker:
                    self.quicker.remove(node)
                    return node
        self.held += [(self.job.job_id, reservation) for reservation in reservations]
        return None


def changing(story: Iterable[str]) -> list[str]:
    """What of a story is more than a question, or a lock given up."""
    known = requests()
    calls = [known.get(line.split(" ")[-1]) for line in story]
    asks = [
        line.startswith("release ") or (call is not None and not call.changes_node)
        for line, call in zip(story, calls, strict=True)
    ]
    return [line for line, is_question in zip(story, asks, strict=True) if not is_question]


def run(operation: Operation[Any], ctx: FakeContext) -> Any:
    """Take an operation through its phases, as the engine does."""

    async def phases() -> Any:
        operation.refuse_unsupported()
        view = ctx.config.view()
        operation.locks(view)
        facts = await operation.gather(ctx, view)  # type: ignore[arg-type]
        checked = operation.check(view, facts, ctx)  # type: ignore[arg-type]
        before = len(ctx.story)
        checked = await operation.check_on_nodes(checked, ctx)  # type: ignore[arg-type]
        assert not (deeds := changing(ctx.story[before:])), f"checks on nodes change: {deeds}"
        if operation.dry_run:
            return None
        operation.hooks(view, checked)
        return await operation.execute(checked, ctx)  # type: ignore[arg-type]

    return asyncio.run(phases())
