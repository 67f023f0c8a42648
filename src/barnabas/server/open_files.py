"""The open-files limit of the process, shared between logs and connections."""

from typing import Final

# The share of the process's descriptors that logs may keep open.
_LOG_FILES_SHARE: Final = 2
_LOG_FILES_MAX: Final = 8192
# Listeners, the loop's own, checkpoints being written.
_OTHER_FILES: Final = 40


def open_files_limit() -> int | None:
    """Return the open-files limit of the process; None without a limit."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def log_files_max() -> int:
    """Return the number of files that the logs may keep open."""
    limit = open_files_limit()
    return _LOG_FILES_MAX if limit is None else min(limit // _LOG_FILES_SHARE, _LOG_FILES_MAX)


def connections_room() -> int | None:
    """Return the number of connections that leave files for logs; None without a limit."""
    limit = open_files_limit()
    return None if limit is None else max(limit - log_files_max() - _OTHER_FILES, 1)
