"""The aborted transactions of a fetch: those that a consumer needs to read committed records."""

from pathlib import Path
from random import Random

import pytest

from barnabas.log import LogConfig, PartitionLog
from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.protocol.batches.record_decoding import read_records
from barnabas.server.api.handlers.data.aborted_transactions import aborted_in
from tests.log.logs import append, append_marker, new_log, open_volume

PRODUCERS = 4


def write(log: PartitionLog, random: Random) -> list[bytes]:
    """Write random interleaved transactions; return the committed values in order."""
    running: dict[int, list[bytes]] = {}
    sequences = dict.fromkeys(range(PRODUCERS), 0)
    committed: set[bytes] = set()
    written: list[bytes] = []
    for number in range(300):
        producer_id = random.randrange(PRODUCERS)
        draw = random.random()
        if draw < 0.1:
            written.append(b"plain %d" % number)
            committed.add(written[-1])
            append(log, written[-1])
        elif draw < 0.8 or producer_id not in running:
            value = b"%d of %d " % (number, producer_id) + b"." * random.randrange(60)
            sequence = sequences[producer_id]
            append(log, value, producer=(producer_id, 0, sequence), transactional=True)
            sequences[producer_id] = sequence + 1
            running.setdefault(producer_id, []).append(value)
            written.append(value)
        else:
            values = running.pop(producer_id)
            commit = random.random() < 0.5
            append_marker(log, producer_id, commit=commit)
            log.advance_high_watermark(log.log_end_offset)
            committed.update(values if commit else ())
    for producer_id, values in running.items():
        append_marker(log, producer_id, commit=True)
        committed.update(values)
    log.advance_high_watermark(log.log_end_offset)
    return [value for value in written if value in committed]


def consume(log: PartitionLog, random: Random) -> list[bytes]:
    """Read as Kafka's consumers do: fetch by fetch, without the aborted transactions."""
    values: list[bytes] = []
    offset = 0
    while offset < log.last_stable_offset:
        end = log.last_stable_offset
        records = log.read(offset, random.randrange(200, 2_000), upper_bound=end)
        aborted = sorted(aborted_in(log, offset, records, end), key=lambda each: each.first_offset)
        running: set[int] = set()
        data = records.read()
        for position, header in iter_batches(data):
            while aborted and aborted[0].first_offset <= header.last_offset:
                running.add(aborted.pop(0).producer_id)
            if header.is_control:
                running.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in running):
                values += [
                    record.value or b""
                    for record in read_records(data, position, header)
                    if record.offset >= offset
                ]
            reached = header.next_offset
        offset = reached
    return values


@pytest.mark.parametrize("seed", range(10))
def test_aborted_transactions_consumer_reads_only_committed_records(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    config = LogConfig(segment_bytes=4_000, index_interval_bytes=random.choice([100, 4_096]))
    log = new_log(open_volume(tmp_path), config)
    committed = write(log, random)
    assert len(log.segments) > 3
    assert consume(log, random) == committed


def test_aborted_transactions_overlap_the_fetched_range(tmp_path: Path) -> None:
    log = new_log(open_volume(tmp_path), LogConfig(index_interval_bytes=1))
    for number in range(20):
        append(log, b"v", producer=(number, 0, 0), transactional=True)
        append_marker(log, number, commit=False)
        log.advance_high_watermark(log.log_end_offset)
    end = log.last_stable_offset
    records = log.read(10, 300, upper_bound=end)
    named = [each.producer_id for each in aborted_in(log, 10, records, end)]
    (first, *_, last) = [header for _, header in iter_batches(records.read())]
    assert named[0] == first.producer_id
    assert last.producer_id <= named[-1] <= last.producer_id + 1
    assert aborted_in(log, 0, log.read(0, 1, upper_bound=1), 1)[0].producer_id == 0
