"""Exactly once through kills: a file source and a file sink lose and double no line."""

from pathlib import Path

import pytest

from compat_tests import spark as setup
from compat_tests.pipeline.slices_kills import FileSinkJob, FileSourceJob

pytestmark = [
    setup.needed,
    pytest.mark.timeout(600),
]


def test_file_source_killed_at_every_point_writes_each_line_once(
    start_server, unique, tmp_path: Path
) -> None:
    job = FileSourceJob(start_server(), tmp_path, unique("lines"))
    for point in ("begun", "produced", "committed"):
        job.kill_worker_at(point)
    job.kill_driver_at("produced")
    job.kill_broker()
    # Its records expire when the new driver needs more than a minute.
    refusal = job.resume_zombie(job.zombie_point)
    assert "Fenced" in refusal or "Abortable" in refusal
    assert job.check() > 500


def test_file_sink_killed_inside_transactions_writes_each_line_once(
    start_server, unique, tmp_path: Path
) -> None:
    job = FileSinkJob(start_server(), tmp_path, unique("sink"))
    job.kill_worker_at("offsets-sent")
    job.kill_driver_at("committed")
    assert "Fenced" in job.resume_zombie()
    assert job.check() > 500
