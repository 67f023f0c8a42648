"""Lines of a file as records, with the offsets of Java's FileStreamSource.

Java counts the position in characters (UTF-16 units) and skips as many bytes when it starts again,
which is right for ASCII only. The task counts characters too, so offsets can be given back to Java,
and stores the bytes beside them as soon as the two differ. A position without bytes is accepted
when the file is ASCII up to there, and refused otherwise.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final

from barnabas.pipeline.connect.connectors.file_stream_connector import (
    FileStreamConnector,
    file_error,
    required_file,
)
from barnabas.pipeline.connect.plugin_api import OffsetReader, Properties, SourceTask
from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.data.connect_schema import STRING
from barnabas.pipeline.data.records import SourceRecord
from barnabas.pipeline.definitions.config_def import NO_DEFAULT, ConfigDef, ConfigKey, Importance
from barnabas.pipeline.definitions.config_types import ConfigType
from barnabas.pipeline.definitions.config_validators import non_empty

FILENAME: Final = "filename"
POSITION: Final = "position"
BYTES: Final = "bytes"
_CHUNK_BYTES: Final = 1 << 20
_LINE_BYTES_MAX: Final = 64 << 20

_DEFINITION: Final = ConfigDef(
    [
        ConfigKey(
            "file",
            ConfigType.STRING,
            None,
            Importance.HIGH,
            "The file to read, on the machine where the task runs.",
            display_name="file",
        ),
        ConfigKey(
            "topic",
            ConfigType.STRING,
            NO_DEFAULT,
            Importance.HIGH,
            "The topic to write to.",
            validator=non_empty,
            display_name="topic",
        ),
        ConfigKey(
            "batch.size",
            ConfigType.INT,
            2000,
            Importance.LOW,
            "The largest number of records that one poll returns.",
            display_name="batch.size",
        ),
    ]
)


class FileStreamSourceTask(SourceTask):
    """Reads one file from the committed position on."""

    def __init__(self) -> None:
        self._stream: BinaryIO | None = None
        self._lines = _Lines()

    def start(self, props: Properties, offsets: OffsetReader) -> None:
        """Take the file and the committed position; the file is opened by the first poll."""
        values = _DEFINITION.parse(props)
        self._file = Path(required_file(props))
        self._topic = str(values["topic"])
        self._batch_size = int(str(values["batch.size"]))
        self._partition = {FILENAME: str(self._file)}
        committed = offsets.offset(self._partition) or {}
        self._characters = _position(committed)
        self._bytes = committed.get(BYTES, self._characters)
        self._is_checked = BYTES in committed

    def poll(self) -> list[SourceRecord]:
        """Return the complete lines after the position; none while the file does not exist."""
        if not self._open():
            return []
        records: list[SourceRecord] = []
        now_ms = time.time_ns() // 1_000_000
        while len(records) < self._batch_size:
            line = self._next_line()
            if line is None:
                break
            content, newline = line
            text = content.decode("utf-8", "replace")
            self._bytes += len(content) + newline
            self._characters += _utf16_units(text) + newline
            offset = {POSITION: self._characters}
            if self._bytes != self._characters:
                offset[BYTES] = self._bytes
            records.append(
                SourceRecord(
                    self._topic, None, now_ms, None, None, STRING, text, (), self._partition, offset
                )
            )
        return records

    def stop(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _open(self) -> bool:
        """Open the file at the position; return False while it does not exist."""
        if self._stream is None:
            try:
                self._stream = self._file.open("rb")
            except FileNotFoundError:
                return False
            except OSError as error:
                raise file_error("read", self._file, error) from error
            try:
                self._seek(self._stream)
            except ConnectError:
                self.stop()
                raise
        return True

    def _seek(self, stream: BinaryIO) -> None:
        size = self._file.stat().st_size
        if size < self._bytes:
            raise ConnectError(
                f"{self._file} has {size} bytes and the committed position is {self._bytes}: the "
                "file was replaced; reset the offsets of the connector to read it again"
            )
        if not self._is_checked:
            self._check_ascii(stream)
        stream.seek(self._bytes)

    def _check_ascii(self, stream: BinaryIO) -> None:
        """Raise ConnectError when characters before the position are not bytes."""
        left = self._bytes
        while left > 0:
            chunk = stream.read(min(left, _CHUNK_BYTES))
            if not chunk.isascii():
                raise ConnectError(
                    f"the committed position of {self._file} counts characters and the file is not "
                    "ASCII: Java's position in such a file cannot be taken over; reset the offsets"
                )
            left -= len(chunk)

    def _next_line(self) -> tuple[bytes, int] | None:
        """Return the next complete line and the bytes of its end, None when there is none."""
        while (line := self._lines.next()) is None:
            if self._lines.bytes_left > _LINE_BYTES_MAX:
                raise ConnectError(f"a line of {self._file} has more than {_LINE_BYTES_MAX} bytes")
            chunk = b"" if self._stream is None else self._stream.read(_CHUNK_BYTES)
            if not chunk:
                return None
            self._lines.add(chunk)
        return line


class _Lines:
    """Complete lines of bytes that arrive in chunks. A line ends with LF, CR LF, or CR."""

    def __init__(self) -> None:
        self._data = b""
        self._at = 0
        self._feed = 0
        """The place of the next LF, or the end of the data; looked for again when it was passed."""

    @property
    def bytes_left(self) -> int:
        """Return the number of bytes after the last line."""
        return len(self._data) - self._at

    def add(self, chunk: bytes) -> None:
        """Add bytes."""
        self._data = self._data[self._at :] + chunk
        self._at = 0
        self._feed = -1

    def next(self) -> tuple[bytes, int] | None:
        """Return the next line and the bytes of its end, None when no line is complete."""
        data, at = self._data, self._at
        if self._feed < at:
            self._feed = data.find(b"\n", at)
            if self._feed < 0:
                self._feed = len(data)
        end = data.find(b"\r", at, self._feed)
        if end < 0:
            end, newline = self._feed, 1
            if end == len(data):
                return None
        elif end + 1 == len(data):
            return None  # it may be the first half of CR LF
        else:
            newline = 2 if end + 1 == self._feed else 1
        self._at = end + newline
        return data[at:end], newline


def _utf16_units(text: str) -> int:
    if text.isascii():
        return len(text)
    return len(text) + sum(character > "\uffff" for character in text)


def _position(offset: Mapping[str, Any]) -> int:
    position = offset.get(POSITION, 0)
    if type(position) is not int or position < 0:
        raise ConnectError(f"Offset position is the incorrect type: {position!r}")
    return position


class FileStreamSourceConnector(FileStreamConnector):
    """Reads a file with one task."""

    kind: ClassVar[str] = "source"
    java_class = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    definition = _DEFINITION

    def source_task(self) -> type[SourceTask]:
        """Return the class of the tasks."""
        return FileStreamSourceTask

    def check_offset(self, partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> None:
        """Raise ConnectError when an offset given by a user does not fit."""
        if offset is None:
            return
        if POSITION not in offset:
            raise ConnectError(
                f"Offset objects should either be null or contain the key '{POSITION}'"
            )
        position = offset[POSITION]
        if type(position) is not int:
            raise ConnectError(
                f"The value for the '{POSITION}' key in the offset is expected to be a Long value"
            )
        if position < 0:
            raise ConnectError(
                f"The value for the '{POSITION}' key in the offset should be a non-negative value"
            )
        if FILENAME not in partition:
            raise ConnectError(f"Partition objects should contain the key '{FILENAME}'")
