"""Two streams joined by key within a time."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import ClassVar, Final, TypeAlias

import attrs

from barnabas.pipeline.streams.kernels.bucket_state import TaskState
from barnabas.pipeline.streams.kernels.kernel_protocol import RowKernel, RowSteps
from barnabas.pipeline.streams.kernels.kernel_rows import UNKNOWN_MS, Joiner, Row, Side, Value
from barnabas.pipeline.streams.kernels.stream_aggregates import LATE, NO_KEY, NO_VALUE

_Entry: TypeAlias = list[Value]  # timestamp, value

_TIME: Final = itemgetter(0)


@attrs.frozen
class JoinWindows:
    """A row of the right stream matches from `before_ms` before to `after_ms` after the left."""

    before_ms: int
    after_ms: int
    grace_ms: int = attrs.field(default=0, validator=attrs.validators.ge(0))

    def __attrs_post_init__(self) -> None:
        if self.before_ms + self.after_ms < 0:
            raise ValueError(
                f"a window from {-self.before_ms} ms to {self.after_ms} ms ends before it begins"
            )

    @property
    def kept_ms(self) -> int:
        """Return the time for which rows are kept for later rows of the other stream.

        Where it is 0, rows of equal time still match.
        """
        return max(1, self.before_ms + self.after_ms + self.grace_ms)

    def ahead(self, side: Side) -> int:
        """Return how far after a row of this side its matches may be."""
        return self.after_ms if side is Side.LEFT else self.before_ms

    def behind(self, side: Side) -> int:
        """Return how far before a row of this side its matches may be."""
        return self.before_ms if side is Side.LEFT else self.after_ms


@attrs.frozen
class StreamJoin(RowKernel):
    """Pairs of rows of two streams; with `outer`, rows of these sides without a match as well.

    A row without a match is yielded when stream time is past its window and the grace period, so
    no match can follow. A row that arrives after the end of its window, and has no match, is
    yielded at once. Rows without value are dropped, and rows without key where a match is needed. A
    row that is too late for later rows to match is counted as late; it may have matched before.

    With `is_eager`, a row without a match is yielded when it arrives, and once more in each pair
    when a match follows.
    """

    name: ClassVar[str] = "stream-join"
    acts_on_time: ClassVar[bool] = True
    joiner: Joiner
    windows: JoinWindows
    outer: frozenset[Side] = frozenset()
    is_eager: bool = False

    def settings(self) -> Mapping[str, Value]:
        """Return the window. The grace period may change."""
        found: dict[str, Value] = {
            "before_ms": self.windows.before_ms,
            "after_ms": self.windows.after_ms,
            "outer": sorted(side.name for side in self.outer),
        }
        return {**found, "is_eager": True} if self.is_eager else found

    def on_row(self, row: Row, task: TaskState) -> RowSteps:
        """Yield rows that remained without match, then the pairs of this row."""
        now_ms = task.observe(row)
        if row.key is not None:
            self._advance(row, task)
        if row.value is None:
            return NO_VALUE
        if row.key is None:
            if row.side not in self.outer:
                return NO_KEY
            yield self._alone(row, None, row.side, row.value)
            return None
        yield from self._closed(row, task)
        is_kept = self._keep(row, row.key, task)
        matches = list(self._matches(row, row.key, task))
        for time_ms, value in matches:
            self._matched(row, row.key, time_ms, task)
            left, right = (row.value, value) if row.side is Side.LEFT else (value, row.value)
            joined = self.joiner(row.key, left, right)
            yield row._replace(
                value=joined, timestamp_ms=max(row.timestamp_ms, time_ms), side=Side.LEFT
            )
        if row.side in self.outer and not matches:
            if self.is_eager or row.timestamp_ms + self.windows.ahead(row.side) < now_ms:
                yield self._alone(row, row.key, row.side, row.value)
            else:
                self._wait(row, row.key, task)
        return None if is_kept else LATE

    def on_time(self, row: Row, task: TaskState) -> Iterator[Row]:
        """Yield rows that remained without match."""
        yield from self._closed(row, task)

    def _advance(self, row: Row, task: TaskState) -> None:
        """Advance the time up to which rows of a side are kept; rows without value count."""
        newest = task.store("newest")
        newest_ms = max(row.timestamp_ms, newest.get(row.side.name, UNKNOWN_MS))
        newest[row.side.name] = newest_ms
        self._sweep(row.side, newest_ms, task)

    def _keep(self, row: Row, key: bytes, task: TaskState) -> bool:
        """Keep a row for later rows of the other stream; False when it is behind all of them."""
        newest_ms: int = task.store("newest")[row.side.name]
        if row.timestamp_ms <= newest_ms - self.windows.kept_ms:
            return False
        entries: list[_Entry] = task.store(row.side.name).setdefault(key, [])
        insort(entries, [row.timestamp_ms, row.value], key=_TIME)
        return True

    def _sweep(self, side: Side, newest_ms: int, task: TaskState) -> None:
        """Remove rows that no row can match, once in each time that rows are kept."""
        swept, every_ms = task.store("swept"), self.windows.kept_ms
        if newest_ms - swept.setdefault(side.name, newest_ms) <= every_ms:
            return
        swept[side.name] = newest_ms
        kept = task.store(side.name)
        for key, entries in list(kept.items()):
            left = entries[bisect_left(entries, newest_ms - every_ms, key=_TIME) :]
            if left:
                kept[key] = left
            else:
                del kept[key]

    def _matches(self, row: Row, key: bytes, task: TaskState) -> Iterator[_Entry]:
        other = Side.RIGHT if row.side is Side.LEFT else Side.LEFT
        newest_ms: int = task.store("newest").get(other.name, UNKNOWN_MS)
        entries: list[_Entry] = task.store(other.name).get(key, [])
        first_ms = max(
            row.timestamp_ms - self.windows.behind(row.side), newest_ms - self.windows.kept_ms + 1
        )
        first = bisect_left(entries, first_ms, key=_TIME)
        end = bisect_right(entries, row.timestamp_ms + self.windows.ahead(row.side), key=_TIME)
        yield from entries[first:end]

    def _wait(self, row: Row, key: bytes, task: TaskState) -> None:
        """Hold a row back until its window is closed."""
        of_key = task.store(f"alone {row.side.name}").setdefault(key, {})
        if row.timestamp_ms not in of_key:
            closes_ms = row.timestamp_ms + self.windows.ahead(row.side) + self.windows.grace_ms
            entry = [closes_ms, row.timestamp_ms, row.side is Side.LEFT, key]
            task.queue("closing").push(entry)
        of_key.setdefault(row.timestamp_ms, []).append(row.value)

    def _matched(self, row: Row, key: bytes, time_ms: int, task: TaskState) -> None:
        """Forget that rows of the other side at a time have no match."""
        other = Side.RIGHT if row.side is Side.LEFT else Side.LEFT
        alone = task.store(f"alone {other.name}")
        of_key = alone.get(key)
        if of_key is not None and of_key.pop(time_ms, None) is not None and not of_key:
            del alone[key]

    def _closed(self, row: Row, task: TaskState) -> Iterator[Row]:
        """Yield rows without match whose windows are closed, earliest first."""
        closing = task.queue("closing")
        closed: list[tuple[int, bool, bytes]] = []
        while closing and closing.first[0] < task.time_ms:
            _, time_ms, is_left, key = closing.pop()
            closed.append((time_ms, is_left, key))
        for time_ms, is_left, key in sorted(closed):
            side = Side.LEFT if is_left else Side.RIGHT
            alone = task.store(f"alone {side.name}")
            of_key = alone.get(key, {})
            for value in of_key.pop(time_ms, []):
                yield self._alone(row._replace(timestamp_ms=time_ms), key, side, value)
            if not of_key:
                alone.pop(key, None)

    def _alone(self, row: Row, key: bytes | None, side: Side, value: Value) -> Row:
        left, right = (value, None) if side is Side.LEFT else (None, value)
        return row._replace(key=key, value=self.joiner(key, left, right), side=Side.LEFT)
