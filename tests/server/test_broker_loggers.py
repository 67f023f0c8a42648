"""The levels of loggers, as BROKER_LOGGER resources name them."""

import logging
from collections.abc import Iterator

import pytest

from barnabas.server.monitoring.broker_loggers import LEVELS, ROOT, levels, set_level, unset_level

NAME = "server.test_of_levels"


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    parent, logger = logging.getLogger("barnabas"), logging.getLogger(f"barnabas.{NAME}")
    before = parent.level
    yield
    parent.setLevel(before)
    logger.setLevel(logging.NOTSET)


def test_broker_loggers_have_the_names_of_log_lines_with_root_first() -> None:
    names = list(levels())
    assert names[0] == ROOT
    assert names[1:] == sorted(names[1:])
    assert NAME in names


@pytest.mark.parametrize("level", LEVELS)
def test_broker_logger_level_that_is_set_is_reported_and_takes_effect(level: str) -> None:
    set_level(NAME, level)
    logger = logging.getLogger(f"barnabas.{NAME}")
    assert levels()[NAME] == level
    assert logger.isEnabledFor(LEVELS[level])
    assert not logger.isEnabledFor(LEVELS[level] - 1)


def test_broker_logger_level_that_is_unset_is_the_one_of_root() -> None:
    set_level(ROOT, "ERROR")
    set_level(NAME, "DEBUG")
    unset_level(NAME)
    assert levels()[NAME] == "ERROR"


@pytest.mark.parametrize(("level", "name"), [(1, "TRACE"), (15, "DEBUG"), (99, "FATAL")])
def test_broker_logger_level_between_two_is_reported_as_the_lower(level: int, name: str) -> None:
    logging.getLogger(f"barnabas.{NAME}").setLevel(level)
    assert levels()[NAME] == name
