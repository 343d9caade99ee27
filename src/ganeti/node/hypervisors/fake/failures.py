# SPDX-License-Identifier: BSD-2-Clause
"""Failures that tests ask for, by files in ``.fail`` (the package says how)."""

import contextlib
import os
from collections.abc import AsyncIterator

from ganeti.base.errors import HypervisorError
from ganeti.ports.node_world import NodeWorld

FAILURES = ".fail"
_HANG_POLL_S = 0.05


@contextlib.asynccontextmanager
async def failing(world: NodeWorld, directory: str, method: str, name: str) -> AsyncIterator[None]:
    """Do to a method what its file in ``.fail`` says."""
    word, rest = "", ""
    for file in (f"{method}@{name}", method):
        path = f"{directory}/{FAILURES}/{file}"
        if name == "" and "@" in file:
            continue
        with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as source:
            word, _, rest = (source.read().strip() or "fail").partition(" ")
            break
    sentence = rest or f"The method {method} of the fake hypervisor was told to fail"
    if word == "fail":
        raise HypervisorError(sentence)
    if word == "hang":
        await _hang(world, path, float(rest) if rest else None)
    yield
    if word == "fail-after":
        raise HypervisorError(sentence)


async def _hang(world: NodeWorld, path: str, seconds: float | None) -> None:
    began = world.now_s()
    while os.path.exists(path) and (seconds is None or world.now_s() - began < seconds):
        await world.sleep(_HANG_POLL_S)
