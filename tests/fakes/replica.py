# SPDX-License-Identifier: BSD-2-Clause
"""What a master candidate does with the calls `replica_*` and `promise`, in memory.

The real one is held to the same suite (`tests/contract/test_replica.py`). `FakeNodes` is a network of them
(`NodesPort`) that can lose calls and answers, and hold them back.
"""

import asyncio
import base64
import hashlib
import re
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ganeti.base.errors import GanetiError, NodeTimeoutError, NodeUnreachableError, ParameterError
from ganeti.base.version import RELEASE
from ganeti.master.config.fingerprint import Fingerprint
from ganeti.model.objects import KINDS, SINGLES
from ganeti.ports.nodes import NodeAnswer

NAME = re.compile(r"job-[1-9][0-9]{0,17}(\.undo)?|drain", re.ASCII)
CLOCK_S = 150.0
Position = tuple[int, int]


class Refusal(Exception):
    def __init__(self, reason: str, sentence: str, **more: Any) -> None:
        super().__init__(sentence)
        self.reason = reason
        self.more = more


class FakeReplica:
    """One candidate. Whatever it has answered to is durable: `restart` loses nothing else."""

    def __init__(self, uuid: str, cluster: str = "cluster-uuid", now_s: Callable[[], float] = lambda: 0.0) -> None:
        self.uuid = uuid
        self.cluster = cluster
        self.now_s = now_s
        self.software = RELEASE
        self.promised = 0
        self.holder: str | None = None
        self.full = False
        self.damaged = False
        self.acts_as_master = False
        self.position: Position | None = None
        self.acknowledged: Position | None = None
        """What it would publish, as it was told."""
        self.membership: dict[str, Any] | None = None
        self.header: dict[str, Any] = {}
        self.fragments: dict[tuple[str, str], bytes] = {}
        self.mtime_s = 0.0
        self.steps: dict[tuple[int, int, int], list[Any]] = {}
        self.files: dict[str, str] = {}
        self.archive: dict[int, str] = {}
        self.serial = 0
        self.marks_of_snapshot: dict[str, str] | None = None

    def answer(self, call: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Carry out a call as it came over the wire; raises `ParameterError` for what no master sends."""
        handler = {
            "replica_state": self._state,
            "replica_append": self._append,
            "replica_snapshot": self._snapshot,
            "replica_queue_list": self._queue_list,
            "replica_members": self._members,
            "promise": self._promise,
        }.get(call)
        if handler is None:
            raise GanetiError(f"There is no node call '{call}'")
        caller = {key: arguments.pop(key) for key in ("cluster", "software", "epoch", "master", "time_s")}
        try:
            return {"refused": None, **handler(caller, **arguments)}
        except TypeError as err:
            raise ParameterError(f"Node call {call}: {err}") from err
        except Refusal as err:
            answer = {"refused": err.reason, "sentence": str(err), "promised": self.promised, "holder": self.holder}
            return {**answer, "established": self.established, **err.more}

    @property
    def established(self) -> int:
        version = self.membership["version"][0] if self.membership else 0
        return max(version, self.position[0] if self.position else 0)

    @property
    def digest(self) -> str:
        if self.position is None:
            return ""
        return Fingerprint(self.header, self.fragments).now(self.position[1], self.mtime_s)

    def _admit(self, caller: dict[str, Any], *, raises: bool) -> None:
        if caller["cluster"] != self.cluster:
            raise Refusal("cluster", f"This node has a copy of cluster {self.cluster}")
        if caller["software"] != self.software:
            raise Refusal("software", f"This node runs {self.software}")
        if abs(caller["time_s"] - self.now_s()) > CLOCK_S:
            raise Refusal("clock", "The clocks are more than 150 seconds apart")
        epoch, master = caller["epoch"], caller["master"]
        if epoch < self.promised or (epoch == self.promised and self.holder not in (None, master)):
            raise Refusal("epoch", f"Epoch {self.promised} is promised to {self.holder}")
        if self.acts_as_master and master != self.uuid:
            raise Refusal("master", "This node runs ganeti-wconfd")
        if raises:
            if self.full:
                raise Refusal("disk", "The disk is full")
            self.promised, self.holder = epoch, master

    def _state(self, caller: dict[str, Any], *, acknowledged: Any = None) -> dict[str, Any]:
        self._admit(caller, raises=False)
        if self.damaged:
            raise Refusal("damaged", "The database cannot be read")
        self._acknowledge(acknowledged)
        return {
            "position": self.position,
            "digest": self.digest,
            "membership": self.membership,
            "promised": self.promised,
            "holder": self.holder,
            "established": self.established,
        }

    def _append(
        self,
        caller: dict[str, Any],
        *,
        after: list[int],
        commits: list[dict[str, Any]],
        files: dict[str, str | None],
        archived: list[int],
        serial: int,
        membership: dict[str, Any] | None,
        acknowledged: Any = None,
    ) -> dict[str, Any]:
        for name in files:
            if not NAME.fullmatch(name):
                raise ParameterError(f"'{name}' is no file of the queue")
        self._admit(caller, raises=True)
        if self.damaged:
            raise Refusal("damaged", "The database cannot be read")
        if commits and tuple(after) != self.position:
            raise Refusal("gap", f"This copy is at {self.position}", position=self.position)
        if commits:
            self._apply(commits)
        for name, content in files.items():
            if content is None:
                self.files.pop(name, None)
            else:
                self.files[name] = content
        for job_id in archived:
            if (content := self.files.pop(f"job-{job_id}", None)) is not None:
                self.archive[job_id] = content
        self.serial = max(self.serial, serial)
        self._take_membership(membership)
        self._acknowledge(acknowledged)
        return {"position": self.position}

    def _apply(self, commits: list[dict[str, Any]]) -> None:
        position, mtime_s = self.position, self.mtime_s
        fragments, steps = dict(self.fragments), dict(self.steps)
        for commit in commits:
            for kind, uuid, plain in commit["put"]:
                fragments[kind, uuid] = msgspec.json.encode(KINDS[kind].from_plain(plain).to_plain())
            for kind, uuid in commit["remove"]:
                fragments.pop((kind, uuid), None)
            if commit["put"] or commit["remove"]:
                position, mtime_s = tuple(commit["position"]), commit["time_s"]
            if (step := commit["step"]) is not None:
                steps[step[0], step[1], step[2]] = step
        assert position is not None
        changes = any(commit["put"] or commit["remove"] for commit in commits)
        if changes and Fingerprint(self.header, fragments).now(position[1], mtime_s) != commits[-1]["digest"]:
            self.damaged = True
            raise Refusal("damaged", "The fingerprint is wrong after these commits")
        self.position, self.mtime_s, self.fragments, self.steps = position, mtime_s, fragments, steps

    def _snapshot(
        self,
        caller: dict[str, Any],
        *,
        position: list[int],
        config: str,
        steps: list[list[Any]],
        membership: dict[str, Any] | None,
        digest: str,
        acknowledged: Any = None,
        files: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        self._admit(caller, raises=True)
        late = self.position is not None and self.position[0] == position[0] and self.position[1] > position[1]
        if late and not self.damaged:
            raise Refusal("gap", f"This copy is at {self.position} already", position=self.position)
        plain = msgspec.json.decode(zlib.decompress(base64.b64decode(config)))
        fragments = {(kind, key): msgspec.json.encode(plain[kind]) for kind, key in SINGLES.items() if kind in plain}
        for kind in KINDS:
            if kind not in SINGLES:
                fragments |= {(kind, uuid): msgspec.json.encode(value) for uuid, value in plain[kind].items()}
        header = {key: value for key, value in plain.items() if key not in KINDS}
        if Fingerprint(header, fragments).now(position[1], plain["mtime"]) != digest:
            raise Refusal("damaged", "The fingerprint of the snapshot is wrong")
        self.files |= files or {}
        self.marks_of_snapshot = files
        self.position, self.header, self.fragments, self.damaged = (position[0], position[1]), header, fragments, False
        self.mtime_s = plain["mtime"]
        self.steps = {(step[0], step[1], step[2]): step for step in steps}
        self._take_membership(membership)
        self._acknowledge(acknowledged)
        return {"position": self.position}

    def _acknowledge(self, acknowledged: Any) -> None:
        if acknowledged is not None and self.position is not None and tuple(acknowledged[0]) <= self.position:
            self.acknowledged = (acknowledged[0][0], acknowledged[0][1])

    def _queue_list(self, caller: dict[str, Any]) -> dict[str, Any]:
        self._admit(caller, raises=False)
        return {"files": {name: _digest(content) for name, content in self.files.items()}}

    def _members(self, caller: dict[str, Any], *, membership: dict[str, Any]) -> dict[str, Any]:
        self._admit(caller, raises=True)
        self._take_membership(membership)
        return {"membership": self.membership}

    def _promise(self, caller: dict[str, Any], *, ask_only: bool, position: Any = None) -> dict[str, Any]:
        granted = caller["epoch"] > self.promised
        if granted and not ask_only:
            self.promised, self.holder = caller["epoch"], caller["master"]
        return {
            "granted": granted,
            "promised": self.promised,
            "holder": self.holder,
            "established": self.established,
            "position": self.position,
            "membership": self.membership,
            "names": "",
        }

    def _take_membership(self, membership: dict[str, Any] | None) -> None:
        if membership is not None and (
            self.membership is None or tuple(membership["version"]) > tuple(self.membership["version"])
        ):
            self.membership = membership


class FakeNodes:
    """A network of replicas. Nodes in `away` refuse connections; those in `silent` take calls and never answer."""

    def __init__(self, replicas: Iterable[FakeReplica]) -> None:
        self.replicas = {replica.uuid: replica for replica in replicas}
        self.away: dict[str, None] = {}
        self.silent: dict[str, None] = {}
        self.calls: list[tuple[str, str]] = []
        self.held: dict[str, asyncio.Event] = {}
        """Calls to these nodes wait until the event is set."""
        self.longest_append = 0

    async def call(self, node_uuid: str, call: str, /, *, deadline_s: float | None = None, **arguments: Any) -> Any:
        self.calls.append((node_uuid, call))
        body = msgspec.json.encode(arguments)
        if call == "replica_append":
            self.longest_append = max(self.longest_append, len(body))
        await asyncio.sleep(0)
        if node_uuid in self.away or node_uuid not in self.replicas:
            raise NodeUnreachableError(f"Node {node_uuid} cannot be reached: connection refused")
        try:
            async with asyncio.timeout(deadline_s):
                if node_uuid in self.held:
                    await self.held[node_uuid].wait()
                if node_uuid in self.silent:
                    await asyncio.Event().wait()
        except TimeoutError:
            raise NodeTimeoutError(f"Node {node_uuid} did not answer the call {call}") from None
        if call == "write_ssconf_files":
            return None
        return msgspec.json.decode(
            msgspec.json.encode(self.replicas[node_uuid].answer(call, msgspec.json.decode(body)))
        )

    async def call_many(
        self, node_uuids: Iterable[str], call: str, /, *, deadline_s: float | None = None, **arguments: Any
    ) -> list[NodeAnswer]:
        async def one(node_uuid: str) -> NodeAnswer:
            try:
                return NodeAnswer(node_uuid, await self.call(node_uuid, call, deadline_s=deadline_s, **arguments))
            except GanetiError as err:
                return NodeAnswer(node_uuid, error=err)

        return await asyncio.gather(*(one(uuid) for uuid in node_uuids))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
