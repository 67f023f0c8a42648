"""Checks before a node serves, and the limits of its process."""

import logging
import sys
from typing import cast

from barnabas.server.node_failures import StartupError

logger = logging.getLogger(__name__)

# Below it a node runs, but not with a few thousand partitions or connections.
OPEN_FILES_RECOMMENDED = 8192


# The share of the process's descriptors that logs may keep open.
_LOG_FILES_SHARE = 2
_LOG_FILES_MAX = 8192
# Listeners, the loop's own, checkpoints being written.
_OTHER_FILES = 40


def refuse_unknown_systems() -> None:
    """Raise StartupError on a system that is not supported."""
    if sys.platform == "win32":
        raise StartupError("barnabas serves on Linux and macOS; on Windows, run it in WSL 2")


def raise_open_files_limit() -> int:
    """Raise the open-files limit to the system's maximum; return the limit."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):  # macOS caps it below "unlimited"
            logger.debug("open-files limit stays soft=%d hard=%d", soft, hard)
    if soft != resource.RLIM_INFINITY and soft < OPEN_FILES_RECOMMENDED:
        logger.warning(
            "open-files limit is low limit=%d hint=%s",
            soft,
            f"set 'ulimit -n' (or LimitNOFILE of the service) to at least {OPEN_FILES_RECOMMENDED}",
        )
    return soft


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


def first_error(error: BaseException) -> BaseException:
    """Return the first error in nested exception groups; the others follow from it."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
