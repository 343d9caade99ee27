# SPDX-License-Identifier: BSD-2-Clause
"""How signals reach a simulated process; its handlers run between two steps of its main thread."""

import signal

from ganeti_simulation.system.process import Process, Scheduler, Thread


def arrived(kernel: Scheduler, process: Process, number: int) -> None:
    if number in process.blocked or not process.threads:
        return
    handler = process.handlers.get(number, signal.SIG_DFL)
    if handler == signal.SIG_DFL and number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        kernel.end(process, -number)
        return
    main = process.threads[0]
    if main is not kernel.current:
        kernel.ready(main)


def deliver(kernel: Scheduler, thread: Thread) -> None:
    process = thread.process
    if thread is not process.threads[0] or thread.in_signal:
        return
    thread.in_signal = True
    try:
        for number in [number for number in process.pending if number not in process.blocked]:
            process.pending.remove(number)
            handler = process.handlers.get(number, signal.SIG_DFL)
            if callable(handler):
                if process.wakeup >= 0 and process.wakeup in process.descriptors:
                    process.descriptors[process.wakeup].write(bytes([number]))
                handler(number, None)
            elif handler == signal.SIG_DFL and number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
                kernel.end(process, -number)
    finally:
        thread.in_signal = False
