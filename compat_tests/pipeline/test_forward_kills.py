"""Exactly once through kills: a forward job loses and doubles nothing."""

from pathlib import Path

import pytest

from compat_tests import spark as setup
from compat_tests.pipeline.forward_kills import ForwardJob
from compat_tests.pipeline.planted_daemon import POINTS

pytestmark = [
    setup.needed,
    pytest.mark.timeout(600),
]


def test_forward_job_killed_at_every_point_copies_each_record_once(
    start_server, unique, tmp_path: Path
) -> None:
    job = ForwardJob(start_server(), tmp_path, unique("forward"))
    for point in POINTS:
        job.kill_worker_at(point)
    job.kill_driver_at("produced")
    job.kill_driver_at("committed")
    job.kill_workers()
    job.kill_broker()
    job.kill_all()
    assert "Fenced" in job.resume_zombie()
    assert job.check() > 1000


def test_check_finds_offsets_committed_outside_the_transaction(
    start_server, unique, tmp_path: Path
) -> None:
    """The check can fail: with this mistake planted, a kill loses records."""
    (tmp_path / "points").mkdir()
    (tmp_path / "points" / "offsets-outside").touch()
    job = ForwardJob(start_server(), tmp_path, unique("mistake"))
    job.kill_worker_at("offsets-sent")
    with pytest.raises(AssertionError, match="missing"):
        job.check()
