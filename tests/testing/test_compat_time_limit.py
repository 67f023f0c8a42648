"""Runs of `make compat` whose time is limited."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFTEST = """\
from compat_tests.time_limit import TimeLimit
def pytest_configure(config):
    config.pluginmanager.register(TimeLimit({end_s}))
"""
FAILING = """\
import pytest
@pytest.fixture
def server():
    raise AssertionError("a fixture started")
def test_one(server): pass
def test_two(): assert False
"""


@pytest.mark.parametrize(
    ("left_s", "code", "shown"),
    [
        (-1, 0, ["2 tests did not start: `make compat` runs all", "2 skipped"]),
        (3600, 1, ["1 failed, 1 error"]),
    ],
)
def test_test_after_the_limit_is_skipped_before_its_fixtures_and_counted(
    tmp_path: Path, left_s: int, code: int, shown: list[str]
) -> None:
    (tmp_path / "test_failing.py").write_text(FAILING)
    (tmp_path / "conftest.py").write_text(CONFTEST.format(end_s=time.time() + left_s))
    options = ["-q", "-p", "no:cacheprovider", "-n", "1", f"--rootdir={ROOT}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert all(each in done.stdout for each in shown), done.stdout
