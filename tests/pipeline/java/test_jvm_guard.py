"""The process between a runner and its JVM, with another program in place of the JVM."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.pipeline.java import jvm_guard

FILE = jvm_guard.__file__
GUARD = "barnabas.pipeline.java.jvm_guard"
WAITING = "print('runs', flush=True); import signal; signal.pause()"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAITING}"
TIMEOUT_S = 60


class Guarded:
    """A guard, and the process that it guards."""

    def __init__(self, directory: Path, program: str, archive: tuple[str, str] = ("", "")) -> None:
        directory.mkdir()
        (directory / "secret").write_text("secret")
        tell_pid = f"import os; print(os.getpid(), flush=True); {program}"
        self.guard = subprocess.Popen(
            [sys.executable, "-I", FILE, str(directory), *archive, sys.executable, "-c", tell_pid],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.guard.stdout is not None
        self.pid = int(self.guard.stdout.readline())

    def wait_runs(self) -> None:
        assert self.guard.stdout is not None
        assert self.guard.stdout.readline() == b"runs\n"

    def wait_output_end(self) -> None:
        """Wait until no process holds the output, which both have."""
        assert self.guard.stdout is not None
        self.guard.stdout.read()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "private"


@pytest.fixture
def waiting(directory: Path) -> Iterator[Guarded]:
    found = Guarded(directory, WAITING)
    found.wait_runs()
    with found.guard:
        yield found
        found.guard.kill()


def test_end_of_the_runner_ends_the_jvm_and_removes_its_secrets(
    waiting: Guarded, directory: Path
) -> None:
    assert waiting.guard.stdin is not None
    waiting.guard.stdin.close()
    assert waiting.guard.wait(TIMEOUT_S) == 128 + signal.SIGTERM
    waiting.wait_output_end()
    assert not directory.exists()


def test_killed_jvm_ends_the_guard_with_the_number_of_the_signal(
    waiting: Guarded, directory: Path
) -> None:
    os.kill(waiting.pid, signal.SIGKILL)
    assert waiting.guard.wait(TIMEOUT_S) == 128 + signal.SIGKILL
    assert not directory.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="a signal on the parent's death is Linux's")
def test_killed_guard_takes_the_jvm_with_it(waiting: Guarded) -> None:
    waiting.guard.kill()
    waiting.guard.wait(TIMEOUT_S)
    waiting.wait_output_end()


def test_signals_to_the_guard_are_left_to_the_runner(waiting: Guarded) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        waiting.guard.send_signal(number)
    assert waiting.guard.stdin is not None
    assert waiting.guard.poll() is None
    waiting.guard.stdin.close()
    assert waiting.guard.wait(TIMEOUT_S) == 128 + signal.SIGTERM


def test_jvm_that_does_not_end_is_killed(directory: Path) -> None:
    program = [sys.executable, "-c", f"import os; print(os.getpid(), flush=True); {STUBBORN}"]
    start = f"from {GUARD} import main; import {GUARD} as g, sys; g.STOP_GRACE_S = 0.1; "
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"{start} sys.exit(main(sys.argv[1:]))",
            str(directory),
            "",
            "",
            *program,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as guard:
        assert guard.stdout is not None
        assert guard.stdin is not None
        guard.stdout.readline()
        assert guard.stdout.readline() == b"runs\n"
        guard.stdin.close()
        assert guard.wait(TIMEOUT_S) == 128 + signal.SIGKILL


def test_status_of_the_jvm_is_passed_on(directory: Path) -> None:
    with Guarded(directory, "raise SystemExit(3)").guard as guard:
        assert guard.wait(TIMEOUT_S) == 3


def test_archive_that_the_jvm_has_written_gets_its_name(directory: Path, tmp_path: Path) -> None:
    partial, final = tmp_path / "classes.1", tmp_path / "classes.jsa"
    program = f"open({str(partial)!r}, 'w').write('classes')"
    with Guarded(directory, program, (str(partial), str(final))).guard as guard:
        assert guard.wait(TIMEOUT_S) == 0
    assert final.read_text() == "classes"
    assert not partial.exists()


def test_jvm_without_an_archive_leaves_none(directory: Path, tmp_path: Path) -> None:
    final = tmp_path / "classes.jsa"
    with Guarded(directory, "pass", (str(tmp_path / "classes.1"), str(final))).guard as guard:
        assert guard.wait(TIMEOUT_S) == 0
    assert not final.exists()
