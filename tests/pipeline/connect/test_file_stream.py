"""FileStream source and sink: Java's line ends and offsets, and files that lose lost batches."""

import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.connect.connector_validation import ConnectorValidator
from barnabas.pipeline.connect.connectors import file_stream_sink, file_stream_source
from barnabas.pipeline.connect.connectors.file_stream_sink import FileStreamSinkTask
from barnabas.pipeline.connect.connectors.file_stream_source import (
    FileStreamSourceConnector,
    FileStreamSourceTask,
)
from barnabas.pipeline.connect.plugin_api import CommittedPosition
from barnabas.pipeline.connect.plugin_registry import plugin_registry
from barnabas.pipeline.data.connect_errors import ConnectError, RetriableError
from barnabas.pipeline.data.records import CREATE_TIME, SinkRecord, SourceRecord


class Offsets:
    def __init__(self, offset: Mapping[str, Any] | None = None) -> None:
        self._offset = offset

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        return None if self._offset is None else dict(self._offset)


STARTED: list[FileStreamSourceTask] = []


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    yield
    _stop_all()


def _stop_all() -> None:
    while STARTED:
        STARTED.pop().stop()


def source(
    file: Path, offset: Mapping[str, Any] | None = None, **props: str
) -> FileStreamSourceTask:
    task = FileStreamSourceTask()
    task.start({"file": str(file), "topic": "t", **props}, Offsets(offset))
    STARTED.append(task)
    return task


def texts(records: list[SourceRecord]) -> list[str]:
    return [record.value for record in records]


def test_file_source_reads_lines_with_all_ends(tmp_path: Path):
    file = tmp_path / "in"
    file.write_bytes(b"a\nb\r\nc\rd\n\nlast")
    records = source(file).poll()
    assert texts(records) == ["a", "b", "c", "d", ""]
    assert [record.source_offset["position"] for record in records] == [2, 5, 7, 9, 10]
    assert records[0].source_partition == {"filename": str(file)}


def test_file_source_incomplete_line_is_read_when_complete(tmp_path: Path):
    file = tmp_path / "in"
    task = source(file)
    assert task.poll() == []
    file.write_bytes(b"a\r")
    assert task.poll() == []
    with file.open("ab") as stream:
        stream.write(b"\nb\n")
    assert texts(task.poll()) == ["a", "b"]


@settings(deadline=None)
@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"))),
    st.integers(0, 30),
)
def test_file_source_continues_behind_any_offset(tmp_path_factory: Any, lines: list[str], at: int):
    file = tmp_path_factory.mktemp("f") / "in"
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    records = source(file).poll()
    assert texts(records) == lines
    if at < len(records):
        assert texts(source(file, records[at].source_offset).poll()) == lines[at + 1 :]
    _stop_all()


def complete_lines(data: bytes) -> list[bytes]:
    """Return the lines of data, byte by byte; a CR at the end may be the half of an end."""
    found: list[bytes] = []
    line, at = b"", 0
    while at < len(data):
        byte = data[at : at + 1]
        if byte not in b"\r\n":
            line += byte
        elif byte == b"\r" and at + 1 == len(data):
            break
        else:
            at += data[at : at + 2] == b"\r\n"
            found.append(line)
            line = b""
        at += 1
    return found


@settings(deadline=None)
@given(st.lists(st.sampled_from([b"a", b"b", b"\r", b"\n"])).map(b"".join), st.integers(1, 5))
def test_file_source_any_chunks_are_the_same_lines(
    tmp_path_factory: Any, data: bytes, chunk_bytes: int
):
    file = tmp_path_factory.mktemp("f") / "in"
    file.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_stream_source, "_CHUNK_BYTES", chunk_bytes)
        records = source(file).poll()
    lines = complete_lines(data)
    assert texts(records) == [line.decode() for line in lines]
    places = [record.source_offset["position"] for record in records]
    assert all(data[place - 1 : place] in b"\r\n" for place in places)
    _stop_all()


def test_file_source_javas_position_in_ascii_is_taken_over(tmp_path: Path):
    file = tmp_path / "in"
    file.write_text("a\nb\n")
    assert texts(source(file, {"position": 2}).poll()) == ["b"]


def test_file_source_javas_position_behind_other_characters_is_refused(tmp_path: Path):
    file = tmp_path / "in"
    file.write_text("ä\nb\n", encoding="utf-8")
    with pytest.raises(ConnectError, match="not ASCII"):
        source(file, {"position": 2}).poll()


def test_file_source_replaced_file_is_refused(tmp_path: Path):
    file = tmp_path / "in"
    file.write_text("a\n")
    with pytest.raises(ConnectError, match="was replaced"):
        source(file, {"position": 100}).poll()


def test_file_source_batch_size_bounds_a_poll(tmp_path: Path):
    file = tmp_path / "in"
    file.write_text("a\nb\nc\n")
    task = source(file, **{"batch.size": "2"})
    assert [texts(task.poll()) for _ in range(3)] == [["a", "b"], ["c"], []]


