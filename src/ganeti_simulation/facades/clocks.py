# SPDX-License-Identifier: BSD-2-Clause
"""`time` of a simulated process."""

import time as real_time
from types import ModuleType
from typing import Any

from ganeti_simulation.system.kernel import Running


class TimeFacade(ModuleType):
    def __init__(self) -> None:
        super().__init__("time")
        for name in ("strftime", "gmtime", "strptime", "struct_time", "mktime", "CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):
            setattr(self, name, getattr(real_time, name))
        self.timezone = 0

    @staticmethod
    def time() -> float:
        Running.kernel.look_at_clock()
        return Running.process().machine.wall_s

    @classmethod
    def time_ns(cls) -> int:
        return int(cls.time() * 1e9)

    @staticmethod
    def monotonic() -> float:
        return Running.kernel.look_at_clock() - Running.process().machine.booted_s

    perf_counter = monotonic

    @staticmethod
    def clock_gettime(clock: int) -> float:
        return TimeFacade.monotonic()

    @staticmethod
    def process_time() -> float:
        return 0.0

    @staticmethod
    def localtime(seconds: float | None = None) -> Any:
        return real_time.gmtime(TimeFacade.time() if seconds is None else seconds)

    @staticmethod
    def sleep(seconds: float) -> None:
        Running.kernel.sleep(seconds)
