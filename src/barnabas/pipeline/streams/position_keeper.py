"""Keeps the positions of an app's queries from expiring in partitions without new records."""

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Final

from barnabas.pipeline.delivery.forward import offset_refresh
from barnabas.pipeline.delivery.plan.job_plan import JobPlan

_logger: Final = logging.getLogger("barnabas.streams")

_STOP_S: Final = 10.0


class PositionKeeper:
    """A thread that commits old positions again, each hour until it is stopped.

    The cluster may take minutes to answer, and a query must not wait for that.
    """

    def __init__(self, plans: Callable[[], Iterable[JobPlan]]) -> None:
        """Take the function that returns the plans whose positions are committed offsets."""
        self._plans = plans
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="barnabas-positions", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the running transaction, or without it when the cluster does not answer."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def _run(self) -> None:
        pause_s = offset_refresh.FIRST_S
        while not self._stopping.wait(pause_s):
            pause_s = offset_refresh.EVERY_S
            for plan in self._plans():
                if not self._stopping.is_set():
                    _refresh(plan)


def _refresh(plan: JobPlan) -> None:
    try:
        count = offset_refresh.refresh(plan)
    except Exception as error:  # the cluster does not answer, or the topic is gone
        _logger.warning("cannot commit idle offsets again query=%s error=%s", plan.name, error)
    else:
        if count:
            _logger.info("committed idle offsets again query=%s partitions=%d", plan.name, count)
