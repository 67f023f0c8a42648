"""The timer of the active controller's periodic tasks (Kafka's `PeriodicTaskControlManager`)."""

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

NameT = TypeVar("NameT")


class DueTask(NamedTuple, Generic[NameT]):
    """A task whose time has come, and how long ago that was."""

    name: NameT
    late_ms: int


class PeriodicTasks(Generic[NameT]):
    """When each task is due; `periods_ms` has the period of each, 0 for a task that is off."""

    def __init__(self, periods_ms: Mapping[NameT, int]) -> None:
        self._periods_ms = {name: period for name, period in periods_ms.items() if period > 0}
        self._due_ms: dict[NameT, int] = {}

    def start(self, now_ms: int) -> None:
        """Schedule every task one period from now."""
        self._due_ms = {name: now_ms + period for name, period in self._periods_ms.items()}

    def stop(self) -> None:
        """Return no task until the next start."""
        self._due_ms = {}

    def take_due(self, now_ms: int) -> DueTask[NameT] | None:
        """Return the task that is due the longest, and schedule its next run."""
        if not self._due_ms:
            return None
        name = min(self._due_ms, key=lambda each: self._due_ms[each])
        late_ms = now_ms - self._due_ms[name]
        if late_ms < 0:
            return None
        self._due_ms[name] = now_ms + self._periods_ms[name]
        return DueTask(name, late_ms)

    def run_at_once(self, name: NameT, now_ms: int) -> None:
        """Make a task due now, unless it is off."""
        if name in self._due_ms:
            self._due_ms[name] = min(self._due_ms[name], now_ms)

    def wakeup_ms(self) -> int | None:
        """Return when a task is due next, or None when all are off."""
        return min(self._due_ms.values(), default=None)
