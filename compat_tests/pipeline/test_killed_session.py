"""A Spark session whose JVM is killed leaves nothing in the working directory."""

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
