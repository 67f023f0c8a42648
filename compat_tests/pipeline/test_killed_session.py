"""Sessions of Spark in their own processes: what a killed one leaves, and one that comes again."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests import spark as setup

pytestmark = [setup.needed, pytest.mark.timeout(180)]

SESSION = """
import sys
from pathlib import Path
from barnabas.pipeline.spark.engine import Engine
from barnabas.pipeline.spark.session import SessionSettings

engine = Engine(SessionSettings(Path(sys.argv[1]), master="local[1]", is_short_lived=True))
engine.start()
session = engine.session
assert session.range(3).count() == 3
print(session._jvm.java.lang.ProcessHandle.current().pid(), flush=True)
sys.stdin.read()
"""

# As in a runner of spark-submit: the JVM runs, and has the properties.
SUBMITTED = """
import sys
from pathlib import Path
from pyspark import SparkContext
from barnabas.pipeline.spark.session import SessionSettings, SparkProcess

SparkContext._ensure_initialized()
for _ in range(2):
    process = SparkProcess.start(SessionSettings(Path(sys.argv[1]), is_submitted=True))
    assert len(process.session.range(3).collect()) == 3
    assert process.session.sparkContext.master == "local[1]"
    process.session.stop()
"""


def test_submitted_session_that_ended_starts_again_with_its_properties(tmp_path: Path) -> None:
    environment = {**setup.environment(), "PYSPARK_SUBMIT_ARGS": "--master local[1] pyspark-shell"}
    warnings = "always::ResourceWarning"
    command = [sys.executable, "-W", warnings, "-c", SUBMITTED, str(tmp_path / "scratch")]
    found = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert "unclosed <socket" not in found.stderr, found.stderr
    assert not (tmp_path / "artifacts").exists()


def test_killed_session_leaves_the_working_directory_clean(tmp_path: Path) -> None:
    working, scratch = tmp_path / "working", tmp_path / "scratch"
    working.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", SESSION, str(scratch)],
        cwd=working,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=setup.environment(),
    ) as process:
        assert process.stdout is not None
        java = int(process.stdout.readline())
        os.kill(java, signal.SIGKILL)
        process.kill()
    assert list(working.iterdir()) == []
    assert len(list(scratch.glob("artifacts-*"))) == 1
