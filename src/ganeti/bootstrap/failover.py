# SPDX-License-Identifier: BSD-2-Clause
"""`gnt-cluster master-failover`: this node becomes the master (protocols, section 25).

Nothing changes before `master/mastership` says that it may; from then on the node's daemons are started one after
another, and what does not go well is told as a warning: the cluster has a master again as soon as LuxiD answers.
"""

import asyncio
import fcntl
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from ganeti.base import version
from ganeti.base.errors import UNREADABLE_JSON, WRONG_STATE, GanetiError, NodeCallError, PrerequisiteError
from ganeti.base.names import is_named
from ganeti.base.paths import NODED_PORT, Paths, database_uri
from ganeti.bootstrap.machine import Machine
from ganeti.bootstrap.node_call import ask_node
from ganeti.master.mastership.conduct import take_over
from ganeti.master.mastership.messages import Begin, Claim
from ganeti.master.mastership.takeover import FORCED_STEP
from ganeti.master.operations.cluster.master_ip import taking
from ganeti.model.membership import Membership
from ganeti.model.node_calls import Answer as Given
from ganeti.model.node_calls import NodeRequest
from ganeti.model.node_calls.mastership import NodeStopMaster
from ganeti.model.node_calls.replica import CopyAnswer, Promise, ReplicaMembers
from ganeti.model.objects import Cluster, Node
from ganeti.system.accounts import RUN_DIR_MODE
from ganeti.system.files import check_plain, open_among_others
from ganeti.system.ssconf import ssconf
from ganeti.wire.framing_sync import ask
from ganeti.wire.ssconf import read_lines

ANSWER_WITHIN_S = 2.0
"""A node that is silent for so long is left out, one that is off after a third of it."""
STOP_WITHIN_S = 30.0
ADDRESS_WITHIN_S = 30.0
DAEMON_WITHIN_S = 30.0
_PUBLISHED_WITHIN_S = 60.0
_VOTED = ("--no-voting", "--yes-do-it")
"""The candidates have promised, or a human has answered for them: no daemon asks them again."""


@dataclass(frozen=True)
class Copy:
    """What this node's copy of the configuration says."""

    cluster: Cluster
    nodes: tuple[Node, ...]
    position: tuple[int, int]

    def claim(self, me: str, *, forced: bool = False, resumes: int = 0) -> Claim:
        serving = [node for node in self.nodes if not node.offline]
        return Claim(
            me=me,
            names={node.uuid: node.name for node in serving},
            candidates=tuple(node.uuid for node in serving if node.master_candidate),
            old_master=self.cluster.master_node,
            position=self.position,
            forced=forced,
            resumes=resumes,
            entropy=secrets.randbelow(FORCED_STEP),
        )


def fail_over(options: Mapping[str, Any]) -> int:
    """Make this node the master; *options*: no_voting. Gives the exit status, 1 if something was left to be done.

    Raises `PrerequisiteError` when it may not; then at most the old master was stopped, which is said.
    """
    return _become_master(Machine.here(), forced=bool(options.get("no_voting")))


def finish_take_over(machine: Machine, epoch: int) -> int:
    """Make this node the master after its take-over with the promise of *epoch* was interrupted; gives the exit status.

    Raises `PrerequisiteError` when it may not, also because another node has gone on meanwhile.
    """
    return _become_master(machine, resumes=epoch)


def _become_master(machine: Machine, *, forced: bool = False, resumes: int = 0) -> int:
    with _alone(machine.paths):
        copy = read_copy(machine)
        me = next((node.uuid for node in copy.nodes if is_named(machine.hostname, node.name)), "")
        if not me:
            raise PrerequisiteError(
                f"The cluster's copy on this machine knows no node {machine.hostname}: run this on a master candidate",
                WRONG_STATE,
            )
        return asyncio.run(_fail_over(machine, copy, copy.claim(me, forced=forced, resumes=resumes)))


