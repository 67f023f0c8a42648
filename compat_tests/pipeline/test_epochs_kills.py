"""Exactly once through kills: a job with state counts every record once."""

import shutil
from pathlib import Path

import pytest

from compat_tests import spark as setup
from compat_tests.pipeline.epochs_kills import CountingJob
from compat_tests.pipeline.killed_job import wait_until
from compat_tests.pipeline.planted_daemon import POINTS

pytestmark = [
    pytest.mark.skipif(setup.missing() is not None, reason=setup.missing() or ""),
    pytest.mark.timeout(600),
]


def test_counting_job_killed_at_every_point_counts_each_record_once(
    start_server, unique, tmp_path: Path
) -> None:
    job = CountingJob(start_server(), tmp_path, unique("counts"))
    for point in POINTS:
        job.kill_worker_at(point)
    job.kill_driver_at("committed")
    job.lose_commit_log()
    assert "Fenced" in job.resume_zombie()
    assert job.check() > 500


def test_counting_job_with_wiped_or_old_checkpoint_stops(
    start_server, unique, tmp_path: Path
) -> None:
    job = CountingJob(start_server(), tmp_path, unique("checkpoint"))
    job.driver.wait_for_progress(500)
    job.driver.kill()
    old = tmp_path / "old"
    shutil.copytree(job.checkpoint, old)
    job.restart_driver()
    job.driver.wait_for_progress(500)
    job.driver.kill()
    shutil.rmtree(job.checkpoint)
    assert "not the one that wrote epoch" in refusal(job)
    shutil.copytree(old, job.checkpoint)
    assert "not the one that wrote epoch" in refusal(job)
    job.load.end()


def refusal(job: CountingJob) -> str:
    """Start the driver; return why it refuses the job."""
    job.driver.start()
    wait_until(lambda: bool(job.driver.events("refused")), "refusal", job.driver)
    event = job.driver.events("refused")[0]
    assert event["permanent"]
    job.driver.kill()
    return event["message"]
