"""Sessions of Spark in their own processes: what one leaves, how it comes again, its files."""

import os
import re
import shutil
import signal
import stat
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

# A micro-batch with state, and a directory whose permissions Java's library does not know.
WRITTEN = """
import sys
from pathlib import Path
from barnabas.pipeline.spark.session import SessionSettings, SparkProcess

root = Path(sys.argv[1])
properties = {
    "spark.sql.shuffle.partitions": "2",
    "spark.hadoop.fs.permissions.umask-mode": "027",
    **{name: "org.apache.hadoop.fs.LocalFileSystem" for name in sys.argv[2:]},
}
process = SparkProcess.start(
    SessionSettings(root / "work", "local[1]", is_short_lived=True, properties=properties)
)
session = process.session
(root / "input").mkdir()
(root / "input" / "letters.txt").write_text("a\\nb\\na")
counts = session.readStream.text(str(root / "input")).groupBy("value").count()
written = counts.writeStream.format("noop").outputMode("complete").trigger(availableNow=True)
written.option("checkpointLocation", str(root / "checkpoint")).start().awaitTermination()
hadoop = session._jvm.org.apache.hadoop.fs
path = hadoop.Path(str(root / "checkpoint" / "sticky"))
files = path.getFileSystem(session._jsc.hadoopConfiguration())
files.mkdirs(path)
files.setPermission(path, hadoop.permission.FsPermission("1755"))
process.stop()
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


def written(root: Path, *replaced: str) -> tuple[dict[str, int], int]:
    """Return the permissions below the checkpoint of a query, and how often `chmod` ran.

    `replaced` has the properties that Hadoop's own file system is the value of.
    """
    calls, command = root / "calls", root / "bin" / "chmod"
    command.parent.mkdir(parents=True)
    calls.touch()
    command.write_text(f'#!/bin/sh\necho >>{calls}\nexec {shutil.which("chmod")} "$@"\n')
    command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"}
    command_line = [sys.executable, "-c", WRITTEN, str(root), *replaced]
    subprocess.run(command_line, env=environment, check=True)
    checkpoint, found = root / "checkpoint", dict[str, int]()
    for path in checkpoint.rglob("*"):
        name = re.sub(r"[0-9a-f]{8}-[-0-9a-f]{27}", "ID", str(path.relative_to(checkpoint)))
        found[name] = stat.S_IMODE(path.stat().st_mode)
    return found, len(calls.read_text())


def test_files_of_a_session_have_the_permissions_of_hadoop(tmp_path: Path) -> None:
    ours, few = written(tmp_path / "ours")
    cached, again = written(tmp_path / "cached")
    hadoop, many = written(tmp_path / "hadoop", "spark.hadoop.fs.file.impl")
    assert ours == cached == hadoop
    assert ours["sticky"] == 0o1755
    assert {ours["commits/0"], ours["commits/.0.crc"], ours["state/0/1/1.changelog"]} == {0o640}
    assert ours["state/0/1"] == 0o750
    assert few == again == 1, "the directory with the sticky bit"
    assert many > 20
