# SPDX-License-Identifier: BSD-2-Clause
"""Disks on their way between nodes, as a job sees them: begun, followed with rate and time left, ended.

The nodes may be of one cluster (exports and imports) or of two (moves): the requests are the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ganeti.base.errors import ExecutionError
from ganeti.master.operations.instance.os.script_output import ScriptFollower, new_token
from ganeti.model.node_calls.transfers import (
    DiskTransfer,
    TransferConfirm,
    TransferEnd,
    TransferKeyRemove,
    TransferReceive,
    TransferSend,
    TransferState,
    TransferStates,
)
from ganeti.model.node_requests import InstanceSpec
from ganeti.ports.context import OperationContext, UndoNodeCall
from ganeti.ports.nodes import ask

KEY_VALID_S = 24 * 3600
SAY_EVERY_S = 30.0
SEND, RECEIVE = "export", "import"
_POLL_S, _LONGEST_POLL_S = 0.1, 2.0
_SALT_BYTES = 8
_OTHER_SAYS_WITHIN_S = 3.0
"""How long the other side of a transfer that failed is given to say why."""


def new_key_name(ctx: OperationContext) -> str:
    return f"x509-{ctx.entropy.token(_SALT_BYTES).hex()}"


@dataclass(frozen=True)
class Dump:
    """A file in a directory of exports, in place of what the OS's script reads or fills."""

    directory: str
    name: str


class TransferSide:
    """One disk on its way, on the node that sends or receives it: `send` or `receive`, and `end`."""

    def __init__(
        self, ctx: OperationContext, mode: str, spec: InstanceSpec, index: int, node: tuple[str, str], key: str
    ) -> None:
        """*node* is (uuid, name); a repeated attempt of the job does not use the transfer's name again."""
        job = ctx.job
        self._ctx = ctx
        self._spec = spec
        self._key = key
        self.index = index
        self.node_uuid, self.node_name = node
        self.name = f"{mode}-{job.job_id}.{job.attempt}.{job.opcode_index}-disk{index}"
        self.token = new_token(ctx)
        self.script = ScriptFollower(ctx, self.node_uuid, self.token)

    async def receive(
        self,
        authority: str,
        magic: str,
        compress: str,
        debug: int,
        *,
        bind: str,
        connect_within_s: int,
        into: Dump | None = None,
        size: int = 0,
    ) -> int:
        """Begin to wait for the data, with the undo of it; gives the port."""
        await self._push_undo()
        transfer = self._transfer(authority, magic, compress, debug, into)
        request = TransferReceive(transfer=transfer, connect_timeout_s=connect_within_s, bind=bind, size=size)
        return await ask(self._ctx.nodes, self.node_uuid, request)

    async def send(
        self,
        authority: str,
        magic: str,
        compress: str,
        debug: int,
        *,
        host: str,
        port: int,
        dump: Dump | None = None,
        copies: str = "",
    ) -> None:
        """Begin to send, with the undo of it: what the OS reads, of its *copies* in that directory, or a *dump*."""
        await self._push_undo()
        transfer = self._transfer(authority, magic, compress, debug, dump or (Dump(copies, "") if copies else None))
        request = TransferSend(transfer=transfer, host=host, port=port, copied=bool(copies))
        await ask(self._ctx.nodes, self.node_uuid, request)

    async def end(self) -> None:
        await ask(self._ctx.nodes, self.node_uuid, TransferEnd(name=self.name))

    async def _push_undo(self) -> None:
        sentence = f"end the transfer {self.name} on {self.node_name}"
        await self._ctx.undo.push(UndoNodeCall.of(sentence, self.node_uuid, TransferEnd(name=self.name)))

    def _transfer(self, authority: str, magic: str, compress: str, debug: int, dump: Dump | None) -> DiskTransfer:
        return DiskTransfer(
            name=self.name,
            key=self._key,
            authority=authority,
            magic=magic,
            compress=compress,
            instance=self._spec,
            index=self.index,
            debug=debug,
            token=self.token,
            directory="" if dump is None else dump.directory,
            dump="" if dump is None else dump.name,
        )


def removing_key(key: str, node_uuid: str, node_name: str) -> UndoNodeCall:
    return UndoNodeCall.of(f"remove the key {key} from {node_name}", node_uuid, TransferKeyRemove(name=key))


