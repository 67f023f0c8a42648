"""Restarts of failed jobs of Java's worker."""

from barnabas.pipeline.java.failed_jobs import FailedJobs
from barnabas.pipeline.jobs.core.job_supervision import RestartPolicy


def test_delay_doubles_with_each_failure_in_a_row_up_to_the_longest() -> None:
    jobs = FailedJobs(RestartPolicy(first_delay_s=1, longest_delay_s=4))
    now, delays = 0.0, list[float]()
    for _ in range(5):
        began = now
        while jobs.due({"a"}, now) != ["a"]:
            now += 0.5
        delays.append(now - began)
        now += 0.5
        assert jobs.due((), now) == []  # it starts
        now += 0.5
    assert delays == [1, 2, 4, 4, 4]


def test_restart_is_requested_once_for_each_delay() -> None:
    jobs = FailedJobs(RestartPolicy(first_delay_s=1))
    assert jobs.due({"a"}, 0) == []
    assert jobs.due({"a"}, 1) == ["a"]
    # The state of the restarted job is not replayed yet: this counts as the next failure.
    assert jobs.due({"a"}, 1.5) == []
    assert jobs.due({"a"}, 3) == []
    assert jobs.due({"a"}, 3.5) == ["a"]


def test_healthy_job_begins_with_the_first_delay_again() -> None:
    jobs = FailedJobs(RestartPolicy(first_delay_s=1, healthy_s=100))
    jobs.due({"a"}, 0)
    assert jobs.due({"a"}, 1) == ["a"]
    jobs.due((), 2)
    jobs.due({"a"}, 50)
    assert jobs.due({"a"}, 51) == []
    assert jobs.due({"a"}, 52) == ["a"]
    jobs.due((), 60)
    jobs.due((), 160)
    jobs.due({"a"}, 200)
    assert jobs.due({"a"}, 201) == ["a"]


def test_job_that_a_person_restarts_is_not_restarted_again() -> None:
    jobs = FailedJobs(RestartPolicy(first_delay_s=10))
    jobs.due({"a", "b"}, 0)
    assert jobs.due({"b"}, 5) == []
    assert jobs.due({"b"}, 10) == ["b"]


def test_limit_of_restarts_is_that_of_the_runner() -> None:
    never = FailedJobs(RestartPolicy(restarts_max=0))
    once = FailedJobs(RestartPolicy(first_delay_s=1, restarts_max=1))
    assert [never.due({"a"}, now) for now in (0, 1, 10_000)] == [[], [], []]
    assert [once.due({"a"}, now) for now in (0, 1, 2, 10_000)] == [[], ["a"], [], []]
