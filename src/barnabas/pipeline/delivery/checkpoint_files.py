"""The files of a streaming query's checkpoint that epochs need: the query's id, inputs of epochs.

A checkpoint is a local path or a URI. Spark never syncs the files of a local checkpoint, so a task
syncs the input of its epoch before it commits the epoch's marker: after a power cut the marker must
not name an epoch whose input is lost.
"""

import importlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from barnabas.pipeline.delivery.epoch_markers import Marker, digest_of
from barnabas.pipeline.delivery.task_failures import refused


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

    def newest_epoch(self) -> int:
        """Return the number of the newest epoch whose input is written, -1 without one."""
        return max((int(name) for name in self._names("offsets") if name.isdecimal()), default=-1)

    def input_of(self, epoch: int) -> bytes | None:
        """Return the input of an epoch as Spark wrote it, synced to disk; None without one."""
        name = f"offsets/{epoch}"
        if self.is_local:
            self._sync(name)
        return self._read(name)

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

    def _names(self, directory: str) -> list[str]:
        if self.is_local:
            path = Path(self._location) / directory
            return [entry.name for entry in path.iterdir()] if path.is_dir() else []
        files, root = self._remote()
        selector = _filesystem().FileSelector(f"{root}/{directory}", allow_not_found=True)
        return [str(entry.base_name) for entry in files.get_file_info(selector)]

    def _remote(self) -> tuple[Any, str]:
        files, root = _filesystem().FileSystem.from_uri(self._location)
        return files, str(root)


def _filesystem() -> Any:
    """Return `pyarrow.fs`, which only remote checkpoints need."""
    return importlib.import_module("pyarrow.fs")


def check(checkpoint: CheckpointFiles, markers: Sequence[Marker]) -> None:
    """Raise JobStartError when the checkpoint is not the one that wrote the markers.

    Tasks check it again; here the answer comes before the first batch.
    """
    if not markers:
        return
    newest = max(markers, key=lambda marker: marker.next_epoch)
    query_id, epoch = checkpoint.query_id(), checkpoint.newest_epoch()
    message = (
        f"the checkpoint is not the one that wrote epoch {newest.next_epoch - 1}: it ends at epoch "
        f"{epoch}; run `barnabas job rebuild`"
    )
    if query_id is None or newest.query_id != query_id or newest.next_epoch > epoch + 1:
        raise refused(message)
    if newest.next_epoch == epoch + 1:
        content = checkpoint.input_of(epoch)
        if content is None or digest_of(content) != newest.digest:
            raise refused(message)
