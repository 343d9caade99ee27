# SPDX-License-Identifier: BSD-2-Clause
"""The simulated kernel: who runs when, signals, stops, and locks between threads of a process."""

import signal
from types import SimpleNamespace

from ganeti_simulation.facades.threads import Mutex
from ganeti_simulation.system.kernel import Kernel, Running


def a_machine():
    return SimpleNamespace(name="one", processes={}, calls=0, doom=None)


def test_a_stopped_process_goes_on_where_it_was():
    kernel, seen = Kernel(1), []

    def program():
        kernel.sleep(1.0)
        seen.append(kernel.now_s)

    process = kernel.start_process(a_machine(), "sleeper", program)
    kernel.after(0.5, lambda: kernel.signal(process, signal.SIGSTOP))
    kernel.run(5.0)
    assert seen == [] and process.alive
    kernel.signal(process, signal.SIGCONT)
    kernel.run(6.0)
    assert seen and seen[0] >= 5.0 and process.status == 0


def test_nothing_of_a_killed_process_runs():
    kernel, seen = Kernel(1), []

    def program():
        try:
            kernel.sleep(10.0)
        finally:
            seen.append("cleaned up")

    process = kernel.start_process(a_machine(), "victim", program)
    kernel.after(0.5, lambda: kernel.signal(process, signal.SIGKILL))
    kernel.run(20.0)
    assert process.status == -signal.SIGKILL and seen == []


def test_a_lock_is_passed_on_although_who_waited_was_woken_by_something_else():
    kernel, order = Kernel(1), []
    Running.kernel = kernel
    machine = a_machine()

    def program():
        lock = Mutex()
        lock.acquire()

        def wait(name):
            with lock:
                order.append(name)
                kernel.sleep(0.1)

        process = Running.process()
        first = kernel.start_thread(process, "first", lambda: wait("first"))
        for at_s in (1.0, 2.0):
            kernel.at(at_s, lambda: kernel.wake(first))
        kernel.at(3.0, lambda: kernel.start_thread(process, "second", lambda: wait("second")))
        kernel.sleep(4.0)
        lock.release()
        kernel.sleep(5.0)

    kernel.start_process(machine, "locks", program)
    kernel.run(20.0)
    assert order == ["first", "second"]
