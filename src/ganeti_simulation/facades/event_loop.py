# SPDX-License-Identifier: BSD-2-Clause
"""asyncio on the simulated operating system: one loop a process, as the standard library has it, with our selector.

Threads of executors are threads of the simulated process, so that what they do in the background really happens beside
the loop, in an order the seed decides.
"""

import asyncio
import concurrent.futures
import errno
import heapq
import os
import selectors
import signal
from asyncio import events, runners, tasks
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from ganeti_simulation.system.descriptors import Description
from ganeti_simulation.system.kernel import LOOK_S, Running
from ganeti_simulation.system.process import Process, Thread

_TASKS_KEPT = 256
_TIMERS_KEPT = 100


class Selector(selectors.BaseSelector):
    """Level-triggered, over descriptors of one process; looks only at those that have told of a change."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._keys: dict[int, selectors.SelectorKey] = {}
        self._descriptions: dict[int, Description] = {}
        self.maybe: dict[int, None] = {}
        """Where there may be something."""
        self.waiting: Thread | None = None

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if number in self._keys:
            raise KeyError(f"{fileobj!r} is already registered")
        key = selectors.SelectorKey(fileobj, number, events, data)
        description = self._process.descriptors[number]
        self._keys[number] = key
        self._descriptions[number] = description
        description.watchers[id(self) + number] = lambda: self._changed(number)
        self.maybe[number] = None
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys.pop(number)
        self._descriptions.pop(number).watchers.pop(id(self) + number, None)
        self.maybe.pop(number, None)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if number not in self._keys:
            raise KeyError(fileobj)
        key = selectors.SelectorKey(fileobj, number, events, data)
        self._keys[number] = key
        self.maybe[number] = None
        return key

    def get_map(self) -> Any:
        return self._keys

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        return self._keys[number]

    def close(self) -> None:
        for number in list(self._keys):
            self.unregister(number)

    def _changed(self, number: int) -> None:
        self.maybe[number] = None
        if self.waiting is not None:
            Running.kernel.wake(self.waiting)

    def wake(self) -> None:
        """Something was called from elsewhere: let the loop look."""
        if self.waiting is not None:
            Running.kernel.wake(self.waiting)

    def _ready(self) -> list[tuple[selectors.SelectorKey, int]]:
        found = []
        for number in list(self.maybe):
            key, description = self._keys[number], self._descriptions[number]
            ready = 0
            if key.events & selectors.EVENT_READ and description.readable:
                ready |= selectors.EVENT_READ
            if key.events & selectors.EVENT_WRITE and description.writable:
                ready |= selectors.EVENT_WRITE
            if ready:
                found.append((key, ready))
            else:
                del self.maybe[number]
        return found

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        kernel = Running.kernel
        if self._process.pending:
            kernel.deliver_signals()
            loop = self._process.local.get("loop")
            if loop is not None and loop._ready:  # a signal's handler has called for something
                timeout = 0
        found = self._ready() if self.maybe else []
        if found or (timeout is not None and timeout <= 0):
            return found
        self.waiting = kernel.current
        try:
            kernel.block(timeout)
        finally:
            self.waiting = None
        return self._ready() if self.maybe else []


class Handle(events.Handle):
    """As asyncio has it, but it never asks whether somebody debugs the loop."""

    __slots__ = ()

    def __init__(self, callback: Any, args: Any, loop: Any, context: Any) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = self._source_traceback = None

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = None
        self._args = ()


class TimerHandle(events.TimerHandle):
    """The same for `call_at`."""

    __slots__ = ()

    def __init__(self, when: float, callback: Any, args: Any, loop: Any, context: Any) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = self._source_traceback = None
        self._when = when
        self._scheduled = True

    def cancel(self) -> None:
        if not self._cancelled:
            if self._scheduled:
                self._loop._timer_cancelled_count += 1
            self._cancelled = True
            self._callback = None
            self._args = ()


class Loop(asyncio.SelectorEventLoop):
    """The event loop of one simulated process.

    What every callback passes through is written anew, as asyncio has it without its looks for a debugger: half of
    what a simulated minute costs is spent between two steps of the product's own.
    """

    _ready: deque[Any]
    _closed: bool
    _stopping: bool
    _clock_resolution: float
    _timer_cancelled_count: int
    _process_events: Callable[[Any], None]
    _check_closed: Callable[[], None]
    get_task_factory: Callable[[], Any]

    def __init__(self) -> None:
        self.process = Running.process()
        self._own_selector = Selector(self.process)
        self._own_tasks: dict[asyncio.Task[Any], None] = {}
        super().__init__(self._own_selector)
        self._scheduled: list[tuple[float, int, TimerHandle]] = []
        self._timers = 0
        self.process.local["loop"] = self

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> "asyncio.Task[Any]":
        if self._closed:
            self._check_closed()
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        if len(self._own_tasks) > _TASKS_KEPT:
            self._own_tasks = {each: None for each in self._own_tasks if not each.done()}
        self._own_tasks[task] = None
        return task

    get_debug = staticmethod(bool)
    """False; each future that is made asks for it."""

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """Tasks and futures give a context, and never take back what they have called: they get no handle."""
        if self._closed:
            self._check_closed()
        if context is not None:
            self._ready.append((context.run, callback, args))
            return None
        handle = Handle(callback, args, self, None)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        if self._closed:
            self._check_closed()
        self._ready.append(((context or copy_context()).run, callback, args))
        waiting = self._own_selector.waiting
        if waiting is not None:
            Running.kernel.wake(waiting)
        return None

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> TimerHandle:  # type: ignore[override]
        if self._closed:
            self._check_closed()
        handle = TimerHandle(when, callback, args, self, context)
        self._timers += 1
        heapq.heappush(self._scheduled, (when, self._timers, handle))
        return handle

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> TimerHandle:  # type: ignore[override]
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def _asyncgen_firstiter_hook(self, agen: Any) -> None:
        """Python has one such hook for all loops of a thread: whoever ran last would take the others' generators."""
        own = Running.kernel.loop
        if own is None or own is self:
            super()._asyncgen_firstiter_hook(agen)  # type: ignore[misc]
        else:
            own._asyncgen_firstiter_hook(agen)

    def _run_once(self) -> None:
        """Until the loop is to stop: whoever calls this does it again and again until then."""
        ready, selector, process = self._ready, self._own_selector, self.process
        kernel, machine, next_ready = Running.kernel, self.process.machine, self._ready.popleft
        while True:
            scheduled = self._scheduled
            while scheduled and scheduled[0][2]._cancelled:
                self._timer_cancelled_count -= 1
                heapq.heappop(scheduled)[2]._scheduled = False
            if len(scheduled) > _TIMERS_KEPT and self._timer_cancelled_count * 2 > len(scheduled):
                self._drop_cancelled_timers()
                scheduled = self._scheduled
            if ready or self._stopping:
                found = selector.select(0) if selector.maybe or process.pending else None
            elif scheduled:
                found = selector.select(max(0.0, scheduled[0][0] + machine.booted_s - kernel.now_s))
            else:
                found = selector.select(None)
            if found:
                self._process_events(found)
            if scheduled:
                kernel.now_s += LOOK_S
                until_s = kernel.now_s - machine.booted_s + self._clock_resolution
                while scheduled and scheduled[0][0] < until_s:
                    timer = heapq.heappop(scheduled)[2]
                    timer._scheduled = False
                    ready.append(timer)
            for _ in range(len(ready)):
                handle = next_ready()
                try:
                    if type(handle) is tuple:
                        run, callback, args = handle
                        run(callback, *args)
                    elif not handle._cancelled:
                        handle._context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as err:
                    self._tell_of(handle, err)
            if self._stopping:
                return

    def _tell_of(self, handle: Any, err: BaseException) -> None:
        self.call_exception_handler({"message": f"Exception in callback {handle!r}", "exception": err})

    def _drop_cancelled_timers(self) -> None:
        kept = []
        for entry in self._scheduled:
            if entry[2]._cancelled:
                entry[2]._scheduled = False
            else:
                kept.append(entry)
        heapq.heapify(kept)
        self._scheduled = kept
        self._timer_cancelled_count = 0

    def time(self) -> float:
        """As `Kernel.look_at_clock` has it."""
        kernel = Running.kernel
        kernel.now_s += LOOK_S
        return kernel.now_s - self.process.machine.booted_s

    def _make_self_pipe(self) -> None:
        self._ssock = self._csock = None

    def _close_self_pipe(self) -> None:
        pass

    def _write_to_self(self) -> None:
        self._own_selector.wake()

    def close(self) -> None:
        if not self.is_closed():
            self._own_selector.close()
            asyncio.BaseEventLoop.close(self)

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> list[Any]:
        from ganeti_simulation.facades.sockets import getaddrinfo

        return getaddrinfo(host, port, **options)

    async def create_connection(self, *arguments: Any, **options: Any) -> Any:
        """Machines meet in `network` only; nothing may get out of here."""
        raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))

    create_server = create_connection

    def add_signal_handler(self, sig: int, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        self.process.handlers[int(sig)] = lambda number, frame: self.call_soon_threadsafe(callback, *args)

    def remove_signal_handler(self, sig: int) -> bool:
        return self.process.handlers.pop(int(sig), None) is not None

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        if executor is None:
            executor = self.process.local.get("executor")
            if executor is None:
                executor = self.process.local["executor"] = ThreadPool(8)
        future = self.create_future()

        def act() -> None:
            result, error = None, None
            try:
                result = func(*args)
            except Exception as err:
                error = err
            if not self._closed:
                self.call_soon_threadsafe(_settle, future, result, error)

        executor.begin(act)
        return future

    async def shutdown_default_executor(self) -> None:
        self.process.local.pop("executor", None)


def _settle(future: "asyncio.Future[Any]", result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


class ThreadPool(concurrent.futures.Executor):
    """`ThreadPoolExecutor` with threads of the simulated process."""

    def __init__(self, max_workers: int | None = None, thread_name_prefix: str = "", **_: Any) -> None:
        self._most = max_workers or 8
        self._name = thread_name_prefix or "worker"
        self._work: deque[Callable[[], None]] = deque()
        self._running = 0
        self._waiting: list[Thread] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def act() -> None:
            try:
                result = fn(*args, **kwargs)
            except Exception as err:
                future.set_exception(err)
            else:
                future.set_result(result)

        self.begin(act)
        return future

    def begin(self, act: Callable[[], None]) -> None:
        """Have *act*, which raises nothing, called in a thread."""
        self._work.append(act)
        if self._running < self._most:
            self._running += 1
            Running.kernel.start_thread(Running.process(), self._name, self._serve)

    def _serve(self) -> None:
        while self._work:
            self._work.popleft()()
        self._running -= 1
        for thread in self._waiting:
            Running.kernel.wake(thread)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if not wait:
            return
        thread = Running.thread()
        self._waiting.append(thread)
        while self._running:
            Running.kernel.block()
        self._waiting.remove(thread)


class Policy(asyncio.DefaultEventLoopPolicy):
    """Each simulated process has its own current loop."""

    def get_event_loop(self) -> asyncio.AbstractEventLoop:
        loop: asyncio.AbstractEventLoop | None = Running.process().local.get("set_loop")
        if loop is None:
            raise RuntimeError("There is no current event loop")
        return loop

    def set_event_loop(self, loop: asyncio.AbstractEventLoop | None) -> None:
        Running.process().local["set_loop"] = loop

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return Loop()


def _set_running_loop(loop: asyncio.AbstractEventLoop | None) -> None:
    kernel = Running.kernel
    kernel.loop = loop
    if kernel.current is not None:
        kernel.current.loop = loop


def _running_loop() -> asyncio.AbstractEventLoop:
    loop: asyncio.AbstractEventLoop | None = Running.kernel.loop
    if loop is None:
        raise RuntimeError("no running event loop")
    return loop


def _cancel_all_tasks(loop: Any) -> None:
    """As `asyncio.runners` has it, in the order in which the tasks were made."""
    left = [task for task in loop._own_tasks if not task.done()]
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(tasks.gather(*left, return_exceptions=True))


def install() -> None:
    """Make asyncio of this real process simulated; for good."""
    asyncio.set_event_loop_policy(Policy())
    runners._cancel_all_tasks = _cancel_all_tasks  # type: ignore[attr-defined]
    # `Loop` knows its tasks; the set of all tasks of a real process is of no use here, and takes its time.
    tasks._all_tasks.add = deque(maxlen=0).append  # type: ignore[attr-defined]
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # `asyncio.run` replaces the handler of Python only
    # Asyncio looks at the number of the real process each time, which asks the real kernel.
    events._set_running_loop(None)
    events._set_running_loop = _set_running_loop
    events._get_running_loop = lambda: Running.kernel.loop
    asyncio.get_running_loop = events.get_running_loop = _running_loop
