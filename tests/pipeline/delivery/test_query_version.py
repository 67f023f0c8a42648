"""Versions of jobs with state: what may change, what is refused."""

from pathlib import Path

import attrs
import pytest

from barnabas.pipeline.delivery.micro_batches import query_version
from barnabas.pipeline.delivery.micro_batches.checkpoint_files import VERSION_FILE, CheckpointFiles
from barnabas.pipeline.delivery.micro_batches.query_version import QueryVersion
from barnabas.pipeline.delivery.plan.job_plan import REBUILD
from barnabas.pipeline.delivery.plan.task_failures import JobStartError

FIRST = QueryVersion(
    {"sources": "kafka orders", "output mode": "update", "state 1": "aggregate of count(1) by key"},
    "digest",
    "4.0.0",
)


@pytest.fixture
def files(tmp_path: Path) -> CheckpointFiles:
    """Return a checkpoint that the first version has written."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text('{"id":"query"}')
    (tmp_path / "offsets" / "7").write_text("v1\n{}\n{}")
    found = CheckpointFiles(str(tmp_path))
    query_version.check(found, FIRST, is_partly_written=False)
    return found


def stored(files: CheckpointFiles) -> QueryVersion | None:
    content = files.content_of(VERSION_FILE)
    return None if content is None else query_version.decode(content)


def test_version_is_kept_with_the_checkpoint(files: CheckpointFiles) -> None:
    assert stored(files) == FIRST
    query_version.check(files, FIRST, is_partly_written=True)


def test_version_with_the_same_state_replaces_the_stored_one(files: CheckpointFiles) -> None:
    other = attrs.evolve(FIRST, digest="another")
    query_version.check(files, other, is_partly_written=False)
    assert stored(files) == other


@pytest.mark.parametrize(
    ("part", "text", "shown"),
    [
        ("sources", "kafka returns", "sources is 'kafka orders' in the state and 'kafka returns'"),
        ("state 1", "aggregate of sum(n) by key", "'aggregate of sum(n) by key' in the query"),
        ("state 2", "join Inner", "state 2 is absent in the state and 'join Inner' in the query"),
    ],
)
def test_version_with_another_state_is_refused_with_the_difference(
    files: CheckpointFiles, part: str, text: str, shown: str
) -> None:
    other = attrs.evolve(FIRST, parts={**FIRST.parts, part: text}, digest="another")
    with pytest.raises(JobStartError) as caught:
        query_version.check(files, other, is_partly_written=False)
    assert shown in caught.value.failure.message
    assert REBUILD in caught.value.failure.message
    assert caught.value.failure.is_permanent
    assert stored(files) == FIRST


def test_other_version_cannot_complete_an_epoch(files: CheckpointFiles) -> None:
    other = attrs.evolve(FIRST, digest="another")
    with pytest.raises(JobStartError, match="micro-batch 7 is written in part, by another version"):
        query_version.check(files, other, is_partly_written=True)
    assert stored(files) == FIRST


def test_texts_of_another_spark_are_not_compared(files: CheckpointFiles) -> None:
    other = attrs.evolve(FIRST, parts={**FIRST.parts, "state 1": "count(*)"}, spark="4.1.0")
    query_version.check(files, other, is_partly_written=False)
    moved = attrs.evolve(other, parts={**other.parts, "sources": "kafka x"}, spark="4.2.0")
    with pytest.raises(JobStartError, match="sources"):
        query_version.check(files, moved, is_partly_written=False)


@pytest.mark.parametrize("content", [b"", b"{", b'{"format": 9}', b'{"format": 1, "parts": 3}'])
def test_file_of_another_release_is_replaced(files: CheckpointFiles, content: bytes) -> None:
    files.write(VERSION_FILE, content)
    other = attrs.evolve(FIRST, parts={"sources": "kafka x"})
    query_version.check(files, other, is_partly_written=False)
    assert stored(files) == other


def test_numbers_of_parameters_in_a_stored_version_do_not_count(files: CheckpointFiles) -> None:
    text = "aggregate of count(1) bigint by filter(a, lambdafunction(lambda x{0}, lambda x{0}))"
    kept = attrs.evolve(FIRST, parts={"state 1": text.format("_12")})
    files.write(VERSION_FILE, kept.encode())
    query_version.check(
        files, attrs.evolve(FIRST, parts={"state 1": text.format("")}), is_partly_written=True
    )


def test_version_of_a_removed_checkpoint_does_not_count(files: CheckpointFiles) -> None:
    files.remove()
    assert files.content_of(VERSION_FILE) is None
    files.write(VERSION_FILE, FIRST.encode())
    other = attrs.evolve(FIRST, parts={"sources": "kafka x"})
    query_version.check(files, other, is_partly_written=False)
    assert stored(files) == other


def test_version_by_properties_changes_with_each_of_them() -> None:
    parts = {"path": "/a"}
    first = query_version.of_properties(parts, {"topic": "t", "path": "/a"})
    assert first == query_version.of_properties(parts, {"path": "/a", "topic": "t"})
    other = query_version.of_properties(parts, {"topic": "u", "path": "/a"})
    assert (other.parts, other.digest == first.digest) == (first.parts, False)


def conversion(inner: str, kinds: str = "TimestampType, LongType") -> str:
    return f"precisetimestampconversion({inner}, {kinds})"


def test_window_is_shown_by_its_lengths() -> None:
    time = conversion("timestamp#12-T60000ms")
    start = f"(({time} - (({time} - 2000) % 120000000)) - 0)"
    end = conversion(f"({start} + 600000000)", "LongType, TimestampType")
    text = f"named_struct(start, {conversion(start)}, end, knownnullable({end}))"
    assert query_version.window_text(text) == "window(600000 ms every 120000 ms from 2 ms)"
    session = "named_struct(end, cast(timestamp#1 + cast(5 minutes as interval) as timestamp))"
    assert query_version.window_text(session) == "session_window(5 minutes)"
    assert query_version.window_text("other#1L(x@12345ab)") == "other(x)"
