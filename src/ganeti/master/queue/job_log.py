# SPDX-License-Identifier: BSD-2-Clause
"""The log of one opcode, as operations write it and waiting commands read it."""

from ganeti.master.queue.engine_ports import EngineWorld
from ganeti.wire.job_file import MESSAGE, JobFile, OpcodeEntry, timestamp


class JobLog:
    """Implements `JobLogPort`: lines go into the job file; how far a step is goes into a side field of it."""

    def __init__(self, job: JobFile, entry: OpcodeEntry, world: EngineWorld) -> None:
        self._job = job
        self._entry = entry
        self._world = world
        self._serial = job.log_serial

    def info(self, text: str) -> None:
        self.add(MESSAGE, text)

    def warning(self, text: str) -> None:
        self.add(MESSAGE, f" - WARNING: {text}")

    def add(self, kind: str, value: object) -> None:
        """Append an entry of a log type of 3.1."""
        self._serial += 1
        self._entry.log.append([self._serial, timestamp(self._world.now_s()), kind, value])
        self._world.save_soon(self._job)

    def progress(self, text: str, done: float, total: float) -> None:
        """Note how far a step is; when another step begins or this one is complete, a line says that it is done."""
        before = self._entry.progress
        if before is not None and before[0] != text:
            self.end_progress(done=True)
        if total > 0 and done >= total:
            self._entry.progress = None
            self.info(f"{text}: done")
            return
        self._entry.progress = [text, done, total]
        self._world.save_soon(self._job)

    def step_told(self) -> None:
        """See `JobLogPort.step_told`."""
        self._entry.progress = None

    def end_progress(self, *, done: bool) -> None:
        if self._entry.progress is None:
            return
        text, amount, total = self._entry.progress
        self._entry.progress = None
        part = f"{100 * amount / total:.0f} %" if total else "its beginning"
        self.info(f"{text}: done" if done else f"{text}: stopped at {part}")
