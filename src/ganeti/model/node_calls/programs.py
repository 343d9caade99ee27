# SPDX-License-Identifier: BSD-2-Clause
"""Node calls that run programs of others: hooks, allocators, the program that switches other machines' power."""

from typing import Any, Literal

from ganeti.model.node_calls import SLOW_S, URGENT_S, NodeRequest
from ganeti.model.power import PowerCommand

Phase = Literal["pre", "post"]


ALLOCATOR_LIMIT_S = 300.0
"""How long an allocator may think; Debian's hail takes three seconds for 500 nodes."""


class IallocatorRunner(NodeRequest[str], frozen=True, kw_only=True):
    """Give what the allocator prints. Raises `ExecutionError` when it is not there, or fails, with all it said (S5.6).

    One that has not ended after *limit_s* seconds is stopped with all it started, and so is one whose job has ended.
    """

    changes_node = False
    ends_with_caller = True
    asked_by_plans = True
    name: str
    idata: dict[str, Any] | str
    default_iallocator_params: dict[str, Any] | None = None
    limit_s: float = ALLOCATOR_LIMIT_S


class HooksRunner(NodeRequest[list[tuple[str, int, str]]], frozen=True, kw_only=True):
    """Run the scripts of one directory in order of their names; gives (script, 0 skipped 1 failed 2 done, output).

    *env* is the whole environment but PATH. All scripts run, also after one has failed.
    """

    path: str
    phase: Phase
    env: dict[str, str]


class HooksPresent(NodeRequest[list[Phase]], frozen=True, kw_only=True):
    """Give the phases of one kind of hooks whose directories hold anything: the others have nothing to run."""

    answer_within_s = URGENT_S
    changes_node = False
    asked_by_plans = True
    path: str


class RunOob(NodeRequest[str], frozen=True, kw_only=True):
    """Give what the out-of-band program prints; raises `ExecutionError` if it fails or takes *timeout* seconds."""

    answer_within_s = SLOW_S
    oob_program: str
    command: PowerCommand
    remote_node: str
    timeout: float
