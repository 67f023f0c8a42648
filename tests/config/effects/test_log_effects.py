"""Topic properties and the broker properties behind them, observed on a log's files and answers.

Each case runs once per way of setting the property: on the topic, and through each broker synonym.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.config import TOPIC_PROPERTIES, NodeConfig, TopicConfig
from barnabas.log import LogConfig, PartitionLog
from barnabas.log.compaction import cleaning_plan
from barnabas.protocol.batches.batch_header import iter_batches, read_header
from barnabas.protocol.batches.batch_layout import CODEC_MASK
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.batches.record_decoding import read_records
from barnabas.protocol.errors import KafkaError
from barnabas.testing.batches import NOW_MS, batch
from tests.config.effects.observed import observes
from tests.log.compaction.test_cleaner import compact, put
from tests.log.logs import append, new_log, open_volume

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
LARGE = os.urandom(600_000)
_chance = random.Random(1)
_words = [bytes(_chance.choices(b"abcdefghijk", k=_chance.randint(2, 9))) for _ in range(300)]
WORDS = b" ".join(_chance.choices(_words, k=6000))  # 39 kB that levels compress differently


class Case(NamedTuple):
    """Two values of one topic property and what is observed with each."""

    name: str
    observe: Callable[[PartitionLog], object]
    values: tuple[object, object]
    seen: tuple[object, object]
    # Other properties of the topic that the observation needs.
    given: dict[str, str] = {}


def at(log: PartitionLog, now_ms: int, *values: bytes, **settings: Any) -> None:
    """Append a batch with the time `now_ms`, on the clock and in its records."""
    times = [now_ms] * len(values)
    log.append_as_leader(
        batch(*values, timestamps=times, **settings), leader_epoch=0, now_ms=now_ms
    )
    log.advance_high_watermark(log.log_end_offset)


def files(log: PartitionLog, suffix: str = ".log") -> int:
    return len(list(Path(log.directory).glob(f"*{suffix}")))


def after_large_batches(log: PartitionLog) -> int:
    for _ in range(3):
        append(log, LARGE)
    return files(log)


def after_hours(hours: int) -> Callable[[PartitionLog], int]:
    def observe(log: PartitionLog) -> int:
        at(log, NOW_MS, b"v")
        at(log, NOW_MS + hours * HOUR_MS, b"v")
        return files(log)

    return observe


def rolls_early(log: PartitionLog) -> bool:
    """Return True when one of 30 segments closes before segment.ms has passed (1 hour here)."""
    now_ms = NOW_MS
    for _ in range(30):
        at(log, now_ms, b"v")
        before = files(log)
        at(log, now_ms + HOUR_MS - 60_000, b"v")
        if files(log) > before:
            return True
        now_ms += 3 * HOUR_MS
    return False


def after_many_batches(log: PartitionLog) -> int:
    for number in range(12):
        at(log, NOW_MS + number, b"v" * 100)
    return files(log)


def index_entries(log: PartitionLog) -> int:
    for _ in range(10):
        append(log, b"v" * 1000)
    log.close()
    return sum(path.stat().st_size // 8 for path in Path(log.directory).glob("*.index"))


def needs_flush(log: PartitionLog) -> bool:
    log.needs_flush(NOW_MS)
    append(log, b"v")
    return log.needs_flush(NOW_MS + 10_000_000)


def deleted_by_retention(log: PartitionLog) -> int:
    for hour in range(4):
        at(log, NOW_MS - (5 - hour) * HOUR_MS - HOUR_MS // 2, LARGE)
    log.roll(NOW_MS)
    return log.apply_retention(NOW_MS)


def refusal(*values: bytes, **settings: Any) -> Callable[[PartitionLog], str | None]:
    def observe(log: PartitionLog) -> str | None:
        try:
            log.append_as_leader(batch(*values, **settings), leader_epoch=0, now_ms=NOW_MS)
        except KafkaError as error:
            return error.code.name
        return None

    return observe


def files_left_after_retention(log: PartitionLog) -> int:
    """Return how many renamed files wait for their removal after five seconds."""
    deleted_by_retention(log)
    log.volume.deletions.due(NOW_MS)  # the delay counts from here
    for remove in log.volume.deletions.due(NOW_MS + 5000):
        remove()
    return files(log, ".log.deleted")


def cleanable(age_ms: int, *, dirty: int = 9) -> Callable[[PartitionLog], bool]:
    """Return an observation: True when a log with old records of one key is due for compaction."""

    def observe(log: PartitionLog) -> bool:
        for number in range(10):
            at(log, NOW_MS - age_ms, b"%d" % number * 100, keys=[b"k"])
            log.roll(NOW_MS - age_ms)
        log.flush_rolled()
        log.first_dirty_offset = 10 - dirty
        found = cleaning_plan.candidate(log, NOW_MS)
        return found is not None and cleaning_plan.filthiest([found]) is not None

    return observe


def tombstone_stays(log: PartitionLog) -> bool:
    """Return True when a tombstone survives compaction one day after it was first compacted."""
    put(log, b"k", b"value")
    put(log, b"k", None)
    put(log, b"other", LARGE[:1000])
    log.roll(NOW_MS)
    assert compact(log)
    put(log, b"third", b"v")
    log.roll(NOW_MS)
    assert compact(log, now_ms=NOW_MS + DAY_MS // 2)
    data = log.read(0, 10_000_000, upper_bound=log.log_end_offset).read()
    return any(
        record.key == b"k"
        for position, header in iter_batches(data)
        for record in read_records(data, position, header)
    )


def stored_codec(log: PartitionLog) -> str:
    append(log, WORDS, keys=[b"k"])
    data = log.read(0, 10_000_000, upper_bound=log.log_end_offset).read()
    return Codec(read_header(data, 0).attributes & CODEC_MASK).name


def is_stored_within(size: int) -> Callable[[PartitionLog], bool]:
    def observe(log: PartitionLog) -> bool:
        append(log, WORDS)
        return log.size_bytes < size

    return observe


def disk_bytes(log: PartitionLog) -> bool:
    """Return True when the active segment's file is larger than its content."""
    append(log, b"v")
    return log.active.opened() is not None and (
        os.stat(f"{log.directory}/{0:020}.log").st_size > log.size_bytes
    )