@contextmanager
def _alone(paths: Paths) -> Iterator[None]:
    """One take-over of this node at a time; the lock ends with the process that has it."""
    os.makedirs(paths.run_dir, mode=RUN_DIR_MODE, exist_ok=True)
    descriptor = open_among_others(f"{paths.run_dir}/master-failover.lock", os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as err:
        os.close(descriptor)
        raise PrerequisiteError(
            "This node is becoming the master at this moment, by another command: wait for its end, then look with "
            "gnt-cluster getmaster",
            WRONG_STATE,
        ) from err
    try:
        yield
    finally:
        os.close(descriptor)


async def _fail_over(machine: Machine, copy: "Copy", claim: Claim) -> int:
    world = NodesByCalls(machine, copy, claim.me)
    begin = await take_over(claim, world)
    return await _Beginning(machine, copy, claim, begin, world.jobs_ended).run()


def read_copy(machine: Machine) -> Copy:
    """Read the configuration database of this node; raises `PrerequisiteError` where there is none that is usable."""
    paths = machine.paths
    try:
        return _read_database(paths.config_database)
    except (OSError, sqlite3.Error, GanetiError, *UNREADABLE_JSON, LookupError, StopIteration) as err:
        raise _no_copy(paths, machine.hostname, str(err) or "it is empty") from err


def _read_database(path: str) -> Copy:
    check_plain(path)
    database = sqlite3.connect(database_uri(path, "ro"), uri=True, isolation_level=None)
    try:
        database.execute("BEGIN")
        meta = dict(database.execute("SELECT key, value FROM meta WHERE key IN ('epoch', 'serial')"))
        rows = database.execute(
            "SELECT kind, uuid, data FROM objects WHERE kind IN ('cluster', 'nodes') ORDER BY id"
        ).fetchall()
    finally:
        database.close()
    decoded = [(kind, msgspec.json.decode(data)) for kind, _, data in rows]
    cluster = next(Cluster.from_plain(plain) for kind, plain in decoded if kind == "cluster")
    nodes = tuple(Node.from_plain(plain) for kind, plain in decoded if kind == "nodes")
    return Copy(cluster, nodes, (int(meta["epoch"]), int(meta["serial"])))


def _no_copy(paths: Paths, hostname: str, why: str) -> PrerequisiteError:
    candidates = [name for name in read_lines(ssconf(paths, "master_candidates")) if not is_named(hostname, name)]
    candidates = [name for name in candidates if name != ssconf(paths, "master_node")]
    where = " or ".join(sorted(candidates)) or "a master candidate, of which the master has none beside itself"
    return PrerequisiteError(
        f"{hostname} has no copy of the cluster to go on with ({why}): run gnt-cluster master-failover on {where}",
        WRONG_STATE,
    )


class NodesByCalls:
    """`TakeOverWorld` over node calls, each from a thread of its own."""

    def __init__(self, machine: Machine, copy: Copy, me: str) -> None:
        self._machine = machine
        self._copy = copy
        self._me = me
        self._addresses = {node.uuid: node.primary_ip for node in copy.nodes}
        self.jobs_ended = 0

    async def promise(self, node: str, epoch: int, *, ask_only: bool) -> CopyAnswer:
        request = Promise(**self._caller(epoch), ask_only=ask_only, position=self._copy.position)
        return await self._ask(node, request, ANSWER_WITHIN_S)

    async def write_members(self, node: str, membership: Membership) -> None:
        request = ReplicaMembers(**self._caller(membership.version[0]), membership=membership)
        answer = await self._ask(node, request, ANSWER_WITHIN_S)
        if answer.refused:
            raise NodeCallError(answer.sentence or answer.refused)

    def _caller(self, epoch: int) -> dict[str, Any]:
        return {
            "cluster": self._copy.cluster.uuid,
            "software": version.RELEASE,
            "epoch": epoch,
            "master": self._me,
            "time_s": time.time(),
        }

    async def stop_master(self, node: str) -> int:
        self.jobs_ended = (await self._ask(node, NodeStopMaster(), STOP_WITHIN_S)).jobs
        return self.jobs_ended

    def say(self, sentence: str) -> None:
        self._machine.say(sentence)

    async def _ask(self, node: str, request: NodeRequest[Given], timeout_s: float) -> Given:
        return await asyncio.to_thread(ask_node, self._machine.paths, self._addresses[node], request, timeout_s)


class _Beginning:
    """This node has what it needs: from here on it is the master."""

    def __init__(self, machine: Machine, copy: Copy, claim: Claim, begin: Begin, jobs_ended: int) -> None:
        self._machine = machine
        self._paths = machine.paths
        self._cluster = copy.cluster
        self._own_address = next(node.primary_ip for node in copy.nodes if node.uuid == claim.me)
        self._own_name = claim.names[claim.me]
        self._old_name = claim.names.get(begin.old_master, "the old master")
        self._begin = begin
        self._jobs_ended = jobs_ended
        self._status = 0

    async def run(self) -> int:
        for sentence in self._begin.warnings:
            self._warn(sentence, fails=False)
        if self._jobs_ended:
            jobs = "1 job was" if self._jobs_ended == 1 else f"{self._jobs_ended} jobs were"
            self._machine.say(f"{jobs} running there: here what was begun is undone, and what was not is run")
        # Daemons that were started before, and still ask who is master, would have read an older copy.
        await asyncio.to_thread(ask_node, self._paths, self._own_address, NodeStopMaster(), DAEMON_WITHIN_S)
        address = asyncio.ensure_future(asyncio.to_thread(self._take_address))
        try:
            await self._start_daemons()
            self._machine.say(f"{self._own_name} is the master now, in epoch {self._begin.epoch}")
            await asyncio.to_thread(self._finish)
        finally:
            await address
        return self._status

    async def _start_daemons(self) -> None:
        """Start both at once: LuxiD waits for WConfD. Raises `GanetiError` when one does not start."""
        self._machine.say("Starting ganeti-wconfd and ganeti-luxid")
        begun = ["--epoch", str(self._begin.epoch), "--members", ",".join(self._begin.members)]
        begun += ["--away", ",".join(self._begin.away)] if self._begin.away else []
        wconfd = asyncio.to_thread(self._machine.daemon_util, "start", "ganeti-wconfd", "--", *begun, *_VOTED)
        luxid = asyncio.to_thread(self._machine.daemon_util, "start", "ganeti-luxid", "--", *_VOTED)
        ended = await asyncio.gather(wconfd, luxid, return_exceptions=True)
        for failure in ended:
            if failure is not None:
                raise failure
        await asyncio.to_thread(ask, self._paths.luxi_socket, DAEMON_WITHIN_S, "QueryConfigValues", ["master_node"])

    def _finish(self) -> None:
        try:
            position = ask(self._paths.wconfd_socket, DAEMON_WITHIN_S, "position")
            ask(self._paths.wconfd_socket, _PUBLISHED_WITHIN_S, "waitPublished", position)  # ssconf names the master
            self._machine.daemon_util("start-master", "--", *_VOTED)
        except GanetiError as err:
            self._warn(f"Not all daemons of the master could be started: {err}")
        self._undrain()

    def _undrain(self) -> None:
        try:
            if ask(self._paths.luxi_socket, DAEMON_WITHIN_S, "QueryConfigValues", ["drain_flag"])[0]:
                ask(self._paths.luxi_socket, DAEMON_WITHIN_S, "SetDrainFlag", False)
                self._machine.say("The job queue was drained: it takes jobs again")
        except GanetiError as err:
            self._warn(f"The job queue may be drained still: {err}")

    def _take_address(self) -> None:
        """Take the cluster's address, as soon as the former master has let go of it."""
        address = self._cluster.master_ip
        deadline = time.monotonic() + ADDRESS_WITHIN_S
        told = False
        while True:
            try:
                ask_node(self._paths, self._own_address, taking(self._cluster))
                return
            except GanetiError as err:
                in_use = not self._paths.root and self._machine.answers(address, NODED_PORT, 1.0)
                if not in_use:
                    self._warn(f"The master IP {address} is not up: {err}; run gnt-cluster activate-master-ip")
                    return
            if time.monotonic() > deadline:
                self._warn(
                    f"The master IP {address} still answers after {ADDRESS_WITHIN_S:g} seconds: take it off "
                    f"{self._old_name}, then run gnt-cluster activate-master-ip"
                )
                return
            if not told:
                self._machine.say(f"Waiting for the master IP {address} to be free")
                told = True
            time.sleep(0.2)

    def _warn(self, sentence: str, *, fails: bool = True) -> None:
        self._machine.say(f"Warning: {sentence}")
        if fails:
            self._status = 1
