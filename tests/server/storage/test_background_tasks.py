"""Periodic tasks of a node whose volume fails while they run."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.server.storage.background_tasks import BackgroundTasks


class FailingLog:
    """A log whose flush fails, with its volume or alone."""

    directory = "t-0"

    def __init__(self, failure: str | None) -> None:
        self.volume = SimpleNamespace(failure=None)
        self._failure = failure

    def needs_flush(self, _: int) -> bool:
        return True

    def flush(self) -> None:
        self.volume.failure = self._failure
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "t-0 is offline")


@pytest.mark.parametrize(("failure", "lines"), [("I/O error", 0), (None, 1)])
def test_flush_that_fails_with_its_volume_has_no_line(
    failure: str | None, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def fsync(_: object, flush: Callable[[], None]) -> None:
        flush()

    parts: dict[str, Any] = {
        "config": lambda: SimpleNamespace(get_int=lambda _: 1),
        "logs": SimpleNamespace(logs=lambda: [FailingLog(failure)]),
        "disk": SimpleNamespace(fsync=fsync),
        "clock": SimpleNamespace(wall_ms=lambda: 0, monotonic_ms=lambda: 0),
    }
    found = BackgroundTasks(**parts, **dict.fromkeys(("replicas", "helpers", "directories")))
    trio.run(found.flush_old)
    assert caplog.text.count("flush failed") == lines
