"""Pauses of processes at random: the end of the program that makes them."""

import signal
import subprocess
import sys
from pathlib import Path

from barnabas.testing.eventually import wait_until
from compat_tests import stalls


def handles(pid: int, number: signal.Signals) -> bool:
    """Return True when a process has a handler for a signal."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (caught,) = (line.split()[1] for line in lines if line.startswith("SigCgt"))
    return bool(int(caught, 16) >> (number - 1) & 1)


def test_terminated_program_ends_its_command() -> None:
    command = [sys.executable, "-c", "import time; print('runs', flush=True); time.sleep(600)"]
    program = [sys.executable, "-m", "compat_tests.stalls", "--seed", "1", *command]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        mark = f"BARNABAS_STALLS={process.pid}"
        try:
            assert process.stdout.readline() == "runs\n"
            wait_until(lambda: handles(process.pid, signal.SIGTERM))
            process.terminate()
            assert process.wait(60) == 256 - signal.SIGTERM
            assert not list(stalls.processes(mark))
        finally:
            stalls.send(list(stalls.processes(mark)), signal.SIGKILL)
            process.kill()
