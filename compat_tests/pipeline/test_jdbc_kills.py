"""Exactly once through kills: a JDBC sink's rows, on each database."""

from pathlib import Path

import pytest

from compat_tests import spark as setup
from compat_tests.pipeline.jdbc_kills import DATABASES, JdbcSinkJob

pytestmark = [
    setup.needed,
    pytest.mark.timeout(600),
]


@pytest.mark.parametrize("name", DATABASES)
def test_jdbc_sink_writes_each_row_once_when_driver_and_database_are_killed(
    start_server, unique, tmp_path: Path, name: str
) -> None:
    """Its first batch is killed between the commits of the database and of Kafka."""
    kind, database_setup = DATABASES[name]
    if reason := database_setup.missing():
        pytest.skip(reason)
    database = kind()
    try:
        database.start()
        job = JdbcSinkJob(start_server(), tmp_path, unique(name), database)
        job.kill_driver_at("produced")
        job.kill_database()
        assert job.check() > 1000
    finally:
        database.close()
