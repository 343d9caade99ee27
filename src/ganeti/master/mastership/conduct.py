# SPDX-License-Identifier: BSD-2-Clause
"""Carrying a take-over out, up to the moment when the new master may begin."""

import asyncio
from typing import Protocol

from ganeti.base.errors import WRONG_STATE, GanetiError, PrerequisiteError
from ganeti.master.mastership.messages import (
    Answered,
    AskBefore,
    AskPromise,
    Begin,
    Claim,
    Event,
    MembersWritten,
    OldMasterNotStopped,
    OldMasterStopped,
    PromiseItself,
    Refuse,
    Silent,
    StopOldMaster,
    WriteMembers,
)
from ganeti.master.mastership.takeover import TakeOver
from ganeti.model.membership import Membership
from ganeti.model.node_calls.replica import CopyAnswer


class TakeOverWorld(Protocol):
    """What a take-over asks of the world."""

    async def promise(self, node: str, epoch: int, *, ask_only: bool) -> CopyAnswer:
        """Call ``promise`` of a node; raises `GanetiError` when it does not answer within a second or so."""
        ...

    async def write_members(self, node: str, membership: Membership) -> None:
        """Call ``replica_members`` of a node, in the epoch of *membership*; raises `GanetiError` if that fails."""
        ...

    async def stop_master(self, node: str) -> int:
        """End the master's daemons and jobs on a node; gives how many jobs were running. Raises `GanetiError`."""
        ...

    def say(self, sentence: str) -> None:
        """Tell the administrator what is going on."""
        ...


LOOK_EPOCH = 2**53 - 1
"""What is asked about before: higher than any, so that each node says all it knows."""


async def take_over(claim: Claim, world: TakeOverWorld) -> Begin:
    """Get what is needed to begin an epoch; raises `PrerequisiteError` with the reason and the remedy."""
    machine = TakeOver(claim)
    conduct = _Conduct(machine, world)
    try:
        effects = machine.start()
        while True:
            (effect,) = effects
            if isinstance(effect, Begin):
                machine.check_invariants()
                return effect
            if isinstance(effect, Refuse):
                remedy = effect.remedy[:1].upper() + effect.remedy[1:]
                raise PrerequisiteError(f"{effect.why}. {remedy}", WRONG_STATE)
            for event in await conduct.do(effect):
                effects = machine.hear(event) or effects
    finally:
        await conduct.close()


class _Conduct:
    def __init__(self, machine: TakeOver, world: TakeOverWorld) -> None:
        self._machine = machine
        self._world = world
        self._told: list[asyncio.Task[Event]] = []

    async def do(self, effect: AskBefore | PromiseItself | AskPromise | StopOldMaster | WriteMembers) -> list[Event]:
        """Give what has happened, in the order of the nodes."""
        names = self._machine.claim.names
        if isinstance(effect, StopOldMaster):
            self._world.say(f"Stopping the master's daemons on {names[effect.node]}")
            return [await self._stop(effect.node)]
        if isinstance(effect, AskBefore):
            self._world.say(f"Asking {len(effect.nodes)} nodes who is master and which copies are in sync")
            asked = [self._ask(node, LOOK_EPOCH, ask_only=True) for node in effect.nodes]
            return await asyncio.gather(*asked)
        if isinstance(effect, WriteMembers):
            return await asyncio.gather(*(self._write(node, effect.membership) for node in effect.nodes))
        if isinstance(effect, PromiseItself):
            self._world.say(f"Asking for the promise of epoch {effect.epoch}")
            return [await self._ask(effect.node, effect.epoch, ask_only=False)]
        # Those who were silent may still hear of it, but nobody waits for them.
        for node in effect.nodes:
            if node not in effect.awaited:
                self._told.append(asyncio.ensure_future(self._ask(node, effect.epoch, ask_only=False)))
        return await asyncio.gather(*(self._ask(node, effect.epoch, ask_only=False) for node in effect.awaited))

    async def close(self) -> None:
        for task in self._told:
            task.cancel()
        await asyncio.gather(*self._told, return_exceptions=True)

    async def _ask(self, node: str, epoch: int, *, ask_only: bool) -> Event:
        try:
            return Answered(node, await self._world.promise(node, epoch, ask_only=ask_only))
        except GanetiError as err:
            return Silent(node, err.message.rstrip("."))

    async def _write(self, node: str, membership: Membership) -> Event:
        try:
            await self._world.write_members(node, membership)
        except GanetiError as err:
            return Silent(node, err.message.rstrip("."))
        return MembersWritten(node)

    async def _stop(self, node: str) -> Event:
        try:
            return OldMasterStopped(await self._world.stop_master(node))
        except GanetiError as err:
            return OldMasterNotStopped(err.message.rstrip("."))
