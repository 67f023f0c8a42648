"""The newest log lines of each job, kept in memory for `barnabas job logs`.

A line belongs to the job that it names: `job=NAME`.
"""

import logging
import re
from collections import deque
from typing import Any, Final

_JOB: Final = re.compile(r"\bjob=(\S+)")
_LINES_MAX: Final = 200
_JOBS_MAX: Final = 1000


class JobLogs(logging.Handler):
    """Collects lines while it is attached to a logger."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: dict[str, deque[dict[str, Any]]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line that names a job."""
        message = record.getMessage()
        found = _JOB.search(message)
        if found is None:
            return
        lines = self._lines.get(found[1])
        if lines is None:
            if len(self._lines) >= _JOBS_MAX:
                self._lines.pop(next(iter(self._lines)))
            lines = self._lines[found[1]] = deque(maxlen=_LINES_MAX)
        line = {
            "time_ms": int(record.created * 1000),
            "level": record.levelname.lower(),
            "message": message,
        }
        lines.append(line)

    def lines(self, name: str) -> list[dict[str, Any]]:
        """Return the lines of a job, oldest first."""
        return list(self._lines.get(name, ()))
