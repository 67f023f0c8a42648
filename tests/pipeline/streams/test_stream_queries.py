"""Queries of an app: restarts with a delay, and the end of the app at a permanent failure."""

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from barnabas.pipeline.delivery.driver import trimmed_offsets
from barnabas.pipeline.delivery.forward import offset_refresh
from barnabas.pipeline.delivery.plan.job_plan import JobFailure, JobKind, JobPlan, JobProgress
from barnabas.pipeline.delivery.plan.task_failures import JobStartError
from barnabas.pipeline.streams import position_keeper, stream_queries
from barnabas.pipeline.streams.stream_queries import QueryWatcher, StreamFailedError, StreamQuery

PASSING = JobFailure("the broker does not answer", is_permanent=False)
PERMANENT = JobFailure("record t-0@7 does not decode", is_permanent=True)


class FakeJob:
    def __init__(self, generation: int, failure: JobFailure | None = None) -> None:
        self.plan = JobPlan("q", generation, JobKind.STREAM, "localhost:1", "q", "q")
        self.found = failure
        self.stops = 0
        self.trimmed = 0

    def is_running(self) -> bool:
        return self.found is None and not self.stops

    def progress(self) -> JobProgress:
        return JobProgress(records=5, trimmed=self.trimmed)

    def failure(self) -> JobFailure | None:
        return self.found

    def stop(self, timeout_s: float = 30.0) -> None:
        self.stops += 1


class FakeJobs:
    """Starts jobs that fail as planned; the last one runs."""

    def __init__(self, *failures: JobFailure | None) -> None:
        self.failures: Iterator[JobFailure | None] = iter((*failures, None))
        self.started: list[FakeJob] = []
        self.generations: list[int] = []

    def start(self, generation: int) -> FakeJob:
        self.generations.append(generation)
        self.started.append(FakeJob(generation, next(self.failures)))
        return self.started[-1]


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_queries, "_FIRST_DELAY_S", 0.01)
    monkeypatch.setattr(stream_queries, "_POLL_S", 0.005)


def eventually(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_query_that_fails_for_now_starts_again_with_the_next_generation() -> None:
    jobs = FakeJobs(PASSING, PASSING)
    query = StreamQuery("q", jobs.start)
    watcher = QueryWatcher([query])
    watcher.start()
    eventually(lambda: len(jobs.started) == 3)
    assert query.is_running()
    assert query.progress().records == 5
    assert jobs.generations == [1, 2, 3]
    assert [job.stops for job in jobs.started] == [1, 1, 0]
    watcher.stop()
    assert watcher.wait(60)
    assert jobs.started[-1].stops == 1


def test_query_that_cannot_start_for_now_starts_again() -> None:
    jobs = FakeJobs()
    attempts: list[int] = []

    def start(generation: int) -> FakeJob:
        attempts.append(generation)
        if len(attempts) < 3:
            raise JobStartError(PASSING)
        return jobs.start(generation)

    watcher = QueryWatcher([StreamQuery("q", start)])
    watcher.start()
    eventually(lambda: len(jobs.started) == 1)
    watcher.stop()


def test_query_that_fails_for_good_stops_all_queries_and_names_the_record() -> None:
    others = FakeJobs()
    failing = FakeJobs(PERMANENT)
    watcher = QueryWatcher([StreamQuery("other", others.start), StreamQuery("bad", failing.start)])
    watcher.start()
    with pytest.raises(StreamFailedError, match="query bad failed: record t-0@7") as info:
        watcher.wait(60)
    assert info.value.query == "bad"
    assert [job.stops for job in others.started] == [1]


def test_query_that_cannot_start_at_all_stops_those_before_it() -> None:
    others = FakeJobs()

    def start(generation: int) -> FakeJob:
        raise JobStartError(PERMANENT)

    watcher = QueryWatcher([StreamQuery("other", others.start), StreamQuery("bad", start)])
    with pytest.raises(StreamFailedError):
        watcher.start()
    assert [job.stops for job in others.started] == [1]


def test_session_that_ended_ends_the_app_with_an_error() -> None:
    failing = FakeJobs(PASSING)
    query = StreamQuery("q", failing.start, is_session_alive=lambda: False)
    watcher = QueryWatcher([query])
    watcher.start()
    with pytest.raises(StreamFailedError, match="driver JVM of Spark ended"):
        watcher.wait(60)
    assert failing.generations == [1]


def test_unexpected_exception_ends_the_app_with_it() -> None:
    jobs = FakeJobs(PASSING)

    def start(generation: int) -> FakeJob:
        if generation == 2:
            raise ConnectionRefusedError("py4j")
        return jobs.start(generation)

    watcher = QueryWatcher([StreamQuery("q", start)])
    watcher.start()
    with pytest.raises(ConnectionRefusedError, match="py4j"):
        watcher.wait(60)


def test_query_stopped_from_outside_ends_the_app() -> None:
    jobs = FakeJobs()
    watcher = QueryWatcher([StreamQuery("q", jobs.start)])
    watcher.start()
    jobs.started[0].stops = 1
    with pytest.raises(StreamFailedError, match="stopped from outside"):
        watcher.wait(60)


def test_wait_returns_false_while_queries_run() -> None:
    watcher = QueryWatcher([StreamQuery("q", FakeJobs().start)])
    watcher.start()
    assert not watcher.wait(0.02)
    watcher.stop()


class Refreshes:
    """Records the plans whose offsets are committed again; the first call fails."""

    def __init__(self) -> None:
        self.plans: list[JobPlan] = []

    def __call__(self, plan: JobPlan) -> int:
        self.plans.append(plan)
        if len(self.plans) == 1:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return 2


def test_positions_of_queries_without_state_are_committed_again_while_the_app_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refreshes, jobs = Refreshes(), FakeJobs(PASSING)
    monkeypatch.setattr(offset_refresh, "refresh", refreshes)
    monkeypatch.setattr(offset_refresh, "FIRST_S", 0.01)
    monkeypatch.setattr(offset_refresh, "EVERY_S", 0.01)
    caplog.set_level(logging.INFO, "barnabas.streams")
    forwarding = StreamQuery("forwarding", jobs.start, has_committed_positions=True)
    watcher = QueryWatcher([StreamQuery("counting", FakeJobs().start), forwarding])
    watcher.start()
    eventually(lambda: len(jobs.started) == 2)
    eventually(lambda: jobs.started[1].plan in refreshes.plans[1:])
    watcher.stop()
    assert {id(plan) for plan in refreshes.plans} <= {id(job.plan) for job in jobs.started}
    eventually(lambda: "barnabas-positions" not in {each.name for each in threading.enumerate()})
    lines = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("cannot commit idle offsets again query=q error=") for line in lines)
    assert "committed idle offsets again query=q partitions=2" in lines


