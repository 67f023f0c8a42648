"""Deadlines by key: a heap with one entry for each key, however often the key is renewed.

A heartbeat moves the deadline of its member thousands of times between two expiries. Renewing a
key therefore only writes to a dict. An entry that comes up too early is pushed again with the
deadline that holds by then.
"""

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

ActionT = TypeVar("ActionT")


class Timers(Generic[ActionT]):
    """Keyed one-shot timers in milliseconds; scheduling a key again replaces its timer."""

    def __init__(self) -> None:
        self._due: dict[Hashable, tuple[int, ActionT]] = {}
        # Earliest deadline for which the heap holds an entry of the key.
        self._queued: dict[Hashable, int] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._sequence = 0

    def __contains__(self, key: Hashable) -> bool:
        return key in self._due

    def __len__(self) -> int:
        return len(self._due)

    def schedule(self, key: Hashable, deadline_ms: int, action: ActionT) -> None:
        """Schedule `action` for `deadline_ms` in place of what was scheduled under `key` before."""
        self._due[key] = (deadline_ms, action)
        queued = self._queued.get(key)
        if queued is None or deadline_ms < queued:
            self._push(key, deadline_ms)

    def cancel(self, key: Hashable) -> None:
        """Forget the timer of `key`, if there is one."""
        self._due.pop(key, None)

    def deadline(self, key: Hashable) -> int | None:
        """Return the deadline of `key` in milliseconds, None without a timer."""
        due = self._due.get(key)
        return None if due is None else due[0]

    def next_wakeup(self) -> int | None:
        """Return the earliest deadline in milliseconds, None when nothing is scheduled."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> ActionT | None:
        """Remove and return the earliest action that is due; ties in the order of scheduling."""
        self._settle()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._queued[key]
        return self._due.pop(key)[1]

    def _push(self, key: Hashable, deadline_ms: int) -> None:
        self._queued[key] = deadline_ms
        self._sequence += 1
        heapq.heappush(self._heap, (deadline_ms, self._sequence, key))

    def _settle(self) -> None:
        """Bring a valid deadline to the top: drop stale entries, push renewed ones again."""
        while self._heap:
            queued_ms, _, key = self._heap[0]
            if self._queued.get(key) != queued_ms:
                heapq.heappop(self._heap)
                continue
            due = self._due.get(key)
            if due is not None and due[0] == queued_ms:
                return
            heapq.heappop(self._heap)
            del self._queued[key]
            if due is not None:
                self._push(key, due[0])
