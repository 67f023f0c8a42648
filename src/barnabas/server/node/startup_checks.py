"""Checks before a node serves, and the limits of its process."""

import logging
import sys
from typing import cast

from barnabas.server.node_failures import StartupError

logger = logging.getLogger(__name__)

# Below it a node runs, but not with a few thousand partitions or connections.
OPEN_FILES_RECOMMENDED = 8192


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


def first_error(error: BaseException) -> BaseException:
    """Return the first error in nested exception groups; the others follow from it."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
