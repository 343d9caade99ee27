# SPDX-License-Identifier: BSD-2-Clause
"""Lock plans as operations make them: everything but the few that stop the cluster shares the big lock."""

from collections.abc import Iterable

from ganeti.model.locks import BGL, LockPlan


def plan(*, shared: Iterable[str] = (), exclusive: Iterable[str] = ()) -> LockPlan:
    """A plan that also shares the big lock (protocols, section 3.1: operations that do not require it)."""
    wanted = frozenset(exclusive)
    return LockPlan(shared=(frozenset(shared) | {BGL}) - wanted, exclusive=wanted)


def whole_cluster() -> LockPlan:
    """The plan of operations that must be alone."""
    return LockPlan(shared=frozenset(), exclusive=frozenset({BGL}))
