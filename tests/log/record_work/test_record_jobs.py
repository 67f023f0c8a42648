"""`record_jobs`: the loop and the helper process have equal outcomes for any batch."""

import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from crc32c import crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.config import NodeConfig, TopicConfig
from barnabas.log import LogConfig
from barnabas.log.file_cache import FileSlice
from barnabas.log.helper_framing import PAYLOAD_BYTES_MAX, SIZES, decode_fields, encode_head
from barnabas.log.record_work import (
    LOOP_BYTES_MAX,
    LOOP_RECORDS_MAX,
    UNPACKED_MAX,
    CompleteBatch,
    FindTime,
    Job,
    Outcome,
    RecordsRefusedError,
    RecordWorkNeeded,
    run_in_loop,
)
from barnabas.log.record_work.job_messages import decode_outcome, encode_job
from barnabas.protocol.batches.batch_building import build_batch, pack_batch
from barnabas.protocol.batches.batch_header import (
    BatchHeader,
    CorruptBatch,
    crc_matches,
    read_header,
)
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.batches.record_decoding import Record, read_records, unpack_records
from barnabas.protocol.batches.record_walk import FAULTS_MAX, record_times
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.testing.batches import NOW_MS, batch
from tests.log.logs import new_log, open_volume

Ask = Callable[[Job, bytes], Outcome]
PROGRAM = [sys.executable, "-m", "barnabas.log.helper", "test", "5", "0", str(2 << 30)]


def frame(job: Job, data: bytes) -> bytes:
    return encode_head(encode_job(job), len(data)) + data


