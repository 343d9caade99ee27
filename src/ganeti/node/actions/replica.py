# SPDX-License-Identifier: BSD-2-Clause
"""Node calls by which a master candidate holds a copy of configuration and queue, and promises itself to a master.

They change the node and have no fences of the ordinary kind: an epoch and its holder are checked for each, by the copy
itself (`ports/replica.py` says what they answer). They wait for no free place among the other calls.
"""

import re
from collections.abc import Iterable
from typing import Any

from ganeti.base.errors import ParameterError
from ganeti.model.node_calls.replica import (
    FromMaster,
    Promise,
    ReplicaAppend,
    ReplicaMembers,
    ReplicaQueueList,
    ReplicaSnapshot,
    ReplicaState,
)
from ganeti.model.replica_records import Caller, Position
from ganeti.node.actions.registry import answers
from ganeti.node.state import NodeState
from ganeti.ports.replica import Answer

_QUEUE_NAME = re.compile(r"job-[1-9][0-9]{0,17}(\.undo)?|drain")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@answers(ReplicaState)
async def replica_state(node: NodeState, asked: ReplicaState) -> Answer:
    return await node.replica.state(_caller(asked), asked.acknowledged)


@answers(ReplicaAppend)
async def replica_append(node: NodeState, asked: ReplicaAppend) -> Answer:
    serial = asked.serial
    _check_names(asked.files)
    for job_id in asked.archived:
        if job_id <= 0:
            raise ParameterError(f"{job_id} is not the number of a job")
    if serial < 0:
        raise ParameterError(f"{serial} is not the number of a job")
    for commit in asked.commits:
        _check_position(commit.position, asked.epoch)
        if not _DIGEST.fullmatch(commit.digest) and (commit.put or commit.remove):
            raise ParameterError(f"Record {commit.position[0]}.{commit.position[1]} has no fingerprint")
    caller = _caller(asked)
    return await node.replica.append(
        caller, asked.after, asked.commits, asked.files, asked.archived, serial, asked.membership, asked.acknowledged
    )


@answers(ReplicaSnapshot)
async def replica_snapshot(node: NodeState, asked: ReplicaSnapshot) -> Answer:
    _check_position(asked.position, asked.epoch)
    if not _DIGEST.fullmatch(asked.digest):
        raise ParameterError("The configuration has no fingerprint")
    _check_names(asked.files)
    caller, acknowledged, files = _caller(asked), asked.acknowledged, asked.files
    return await node.replica.snapshot(
        caller, asked.position, asked.config, asked.steps, asked.membership, asked.digest, acknowledged, files
    )


@answers(ReplicaQueueList)
async def replica_queue_list(node: NodeState, asked: ReplicaQueueList) -> Answer:
    return await node.replica.queue_list(_caller(asked))


@answers(ReplicaMembers)
async def replica_members(node: NodeState, asked: ReplicaMembers) -> Answer:
    return await node.replica.members(_caller(asked), asked.membership)


@answers(Promise)
async def promise(node: NodeState, asked: Promise) -> Answer:
    position = asked.position
    caller = _caller(asked)
    answer = await node.replica.promise(caller, asked.ask_only)
    if not asked.ask_only:
        held = "no copy" if position is None else f"a copy of {position[0]}.{position[1]}"
        done = "promised" if answer["granted"] else "not promised"
        node.world.log(f"epoch {asked.epoch} {done} to node {asked.master}, which has {held}")
    return answer


def _check_names(files: Iterable[str]) -> None:
    for name in files:
        if not _QUEUE_NAME.fullmatch(name):
            raise ParameterError(f"'{name}' is not the name of a replicated file of the queue")


def _caller(asked: FromMaster[Any]) -> Caller:
    if asked.epoch < 1 or not asked.master:
        raise ParameterError("A master has a uuid and an epoch of 1 or more")
    return asked.caller


def _check_position(position: Position, epoch: int) -> None:
    if not 0 < position[0] <= epoch or position[1] < 1:
        raise ParameterError(f"{position[0]}.{position[1]} is no position of a record up to epoch {epoch}")
