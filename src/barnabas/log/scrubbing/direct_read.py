"""Read a file from the disk, bypassing the page cache."""

import errno
import os
from mmap import mmap
from types import TracebackType
from typing import Final, Self

_DIRECT: Final = getattr(os, "O_DIRECT", 0)  # macOS has no such flag
_ALIGNMENT: Final = 4096  # of positions and sizes: a multiple of any disk's block
_WINDOW: Final = 1 << 20


class DirectFile:
    """Reads a file through a buffer of 1 MiB; the buffer is a mapping, which is aligned.

    Cached pages are not read or evicted, and no pages are added. On a file system that refuses
    direct reads, the file is read normally. Raises OSError.
    """

    def __init__(self, path: str) -> None:
        self._buffer = mmap(-1, _WINDOW)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0  # the range of the file that is in the buffer
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
        """Return up to `size` bytes from `position`; none at the end of the file.

        Up to 4096 bytes are returned whole. The result is valid until the next call. Raises
        OSError.
        """
        if position < self._start or self._end < position + min(size, _ALIGNMENT):
            self._start = position - position % _ALIGNMENT
            self._end = self._start + os.preadv(self._fd, [self._buffer], self._start)
        at = position - self._start
        return self._view[at : min(at + size, self._end - self._start)]


def _direct_flag(path: str, buffer: mmap) -> int:
    """Return the flag for direct reads, 0 if the file system refuses them. Raises OSError."""
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
