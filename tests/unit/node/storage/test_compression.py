# SPDX-License-Identifier: BSD-2-Clause
"""Pieces of a disk are compressed by zlib or by a program, and are the same afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ganeti.base.errors import BlockDeviceError
from ganeti.base.paths import Paths
from ganeti.node.storage import compression
from ganeti.noded.world import RealNodeWorld

DATA = b"\xff\x00abc" * 20_000
TOOL = """#!/bin/sh
case "$1" in -h) exit 0 ;; -d) exec gzip -d ;; *) exec gzip ;; esac
"""


@pytest.fixture
def world(tmp_path: Path) -> RealNodeWorld:
    """Finds programs below the test's directory, too."""
    found = RealNodeWorld(Paths(str(tmp_path)), "node1")
    (tmp_path / "sitezip").write_text(TOOL)
    (tmp_path / "sitezip").chmod(0o755)
    run = found.run

    async def run_with_path(argv: Any, **options: Any) -> Any:
        return await run(argv, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, **options)

    found.run = run_with_path  # type: ignore[method-assign]
    return found


@pytest.mark.parametrize("tool", ["none", "gzip-fast", "gzip", "gzip-slow", "sitezip"])
def test_what_was_compressed_is_the_same_afterwards(world: RealNodeWorld, tool: str) -> None:
    async def there_and_back() -> tuple[bytes, bytes]:
        packed = await compression.compress(world, tool, DATA)
        return packed, await compression.decompress(world, tool, packed)

    packed, content = asyncio.run(there_and_back())
    assert content == DATA
    assert (len(packed) < len(DATA) // 10) == (tool != "none")
    assert asyncio.run(compression.fault(world, tool)) == ""


def test_a_tool_that_is_missing_or_fails_is_said(world: RealNodeWorld) -> None:
    assert "moonzip cannot be started: the program is not there" in asyncio.run(compression.fault(world, "moonzip"))
    for tool in ("sitezip", "gzip"):
        with pytest.raises(BlockDeviceError):
            asyncio.run(compression.decompress(world, tool, b"no such thing"))
