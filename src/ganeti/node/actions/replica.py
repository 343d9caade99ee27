# SPDX-License-Identifier: BSD-2-Clause
"""Node calls by which a master candidate holds a copy of configuration and queue, and promises itself to a master.

They change the node and have no fences of the ordinary kind: an epoch and its holder are checked for each, by the copy
itself (`ports/replica.py` says what they answer). They wait for no free place among the other calls.
"""

import re
from typing import Any

from ganeti.base.errors import ParameterError
from ganeti.model.replica_records import Acknowledged, Caller, CommitRecord, MembershipRecord, Position, WireStep
from ganeti.node.actions.registry import FAST_S, URGENT_S, node_call
from ganeti.node.state import NodeState

_QUEUE_NAME = re.compile(r"job-[1-9][0-9]{0,17}(\.undo)?|drain")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@node_call(timeout_s=URGENT_S, changes=False)
async def replica_state(
    node: NodeState,
    *,
    cluster: str,
    software: str,
    epoch: int,
    master: str,
    time_s: float,
    acknowledged: Acknowledged | None = None,
) -> dict[str, Any]:
    """What this node holds, and to whom it has promised itself; repairs nothing.

    What the node holds and is *acknowledged*, it publishes from now on.
    """
    return await node.replica.state(_caller(cluster, software, epoch, master, time_s), acknowledged)


@node_call(timeout_s=URGENT_S, changes=False)
async def replica_append(
    node: NodeState,
    *,
    cluster: str,
    software: str,
    epoch: int,
    master: str,
    time_s: float,
    after: Position,
    commits: list[CommitRecord],
    files: dict[str, str | None],
    archived: list[int],
    serial: int,
    membership: MembershipRecord | None,
    acknowledged: Acknowledged | None = None,
) -> dict[str, Any]:
    """Take over records after *after* and queue files as they are now (None: gone); answers when all is on disk."""
    for name in files:
        if not _QUEUE_NAME.fullmatch(name):
            raise ParameterError(f"'{name}' is not the name of a replicated file of the queue")
    for job_id in archived:
        if job_id <= 0:
            raise ParameterError(f"{job_id} is not the number of a job")
    if serial < 0:
        raise ParameterError(f"{serial} is not the number of a job")
    for commit in commits:
        _check_position(commit.position, epoch)
        if not _DIGEST.fullmatch(commit.digest) and (commit.put or commit.remove):
            raise ParameterError(f"Record {commit.position[0]}.{commit.position[1]} has no fingerprint")
    caller = _caller(cluster, software, epoch, master, time_s)
    return await node.replica.append(caller, after, commits, files, archived, serial, membership, acknowledged)


@node_call(timeout_s=FAST_S, changes=False)
async def replica_snapshot(
    node: NodeState,
    *,
    cluster: str,
    software: str,
    epoch: int,
    master: str,
    time_s: float,
    position: Position,
    config: str,
    steps: list[WireStep],
    membership: MembershipRecord | None,
    digest: str,
    acknowledged: Acknowledged | None = None,
) -> dict[str, Any]:
    """Replace the whole copy by *config*, a `config.data`, compressed (zlib) and in base64."""
    _check_position(position, epoch)
    if not _DIGEST.fullmatch(digest):
        raise ParameterError("The configuration has no fingerprint")
    caller = _caller(cluster, software, epoch, master, time_s)
    return await node.replica.snapshot(caller, position, config, steps, membership, digest, acknowledged)


@node_call(timeout_s=URGENT_S, changes=False)
async def replica_queue_list(
    node: NodeState, *, cluster: str, software: str, epoch: int, master: str, time_s: float
) -> dict[str, Any]:
    """The replicated queue files of this node, each with the digest of its content."""
    return await node.replica.queue_list(_caller(cluster, software, epoch, master, time_s))


@node_call(timeout_s=URGENT_S, changes=False)
async def replica_members(
    node: NodeState,
    *,
    cluster: str,
    software: str,
    epoch: int,
    master: str,
    time_s: float,
    membership: MembershipRecord,
) -> dict[str, Any]:
    """Note durably who the members are."""
    return await node.replica.members(_caller(cluster, software, epoch, master, time_s), membership)


@node_call(timeout_s=URGENT_S, changes=False)
async def promise(
    node: NodeState,
    *,
    cluster: str,
    software: str,
    epoch: int,
    master: str,
    time_s: float,
    ask_only: bool,
    position: Position | None = None,
) -> dict[str, Any]:
    """Promise *epoch* to *master*, durably, if none as high is promised; with *ask_only* say what would be done.

    *position* is that of the one who asks, for the log.
    """
    caller = _caller(cluster, software, epoch, master, time_s)
    answer = await node.replica.promise(caller, ask_only)
    if not ask_only:
        held = "no copy" if position is None else f"a copy of {position[0]}.{position[1]}"
        done = "promised" if answer["granted"] else "not promised"
        node.world.log(f"epoch {epoch} {done} to node {master}, which has {held}")
    return answer


def _caller(cluster: str, software: str, epoch: int, master: str, time_s: float) -> Caller:
    if epoch < 1 or not master:
        raise ParameterError("A master has a uuid and an epoch of 1 or more")
    return Caller(cluster=cluster, software=software, epoch=epoch, master=master, time_s=time_s)


def _check_position(position: Position, epoch: int) -> None:
    if not 0 < position[0] <= epoch or position[1] < 1:
        raise ParameterError(f"{position[0]}.{position[1]} is no position of a record up to epoch {epoch}")
