"""Records as lines of a file, exactly once.

One task writes the records of all partitions, since a file has one end. With each batch's offsets
the length of the file is committed, and a batch begins by truncating the file to the committed
length: what a lost batch wrote disappears. Before the first commit the length that the file had
is kept in a small file beside it. A lock keeps two tasks from writing at once: a stopped process
that holds it is waited for, then reported.
"""

import fcntl
import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from barnabas.pipeline.connect.connectors.file_stream_connector import (
    FileStreamConnector,
    file_error,
    required_file,
)
from barnabas.pipeline.connect.plugin_api import (
    CommittedPosition,
    Properties,
    SinkTask,
    TopicPartition,
)
from barnabas.pipeline.data.connect_errors import ConnectError, RetriableError
from barnabas.pipeline.data.java_text import plain_text
from barnabas.pipeline.data.records import SinkRecord
from barnabas.pipeline.definitions.config_def import ConfigDef, ConfigKey, Importance
from barnabas.pipeline.definitions.config_types import ConfigType

_logger: Final = logging.getLogger("barnabas.pipeline")
_LOCK_WAIT_S: Final = 20.0
_LOCK_PAUSE_S: Final = 0.05

_DEFINITION: Final = ConfigDef(
    [
        ConfigKey(
            "file",
            ConfigType.STRING,
            None,
            Importance.HIGH,
            "The file to write, on the machine where the task runs.",
            display_name="file",
        )
    ]
)


class FileStreamSinkTask(SinkTask):
    """Appends lines to one file."""

    needs_all_partitions: bool = True

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def start(self, props: Properties) -> None:
        """Take the file."""
        self._file = Path(required_file(props))
        self._start_file = self._file.with_name(f".{self._file.name}.start")

    def open(self, positions: Mapping[TopicPartition, CommittedPosition]) -> None:
        """Lock the file and truncate it to the committed length."""
        try:
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise file_error("write", self._file, error) from error
        self._descriptor = descriptor
        self._lock(descriptor)
        size = os.fstat(descriptor).st_size
        self._length = self._start_length(positions, size)
        if size > self._length:
            _logger.info(
                "removing lines of a lost batch file=%s bytes=%d", self._file, size - self._length
            )
            os.ftruncate(descriptor, self._length)

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Write the value of each record as a line."""
        lines = "".join(f"{_line(record.value)}\n" for record in records)
        data = memoryview(lines.encode("utf-8", "replace"))
        while data:
            written = os.pwrite(self._open_descriptor(), data, self._length)
            self._length += written
            data = data[written:]

    def flush(self, offsets: Mapping[TopicPartition, int]) -> str | None:
        """Bring the lines to the disk; return the length of the file."""
        os.fsync(self._open_descriptor())
        return str(self._length)

    def close(self, *, is_committed: bool) -> None:
        """Release the file."""
        if self._descriptor is None:
            return
        if is_committed:
            self._start_file.unlink(missing_ok=True)
        os.close(self._descriptor)  # which releases the lock
        self._descriptor = None

    def stop(self) -> None:
        """Release the file."""
        self.close(is_committed=False)

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            raise ConnectError(f"{self._file} is not open: put is called between open and close")
        return self._descriptor

    def _lock(self, descriptor: int) -> None:
        deadline = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(descriptor)
                    self._descriptor = None
                    raise RetriableError(
                        f"another process holds the lock of {self._file}: a task of an earlier run "
                        "or another connector writes to it"
                    ) from None
                time.sleep(_LOCK_PAUSE_S)
            else:
                return

    def _start_length(
        self, positions: Mapping[TopicPartition, CommittedPosition], size: int
    ) -> int:
        """Return the length at which the batch begins."""
        notes = [int(each.note) for each in positions.values() if each.note.isdigit()]
        if notes:
            self._start_file.unlink(missing_ok=True)
            committed = max(notes)
        else:
            try:
                committed = self._first_length(size)
            except OSError as error:
                raise file_error("write", self._start_file, error) from error
        if size < committed:
            _logger.warning(
                "file is shorter than its committed length file=%s bytes=%d committed=%d",
                self._file,
                size,
                committed,
            )
            return size
        return committed

    def _first_length(self, size: int) -> int:
        """Return the length before the first batch; note it, so that a lost batch can be undone."""
        try:
            return int(self._start_file.read_text())
        except (FileNotFoundError, ValueError):
            pass
        descriptor = os.open(
            self._start_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644
        )
        try:
            os.write(descriptor, str(size).encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        directory = os.open(self._start_file.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        return size


def _line(value: object) -> str:
    return value if type(value) is str else plain_text(value)


class FileStreamSinkConnector(FileStreamConnector):
    """Writes a file."""

    kind: ClassVar[str] = "sink"
    java_class = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    definition = _DEFINITION

    def sink_task(self) -> type[SinkTask]:
        """Return the class of the tasks."""
        return FileStreamSinkTask