@pytest.mark.parametrize(
    ("partition", "offset", "message"),
    [
        ({"filename": "f"}, {}, "contain the key 'position'"),
        ({"filename": "f"}, {"position": "1"}, "expected to be a Long"),
        ({"filename": "f"}, {"position": -1}, "non-negative"),
        ({}, {"position": 1}, "contain the key 'filename'"),
    ],
)
def test_file_source_altered_offset_is_checked(
    partition: dict[str, Any], offset: dict[str, Any], message: str
):
    with pytest.raises(ConnectError, match=message):
        FileStreamSourceConnector().check_offset(partition, offset)


def sink_records(*values: Any) -> list[SinkRecord]:
    return [
        SinkRecord("t", 0, 0, None, None, None, value, (), i, CREATE_TIME, ("t", 0, i))
        for i, value in enumerate(values)
    ]


def sink(file: Path) -> FileStreamSinkTask:
    task = FileStreamSinkTask()
    task.start({"file": str(file)})
    return task


def test_file_sink_lost_batch_disappears(tmp_path: Path):
    file = tmp_path / "out"
    file.write_text("before\n")
    lost = sink(file)
    lost.open({})
    lost.put(sink_records("lost"))
    lost.close(is_committed=False)
    task = sink(file)
    task.open({})
    task.put(sink_records("a", {"b": 1}, None))
    note = task.flush({})
    task.close(is_committed=True)
    assert note is not None
    again = sink(file)
    again.open({("t", 0): CommittedPosition(3, note)})
    again.put(sink_records("lost too"))
    again.close(is_committed=False)
    last = sink(file)
    last.open({("t", 0): CommittedPosition(3, note), ("t", 1): CommittedPosition(0, "")})
    last.close(is_committed=True)
    assert file.read_text() == "before\na\n{b=1}\nnull\n"
    assert list(tmp_path.iterdir()) == [file]


def test_file_sink_two_writers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(file_stream_sink, "_LOCK_WAIT_S", 0.1)
    first, second = sink(tmp_path / "out"), sink(tmp_path / "out")
    first.open({})
    with pytest.raises(RetriableError, match="holds the lock"):
        second.open({})
    first.close(is_committed=True)
    second.open({})
    second.close(is_committed=True)


def test_file_sink_shorter_file_is_continued_at_its_end(tmp_path: Path):
    file = tmp_path / "out"
    file.write_text("x\n")
    task = sink(file)
    task.open({("t", 0): CommittedPosition(9, "100")})
    task.put(sink_records("y"))
    task.close(is_committed=True)
    assert file.read_text() == "x\ny\n"


@pytest.mark.parametrize(
    ("file", "remedy"),
    [
        ("directory", "it is a directory; set file to the path of a file"),
        ("absent/out", "its directory does not exist; create the directory, or correct file"),
        ("plain/out", "a part of the path is a file; correct file"),
        ("x" * 300, "the name is too long; correct file"),
    ],
)
def test_file_sink_path_that_cannot_be_a_file_is_refused_for_good(
    tmp_path: Path, file: str, remedy: str
):
    (tmp_path / "directory").mkdir()
    (tmp_path / "plain").touch()
    with pytest.raises(ConnectError) as raised:
        sink(tmp_path / file).open({})
    assert str(raised.value) == f"cannot write file={tmp_path / file}: {remedy}"
    assert not isinstance(raised.value, RetriableError)


def test_file_source_of_a_directory_is_refused_for_good(tmp_path: Path):
    with pytest.raises(ConnectError, match=r"cannot read file=.*: it is") as raised:
        source(tmp_path).poll()
    assert not isinstance(raised.value, RetriableError)


@pytest.mark.parametrize("error", [errno.EACCES, errno.EIO])
def test_file_sink_error_is_retriable_unless_the_path_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
):
    def refuse(*_: Any) -> int:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(file_stream_sink.os, "open", refuse)
    with pytest.raises(ConnectError, match="cannot write file=") as raised:
        sink(tmp_path / "out").open({})
    assert isinstance(raised.value, RetriableError) is (error == errno.EIO)


@pytest.mark.parametrize(
    ("connector", "more"),
    [("FileStreamSource", {"topic": "t"}), ("FileStreamSink", {"topics": "t"})],
)
def test_file_that_is_a_directory_is_refused_by_validation(
    tmp_path: Path, connector: str, more: dict[str, str]
):
    validator = ConnectorValidator(plugin_registry(), "runners", {})
    given = {"name": "n", "connector.class": connector, **more}
    assert validator.validate({**given, "file": str(tmp_path / "out")}).errors == []
    found = validator.validate({**given, "file": str(tmp_path)})
    (wrong,) = [each.value for each in found.configs if each.value.errors]
    assert wrong.name == "file"
    assert wrong.errors == [
        f"Invalid value {tmp_path} for configuration file: Cannot be used: it is a directory; set "
        "file to the path of a file"
    ]
