"""Generated input of topologies: tombstones, late and unordered records, null keys, partitions."""

import random
from collections.abc import Iterator, Sequence

import attrs

from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side

KEYS = ("a", "b", "c", "d")
HEADS = ("a", "b", "c", "d", "")
NULL_KEYS = 0.06
NULL_VALUES = 0.2
LATE = 0.25
LATE_MS = 180
STEP_MS = 25
CLOCK_STEP_MS = 250


@attrs.frozen
class Case:
    """Batches of rows, in the order of their arrival; a topic is a side."""

    seed: int
    batches: Sequence[Sequence[Row]]


def cases(seed: int, count: int, *, sides: int, partitions: int) -> Iterator[Case]:
    """Yield cases of a number of input topics and partitions."""
    for number in range(count):
        yield case(seed * 1_000_003 + number, sides=sides, partitions=partitions)


def case(seed: int, *, sides: int, partitions: int) -> Case:
    """Return one case. A key has its partition, and offsets count up in each partition."""
    draw = random.Random(seed)
    now_ms = 1_000
    offsets: dict[tuple[int, int], int] = {}
    batches: list[list[Row]] = []
    for _ in range(draw.randint(1, 5)):
        batch: list[Row] = []
        for _ in range(draw.randint(1, 10)):
            now_ms += draw.randint(0, STEP_MS)
            side = draw.randrange(sides)
            key = None if draw.random() < NULL_KEYS else draw.choice(KEYS)
            partition = draw.randrange(partitions) if key is None else ord(key) % partitions
            late_ms = draw.randint(0, LATE_MS) if draw.random() < LATE else 0
            offset = offsets[side, partition] = offsets.get((side, partition), -1) + 1
            batch.append(
                Row(
                    None if key is None else key.encode(),
                    value(draw),
                    now_ms - late_ms,
                    Side(side),
                    partition,
                    offset,
                )
            )
        batches.append(batch)
    return Case(seed, batches)


def with_clock(found: Case) -> Case:
    """Return a case in which the wall clock has taken a step at the end of each batch."""
    draw = random.Random(found.seed)
    clock_ms = 0
    batches: list[Sequence[Row]] = []
    for batch in found.batches:
        clock_ms += draw.randint(0, CLOCK_STEP_MS)
        batches.append([*batch, Row(None, None, clock_ms, Side.CLOCK)])
    return Case(found.seed, batches)


def value(draw: random.Random) -> str | None:
    """Return a tombstone, or a text with a head that may be a key, and a part that differs."""
    if draw.random() < NULL_VALUES:
        return None
    return f"{draw.choice(HEADS)}:{draw.choice('xyz') * draw.randint(1, 3)}{draw.randint(0, 99)}"
