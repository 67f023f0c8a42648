"""Files with secrets: readable by their owner only, and never overwritten by accident."""

import os
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PRIVATE_MODE: Final = 0o600
PUBLIC_MODE: Final = 0o644
_OF_OTHERS: Final = 0o077


def write_new_file(path: Path, text: str, mode: int = PRIVATE_MODE) -> None:
    """Write a file that does not exist yet. Raises FileExistsError when it does, and OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        os.fchmod(fd, mode)  # regardless of the umask
        file.write(text)
        file.flush()
        os.fsync(fd)


def replace_file(path: Path, text: str, mode: int = PRIVATE_MODE) -> None:
    """Write a file, or replace it, in one step. Raises OSError."""
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    write_new_file(temporary, text, mode)
    os.replace(temporary, path)


def close_to_others(path: Path) -> None:
    """Take the rights of the group and of others from a file or a directory. Raises OSError."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & _OF_OTHERS:
        path.chmod(mode & ~_OF_OTHERS)


@contextmanager
def memory_file(data: bytes) -> Generator[str, None, None]:
    """Yield the path of a file in memory: `ssl` reads keys from files only."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("barnabas", os.MFD_CLOEXEC)
        try:
            os.write(fd, data)
            yield f"/proc/self/fd/{fd}"
        finally:
            os.close(fd)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            yield file.name
