"""The files of a streaming query's checkpoint that micro-batches need: the query's id, and inputs.

A checkpoint is a local path or a URI. Spark never syncs the files of a local checkpoint, so a task
syncs the input of its micro-batch before it commits the marker: after a power cut the marker must
not name a micro-batch whose input is lost.
"""

import contextlib
import importlib
import json
import os
import shutil
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

from barnabas.pipeline.delivery.micro_batches.micro_batch_markers import Marker, digest_of
from barnabas.pipeline.delivery.plan.job_plan import REBUILD
from barnabas.pipeline.delivery.plan.task_failures import JobStartError, refused

STREAM_TIMES: Final = "stream-times"
"""The directory of `stream_times`."""
_DIRECTORIES: Final = ("offsets", "commits", "sources", "state", STREAM_TIMES)
_LINES_BEFORE_SOURCES: Final = 2  # the version of the format, and the settings of the micro-batch
VERSION_FILE: Final = "barnabas-version.json"
"""The file of `query_version`."""
_FILES: Final = ("metadata", ".metadata.crc", VERSION_FILE)


def checkpoint_of(directory: str, job: str) -> str:
    """Return the place of a job's checkpoint below `checkpoint.dir`."""
    return f"{directory.rstrip('/')}/{urllib.parse.quote(job, safe='')}"


class CheckpointFiles:
    """Reads files of one checkpoint."""

    def __init__(self, location: str) -> None:
        self._location = location.removeprefix("file://")

    @property
    def is_local(self) -> bool:
        """True when the checkpoint is on a mounted file system."""
        return "://" not in self._location

    def query_id(self) -> str | None:
        """Return the id of the query, None when the checkpoint is new."""
        text = self._read("metadata")
        return None if text is None else str(json.loads(text)["id"])

    def newest_batch(self) -> int:
        """Return the number of the newest micro-batch whose input is written, -1 without one."""
        return self._newest("offsets")

    def positions(self) -> dict[str, dict[int, int]]:
        """Return the offsets after the newest committed micro-batch, by topic and partition.

        Sources other than Kafka topics are left out. Raises JobStartError for a damaged file.
        """
        return self.positions_at(self._newest("commits"))

    def positions_at(self, epoch: int) -> dict[str, dict[int, int]]:
        """Return the offsets at the end of an epoch as `positions` does, none without its input."""
        found: dict[str, dict[int, int]] = {}
        for positions in self.source_positions_at(epoch):
            for topic, numbers in positions.items():
                found.setdefault(topic, {}).update(numbers)
        return found

    def source_positions_at(self, batch: int) -> list[dict[str, dict[int, int]]]:
        """Return the offsets at the end of a micro-batch for each source, none without its input.

        Those of other sources than Kafka topics are empty. Raises JobStartError for a damaged file.
        """
        name = f"offsets/{batch}"
        content = self._read(name)
        if content is None:
            return []
        if not _is_whole(content, _LINES_BEFORE_SOURCES):
            raise _damaged(name)
        lines = content.decode().splitlines()[_LINES_BEFORE_SOURCES:]
        return [_positions("null" if line == "-" else line) for line in lines]

    def damaged_file(self) -> str | None:
        """Return the newest input or commit when it is not whole, None otherwise.

        Spark does not sync them, so a power cut may leave a part of a file.
        """
        for directory, lines_min in (("offsets", 3), ("commits", 2)):
            newest = self._newest(directory)
            name = f"{directory}/{newest}"
            if newest >= 0 and not _is_whole(self._read(name) or b"", lines_min):
                return name
        return None

    def _newest(self, directory: str) -> int:
        return max((int(name) for name in self.names(directory) if name.isdecimal()), default=-1)

    def input_of(self, batch: int) -> bytes | None:
        """Return the input of a micro-batch as Spark wrote it, synced to disk; None without one."""
        name = f"offsets/{batch}"
        if self.is_local:
            self._sync(name)
        return self._read(name)

    def is_committed(self, batch: int) -> bool:
        """True when all tasks of a micro-batch have ended."""
        return str(batch) in self.names("commits")

    def content_of(self, name: str) -> bytes | None:
        """Return the content of a file, None without one."""
        return self._read(name)

    def write(self, name: str, content: bytes) -> None:
        """Write a file as a whole, synced to disk. Raises OSError."""
        self.replace(name, content)
        if self.is_local:
            self._sync(name)

    def replace(self, name: str, content: bytes) -> None:
        """Write a file as a whole without a sync: a power cut may lose it. Raises OSError."""
        if not self.is_local:
            files, root = self._remote()
            files.create_dir(f"{root}/{name}".rpartition("/")[0], recursive=True)
            with files.open_output_stream(f"{root}/{name}") as stream:
                stream.write(content)
            return
        path = Path(self._location) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.write_bytes(content)
        partial.replace(path)

    def remove(self) -> None:
        """Remove what the job keeps in the checkpoint, and nothing else there. Raises OSError.

        A configuration names the directory, which may have other files.
        """
        if not self.is_local:
            self._remove_remote()
            return
        for name in _DIRECTORIES:
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(Path(self._location) / name)
        for name in _FILES:
            (Path(self._location) / name).unlink(missing_ok=True)

    def _remove_remote(self) -> None:
        files, root = self._remote()
        absent = _filesystem().FileType.NotFound
        for names, remove in ((_DIRECTORIES, files.delete_dir), (_FILES, files.delete_file)):
            for path in (f"{root}/{name}" for name in names):
                if files.get_file_info(path).type != absent:
                    remove(path)

    def _sync(self, name: str) -> None:
        path = Path(self._location) / name
        for each in (path, path.parent):
            try:
                descriptor = os.open(each, os.O_RDONLY)
            except FileNotFoundError:
                return
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _read(self, name: str) -> bytes | None:
        if self.is_local:
            try:
                return (Path(self._location) / name).read_bytes()
            except FileNotFoundError:
                return None
        files, root = self._remote()
        try:
            with files.open_input_stream(f"{root}/{name}") as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def names(self, directory: str) -> list[str]:
        """Return the names of the files of a directory, none without it."""
        if self.is_local:
            path = Path(self._location) / directory
            return [entry.name for entry in path.iterdir()] if path.is_dir() else []
        files, root = self._remote()
        selector = _filesystem().FileSelector(f"{root}/{directory}", allow_not_found=True)
        return [str(entry.base_name) for entry in files.get_file_info(selector)]

    def _remote(self) -> tuple[Any, str]:
        files, root = _filesystem().FileSystem.from_uri(arrow_uri(self._location))
        return files, str(root)


