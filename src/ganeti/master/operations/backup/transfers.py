# SPDX-License-Identifier: BSD-2-Clause
"""Disks on their way between clusters, as a job sees them: begun, followed with rate and time left, ended."""

from collections.abc import Callable, Sequence

from ganeti.base.errors import ExecutionError
from ganeti.model.node_calls.transfers import TransferEnd, TransferKeyRemove, TransferState, TransferStates
from ganeti.ports.context import OperationContext, UndoNodeCall
from ganeti.ports.nodes import ask

KEY_VALID_S = 24 * 3600
SAY_EVERY_S = 30.0
_POLL_S, _LONGEST_POLL_S = 0.1, 2.0


def transfer_name(ctx: OperationContext, mode: str, index: int) -> str:
    """One that nobody else has, and that a repeated attempt does not use again."""
    job = ctx.job
    return f"{mode}-{job.job_id}.{job.attempt}.{job.opcode_index}-disk{index}"


def ending(name: str, node_uuid: str, node_name: str) -> UndoNodeCall:
    return UndoNodeCall.of(f"end the transfer {name} on {node_name}", node_uuid, TransferEnd(name=name))


def removing_key(key: str, node_uuid: str, node_name: str) -> UndoNodeCall:
    return UndoNodeCall.of(f"remove the key {key} from {node_name}", node_uuid, TransferKeyRemove(name=key))


async def follow(
    ctx: OperationContext,
    node_uuid: str,
    names: Sequence[str],
    word: str,
    *,
    over: Callable[[TransferState], bool],
) -> None:
    """Wait until all are *over*, and say how far they are; *names* are in the order of the disks.

    Raises `ExecutionError` for one that failed, and `JobCanceled` where that is asked for meanwhile.
    """
    said_s, rest_s = ctx.clock.now_s(), _POLL_S
    told: set[int] = set()
    while True:
        ctx.stop_if_cancelled()
        states = await ask(ctx.nodes, node_uuid, TransferStates(names=list(names)))
        for index, state in enumerate(states):
            if state.error is not None or state.exit_status:
                raise ExecutionError(f"Disk {index} could not be {word}: {state.error or 'its transfer failed'}")
            if over(state) and index not in told:
                told.add(index)
                ctx.log.info(f"Disk {index} is {word}: {state.done_mib:.0f} MiB{_rate(state)}")
        if len(told) == len(states):
            return
        left = [(index, state) for index, state in enumerate(states) if index not in told]
        ctx.log.progress(f"disks are {word}", sum(state.percent or 0 for state in states), 100.0 * len(states) + 1)
        if (now_s := ctx.clock.now_s()) - said_s >= SAY_EVERY_S:
            said_s = now_s
            for index, state in left:
                ctx.log.info(_pace(index, state, word))
        await ctx.clock.sleep(rest_s)
        rest_s = min(rest_s * 1.5, _LONGEST_POLL_S)


async def end_all(ctx: OperationContext, node_uuid: str, names: Sequence[str]) -> None:
    for name in names:
        await ask(ctx.nodes, node_uuid, TransferEnd(name=name))


def _pace(index: int, state: TransferState, word: str) -> str:
    if not state.connected:
        return f"Disk {index}: waiting for the other cluster"
    percent = "" if state.percent is None else f" ({state.percent:.0f} %)"
    left = "" if state.left_s is None else f", {state.left_s:.0f} s left"
    return f"Disk {index}: {state.done_mib:.0f} MiB{percent} {word}{_rate(state)}{left}"


def _rate(state: TransferState) -> str:
    return "" if state.rate_mib is None else f", {state.rate_mib:.1f} MiB/s"
