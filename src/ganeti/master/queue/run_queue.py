# SPDX-License-Identifier: BSD-2-Clause
"""The run queue: who is next among jobs that could run (S1.78, S1.82, S1.88). Pure.

The order is (priority of the first opcode not yet done, job id); lower goes first. A priority is fixed while a job
stands here; to change it, the job is pushed again (S1.89: a job that defers itself may come back with another one).
"""

from heapq import heapify, heappop, heappush

Key = tuple[int, int]
"""(priority, job id)."""
_STALE_AT_LEAST = 64


class RunQueue:
    """Each job stands here at most once."""

    def __init__(self) -> None:
        self._keys: dict[int, Key] = {}
        self._heap: list[Key] = []

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, job_id: int) -> bool:
        return job_id in self._keys

    def push(self, job_id: int, priority: int) -> None:
        """Put a job into its place; one that stands here already moves."""
        key = (priority, job_id)
        if self._keys.get(job_id) != key:
            self._keys[job_id] = key
            heappush(self._heap, key)

    def discard(self, job_id: int) -> None:
        if self._keys.pop(job_id, None) is not None and len(self._heap) > 2 * len(self._keys) + _STALE_AT_LEAST:
            self._heap = list(self._keys.values())
            heapify(self._heap)

    def first(self) -> Key | None:
        """The key of the job that is next; None if there is none."""
        while self._heap:
            key = self._heap[0]
            if self._keys.get(key[1]) == key:
                return key
            heappop(self._heap)
        return None

    def pop(self) -> int | None:
        """Take out the job that is next."""
        key = self.first()
        if key is None:
            return None
        heappop(self._heap)
        del self._keys[key[1]]
        return key[1]

    def in_order(self) -> list[int]:
        return [job_id for _, job_id in sorted(self._keys.values())]