def arrow_uri(location: str) -> str:
    """Return the name that Arrow has for a place: Hadoop calls S3 `s3a`, Arrow only `s3`."""
    return location.replace("s3a://", "s3://", 1) if location.startswith("s3a://") else location


def _positions(line: str) -> dict[str, dict[int, int]]:
    """Return what a Kafka source has written: offsets by partition, by topic."""
    offsets: Any = json.loads(line)
    found: dict[str, dict[int, int]] = {}
    if isinstance(offsets, dict):
        for topic, partitions in cast("dict[str, Any]", offsets).items():
            if isinstance(partitions, dict):
                numbers = cast("dict[str, Any]", partitions)
                if all(name.isdecimal() and isinstance(at, int) for name, at in numbers.items()):
                    found[topic] = {int(name): at for name, at in numbers.items()}
    return found


def _is_whole(content: bytes, lines_min: int) -> bool:
    """True for a file of Spark's logs: a version, then a line of JSON, or a dash, for each part."""
    version, *lines = content.decode(errors="replace").splitlines() or [""]
    if version != "v1" or len(lines) + 1 < lines_min:
        return False
    try:
        for line in lines:
            if line != "-":
                json.loads(line)
    except ValueError:
        return False
    return True


def _filesystem() -> Any:
    """Return `pyarrow.fs`, which only remote checkpoints need."""
    return importlib.import_module("pyarrow.fs")


def _damaged(name: str) -> JobStartError:
    return refused(f"file {name} of the checkpoint is damaged, as after a power cut; {REBUILD}")


def check(checkpoint: CheckpointFiles, markers: Sequence[Marker]) -> None:
    """Raise JobStartError when the checkpoint is damaged, or did not write the markers.

    Tasks check it again; here the answer comes before the first batch.
    """
    damaged = checkpoint.damaged_file()
    if damaged is not None:
        raise _damaged(damaged)
    if not markers:
        return
    newest = max(markers, key=lambda marker: marker.next_batch)
    query_id, batch = checkpoint.query_id(), checkpoint.newest_batch()
    message = (
        f"the checkpoint is not the one that wrote micro-batch {newest.next_batch - 1}: it ends at "
        f"micro-batch {batch}; {REBUILD}"
    )
    if query_id is None or newest.query_id != query_id or newest.next_batch > batch + 1:
        raise refused(message)
    if newest.next_batch == batch + 1:
        content = checkpoint.input_of(batch)
        if content is None or digest_of(content) != newest.digest:
            raise refused(message)
