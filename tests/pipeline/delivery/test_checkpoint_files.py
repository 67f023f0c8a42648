"""Files of a checkpoint."""

from pathlib import Path

import pytest

from barnabas.pipeline.delivery.micro_batches.checkpoint_files import (
    CheckpointFiles,
    arrow_uri,
    check,
    checkpoint_of,
)
from barnabas.pipeline.delivery.micro_batches.micro_batch_markers import Marker, digest_of
from barnabas.pipeline.delivery.plan.task_failures import JobStartError


def content_of(batch: int) -> bytes:
    return b'v1\n{"batchTimestampMs":1}\n{"t":{"0":%d}}' % batch


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text('{"id":"query"}')
    for batch in range(3):
        (tmp_path / "offsets" / str(batch)).write_bytes(content_of(batch))
    (tmp_path / "offsets" / ".2.crc").write_text("")
    return tmp_path


def test_checkpoint_shows_its_query_and_its_newest_epoch(checkpoint: Path) -> None:
    files = CheckpointFiles(f"file://{checkpoint}")
    assert (files.query_id(), files.newest_batch()) == ("query", 2)
    assert files.input_of(1) == content_of(1)
    assert files.input_of(3) is None


def test_new_checkpoint_is_empty(tmp_path: Path) -> None:
    files = CheckpointFiles(str(tmp_path / "absent"))
    assert (files.query_id(), files.newest_batch(), files.input_of(0)) == (None, -1, None)


def test_checkpoint_in_s3_has_the_scheme_of_arrow() -> None:
    """Hadoop's scheme is unknown to Arrow, which reads the inputs of micro-batches."""
    assert arrow_uri("s3a://bucket/a/s3a://b") == "s3://bucket/a/s3a://b"
    assert arrow_uri("hdfs://host/a") == "hdfs://host/a"


def marker(batch: int, query: str = "query", content: bytes | None = None) -> Marker:
    found = content_of(batch) if content is None else content
    return Marker(batch + 1, query, digest_of(found))


@pytest.mark.parametrize("markers", [[], [marker(1)], [marker(1), marker(2)]])
def test_job_starts_when_its_checkpoint_wrote_the_markers(
    checkpoint: Path, markers: list[Marker]
) -> None:
    check(CheckpointFiles(str(checkpoint)), markers)


@pytest.mark.parametrize("wrong", [marker(3), marker(2, "other"), marker(2, content=b"x")])
def test_job_is_refused_when_its_checkpoint_did_not_write_the_markers(
    checkpoint: Path, wrong: Marker
) -> None:
    with pytest.raises(JobStartError, match="run `barnabas job rebuild`") as info:
        check(CheckpointFiles(str(checkpoint)), [marker(1), wrong])
    assert info.value.failure.is_permanent


def test_job_is_refused_when_its_checkpoint_was_wiped(tmp_path: Path) -> None:
    with pytest.raises(JobStartError):
        check(CheckpointFiles(str(tmp_path)), [marker(1)])


@pytest.mark.parametrize("length", [0, 1, 2, 3, 10, 27, 30, 34, 36])
def test_job_is_refused_when_the_newest_input_is_cut_off(checkpoint: Path, length: int) -> None:
    newest = checkpoint / "offsets" / "2"
    newest.write_bytes(content_of(2)[:length])
    with pytest.raises(JobStartError, match=r"file offsets/2 .* is damaged"):
        check(CheckpointFiles(str(checkpoint)), [])


def test_job_is_refused_when_the_newest_commit_is_cut_off(checkpoint: Path) -> None:
    commits = checkpoint / "commits"
    commits.mkdir()
    (commits / "1").write_text('v1\n{"nextBatchWatermarkMs":0}')
    check(CheckpointFiles(str(checkpoint)), [])
    (commits / "1").write_text('v1\n{"nextBatch')
    with pytest.raises(JobStartError, match=r"file commits/1 .* is damaged"):
        check(CheckpointFiles(str(checkpoint)), [])


def test_removed_checkpoint_is_new(checkpoint: Path) -> None:
    files = CheckpointFiles(str(checkpoint))
    (checkpoint / "own.txt").touch()
    files.remove()
    files.remove()
    assert [path.name for path in checkpoint.iterdir()] == ["own.txt"]
    assert (files.query_id(), files.newest_batch()) == (None, -1)


def test_checkpoint_of_a_job_stays_below_its_directory() -> None:
    assert checkpoint_of("/state/", "a/../b c") == "/state/a%2F..%2Fb%20c"
    assert checkpoint_of("s3://bucket/state", "c") == "s3://bucket/state/c"


def test_positions_are_those_of_the_newest_committed_epoch(checkpoint: Path) -> None:
    files = CheckpointFiles(str(checkpoint))
    assert files.positions() == {}
    (checkpoint / "commits").mkdir()
    (checkpoint / "commits" / "1").write_text('v1\n{"nextBatchWatermarkMs":0}')
    assert files.positions() == {"t": {0: 1}}
    sources = b'{"t":{"0":7,"1":8},"u":{"0":9}}\n-\n{"logOffset":3}\n{"a":{"b":1}}\n5'
    (checkpoint / "offsets" / "1").write_bytes(b"v1\n{}\n" + sources)
    assert files.positions() == {"t": {0: 7, 1: 8}, "u": {0: 9}}
    (checkpoint / "offsets" / "1").write_bytes(b'v1\n{}\n{"t":{"0"')
    with pytest.raises(JobStartError, match=r"file offsets/1 .* is damaged"):
        files.positions()
