"""The worker's log lines as lines of the runner's log.

`log4j2.properties` has their form: level, context of the connector, logger, and message. A line of
a connector's context names its job, so that `barnabas job logs` shows it.
"""

import logging
import re
from typing import Final

import attrs

logger = logging.getLogger(__name__)

_LINE: Final = re.compile(
    r"(FATAL|ERROR|WARN|INFO|DEBUG|TRACE)\|(?:\[([^|]+)\|[^\]]*\])?\s*\|([^|]*)\|(.*)"
)
"""The context is `[JOB|worker]`, `[JOB|task-N]` or `[JOB|task-N|offsets]`."""
_LISTENING: Final = re.compile(r"REST server listening at (http://127\.0\.0\.1:\d+)/")
_LEVELS: Final = {
    "FATAL": logging.ERROR,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
}
_FATAL: Final = re.compile(r"herder work thread, exiting|Stopping due to error")
"""After such a line the worker ends, which may take it a minute."""
_CAUSE: Final = re.compile(r"([\w.$]+(?:Exception|Error): .*?)(?= +at [\w.$/]+\(| Caused by: |$)")
_LONGEST: Final = 4000


@attrs.frozen
class WorkerLine:
    """One line; a job of None is the worker itself."""

    level: int
    job: str | None
    source: str
    message: str


def parse(text: str) -> WorkerLine:
    """Return a line of the worker; what libraries and the JVM print is a warning."""
    found = _LINE.fullmatch(text.rstrip())
    if found is None:
        return WorkerLine(logging.WARNING, None, "jvm", text.strip()[:_LONGEST])
    level, job, source, message = found.groups()
    return WorkerLine(_LEVELS.get(level, logging.DEBUG), job, source, message.strip()[:_LONGEST])


def address_in(text: str) -> str | None:
    """Return the URL of the worker's REST API, if the line has it."""
    found = _LISTENING.search(text)
    return None if found is None else found[1]


def fatal_cause(text: str) -> str | None:
    """Return why the worker is going to end, if the line says that it is."""
    if _FATAL.search(text) is None:
        return None
    line = parse(text)
    causes = _CAUSE.findall(line.message)
    return str(causes[-1]).rpartition("errors.")[2] if causes else line.message


def relay(text: str) -> None:
    """Log a line of the worker."""
    line = parse(text)
    level = line.level
    if level <= logging.INFO and line.job is None:
        level = logging.DEBUG
    if line.job is None:
        logger.log(level, "java worker source=%s message=%s", line.source, line.message)
    else:
        logger.log(
            level, "java worker job=%s source=%s message=%s", line.job, line.source, line.message
        )
