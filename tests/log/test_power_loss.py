"""Simulated power losses after each file operation of a session: synced records always remain.

With `flush.messages=1`, each append is synced before it is acknowledged; here a flush after some
appends stands for that. With any remains of the other writes, the log opens, has the first part of
the appended records, and accepts new ones.
"""

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from barnabas.log import FileCache, LogConfig, LogManager, PartitionLog, Volume
from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.protocol.batches.record_decoding import read_records
from barnabas.testing.batches import NOW_MS, batch, marker
from tests.log.compaction.test_cleaner import compact
from tests.log.logs import TOPIC_ID
from tests.log.power_loss_recorder import Recorder

CONFIG = LogConfig(
    segment_bytes=700, index_interval_bytes=120, retention_ms=-1, file_delete_delay_ms=0
)
TABLE = attrs.evolve(
    CONFIG,
    is_compacted=True,
    is_deleted=False,
    min_cleanable_ratio=0.0,
    delete_retention_ms=1 << 50,
)
PLAIN_TOPIC, TABLE_TOPIC = "plain", "table"
# With a thousand examples the power is lost after every operation, otherwise after some.
STEP = max(1000 // int(os.environ.get("BARNABAS_EXAMPLES", "110")), 1)


@attrs.define
class Expected:
    """The records that must exist at one event; `synced_to` is the end of acknowledged records."""

    start: int = 0
    synced_to: int = 0
    high: int = 0  # the end of all appended records
    last: dict[bytes, bytes] = attrs.Factory(dict)  # the synced records of a table by key


class Session:
    """Two logs in a directory whose operations are recorded, and the records they must have."""

    def __init__(self, path: Path, recorder: Recorder) -> None:
        self.recorder = recorder
        self.manager = opened(path)
        self.plain = self.manager.create(PLAIN_TOPIC, TOPIC_ID, 0, CONFIG)
        self.table = self.manager.create(TABLE_TOPIC, TOPIC_ID, 0, TABLE)
        self.written: dict[str, dict[int, set[bytes]]] = {PLAIN_TOPIC: {}, TABLE_TOPIC: {}}
        self.expected: dict[str, list[tuple[int, Expected]]] = {
            PLAIN_TOPIC: [(0, Expected())],
            TABLE_TOPIC: [(0, Expected())],
        }
        self._last: dict[bytes, bytes] = {}
        self._sequences = {1: 0, 2: 0}
        self._number = 0

    def write(self, data: bytearray, log: PartitionLog, *, origin: str = "client") -> None:
        """Append without a sync; earlier promises stay valid."""
        offset = log.log_end_offset
        log.append_as_leader(data, leader_epoch=self._number // 40, now_ms=NOW_MS, origin=origin)
        log.advance_high_watermark(log.log_end_offset)
        self.written[log.topic].setdefault(offset, set()).add(bytes(data))
        self._number += 1

    def produce(self, producer: int = -1, *, transactional: bool = False) -> None:
        sequence = (-1, -1, -1)
        if producer > 0:
            sequence = (producer, 0, self._sequences[producer])
            self._sequences[producer] += 1
        value = b"%d " % self._number * 4
        times = [NOW_MS + self._number]
        self.write(
            batch(value, timestamps=times, producer=sequence, transactional=transactional),
            self.plain,
        )

    def end(self, producer: int, *, commit: bool) -> None:
        self.write(marker(producer, commit=commit), self.plain, origin="coordinator")

    def put(self, key: bytes) -> None:
        value = b"%d." % self._number * 5
        self.write(batch(value, keys=[key], timestamps=[NOW_MS]), self.table)
        self._last[key] = value

    def synced(self, log: PartitionLog, synced_to: int) -> None:
        """Promise the present records from this event on."""
        high = max(self.written[log.topic], default=-1) + 1
        last = dict(self._last) if log is self.table else {}
        expected = Expected(log.log_start_offset, synced_to, high, last)
        self.expected[log.topic].append((self.recorder.events, expected))

    def flush(self, log: PartitionLog) -> None:
        log.flush()
        self.synced(log, log.log_end_offset)

    def promised(self, topic: str, event: int) -> Expected:
        return [each for when, each in self.expected[topic] if when <= event][-1]


def opened(path: Path) -> LogManager:
    volume = Volume(path, FileCache(20))
    volume.lock()
    volume.load_checkpoints()
    manager = LogManager([volume], volume, CONFIG)
    manager.open()
    manager.recover()
    return manager


def play(session: Session) -> None:
    """Rolls, index writes, checkpoints, snapshots, transactions, swaps, deletions, a truncation."""
    plain, table, manager = session.plain, session.table, session.manager
    for number in range(70):
        session.produce((-1, 1, 2)[number % 3], transactional=number % 3 == 1)
        if number % 12 == 11:
            session.end(1, commit=number % 24 == 11)
        session.put(b"k%d" % (number % 5))
        if number % 3 == 0:
            session.flush(plain)
        if number % 7 == 0:
            session.flush(table)
        if number % 10 == 9:
            manager.flush_rolled(manager.take_rolled())
            manager.checkpoint()
        if number % 25 == 24:
            compact(table)
            table.volume.cleaner_offsets[TABLE_TOPIC, 0] = table.first_dirty_offset
            table.volume.write_cleaner_offsets()
            manager.remove_deleted(manager.due_deletions(NOW_MS + number * 10_000))
        if number in (20, 45):
            plain.advance_log_start(plain.log_end_offset - 12)
            manager.checkpoint_log_start_offsets()
            session.synced(plain, session.promised(PLAIN_TOPIC, session.recorder.events).synced_to)
            plain.apply_retention(NOW_MS)
            manager.remove_deleted(manager.due_deletions(NOW_MS + number * 10_000))
        if number == 55:
            cut = plain.log_end_offset - 5
            session.synced(plain, min(cut, session.promised(PLAIN_TOPIC, 1 << 60).synced_to))
            plain.truncate_to(cut)
            session._sequences = {
                each.producer_id: each.last_sequence + 1 for each in plain.producers.entries()
            }


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    path = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patch:
        recorder = Recorder(path, patch)
        session = Session(path, recorder)
        play(session)
    yield session
    session.manager.close(clean=False)


def held(log: PartitionLog) -> list[tuple[int, bytes]]:
    """Return each batch with its first offset, from reads."""
    found: list[tuple[int, bytes]] = []
    at = log.log_start_offset
    while at < log.log_end_offset:
        data = log.read(at, 1 << 20, upper_bound=log.log_end_offset).read()
        if not data:  # compacted away
            break
        for position, header in iter_batches(data):
            found.append((header.base_offset, data[position : position + header.size]))
            at = header.next_offset
    return found


def check_plain(session: Session, log: PartitionLog, event: int) -> None:
    promised = session.promised(PLAIN_TOPIC, event)
    assert log.log_end_offset >= promised.synced_to
    assert log.log_start_offset >= promised.start
    batches = held(log)
    offsets = [offset for offset, _ in batches]
    assert offsets == list(range(offsets[0], offsets[0] + len(offsets))) if offsets else True
    assert not offsets or offsets[0] <= log.log_start_offset
    for offset, data in batches:
        assert data in session.written[PLAIN_TOPIC][offset]
    sequences: dict[int, int] = {}
    for _, data in batches:
        [(_, header)] = iter_batches(data)
        if header.producer_id >= 0 and not header.is_control:
            sequences[header.producer_id] = header.last_sequence
    known = {entry.producer_id: entry.last_sequence for entry in log.producers.entries()}
    assert {each: known.get(each) for each in sequences} == sequences
    for aborted in log.aborted_transactions(log.log_start_offset, log.log_end_offset):
        data = dict(batches)[aborted.last_offset]
        [(_, header)] = iter_batches(data)
        assert header.is_control


def check_table(session: Session, log: PartitionLog, event: int) -> None:
    promised = session.promised(TABLE_TOPIC, event)
    assert log.log_end_offset >= promised.synced_to
    last: dict[bytes, tuple[int, bytes]] = {}
    for _, data in held(log):
        for position, header in iter_batches(data):
            for record in read_records(data, position, header):
                last[bytes(record.key or b"")] = record.offset, bytes(record.value or b"")
    for key, value in promised.last.items():
        offset, found = last[key]
        assert found == value or offset >= promised.synced_to


def test_synced_records_survive_any_power_loss(session: Session, tmp_path: Path) -> None:
    for event in range(0, session.recorder.events + 1, STEP):
        path = tmp_path / "left"
        path.mkdir()
        session.recorder.left_after(event, path, random.Random(event))
        manager = opened(path)
        plain, table = manager.get(PLAIN_TOPIC, 0), manager.get(TABLE_TOPIC, 0)
        if plain is None or table is None:
            assert not session.promised(PLAIN_TOPIC, event).synced_to
        else:
            plain.update_config(CONFIG)
            table.update_config(TABLE)
            check_plain(session, plain, event)
            check_table(session, table, event)
            again = batch(b"again")
            offset = plain.append_as_leader(again, leader_epoch=99, now_ms=NOW_MS).first_offset
            assert held(plain)[-1] == (offset, bytes(again))
        manager.close(clean=True)
        assert manager.volumes[0].failure is None
        shutil.rmtree(path)