@pytest.fixture(scope="module")
def helper() -> "Iterator[Ask]":
    """Runs jobs in the real helper program."""
    with subprocess.Popen(PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        given, taken = process.stdin, process.stdout
        assert given is not None
        assert taken is not None

        def ask(job: Job, data: bytes) -> Outcome:
            given.write(frame(job, data))
            given.flush()
            text_bytes, batch_bytes = SIZES.unpack(taken.read(SIZES.size))
            fields = decode_fields(taken.read(text_bytes))
            return decode_outcome(fields, bytearray(taken.read(batch_bytes)))

        yield ask
        given.close()
        assert process.wait(60) == 0, "it ends with its input"


def outcome_of(call: Callable[[], Outcome]) -> object:
    """Return a job's outcome, or the parts of its error."""
    try:
        return call()
    except RecordsRefusedError as error:
        return error.code, error.message, error.record_errors
    except KafkaError as error:
        return error.code, error.message


small_bytes = st.none() | st.binary(max_size=40)
timestamps = st.integers(NOW_MS - 1000, NOW_MS + 1000)
records = st.lists(
    st.tuples(
        timestamps,
        small_bytes,
        small_bytes,
        st.lists(st.tuples(st.text(max_size=5), small_bytes), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=200,
)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """Draw valid batches, and batches with changed bits."""
    made = [
        Record(number, timestamp, key, value, headers)
        for number, (timestamp, key, value, headers) in enumerate(draw(records))
    ]
    data = build_batch(
        made, codec=draw(st.sampled_from(Codec)), log_append_time=draw(st.booleans())
    )
    if draw(st.booleans()):
        at = draw(st.integers(61, len(data) - 1))
        data[at] ^= draw(st.integers(1, 255))
    return bytes(data)


complete_jobs = st.builds(
    CompleteBatch,
    is_checked=st.booleans(),
    is_compacted=st.booleans(),
    timestamp_before_max_ms=st.none() | st.integers(0, 1000),
    timestamp_after_max_ms=st.integers(0, 1000),
    now_ms=st.just(NOW_MS),
    codec=st.none() | st.sampled_from(Codec),
    max_message_bytes=st.sampled_from((200, 1 << 20)),
)
find_jobs = st.builds(
    FindTime,
    base_offset=st.just(0),
    crc=st.just(0),
    start_offset=st.integers(0, 100),
    timestamp=st.none() | timestamps,
)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(complete_jobs | find_jobs, batches())
def test_helper_and_loop_have_equal_outcomes(helper: Ask, job: Job, data: bytes) -> None:
    here = outcome_of(lambda: job.run(data))
    assert outcome_of(lambda: helper(job, data)) == here
    with suppress(RecordWorkNeeded):
        assert outcome_of(lambda: run_in_loop(job, data, read_header(data))) == here


longs = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-2, 2)


@settings(max_examples=300, deadline=None)
@given(
    complete_jobs | find_jobs,
    st.builds(
        BatchHeader,
        base_offset=longs,
        batch_length=st.just(0),
        partition_leader_epoch=st.just(0),
        magic=st.just(2),
        crc=st.just(0),
        attributes=st.integers(-(1 << 15), (1 << 15) - 1) | st.sampled_from((0, 8)),
        last_offset_delta=st.integers(-(1 << 31), (1 << 31) - 1),
        base_timestamp=longs,
        max_timestamp=longs,
        producer_id=longs,
        producer_epoch=st.just(0),
        base_sequence=st.just(0),
        record_count=st.integers(0, 3) | st.integers(-(1 << 31), (1 << 31) - 1),
    ),
    st.binary(max_size=60)
    | st.lists(st.tuples(longs, st.integers(-2, 300)), min_size=1, max_size=3).map(
        lambda times: build_batch([Record(at, time, None, b"") for time, at in times])[61:]
    ),
)
def test_job_on_any_bytes_has_an_outcome(job: Job, header: BatchHeader, body: bytes) -> None:
    """Another exception would end each helper process and be retried forever."""
    data = pack_batch(header, body)
    with suppress(KafkaError):
        outcome = job.run(data)
        if isinstance(outcome, bytearray):
            assert crc_matches(outcome, 0, read_header(outcome))
        elif outcome is not None:
            struct.pack(">qq", *outcome)


@settings(max_examples=100, deadline=None)
@given(batches(), st.none() | timestamps, st.integers(0, 100))
def test_find_time_equals_a_search_of_all_records(
    data: bytes, timestamp: int | None, start: int
) -> None:
    header = read_header(data)
    try:
        found = [(each.timestamp, each.offset) for each in read_records(data, 0, header)]
    except CorruptBatch:
        return
    assert list(record_times(unpack_records(data, 0, header), header)) == found
    left = [each for each in found if each[1] >= start]
    if timestamp is None:
        expected = max(left, key=lambda each: (each[0], -each[1]), default=None)
    else:
        expected = next((each for each in left if each[0] >= timestamp), None)
    job = FindTime(base_offset=0, crc=0, start_offset=start, timestamp=timestamp)
    assert job.run(data) == expected


# Batches that are too large for the loop

LZ4 = CompleteBatch(is_checked=True, codec=Codec.LZ4, max_message_bytes=1 << 20)


@pytest.mark.parametrize(
    ("data", "fits"),
    [
        (batch(*[b"x"] * LOOP_RECORDS_MAX), True),
        (batch(*[b"x"] * (LOOP_RECORDS_MAX + 1)), False),
        (batch(b"x" * (LOOP_BYTES_MAX - 100)), True),
        (batch(b"x" * LOOP_BYTES_MAX), False),
        (batch(b"x" * (LOOP_BYTES_MAX - 100), codec=Codec.ZSTD), True),
        (batch(b"x" * LOOP_BYTES_MAX, codec=Codec.ZSTD), False),
        (batch(b"x" * LOOP_BYTES_MAX, codec=Codec.GZIP), False),
        (batch(b"x" * LOOP_BYTES_MAX, codec=Codec.SNAPPY), False),
    ],
)
def test_loop_examines_small_batches_only(data: bytearray, fits: bool) -> None:
    if fits:
        run_in_loop(LZ4, data, read_header(data))
    else:
        with pytest.raises(RecordWorkNeeded):
            run_in_loop(LZ4, data, read_header(data))


def test_loop_does_not_compress_at_slow_levels() -> None:
    data = batch(b"x")
    job = CompleteBatch(is_checked=True, codec=Codec.ZSTD, codec_level=19, max_message_bytes=1000)
    with pytest.raises(RecordWorkNeeded):
        run_in_loop(job, data, read_header(data))


def test_outcome_is_not_used_after_a_change_of_the_configuration(tmp_path: Path) -> None:
    log = new_log(open_volume(tmp_path / "data"), LogConfig(codec=Codec.LZ4))
    data = batch(*[b"x" * 20] * 1000, codec=Codec.GZIP)

    def append(done: dict[Job, Outcome]) -> int:
        return log.append_as_leader(data, leader_epoch=0, now_ms=NOW_MS, done=done).first_offset

    with pytest.raises(RecordWorkNeeded) as first:
        append({})
    done = {first.value.job: first.value.job.run(data)}
    log.update_config(LogConfig(codec=Codec.SNAPPY))
    with pytest.raises(RecordWorkNeeded) as second:
        append(done)
    assert log.log_end_offset == 0
    done[second.value.job] = second.value.job.run(data)
    assert append(done) == 0
    stored = log.read(0, 1 << 20, upper_bound=1000).read()
    assert read_header(stored).codec is Codec.SNAPPY
    assert len(read_records(stored, 0, read_header(stored))) == 1000
    log.volume.unlock()


def test_time_inside_a_large_batch_raises_record_work_needed(tmp_path: Path) -> None:
    log = new_log(open_volume(tmp_path / "data"))
    for start in (0, 1000):
        times = range(NOW_MS + start, NOW_MS + start + 1000)
        data = batch(*[b"x" * 20] * 1000, timestamps=times, codec=Codec.ZSTD)
        log.append_as_leader(data, leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(2000)
    log.advance_log_start(1200)

    def resolved(look: Callable[[dict[Job, Outcome]], object]) -> tuple[object, int]:
        done: dict[Job, Outcome] = {}
        while True:
            try:
                return look(done), len(done)
            except RecordWorkNeeded as needed:
                stored = cast("FileSlice", needed.batch)
                done[needed.job] = needed.job.run(stored.read())

    for asked, found in ((1500, 1500), (3, 1200), (1999, 1999)):
        look = resolved(lambda done, at=NOW_MS + asked: log.offset_for_timestamp(at, done))
        assert look == ((NOW_MS + found, found, 0), 1)
    assert resolved(log.offset_of_max_timestamp) == ((NOW_MS + 1999, 1999, 0), 1)
    assert log.offset_for_timestamp(NOW_MS + 2000, {}) is None, "the header is enough"
    log.volume.unlock()


# Wrong header fields


def patched(data: bytearray, at: int, form: str, value: int) -> bytearray:
    """Return the batch with one header field changed and a valid crc."""
    struct.pack_into(form, data, at, value)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return data


BASE_TIMESTAMP, MAX_TIMESTAMP = 27, 35
ANY_TIME = (1 << 63) - 1


@pytest.mark.parametrize("codec", [None, Codec.LZ4])
def test_wrong_max_timestamp_is_replaced_by_that_of_the_records(codec: Codec | None) -> None:
    data = batch(b"x", b"y", timestamps=[NOW_MS, NOW_MS + 5], codec=Codec.GZIP)
    job = CompleteBatch(is_checked=True, codec=codec, max_message_bytes=1000)
    made = job.run(patched(bytearray(data), MAX_TIMESTAMP, ">q", NOW_MS + 9))
    assert made is not None
    header = read_header(made)
    assert header.max_timestamp == NOW_MS + 5
    assert crc_matches(made, 0, header)
    assert read_records(made, 0, header) == read_records(data, 0, read_header(data))


def test_timestamp_out_of_range_is_refused() -> None:
    data = batch(b"x", b"y", timestamps=[NOW_MS, NOW_MS + 5])
    job = CompleteBatch(
        is_checked=True,
        timestamp_before_max_ms=ANY_TIME,
        timestamp_after_max_ms=ANY_TIME,
        now_ms=NOW_MS,
    )
    with pytest.raises(RecordsRefusedError) as raised:
        job.run(patched(data, BASE_TIMESTAMP, ">q", ANY_TIME - 1))
    assert raised.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in raised.value.record_errors] == [1]
    with pytest.raises(KafkaError):
        FindTime(base_offset=0, crc=0, start_offset=1).run(data)


def test_validate_records_examines_every_record(tmp_path: Path) -> None:
    log = new_log(open_volume(tmp_path / "data"), LogConfig(validate_records=True))
    data = batch(b"x", b"y", timestamps=[NOW_MS, NOW_MS + 7_200_000])
    lying = patched(bytearray(data), MAX_TIMESTAMP, ">q", NOW_MS)
    with pytest.raises(RecordsRefusedError) as raised:
        log.append_as_leader(lying, leader_epoch=0, now_ms=NOW_MS)
    assert raised.value.code is ErrorCode.INVALID_TIMESTAMP
    torn = batch(b"x", b"y")
    torn[-1] = 3  # the last record claims two headers
    with pytest.raises(RecordsRefusedError):
        log.append_as_leader(patched(torn, 57, ">i", 2), leader_epoch=0, now_ms=NOW_MS)
    trusting = new_log(log.volume, topic="u")
    assert trusting.append_as_leader(lying, leader_epoch=0, now_ms=NOW_MS).last_offset == 1
    log.volume.unlock()


def test_decompression_max_bytes_limits_the_unpacked_size(tmp_path: Path) -> None:
    config = NodeConfig.load(None, {"barnabas.decompression.max.bytes": "2000"})
    topic = TopicConfig(config, {"compression.type": "lz4"})
    log = new_log(open_volume(tmp_path / "data"), LogConfig.from_topic(topic))
    data = batch(b"x" * 1900, codec=Codec.GZIP)
    assert log.append_as_leader(data, leader_epoch=0, now_ms=NOW_MS).last_offset == 0
    with pytest.raises(RecordsRefusedError):
        log.append_as_leader(batch(b"x" * 2000, codec=Codec.GZIP), leader_epoch=0, now_ms=NOW_MS)
    log.volume.unlock()


# Hostile batches


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_helper_refuses_a_batch_that_unpacks_to_too_much_and_continues(
    helper: Ask, codec: Codec
) -> None:
    bomb = bytes(batch(b"\0" * (UNPACKED_MAX + 1), codec=codec))
    with pytest.raises(RecordsRefusedError) as raised:
        helper(LZ4, bomb)
    assert raised.value.code is ErrorCode.INVALID_RECORD
    sound = bytes(batch(b"x" * 1000, codec=codec))
    assert isinstance(helper(LZ4, sound), bytearray), "it continues"


def test_helper_reports_a_limited_number_of_faults(helper: Ask) -> None:
    data = bytes(batch(*[b""] * (2 * FAULTS_MAX), codec=Codec.ZSTD))
    with pytest.raises(RecordsRefusedError) as raised:
        helper(CompleteBatch(is_checked=True, is_compacted=True), data)
    assert [index for index, _ in raised.value.record_errors] == list(range(FAULTS_MAX))


def test_helper_ends_at_a_payload_above_the_limit() -> None:
    with subprocess.Popen(
        PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        _, rest = process.communicate(SIZES.pack(2, PAYLOAD_BYTES_MAX + 1) + b"{}")
        assert not rest
        assert process.returncode == 1


def test_helper_ends_when_its_output_is_closed() -> None:
    with subprocess.Popen(PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        data = bytes(batch(b"x"))
        process.stdin.write(frame(LZ4, data))
        process.stdin.flush()
        assert process.wait(60) == 0
        process.stdin.close()


def test_helper_uses_little_memory() -> None:
    with subprocess.Popen(PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        data = bytes(batch(b"x"))
        process.stdin.write(frame(LZ4, data))
        process.stdin.flush()
        process.stdout.read(SIZES.size)
        status = Path(f"/proc/{process.pid}/status")
        if status.exists():
            [resident] = [x for x in status.read_text().splitlines() if x.startswith("VmRSS")]
            assert int(resident.split()[1]) < 60_000
        process.send_signal(signal.SIGKILL)
