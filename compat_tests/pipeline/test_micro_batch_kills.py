"""Exactly once through kills: a job with state counts every record once."""

from pathlib import Path

import pytest

from compat_tests import spark as setup
from compat_tests.pipeline.micro_batch_kills import CountingJob
from compat_tests.pipeline.planted_daemon import POINTS

pytestmark = [
    setup.needed,
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
