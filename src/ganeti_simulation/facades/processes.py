# SPDX-License-Identifier: BSD-2-Clause
"""`subprocess` and `signal` of a simulated process."""

import signal as real_signal
import subprocess as real
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from ganeti_simulation.facades import streams
from ganeti_simulation.facades.arguments import description_of
from ganeti_simulation.system.descriptors import Description, Generated, make_pipe
from ganeti_simulation.system.kernel import Running
from ganeti_simulation.system.machine import machine_of
from ganeti_simulation.system.process import Process


class Popen:
    """A program of the simulated machine, started."""

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def __init__(
        self,
        args: Sequence[str],
        *,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        pass_fds: Sequence[int] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        start_new_session: bool = False,
        preexec_fn: Any = None,
        text: bool = False,
        **_: Any,
    ) -> None:
        Running.kernel.system_call()
        process = Running.process()
        self.args = args
        self.returncode: int | None = None
        self.stdin = None
        self.stdout: Any = None
        self.stderr: Any = None
        self._text = text
        given: dict[int, Description] = {number: process.descriptors[number] for number in pass_fds}
        pipes = {}
        for number, wanted in ((0, stdin), (1, stdout), (2, stderr)):
            if wanted == real.PIPE and number:
                read_end, write_end = make_pipe()
                pipes[number] = process.install(read_end)
                given[number] = write_end
            elif wanted == real.STDOUT and 1 in given:
                given[number] = given[1]
            elif isinstance(wanted, int) and wanted >= 0:
                given[number] = process.descriptors[wanted]
            elif wanted is not None and hasattr(wanted, "fileno"):
                given[number] = process.descriptors[wanted.fileno()]
            else:
                given[number] = Generated(b"")
        program = machine_of(process).programs.find(list(args))

        def run() -> int | None:
            Running.process().local["argv"] = [*args]
            if preexec_fn is not None:
                preexec_fn()
            return program()

        self._child: Process = Running.kernel.start_process(
            process.machine,
            machine_of(process).programs.name_of(list(args)),
            run,
            environ=process.environ if env is None else env,
            descriptors=given,
            parent=process.pid,
        )
        self._child.local["cwd"] = cwd or process.local.get("cwd", "/")
        self.pid = self._child.pid
        self.stdout = streams.open_(pipes[1], "r" if text else "rb") if 1 in pipes else None
        self.stderr = streams.open_(pipes[2], "r" if text else "rb") if 2 in pipes else None

    def poll(self) -> int | None:
        if self.returncode is None and not self._child.alive:
            self.returncode = self._child.status
            zombies = Running.process().local.get("zombies", {})
            zombies.pop(self.pid, None)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        kernel, thread = Running.kernel, Running.thread()
        until_s = None if timeout is None else kernel.now_s + timeout
        self._child.ended[lambda: kernel.wake(thread)] = None
        while self.poll() is None:
            if until_s is not None and kernel.now_s >= until_s:
                raise real.TimeoutExpired(list(self.args), timeout or 0.0)
            kernel.block(None if until_s is None else until_s - kernel.now_s)
        assert self.returncode is not None
        return self.returncode

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        out = self.stdout.read() if self.stdout is not None else None
        err = self.stderr.read() if self.stderr is not None else None
        self.wait(timeout)
        return out, err

    def send_signal(self, number: int) -> None:
        if self._child.alive:
            Running.kernel.signal(self._child, int(number))

    def terminate(self) -> None:
        self.send_signal(real_signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(real_signal.SIGKILL)

    def __enter__(self) -> "Popen":
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()


def run(
    args: Sequence[str],
    *,
    check: bool = False,
    capture_output: bool = False,
    timeout: float | None = None,
    **options: Any,
) -> Any:
    if capture_output:
        options["stdout"] = options["stderr"] = real.PIPE
    options.pop("input", None)
    process = Popen(args, **options)
    out, err = process.communicate(timeout=timeout)
    if check and process.returncode:
        raise real.CalledProcessError(process.returncode, list(args), out, err)
    return real.CompletedProcess(list(args), process.returncode or 0, out, err)


class SubprocessFacade(ModuleType):
    def __init__(self) -> None:
        super().__init__("subprocess")
        self.Popen = Popen
        self.run = run
        for name in ("PIPE", "STDOUT", "DEVNULL", "TimeoutExpired", "CalledProcessError", "CompletedProcess"):
            setattr(self, name, getattr(real, name))
        self.SubprocessError = real.SubprocessError


def _signal(number: int, handler: Any) -> Any:
    process = Running.process()
    before = process.handlers.get(int(number), real_signal.SIG_DFL)
    process.handlers[int(number)] = handler
    return before


def _pthread_sigmask(how: int, mask: Any) -> set[int]:
    process = Running.process()
    before = set(process.blocked)
    numbers = {int(number) for number in mask}
    if how == real_signal.SIG_BLOCK:
        process.blocked |= numbers
    elif how == real_signal.SIG_UNBLOCK:
        process.blocked -= numbers
    else:
        process.blocked = numbers
    Running.kernel.unblocked(process)
    Running.kernel.deliver_signals()
    return before


def _set_wakeup_fd(number: int, *, warn_on_full_buffer: bool = True) -> int:
    process = Running.process()
    before, process.wakeup = process.wakeup, number
    return before


def _pidfd_send_signal(descriptor: int, number: int, *_: Any) -> None:
    process = description_of(descriptor).process  # type: ignore[attr-defined]
    if not process.alive:
        raise ProcessLookupError(3, "No such process")
    Running.kernel.signal(process, int(number))


class SignalFacade(ModuleType):
    def __init__(self) -> None:
        super().__init__("signal")
        for name in dir(real_signal):
            if name.startswith("SIG") or name in (
                "Signals",
                "Handlers",
                "Sigmasks",
                "strsignal",
                "default_int_handler",
            ):
                setattr(self, name, getattr(real_signal, name))
        self.signal = _signal
        self.getsignal = lambda number: Running.process().handlers.get(int(number), real_signal.SIG_DFL)
        self.pthread_sigmask = _pthread_sigmask
        self.set_wakeup_fd = _set_wakeup_fd
        self.pidfd_send_signal = _pidfd_send_signal
