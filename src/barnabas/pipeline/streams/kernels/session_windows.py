"""Aggregates in sessions: rows of a key that are at most a gap apart."""

from collections.abc import Callable, Mapping
from typing import ClassVar, TypeAlias

import attrs

from barnabas.pipeline.streams.kernels.bucket_state import TaskState
from barnabas.pipeline.streams.kernels.kernel_protocol import RowKernel, RowSteps
from barnabas.pipeline.streams.kernels.kernel_rows import UNKNOWN_MS, Row, Timed, Value, Window, own
from barnabas.pipeline.streams.kernels.stream_aggregates import LATE, NO_KEY, NO_VALUE, Aggregation

Merger: TypeAlias = Callable[[bytes, Value, Value], Value]
"""(key, aggregate, aggregate) -> aggregate."""

_Session: TypeAlias = list[Value]  # start, end, aggregate


@attrs.frozen
class SessionWindowAggregate(RowKernel):
    """The aggregate of each session of a key; an output for each change.

    A row that joins or extends sessions yields a tombstone for each of them, then the merged
    session. A session closes when stream time is more than the gap and the grace period past its
    end. The end of a session is the timestamp of its last row, and the timestamp of its outputs.
    """

    name: ClassVar[str] = "session-windows"
    timed: ClassVar[Timed] = Timed.KEYED
    gap_ms: int = attrs.field(validator=attrs.validators.ge(0))
    aggregation: Aggregation
    merger: Merger
    grace_ms: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    skips_nulls: bool = False
    """True when rows without value move stream time only."""

    def settings(self) -> Mapping[str, Value]:
        """Return the gap. The grace period may change."""
        return {"gap_ms": self.gap_ms}

    def on_row(self, row: Row, task: TaskState) -> RowSteps:
        """Yield tombstones of merged sessions, then the session of the row."""
        if row.key is None:
            return NO_KEY
        kept_ms = self.gap_ms + self.grace_ms
        expired_ms = self._time_before(row, task) - kept_ms  # it may join what it expires
        closed_ms = task.observe(row) - kept_ms
        self._sweep(task, expired_ms, kept_ms)
        if self.skips_nulls and row.value is None:
            return NO_VALUE
        time_ms = row.timestamp_ms
        sessions: list[_Session] = [
            session
            for session in task.store("sessions").get(row.key, [])
            if session[1] > expired_ms
        ]
        merged = [
            session
            for session in sessions
            if session[1] >= time_ms - self.gap_ms and session[0] <= time_ms + self.gap_ms
        ]
        window = Window(
            min([time_ms, *(session[0] for session in merged)]),
            max([time_ms, *(session[1] for session in merged)]),
        )
        if window.end_ms < closed_ms:
            return LATE
        before = None
        for session in merged:
            ended = Window(session[0], session[1])
            if window == (time_ms, time_ms):
                before = session[2]
            else:
                yield _output(row, ended, None, session[2])
        value = self._value(row, row.key, merged)
        left = [session for session in sessions if session not in merged]
        self._keep(task, row.key, left, window, value)
        yield _output(row, window, value, before)
        return None

    @staticmethod
    def _time_before(row: Row, task: TaskState) -> int:
        """Return the stream time before a row, as far as its bucket knows."""
        is_late = row.timestamp_ms < row.reached_ms
        return max(task.time_ms, row.reached_ms if is_late else row.before_ms)

    def _value(self, row: Row, key: bytes, merged: list[_Session]) -> Value:
        aggregate = self.aggregation.start()
        for session in merged:
            if aggregate is None and self.aggregation.initializer is None:
                aggregate = session[2]
            else:
                aggregate = self.merger(key, own(aggregate), own(session[2]))
        return self.aggregation.add(key, row.value, aggregate)

    def _keep(
        self, task: TaskState, key: bytes, left: list[_Session], window: Window, value: Value
    ) -> None:
        if value is not None:
            left = sorted([*left, [*window, value]], key=_ends)
        if left:
            task.store("sessions")[key] = left
        else:
            task.store("sessions").pop(key, None)

    def _sweep(self, task: TaskState, expired_ms: int, every_ms: int) -> None:
        """Remove expired sessions of all keys, once in a while of stream time."""
        swept = task.store("swept")
        if expired_ms - swept.get("ms", UNKNOWN_MS) <= every_ms:
            return
        swept["ms"] = expired_ms
        kept = task.store("sessions")
        for key, sessions in list(kept.items()):
            left = [session for session in sessions if session[1] > expired_ms]
            if left:
                kept[key] = left
            else:
                del kept[key]


def _ends(session: _Session) -> tuple[int, int]:
    return session[1], session[0]


def _output(row: Row, window: Window, value: Value, old: Value) -> Row:
    """Return a change of a session. Like Kafka's, it has no headers: it has several rows."""
    return row._replace(window=window, value=value, old=old, timestamp_ms=window.end_ms, headers=())