def stored_time(log: PartitionLog) -> int:
    log.append_as_leader(batch(b"v", timestamps=[NOW_MS - 777]), leader_epoch=0, now_ms=NOW_MS)
    data = log.read(0, 10_000, upper_bound=log.log_end_offset).read()
    return NOW_MS - next(iter(read_records(data, 0, read_header(data, 0)))).timestamp


DELETE = {"retention.ms": "-1", "segment.bytes": "1048576"}
COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
CASES = (
    Case("segment.bytes", after_large_batches, (1 << 30, 1 << 20), (1, 3)),
    Case("internal.segment.bytes", after_many_batches, (1 << 30, 400), (1, 6)),
    Case("segment.ms", after_hours(1000), (2000 * HOUR_MS, 999 * HOUR_MS), (1, 2)),
    Case("segment.jitter.ms", rolls_early, (0, HOUR_MS), (False, True),
         {"segment.ms": str(HOUR_MS)}),
    Case("segment.index.bytes", after_many_batches, (1 << 20, 48), (1, 3),
         {"index.interval.bytes": "0"}),
    Case("index.interval.bytes", index_entries, (1 << 20, 0), (0, 9)),
    Case("flush.ms", needs_flush, (20_000_000, 5000), (False, True)),
    Case("retention.bytes", deleted_by_retention, (-1, 700_000), (0, 2), DELETE),
    Case("retention.ms", deleted_by_retention, (-1, 4 * HOUR_MS), (0, 2),
         {"segment.bytes": "1048576"}),
    Case("max.message.bytes", refusal(b"v" * 1000), (2000, 500), (None, "MESSAGE_TOO_LARGE")),
    Case("file.delete.delay.ms", files_left_after_retention, (4000, 6000), (0, 4),
         {"retention.ms": "1", "segment.bytes": "1048576"}),
    Case("cleanup.policy", refusal(b"v"), ("delete", "compact"), (None, "INVALID_RECORD")),
    Case("min.cleanable.dirty.ratio", cleanable(0, dirty=5), (0.4, 0.6), (True, False),
         {"cleanup.policy": "compact"}),
    Case("min.compaction.lag.ms", cleanable(HOUR_MS), (0, 2 * HOUR_MS), (True, False), COMPACT),
    Case("max.compaction.lag.ms", cleanable(HOUR_MS, dirty=5), (2 * HOUR_MS, HOUR_MS // 2),
         (False, True), {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1"}),
    Case("delete.retention.ms", tombstone_stays, (DAY_MS, 1000), (True, False), COMPACT),
    Case("compression.type", stored_codec, ("producer", "zstd"), ("NONE", "ZSTD")),
    Case("compression.gzip.level", is_stored_within(15_000), (1, 9), (False, True),
         {"compression.type": "gzip"}),
    Case("compression.zstd.level", is_stored_within(11_500), (1, 22), (False, True),
         {"compression.type": "zstd"}),
    Case("compression.lz4.level", is_stored_within(17_500), (9, 17), (False, True),
         {"compression.type": "lz4"}),
    Case("preallocate", disk_bytes, ("false", "true"), (False, True),
         {"segment.bytes": "1048576"}),
    Case("message.timestamp.type", stored_time, ("CreateTime", "LogAppendTime"), (777, 0)),
    Case("message.timestamp.before.max.ms", refusal(b"v", timestamps=[NOW_MS - 5000]),
         (6000, 4000), (None, "INVALID_TIMESTAMP")),
    Case("message.timestamp.after.max.ms", refusal(b"v", timestamps=[NOW_MS + 5000]),
         (6000, 4000), (None, "INVALID_TIMESTAMP")),
)  # fmt: skip


def ways(case: Case) -> list[Any]:
    """Return each way to set the property: on the topic, by each broker property."""
    row = TOPIC_PROPERTIES[case.name]
    found = [pytest.param(case, None, 1, id=case.name)]
    for synonym, factor in row.synonyms:
        found.append(pytest.param(case, synonym, factor, id=f"{case.name}-by-{synonym}"))
    return found


def config_with(case: Case, value: object, synonym: str | None, factor: int) -> LogConfig:
    if synonym is None:
        return LogConfig.from_topic(
            TopicConfig(NodeConfig.load(), {**case.given, case.name: str(value)})
        )
    if factor != 1 and isinstance(value, int) and value > 0:
        value = round(value / factor)
    return LogConfig.from_topic(
        TopicConfig(NodeConfig.load(None, {synonym: str(value)}), case.given)
    )


@observes(
    *(case.name for case in CASES),
    *(synonym for case in CASES for synonym, _ in TOPIC_PROPERTIES[case.name].synonyms),
)
@pytest.mark.parametrize(("case", "synonym", "factor"), [way for c in CASES for way in ways(c)])
def test_topic_property_changes_what_the_log_does(
    case: Case, synonym: str | None, factor: int, tmp_path: Path
) -> None:
    for value, expected in zip(case.values, case.seen, strict=True):
        volume = open_volume(tmp_path / str(expected))
        log = new_log(volume, config_with(case, value, synonym, factor))
        assert case.observe(log) == expected
        volume.unlock()
