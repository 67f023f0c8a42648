"""`python -m compat_tests.cluster.faulty_node FAULTS serve ...`: a node whose disks fail on demand.

The node is the same as with `python -m barnabas`; only the calls of the system that write, sync and
create files are wrapped. FAULTS is a file that the test writes while the node runs. Each line is a
directory and a fault: `eio`, `enospc`, or `slow SECONDS` for each sync.
"""

import errno
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_CREATES = os.O_CREAT | os.O_TRUNC


class Faults:
    """The faults that the file states now."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._read_at = -1
        self._by_directory: dict[str, str] = {}

    def of(self, path: str) -> str:
        """Return the fault of a path's directory, empty when it has none."""
        try:
            changed = os.stat(self._file).st_mtime_ns
        except FileNotFoundError:
            return ""
        if changed != self._read_at:
            lines = Path(self._file).read_text().splitlines()
            self._by_directory = dict(line.split(" ", 1) for line in lines)
            self._read_at = changed
        for directory, fault in self._by_directory.items():
            if path == directory or path.startswith(directory + "/"):
                return fault
        return ""

    def of_descriptor(self, fd: int) -> str:
        """Return the fault of an open file."""
        return self.of(os.readlink(f"/proc/self/fd/{fd}")) if os.path.exists(self._file) else ""


def _fail(fault: str, *, is_sync: bool = False) -> None:
    """Raise what the disk answers, or take the time that it takes."""
    if fault == "eio":
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    if fault == "enospc" and not is_sync:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if fault.startswith("slow ") and is_sync:
        time.sleep(float(fault.removeprefix("slow ")))


def install(faults: Faults) -> None:
    """Wrap the calls of this process."""

    def on_descriptor(call: Callable[..., Any], *, is_sync: bool) -> Callable[..., Any]:
        def wrapped(fd: int, *arguments: Any) -> Any:
            _fail(faults.of_descriptor(fd), is_sync=is_sync)
            return call(fd, *arguments)

        return wrapped

    def opened(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
        if flags & _CREATES:
            _fail(faults.of(os.fspath(path)))
        return real_open(path, flags, *arguments, **named)

    def renamed(source: Any, target: Any) -> None:
        _fail(faults.of(os.fspath(target)))
        real_replace(source, target)

    real_open, real_replace = os.open, os.replace
    for name in ("pwrite", "write", "ftruncate"):
        setattr(os, name, on_descriptor(getattr(os, name), is_sync=False))
    for name in ("fsync", "fdatasync"):
        setattr(os, name, on_descriptor(getattr(os, name), is_sync=True))
    os.open = opened  # type: ignore[assignment]
    os.replace = renamed  # type: ignore[assignment]


def main() -> None:
    """Wrap the calls, and run the command line of barnabas."""
    install(Faults(sys.argv.pop(1)))
    from barnabas.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
