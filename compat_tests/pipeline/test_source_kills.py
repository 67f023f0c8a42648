"""Exactly once through kills: a SparkSource writes each row of its files once."""

from pathlib import Path

import pytest

from compat_tests import spark as setup
from compat_tests.pipeline.source_kills import RowSourceJob

pytestmark = [
    setup.needed,
    pytest.mark.timeout(600),
]


def test_spark_source_whose_driver_is_killed_inside_micro_batches_writes_each_row_once(
    start_server, unique, tmp_path: Path
) -> None:
    job = RowSourceJob(start_server(), tmp_path, unique("rows"))
    job.kill_driver()
    job.kill_driver_at("committed")
    job.wait_skipped()
    assert job.check() > 500
