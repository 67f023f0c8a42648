"""The integration tests of kafka-python and aiokafka, each in its own pytest process."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from compat_tests.clients.outcomes import Outcome, of_junit

_ROOT = Path(__file__).parent.parent.parent
KAFKA_PYTHON = _ROOT / ".cache" / "kafka-python"
AIOKAFKA = _ROOT / ".cache" / "aiokafka"
_AIOKAFKA_FILES = (
    *("admin", "client", "conn", "consumer", "coordinator", "pep492", "producer", "sender"),
    *("transactional_consumer", "transactional_producer"),
)
"""The files whose tests use a broker, without SASL."""
KAFKA_VERSION = "4.3"
_TEST_TIMEOUT_S = 120
_COMPLETE = (0, 1)
"""pytest's exit status when all tests have run."""


def missing_kafka_python() -> str | None:
    """Return in one line why kafka-python's suite cannot run here, or None."""
    if not (KAFKA_PYTHON / ".fetched").exists():
        return "kafka-python's tests are missing: run `make compat` with access to PyPI"
    return None


def missing_aiokafka() -> str | None:
    """Return in one line why aiokafka's suite cannot run here, or None."""
    if not (AIOKAFKA / "tests").exists():
        return "aiokafka's tests are missing: run `make compat-suites` with access to GitHub"
    return None


def run_kafka_python(address: str, *, tests: str = "", timeout_s: float) -> list[Outcome]:
    """Run kafka-python's integration tests that match, with one node's address to begin with."""
    environment = {
        "KAFKA_VERSION": KAFKA_VERSION,
        "KAFKA_URI": f"kafka://{address}",
        "KAFKA_ROOT": str(KAFKA_PYTHON),  # their fixtures want a directory, which stays unused
    }
    plugin = "compat_tests.clients.kafka_python_plugin"
    return _run(KAFKA_PYTHON, plugin, ["test/integration"], tests, environment, timeout_s)


def run_aiokafka(address: str, *, tests: str = "", timeout_s: float) -> list[Outcome]:
    """Run aiokafka's tests that match, with one node's address to begin with."""
    environment = {"AIOKAFKA_ADDRESS": address, "AIOKAFKA_BROKER_VERSION": KAFKA_VERSION}
    plugin = "compat_tests.clients.aiokafka_plugin"
    arguments = ["--noconftest", *(f"tests/test_{each}.py" for each in _AIOKAFKA_FILES)]
    return _run(AIOKAFKA, plugin, arguments, tests, environment, timeout_s)


def _run(
    folder: Path,
    plugin: str,
    arguments: list[str],
    tests: str,
    environment: Mapping[str, str],
    timeout_s: float,
) -> list[Outcome]:
    """Run a suite in its folder. Raises AssertionError when it ends before all tests have run."""
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary) / "report.xml"
        options = ["-c", os.devnull, "--rootdir", ".", f"--junit-xml={report}", "-q"]
        options += ["-p", "no:cacheprovider", "-p", "pytest_timeout"]
        options += ["-o", "junit_logging=log", "-o", "junit_log_passing_tests=false"]
        options += ["--log-level=INFO"]
        options += [f"--timeout={_TEST_TIMEOUT_S}", *(["-k", tests] if tests else [])]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", plugin, *options, *arguments],
            env={
                **os.environ,
                **environment,
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "PYTHONPATH": os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")]),
            },
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode not in _COMPLETE:
            raise AssertionError(
                f"the suite in {folder} ended with status {done.returncode}:\n"
                f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
            )
        return of_junit(report)