def test_stop_does_not_wait_for_positions_that_the_cluster_does_not_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_called, is_over = threading.Event(), threading.Event()

    def refresh(plan: JobPlan) -> int:
        is_called.set()
        is_over.wait(120)
        return 0

    monkeypatch.setattr(offset_refresh, "refresh", refresh)
    monkeypatch.setattr(offset_refresh, "FIRST_S", 0.01)
    monkeypatch.setattr(position_keeper, "_STOP_S", 0.01)
    jobs = FakeJobs()
    watcher = QueryWatcher([StreamQuery("q", jobs.start, has_committed_positions=True)])
    watcher.start()
    assert is_called.wait(60)
    watcher.stop()
    assert jobs.started[0].stops == 1
    is_over.set()


def test_skipped_offsets_are_logged_once_and_the_rest_at_the_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trimmed_offsets, "REPORT_EVERY_S", 1e9)
    jobs = FakeJobs()
    query = StreamQuery("q", jobs.start)
    query.start()
    (job,) = jobs.started
    query.watch()
    for job.trimmed in (7, 7, 9, 12):
        query.watch()
    query.stop()
    query.stop()
    lines = [each.getMessage() for each in caplog.records if "skipped" in each.getMessage()]
    assert lines == [
        f"query q skipped {count} offsets that retention deleted before they were read"
        for count in (7, 5)
    ]


def test_skipped_offsets_of_a_run_that_fails_are_logged_before_the_next_one(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trimmed_offsets, "REPORT_EVERY_S", 1e9)
    jobs = FakeJobs(None)
    query = StreamQuery("q", jobs.start)
    query.start()
    for jobs.started[0].trimmed in (7, 9):
        query.watch()
    jobs.started[0].found = PASSING
    query.watch()
    eventually(lambda: query.watch() or len(jobs.started) == 2)
    jobs.started[1].trimmed = 4
    query.stop()
    lines = [each.getMessage() for each in caplog.records if "skipped" in each.getMessage()]
    assert [line.split()[3] for line in lines] == ["7", "2", "4"]
