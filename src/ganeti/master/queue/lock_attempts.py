# SPDX-License-Identifier: BSD-2-Clause
"""When a job that waits for locks is asked for again, and when its priority rises (S1.84, S1.85; opcodes, section 1).

An attempt takes 5 s, each next one (that × 1.05) ^ 1.25, within 5 to 75 s. When the attempts at one priority come to
1800 s, the priority rises by one and they begin anew. At -20 the request just waits: it is as urgent as can be.
"""

FIRST_S = 5.0
LONGEST_S = 75.0
STEP_S = 1800.0
"""Waiting at one priority: 10 hours over the 20 steps from 0 to -20."""
MOST_URGENT = -20
_JITTER = 0.1
_GOLDEN = 0.6180339887498949


def attempt_length_s(previous_s: float | None, spread: float) -> float:
    """Length of an attempt after one of *previous_s* seconds; *spread* in 0..1 keeps jobs from moving in step."""
    length_s = FIRST_S if previous_s is None else (previous_s * 1.05) ** 1.25
    return min(max(length_s, FIRST_S), LONGEST_S) * (1.0 + _JITTER * (spread - 0.5))


class LockAttempts:
    """The waiting of one job, for locks or of its own will. Without randomness: the job's id spreads jobs apart."""

    __slots__ = ("_length_s", "_spread", "_step_began_s", "deadline_s")

    def __init__(self, job_id: int, now_s: float) -> None:
        self._spread = (job_id * _GOLDEN) % 1.0
        self._step_began_s = now_s
        self._length_s: float | None = None
        self.deadline_s = now_s
        self.begin(now_s)

    def over(self, priority: int, now_s: float) -> int:
        """An attempt is over; gives the priority from here on."""
        if priority > MOST_URGENT and now_s - self._step_began_s >= STEP_S:
            priority -= 1
            self._step_began_s = now_s
            self._length_s = None
        return priority

    def begin(self, now_s: float) -> None:
        """Begin the next attempt, a longer one."""
        self._spread = (self._spread + _GOLDEN) % 1.0
        self._length_s = attempt_length_s(self._length_s, self._spread)
        self.deadline_s = now_s + self._length_s