async def follow(
    ctx: OperationContext,
    sides: Sequence[TransferSide],
    word: str,
    *,
    over: Callable[[TransferState], bool],
    others: Sequence[TransferSide] = (),
    quiet: bool = False,
) -> list[TransferState]:
    """Wait until all are *over*, and say how far they are; *others* are the other ends, where they are ours too.

    Gives how all were at their end.

    Raises `ExecutionError` for one that failed, and `JobCanceled` where that is asked for meanwhile.
    """
    said_s, rest_s = ctx.clock.now_s(), _POLL_S
    told: set[int] = set()
    while True:
        ctx.stop_if_cancelled()
        states = await _states(ctx, sides)
        for side in (*sides, *others):
            await side.script.tell()
        await _require_no_fault(ctx, sides, states, others, word)
        for side, state in zip(sides, states, strict=True):
            if over(state) and side.index not in told:
                told.add(side.index)
                await side.script.tell(is_over=True)
                if not quiet:
                    ctx.log.info(f"Disk {side.index} is {word}: {state.done_mib:.0f} MiB{_rate(state)}")
        if len(told) == len(states):
            if not quiet:
                ctx.log.step_told()
            return states
        left = [(side.index, state) for side, state in zip(sides, states, strict=True) if side.index not in told]
        if not quiet:
            percent = sum(state.percent or 0 for state in states)
            ctx.log.progress(f"disks are {word}", percent, 100.0 * len(states) + 1)
        if (now_s := ctx.clock.now_s()) - said_s >= SAY_EVERY_S:
            said_s = now_s
            for index, state in left:
                ctx.log.info(_pace(index, state, word))
        await ctx.clock.sleep(rest_s)
        rest_s = min(rest_s * 1.5, _LONGEST_POLL_S)


async def confirm(ctx: OperationContext, sides: Sequence[TransferSide]) -> None:
    """Let the senders know that their data are kept; raises `GanetiError` where they cannot be told."""
    names = [side.name for side in sides]
    await ask(ctx.nodes, sides[0].node_uuid, TransferConfirm(names=names))
    await follow(ctx, sides, "confirmed", over=lambda state: state.exit_status == 0, quiet=True)


async def _states(ctx: OperationContext, sides: Sequence[TransferSide]) -> list[TransferState]:
    """Of sides on one node, in their order."""
    if not sides:
        return []
    return await ask(ctx.nodes, sides[0].node_uuid, TransferStates(names=[side.name for side in sides]))


async def _require_no_fault(
    ctx: OperationContext,
    sides: Sequence[TransferSide],
    states: Sequence[TransferState],
    others: Sequence[TransferSide],
    word: str,
) -> None:
    """Raises `ExecutionError` with what both ends say: one of them often knows only that the connection is lost."""
    other_states = await _states(ctx, others)
    broken = {side.index for side, state in _pairs(sides, states, others, other_states) if _fault(state)}
    if not broken:
        return
    end_s = ctx.clock.now_s() + _OTHER_SAYS_WITHIN_S
    while others and ctx.clock.now_s() < end_s:
        states, other_states = await _states(ctx, sides), await _states(ctx, others)
        found = _pairs(sides, states, others, other_states)
        if not any(state.running for side, state in found if side.index in broken):
            break
        await ctx.clock.sleep(_POLL_S)
    faults = [
        f"{side.node_name} says: {_fault(state)}" if others else _fault(state)
        for side, state in _pairs(sides, states, others, other_states)
        if side.index in broken and _fault(state)
    ]
    raise ExecutionError(f"Disk {min(broken)} could not be {word}: {'; '.join(faults)}")


def _pairs(
    sides: Sequence[TransferSide],
    states: Sequence[TransferState],
    others: Sequence[TransferSide],
    other_states: Sequence[TransferState],
) -> list[tuple[TransferSide, TransferState]]:
    return [*zip(others, other_states, strict=True), *zip(sides, states, strict=True)]


def _fault(state: TransferState) -> str:
    return (state.error or "its transfer failed") if state.error is not None or state.exit_status else ""


def _pace(index: int, state: TransferState, word: str) -> str:
    if not state.connected:
        return f"Disk {index}: waiting for the other side"
    percent = "" if state.percent is None else f" ({state.percent:.0f} %)"
    left = "" if state.left_s is None else f", {state.left_s:.0f} s left"
    return f"Disk {index}: {state.done_mib:.0f} MiB{percent} {word}{_rate(state)}{left}"


def _rate(state: TransferState) -> str:
    return "" if state.rate_mib is None else f", {state.rate_mib:.1f} MiB/s"
