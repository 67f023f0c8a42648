"""`CompactionFailures`: when a log is cleaned again after a failed pass."""

from types import SimpleNamespace
from typing import Any

from barnabas.log.compaction.compaction_failures import RETRY_MS_MAX, CompactionFailures


def a_log() -> Any:
    class Log(SimpleNamespace):
        __hash__ = object.__hash__

    return Log(is_gone=False, log_start_offset=7)


def test_failures_that_may_pass_are_retried_with_growing_delays() -> None:
    failures, log = CompactionFailures(), a_log()
    assert failures.allows(log, 0)
    now_ms, delays = 0.0, []
    for _ in range(12):
        delay_ms = failures.retry(log, now_ms, 15_000)
        delays.append(delay_ms)
        assert not failures.allows(log, now_ms + delay_ms - 1)
        now_ms += delay_ms
        assert failures.allows(log, now_ms)
    assert delays[:4] == [15_000, 30_000, 60_000, 120_000]
    assert delays[-1] == RETRY_MS_MAX
    assert list(failures.waiting()) == [log]
    failures.forget(log)
    assert failures.retry(log, now_ms, 15_000) == 15_000


def test_uncleanable_log_is_skipped_until_its_start_moves() -> None:
    failures, log = CompactionFailures(), a_log()
    failures.mark_uncleanable(log)
    assert not failures.allows(log, 1e15)
    assert (list(failures.uncleanable()), list(failures.waiting())) == ([log], [])
    log.log_start_offset = 9
    assert failures.allows(log, 0)


def test_failures_of_deleted_logs_are_removed() -> None:
    failures, log = CompactionFailures(), a_log()
    failures.mark_uncleanable(log)
    log.is_gone = True
    failures.prune()
    assert list(failures.uncleanable()) == []
