# SPDX-License-Identifier: BSD-2-Clause
"""What the simulator's event loop relies on inside asyncio: a Python that has it otherwise is named here at once."""

import asyncio
import sys
from asyncio import events, runners, tasks
from collections import deque
from weakref import WeakSet

import pytest

LOOP_FIELDS = {
    "_ready": deque,
    "_scheduled": list,
    "_closed": bool,
    "_stopping": bool,
    "_clock_resolution": float,
    "_timer_cancelled_count": int,
}
"""Of a loop that was just made; the simulator's fills and reads them."""
LOOP_METHODS = [
    *("_run_once", "_process_events", "_check_closed", "_asyncgen_firstiter_hook"),
    *("_make_self_pipe", "_close_self_pipe", "_write_to_self"),
]
HANDLE_SLOTS = {"_callback", "_args", "_cancelled", "_loop", "_source_traceback", "_repr", "_context"}
"""All that a handle has: the simulator's are made without the constructor of asyncio."""
CALLERS = [
    (asyncio.BaseEventLoop.run_forever, {"_run_once", "_stopping", "_set_running_loop"}),
    (asyncio.BaseEventLoop.run_until_complete, {"run_forever"}),
    (asyncio.BaseEventLoop.create_future, {"Future"}),
    (asyncio.selector_events.BaseSelectorEventLoop.__init__, {"_make_self_pipe"}),
    (runners.Runner.close, {"_cancel_all_tasks"}),
]
"""Functions of asyncio that stay, and what they call of that which the simulator replaces."""


def otherwise(what: str) -> str:
    version = ".".join(map(str, sys.version_info[:3]))
    return f"Python {version} has {what} otherwise: see what src/ganeti_simulation/facades/event_loop.py makes of it"


def test_a_loop_has_the_fields_and_methods_that_are_replaced():
    loop = asyncio.SelectorEventLoop()
    try:
        for name, kind in LOOP_FIELDS.items():
            assert type(getattr(loop, name, None)) is kind, otherwise(f"asyncio's loop.{name}, a {kind.__name__},")
    finally:
        loop.close()
    for name in LOOP_METHODS:
        assert callable(getattr(asyncio.SelectorEventLoop, name, None)), otherwise(f"asyncio's loop.{name}()")


def test_a_handle_has_these_fields_and_no_others():
    assert set(events.Handle.__slots__) - {"__weakref__"} == HANDLE_SLOTS, otherwise("the fields of asyncio's Handle")
    assert set(events.TimerHandle.__slots__) == {"_when", "_scheduled"}, otherwise(
        "the fields of asyncio's TimerHandle"
    )


@pytest.mark.parametrize(("function", "names"), CALLERS, ids=lambda value: getattr(value, "__qualname__", ""))
def test_asyncio_calls_what_is_replaced(function, names):
    missing = names - set(function.__code__.co_names)
    assert not missing, otherwise(f"{function.__qualname__}, which calls {', '.join(sorted(missing))} no more,")


def test_the_modules_have_what_is_replaced():
    assert isinstance(getattr(tasks, "_all_tasks", None), WeakSet), otherwise("the set asyncio.tasks._all_tasks")
    for name in ("_set_running_loop", "_get_running_loop", "get_running_loop"):
        assert callable(getattr(events, name, None)), otherwise(f"asyncio.events.{name}")
    assert callable(getattr(runners, "_cancel_all_tasks", None)), otherwise("asyncio.runners._cancel_all_tasks")


def test_tasks_and_futures_call_with_a_context_and_keep_no_handle():
    """`Loop.call_soon` gives them none."""

    class Loop(asyncio.SelectorEventLoop):
        without_context = 0

        def call_soon(self, callback, *args, context=None):
            self.without_context += context is None
            super().call_soon(callback, *args, context=context)

    async def scenario():
        future = loop.create_future()
        waiting = asyncio.ensure_future(asyncio.wait_for(asyncio.shield(future), 10))
        await asyncio.sleep(0)
        before = loop.without_context
        future.set_result(1)
        await waiting
        return before, loop.without_context

    loop = Loop()
    try:
        before, after = loop.run_until_complete(scenario())
    finally:
        loop.close()
    assert before == after == 0, otherwise("what a task gives to call_soon")
