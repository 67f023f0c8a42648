"""Simulate a power loss: record the file operations of a session, and create what may remain.

A `Recorder` records the operations. `left_after` creates the files as a power loss after a given
number of operations may leave them. Synced bytes and names remain. The unsynced writes and cuts of
a file remain up to some point, where the last write may be torn at any byte. Unsynced changes of
names (creations, renames, removals) remain up to some point of their common journal.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from barnabas.log.segment import log_segment


@attrs.define(eq=False)
class _File:
    """The writes and cuts of one file, and which of them were synced when."""

    operations: list[tuple[int, str, int, bytes]] = attrs.Factory(list)
    syncs: list[tuple[int, int]] = attrs.Factory(list)

    def content(self, event: int, choose: random.Random) -> bytes:
        done = [each for each in self.operations if each[0] < event]
        safe = max((count for when, count in self.syncs if when < event), default=0)
        kept = choose.choice((safe, choose.randint(safe, len(done)), len(done)))
        data = bytearray()
        for number, (_, kind, position, written) in enumerate(done[:kept]):
            if number == kept - 1 and kept > safe:
                written = written[: choose.randint(0, len(written))]
            data.extend(bytes(max(position - len(data), 0)))
            if kind == "write":
                data[position : position + len(written)] = written
            else:
                del data[position:]
        return bytes(data)


@attrs.define(eq=False)
class _Directory:
    path: str


class Recorder:
    """Records the file operations below `root`; `events` is their number."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root = str(root)
        self.events = 0
        self._files: dict[str, _File] = {}
        self._opened: dict[int, _File | _Directory] = {}
        self._journal: list[tuple[int, str, str, object]] = []
        self._syncs: list[tuple[int, int]] = []
        watched: dict[str, Callable[..., None]] = {
            "open": self._was_opened,
            "close": lambda _, fd: self._opened.pop(fd, None),
            "pwrite": lambda _, fd, data, position: self._wrote(fd, data, position),
            "write": lambda _, fd, data: self._wrote(fd, data, None),
            "ftruncate": lambda _, fd, size: self._cut(self._opened.get(fd), size),
            "truncate": lambda _, path, size: self._cut(self._files.get(str(path)), size),
            "rename": lambda _, old, new: self._renamed(str(old), str(new)),
            "replace": lambda _, old, new: self._renamed(str(old), str(new)),
            "unlink": lambda _, path: self._removed(str(path)),
            "mkdir": lambda _, path, *__: self._entered("mkdir", str(path), None),
            "fsync": lambda _, fd: self._synced(fd),
            "fdatasync": lambda _, fd: self._synced(fd),
        }
        for name, note in watched.items():
            patch.setattr(os, name, _watched(getattr(os, name), note))
        patch.setattr(log_segment, "_fdatasync", os.fdatasync)

    def left_after(self, event: int, target: Path, choose: random.Random) -> None:
        """Create files in `target` as a power loss after that number of events may leave them."""
        done = [each for each in self._journal if each[0] < event]
        safe = max((count for when, count in self._syncs if when < event), default=0)
        kept = choose.choice((safe, choose.randint(safe, len(done)), len(done)))
        files: dict[str, object] = {}
        for _, kind, path, what in done[:kept]:
            if kind == "rename":
                files[str(what)] = files.pop(path)
            elif kind == "unlink":
                del files[path]
            else:
                files[path] = what
        for path, file in files.items():
            place = target / os.path.relpath(path, self.root)
            if isinstance(file, _File):
                place.write_bytes(file.content(event, choose))
            else:
                place.mkdir()

    # Recorded operations

    def _entered(self, kind: str, path: str, what: object) -> None:
        if path.startswith(self.root):
            self._journal.append((self.events, kind, path, what))
            self.events += 1

    def _was_opened(self, fd: int, path: object, flags: int, *_: object) -> None:
        name = str(path)
        if not name.startswith(self.root):
            return
        if os.path.isdir(name):
            self._opened[fd] = _Directory(name)
            return
        if name not in self._files:
            self._files[name] = _File()
            self._entered("create", name, self._files[name])
        self._opened[fd] = self._files[name]
        if flags & os.O_TRUNC:
            self._cut(self._files[name], 0)

    def _wrote(self, fd: int, data: bytes, position: int | None) -> None:
        file = self._opened.get(fd)
        if isinstance(file, _File):
            if position is None:  # appended
                position = os.fstat(fd).st_size - len(data)
            file.operations.append((self.events, "write", position, bytes(data)))
            self.events += 1

    def _cut(self, file: object, size: int) -> None:
        if isinstance(file, _File):
            file.operations.append((self.events, "cut", size, b""))
            self.events += 1

    def _renamed(self, old: str, new: str) -> None:
        if old in self._files:
            self._files[new] = self._files.pop(old)
            self._entered("rename", old, new)

    def _removed(self, path: str) -> None:
        if self._files.pop(path, None) is not None:
            self._entered("unlink", path, None)

    def _synced(self, fd: int) -> None:
        what = self._opened.get(fd)
        if isinstance(what, _File):
            what.syncs.append((self.events, len(what.operations)))
            self.events += 1
        elif isinstance(what, _Directory):
            names = [os.path.dirname(each[2]) == what.path for each in self._journal]
            self._syncs.append((self.events, len(names) - names[::-1].index(True)))
            self.events += 1


def _watched(call: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
    def watched(*arguments: Any, **more: Any) -> Any:
        result = call(*arguments, **more)
        note(result, *arguments)
        return result

    return watched
