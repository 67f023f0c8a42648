"""What can be wrong before a node serves, and the limits of the process it runs in."""

import logging
import sys
from typing import cast

logger = logging.getLogger(__name__)

# Below it a node runs, but a few thousand partitions or connections will not fit.
OPEN_FILES_COMFORTABLE = 8192


# Of the descriptors that the process may have, what logs may keep open.
_LOG_FILES_SHARE = 2
_LOG_FILES_MAX = 8192
# Listeners, the loop's own, checkpoints being written.
_OTHER_FILES = 40


class StartupError(Exception):
    """The node cannot start; the text is one line that says what to do about it."""


class DisksLostError(Exception):
    """The last data directory failed, or the one with the quorum's log: the node must end."""


def refuse_unknown_systems() -> None:
    """Raise StartupError where the node's files and sockets cannot work."""
    if sys.platform == "win32":
        raise StartupError("barnabas serves on Linux and macOS; on Windows, run it in WSL 2")


def raise_open_files_limit() -> int:
    """Take as many open files as the system allows this process; returns the limit."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):  # macOS caps it below "unlimited"
            logger.debug("open-files limit stays soft=%d hard=%d", soft, hard)
    if soft != resource.RLIM_INFINITY and soft < OPEN_FILES_COMFORTABLE:
        logger.warning(
            "open-files limit is low limit=%d hint=%s",
            soft,
            f"set 'ulimit -n' (or LimitNOFILE of the service) to at least {OPEN_FILES_COMFORTABLE}",
        )
    return soft


def open_files_limit() -> int | None:
    """How many files the process may have open; None: as many as it likes."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def log_files_max() -> int:
    """How many files the logs may keep open."""
    limit = open_files_limit()
    return _LOG_FILES_MAX if limit is None else min(limit // _LOG_FILES_SHARE, _LOG_FILES_MAX)


def connections_room() -> int | None:
    """How many connections leave logs their files; None: any number."""
    limit = open_files_limit()
    return None if limit is None else max(limit - log_files_max() - _OTHER_FILES, 1)


def first_error(error: BaseException) -> BaseException:
    """The first one that a group of groups holds: it came first, the others follow from it."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
