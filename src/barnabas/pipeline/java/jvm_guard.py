"""The process between a runner and its JVM: the JVM ends when the runner ends in any way.

The runner keeps a pipe to this process's standard input. At the end of the pipe this process asks
the JVM to end, kills it when it does not, and removes the directory with its secrets. On Linux the
JVM is also killed when this process is. An archive of classes that the JVM writes at its end gets
its final name here. It imports little: it only waits.

    python jvm_guard.py DIRECTORY PARTIAL_ARCHIVE FINAL_ARCHIVE java ...
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
from typing import Final

STOP_GRACE_S: Final = 15.0
"""The time that the JVM has to stop its tasks and to leave its group."""

_STDIN: Final = 0
_DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def main(arguments: list[str]) -> int:
    """Run the JVM; return its status, or 128 and the number of the signal that ended it."""
    directory, partial, final, *command = arguments
    # Ctrl-C and a service manager's SIGTERM are for the runner.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        # The main thread starts it: the signal follows the thread, and this one lives to the end.
        jvm = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_before_exec)
        threading.Thread(target=_end_with_runner, args=(jvm,), daemon=True).start()
        status = jvm.wait()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if partial:
            _keep(partial, final)
    return status if status >= 0 else 128 - status


def _keep(partial: str, final: str) -> None:
    """Publish an archive; a JVM that was killed has written none."""
    with contextlib.suppress(OSError):
        os.replace(partial, final)


def _before_exec() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)


def _end_with_runner(jvm: "subprocess.Popen[bytes]") -> None:
    while os.read(_STDIN, 1):
        pass  # the runner sends nothing
    jvm.terminate()
    try:
        jvm.wait(STOP_GRACE_S)
    except subprocess.TimeoutExpired:
        jvm.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
