"""Statements wait for another change of the catalog, but not without end."""

import threading

import pytest

from barnabas.pipeline.sql.hosting.change_lock import for_statement
from barnabas.pipeline.sql.sql_failures import UnresolvedError


def test_statement_is_refused_when_another_change_takes_too_long() -> None:
    lock = threading.Lock()
    with (
        lock,
        pytest.raises(UnresolvedError, match=r"for 0\.01 s already: try this statement again"),
        for_statement(lock, 0.01),
    ):
        pass


def test_lock_is_free_after_a_statement_that_fails() -> None:
    lock = threading.Lock()
    with pytest.raises(KeyError), for_statement(lock):
        raise KeyError
    with for_statement(lock, 0.01):
        assert lock.locked()
