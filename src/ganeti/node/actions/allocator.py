# SPDX-License-Identifier: BSD-2-Clause
"""Allocators that are programs (protocols, section 7): found by name, given a file, answering on standard output."""

import os
import signal
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from ganeti.base.errors import CommandError, ExecutionError
from ganeti.base.paths import IALLOCATOR_SEARCH_PATH
from ganeti.model.node_calls.programs import IallocatorRunner
from ganeti.node.actions.registry import answers
from ganeti.node.state import NodeState

LARGEST_ANSWER_BYTES = 16 * 1024 * 1024
"""Of twenty thousand instances that all move; who prints more does not end by itself."""


@answers(IallocatorRunner)
async def iallocator_runner(node: NodeState, asked: IallocatorRunner) -> str:
    name = asked.name
    idata = asked.idata
    program = _find(node, name)
    text = idata if isinstance(idata, str) else msgspec.json.encode(idata).decode()
    options = [_option(key, value) for key, value in (asked.default_iallocator_params or {}).items()]
    descriptor, path = tempfile.mkstemp(prefix="ganeti-iallocator-")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        done = await node.world.run(
            [program, path, *options],
            timeout_s=asked.limit_s,
            check=False,
            largest_output_bytes=LARGEST_ANSWER_BYTES,
        )
    except CommandError as err:
        raise ExecutionError(f"iallocator '{name}' failed: {err}") from err
    finally:
        Path(path).unlink(missing_ok=True)  # a script may have removed it itself
    if done.status != 0:
        how = f"ended with status {done.status}"
        if done.status < 0:
            how = f"was ended by signal {signal.Signals(-done.status).name}"
        raise ExecutionError(f"iallocator '{name}' failed: it {how}, output: {done.output or '(none)'}")
    return done.stdout


def _find(node: NodeState, name: str) -> str:
    if "/" not in name and name not in ("", ".", ".."):
        for directory in IALLOCATOR_SEARCH_PATH:
            path = f"{node.paths.under(directory)}/{name}"
            if os.path.isfile(path):
                return path
    raise ExecutionError(
        f"iallocator '{name}' not found in the search path: there is no program of that name in "
        f"{', '.join(IALLOCATOR_SEARCH_PATH)}"
    )


def _option(key: str, value: Any) -> str:
    return f"--{key}" if value in (None, "") else f"--{key}={value}"
