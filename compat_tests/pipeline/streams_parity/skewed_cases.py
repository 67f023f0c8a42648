"""Generated input whose partitions are apart in time, and a plain reference for its windows.

A case has two partitions, which share no keys. Its records are those that Kafka Streams and
the reference take in the order of their offsets; batches say which of them come together.
"""

import enum
import random
from collections import Counter
from collections.abc import Iterator, Sequence

import attrs

from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side
from compat_tests.pipeline.streams_parity.stream_cases import Case, value

BATCHES = 5
APART_MS = 5_000
STEP_MS = 40
LATE = 0.2
LATE_MS = 400
NULL_KEYS = 0.05


class Shape(enum.Enum):
    """The way in which the partitions of a case differ."""

    SKEW = "one partition is ahead of the other by hours of its time"
    CATCH_UP = "one partition pauses, and its records of that time come at once"
    IDLE = "one partition has records in the first and in the last batch only"
    HOT = "one partition has nine of ten records"


@attrs.define
class _Source:
    """The clock and the offsets of one partition."""

    partition: int
    now_ms: int
    offset: int = -1

    def row(self, draw: random.Random, side: Side) -> Row:
        self.now_ms += draw.randint(0, STEP_MS)
        self.offset += 1
        late_ms = draw.randint(0, LATE_MS) if draw.random() < LATE else 0
        key = draw.choice("ac" if self.partition == 0 else "bd")
        return Row(
            None if draw.random() < NULL_KEYS else key.encode(),
            value(draw),
            max(0, self.now_ms - late_ms),
            side,
            self.partition,
            self.offset,
        )


def skewed_cases(seed: int, count: int, *, sides: int) -> Iterator[tuple[Shape, Case]]:
    """Yield cases of all shapes in turn."""
    shapes = list(Shape)
    for number in range(count):
        shape = shapes[number % len(shapes)]
        yield shape, skewed_case(seed * 1_000_003 + number, shape, sides=sides)


def skewed_case(seed: int, shape: Shape, *, sides: int) -> Case:
    """Return one case. A topic is a side; both sides of a partition have its clock."""
    draw = random.Random(seed)
    ahead_ms = draw.randint(1, APART_MS) if shape is Shape.SKEW else 0
    sources = [_Source(0, 1_000), _Source(1, 1_000 + ahead_ms)]
    batches: list[Sequence[Row]] = []
    for number in range(BATCHES):
        counts = _counts(draw, shape, number)
        order = [each for each in sources for _ in range(counts[each.partition])]
        draw.shuffle(order)
        batches.append([each.row(draw, Side(draw.randrange(sides))) for each in order])
    return Case(seed, batches)


def _counts(draw: random.Random, shape: Shape, batch: int) -> tuple[int, int]:
    """Return the number of records of each partition in a batch."""
    usual = draw.randint(1, 8)
    match shape:
        case Shape.SKEW:
            return usual, usual
        case Shape.CATCH_UP:
            is_paused = 0 < batch < BATCHES - 1
            return (0 if is_paused else usual * (1 if batch == 0 else BATCHES)), usual
        case Shape.IDLE:
            return usual, (usual if batch in (0, BATCHES - 1) else 0)
        case Shape.HOT:
            return draw.randint(9, 18), int(draw.random() < 0.5)


WindowCounts = Counter[tuple[str, int]]


def counted(
    case: Case, *, size_ms: int, advance_ms: int, grace_ms: int
) -> tuple[WindowCounts, int]:
    """Return the values of each key and window, and the windows that late records missed."""
    counts: WindowCounts = Counter()
    late = 0
    reached: dict[int, int] = {}
    for row in (row for batch in case.batches for row in batch):
        if row.key is None:
            continue
        now_ms = reached[row.partition] = max(reached.get(row.partition, -1), row.timestamp_ms)
        if row.value is None:
            continue
        start_ms = row.timestamp_ms - row.timestamp_ms % advance_ms
        while start_ms > row.timestamp_ms - size_ms and start_ms >= 0:
            if start_ms + size_ms + grace_ms <= now_ms:
                late += 1
            else:
                counts[row.key.decode(), start_ms] += 1
            start_ms -= advance_ms
    return counts, late
