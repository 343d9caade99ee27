# SPDX-License-Identifier: BSD-2-Clause
"""How far a node is with a dump that it writes or reads in one call: amount, rate and time left in the job's log."""

from ganeti.base.errors import GanetiError
from ganeti.model.node_calls.exports import ExportProgress
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

MIB = 1024 * 1024
SAY_EVERY_S = 30.0


class Pace:
    """`tell`, again and again while the call is under way."""

    def __init__(self, ctx: OperationContext, node_uuid: str, what: str, word: str, total_bytes: int) -> None:
        """*what* is *word* ("disk 0", "dumped"); *total_bytes* may be an estimate."""
        self._ctx = ctx
        self._node_uuid = node_uuid
        self._what = what
        self._word = word
        self._total = max(total_bytes, 1)
        self._said_s, self._said = ctx.clock.now_s(), 0
        self._begun = False

    async def tell(self, token: str) -> None:
        """A node that cannot say it now is asked again; what is wrong with it, the call tells."""
        try:
            done = await ask(self._ctx.nodes, self._node_uuid, ExportProgress(token=token))
        except GanetiError:
            return
        done = min(done, self._total)
        self._begun = True
        self._ctx.log.progress(f"{self._what} is {self._word}", min(done, self._total - 1), self._total)
        now_s = self._ctx.clock.now_s()
        if (passed_s := now_s - self._said_s) < SAY_EVERY_S:
            return
        rate = (done - self._said) / passed_s
        left = f", {(self._total - done) / rate:.0f} s left" if rate > 0 else ""
        self._said_s, self._said = now_s, done
        self._ctx.log.info(
            f"{self._what.capitalize()}: {done // MIB} MiB ({100 * done // self._total} %) {self._word}, "
            f"{rate / MIB:.1f} MiB/s{left}"
        )

    def end(self) -> None:
        """All is done; nothing is said of what took no time."""
        if self._begun:
            self._ctx.log.progress(f"{self._what} is {self._word}", self._total, self._total)
