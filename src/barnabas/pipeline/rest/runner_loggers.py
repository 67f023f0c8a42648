"""Log levels under Connect's names, for the loggers of this process.

The logger `root` is the one above all of barnabas's; others are named as in log lines.
"""

import logging
import time
from typing import Any, Final

LEVELS: Final = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
    "ALL": 1,
}
"""Java's names of levels, and Python's numbers."""

_ROOT: Final = "root"
_PACKAGE: Final = "barnabas"


class RunnerLoggers:
    """Reads and changes levels."""

    def __init__(self) -> None:
        self._changed_ms: dict[str, int] = {}

    def changed(self) -> dict[str, Any]:
        """Return the loggers whose level was changed, by name."""
        return {name: self._json(name) for name in sorted(self._changed_ms)}

    def level(self, name: str) -> dict[str, Any] | None:
        """Return the level of a logger, None when there is no such logger."""
        if name != _ROOT and _full(name) not in logging.root.manager.loggerDict:
            return None
        return self._json(name)

    def _json(self, name: str) -> dict[str, Any]:
        number = logging.getLogger(_full(name)).getEffectiveLevel()
        shown = min(LEVELS, key=lambda level: abs(LEVELS[level] - number))
        return {"level": shown, "last_modified": self._changed_ms.get(name)}

    def set_level(self, name: str, level: str) -> list[str]:
        """Set the level of a logger and of those below it; return their names, sorted."""
        full = _full(name)
        below = [each for each in logging.root.manager.loggerDict if each.startswith(f"{full}.")]
        now_ms = time.time_ns() // 1_000_000
        affected = sorted({name, *(_short(each) for each in below)})
        for each in affected:
            logging.getLogger(_full(each)).setLevel(LEVELS[level.upper()])
            self._changed_ms[each] = now_ms
        return affected


def _full(name: str) -> str:
    if name == _ROOT:
        return _PACKAGE
    return name if name.split(".")[0] == _PACKAGE else f"{_PACKAGE}.{name}"


def _short(full: str) -> str:
    return full.removeprefix(f"{_PACKAGE}.")
