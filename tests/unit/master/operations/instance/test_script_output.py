# SPDX-License-Identifier: BSD-2-Clause
"""What a script says is told in the job's log while the call goes on, up to a bound; its failure stays what it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.fakes.context import FakeContext
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import ExecutionError, JobCanceled
from ganeti.master.operations.instance.os import script_output
from ganeti.ports.context import UndoNodeCall


def context(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> FakeContext:
    monkeypatch.setattr(script_output, "POLL_S", 0.01)
    made = FakeContext(configuration(), catalogue())

    def said(name: str, *, token: str, offset: int, is_over: bool = False) -> dict[str, Any]:
        assert token
        new = lines[offset : offset + 100]
        return {"lines": new, "offset": offset + len(new), "log": "/var/log/ganeti/os/add.log"}

    made.nodes.handlers["script_output"] = said
    return made


def test_lines_come_while_the_script_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["first"]
    ctx = context(lines, monkeypatch)

    async def script(token: str) -> int:
        async with asyncio.timeout(10):
            await asyncio.sleep(0.1)
        assert ctx.lines == ["  first"]
        lines.append("last")
        return 7

    assert asyncio.run(script_output.followed(ctx, "uuid-node1", script)) == 7  # type: ignore[arg-type]
    assert [line for line in ctx.lines if "first" in line or "last" in line] == ["  first", "  last"]


def test_a_script_that_talks_on_is_cut_off_and_its_failure_told(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = context([f"line {number}" for number in range(2000)], monkeypatch)

    async def script(token: str) -> None:
        raise ExecutionError("the script failed")

    with pytest.raises(ExecutionError, match="the script failed"):
        asyncio.run(script_output.followed(ctx, "uuid-node1", script))  # type: ignore[arg-type]
    assert len(ctx.lines) == script_output.MOST_LINES + 1
    assert ctx.lines[-1] == "  … the rest of what the script says is in /var/log/ganeti/os/add.log on node1"


def test_a_cancelled_job_has_the_end_of_the_script_as_its_first_undo(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = context([], monkeypatch)
    tokens: list[str] = []

    async def script(token: str) -> None:
        (record,) = ctx.records
        assert isinstance(record, UndoNodeCall)
        assert (record.sentence, record.call) == ("end the script of the OS on node1", "script_end")
        assert record.arguments == {"token": token}
        tokens.append(token)
        await asyncio.sleep(60)

    def cancelled() -> None:
        if tokens:
            raise JobCanceled("cancelled")

    ctx.stop_if_cancelled = cancelled  # type: ignore[method-assign]
    with pytest.raises(JobCanceled):
        asyncio.run(
            script_output.followed(ctx, "uuid-node1", script, until_cancelled=True)  # type: ignore[arg-type]
        )
