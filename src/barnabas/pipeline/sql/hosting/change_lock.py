"""The lock of changes to the catalog, by statements and by swaps of tables."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from barnabas.pipeline.sql.sql_failures import UnresolvedError

_WAIT_S: Final = 30.0
"""The time that a statement waits. A swap takes longer when many rows differ."""


@contextmanager
def for_statement(lock: threading.Lock, wait_s: float = _WAIT_S) -> Generator[None]:
    """Hold the lock. Raises UnresolvedError when another change has it for too long."""
    if not lock.acquire(timeout=wait_s):
        raise UnresolvedError(
            "Another statement, or the swap of a table that CREATE OR REPLACE has rebuilt, changes "
            f"the catalog for {wait_s:g} s already: try this statement again in a minute. SHOW, "
            "DESCRIBE and SELECT do not wait"
        )
    try:
        yield
    finally:
        lock.release()
