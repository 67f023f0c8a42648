"""Queries in which one Python operator with state follows another.

Spark refuses two applyInPandasWithState in one query, also in append mode. It allows the same
for flatMapGroupsWithState of the JVM when all are in append mode: each emits a row once, so the
next one never sees a row again. Without timeouts no watermark is involved, and no row is late. For
such queries the check is off while they start.
"""

import contextlib
import threading
from collections.abc import Generator
from typing import Any, Final

from barnabas.pipeline.delivery.driver.frame_sources import nodes_with_state
from barnabas.pipeline.delivery.driver.spark_library import DataFrame

_CHECK: Final = "spark.sql.streaming.unsupportedOperationCheck"
_PYTHON_STATE: Final = "FlatMapGroupsInPandasWithState"
_CHAINED: Final = 2
_turn: Final = threading.Lock()


@contextlib.contextmanager
def allowed(frame: DataFrame) -> Generator[None]:
    """Let the query of a frame start when all its state is in such operators.

    Queries of a session share the setting, so they start one after the other.
    """
    states = nodes_with_state(frame)
    is_chained = len(states) >= _CHAINED and all(map(_appends, states))
    settings = frame.sparkSession.conf
    with _turn:
        before = settings.get(_CHECK)
        settings.set(_CHECK, "false" if is_chained else before)
        try:
            yield
        finally:
            settings.set(_CHECK, before)


def _appends(node: Any) -> bool:
    """True for an operator in append mode without timeouts."""
    if str(node.nodeName()) != _PYTHON_STATE:
        return False
    return (str(node.outputMode()), str(node.timeout())) == ("Append", "NoTimeout")
