"""A file read past the page cache: what is on the disk, whatever memory has of it."""

import errno
import os
from mmap import mmap
from types import TracebackType
from typing import Final, Self

_DIRECT: Final = getattr(os, "O_DIRECT", 0)  # macOS has no such flag
_ALIGNMENT: Final = 4096  # of positions and sizes: a multiple of any disk's block
_WINDOW: Final = 1 << 20


class DirectFile:
    """A file through a window of 1 MiB, which a mapping holds, as its memory has to be aligned.

    Pages that are cached are neither looked at nor evicted, and none are added. Where the file
    system refuses that, the file is read as any other. OSError.
    """

    def __init__(self, path: str) -> None:
        self._buffer = mmap(-1, _WINDOW)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0  # of what the window has of the file
        self._fd = os.open(path, os.O_RDONLY | _direct_flag(path, self._buffer))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._fd)

    def read(self, position: int, size: int) -> memoryview:
        """Some of `size` bytes from `position` on, all if they are few; none at the file's end.

        They are there until the next call. OSError.
        """
        if position < self._start or self._end < position + min(size, _ALIGNMENT):
            self._start = position - position % _ALIGNMENT
            self._end = self._start + os.preadv(self._fd, [self._buffer], self._start)
        at = position - self._start
        return self._view[at : min(at + size, self._end - self._start)]


def _direct_flag(path: str, buffer: mmap) -> int:
    """What makes the system read past the cache here, 0 if the file system refuses it. OSError."""
    try:
        fd = os.open(path, os.O_RDONLY | _DIRECT)
        try:
            os.preadv(fd, [buffer], 0)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return 0
    return _DIRECT
