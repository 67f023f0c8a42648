"""The loggers of this process and their levels, as the resource BROKER_LOGGER names them.

A logger has the name that its log lines show: its module without the leading `barnabas.`. The
logger `root` is the parent of all. Only loggers of modules that are imported exist.
"""

import logging
from typing import Final

ROOT: Final = "root"
LEVELS: Final = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": 5,
    "WARN": logging.WARNING,
}
"""Kafka's names of levels, sorted. Nothing is logged at FATAL."""

_PARENT: Final = "barnabas"


def levels() -> dict[str, str]:
    """Return the effective level of each logger, `root` first and the others by name."""
    known = logging.Logger.manager.loggerDict
    names = sorted(
        name.removeprefix(f"{_PARENT}.")
        for name, logger in known.items()
        if name.startswith(f"{_PARENT}.") and isinstance(logger, logging.Logger)
    )
    return {name: _level_name(_logger(name).getEffectiveLevel()) for name in (ROOT, *names)}


def set_level(name: str, level: str) -> None:
    """Log from `level` up; KeyError for an unknown level."""
    _logger(name).setLevel(LEVELS[level])


def unset_level(name: str) -> None:
    """Let a logger have the level of its parent again."""
    _logger(name).setLevel(logging.NOTSET)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(_PARENT if name == ROOT else f"{_PARENT}.{name}")


def _level_name(level: int) -> str:
    """Return the name of the highest level that is not above `level`."""
    return max((number, name) for name, number in LEVELS.items() if number <= max(level, 5))[1]
