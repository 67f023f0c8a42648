"""Run a command, and pause its processes at random, as a busy or virtual machine does.

    python -m compat_tests.stalls [--seed N] make compat

Every 1 to 5 seconds one process, two, or all of them are stopped for 0.1 to 1.5 seconds (SIGSTOP),
so that a deadline or an order of events that holds on a quiet machine only shows itself. Processes
are known by a variable of their environment, which they inherit. A process that a test has stopped
itself is not resumed. The exit status is that of the command. Linux only.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_MARK: Final = "BARNABAS_STALLS"
_PAUSES_S: Final = (0.1, 0.3, 0.7, 1.5)
_LEAST_S: Final = 1.0
_MOST_S: Final = 5.0
_STOPPED_OR_ENDED: Final = "TtZX"


def processes(mark: str) -> Iterator[int]:
    """Yield the running processes whose environment has the mark."""
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and mark.encode() in (folder / "environ").read_bytes():
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                if state not in _STOPPED_OR_ENDED:
                    yield int(folder.name)


def send(pids: Sequence[int], number: signal.Signals) -> None:
    """Send a signal to processes, of which some may have ended."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def stall(mark: str, ended: threading.Event, chance: random.Random) -> Counter[float]:
    """Pause processes until `ended`; return how often each pause, in seconds, was made."""
    pauses: Counter[float] = Counter()
    while not ended.wait(chance.uniform(_LEAST_S, _MOST_S)):
        running = list(processes(mark))
        count = min(len(running), chance.choice((1, 1, 2, len(running))))
        chosen, pause_s = chance.sample(running, count), chance.choice(_PAUSES_S)
        try:
            send(chosen, signal.SIGSTOP)
            ended.wait(pause_s)
        finally:
            send(chosen, signal.SIGCONT)
        pauses[pause_s] += count
    return pauses


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if not arguments.command:
        parser.error("no command: name one, as in `python -m compat_tests.stalls make compat`")
    mark = f"{_MARK}={os.getpid()}"
    environment = {**os.environ, _MARK: str(os.getpid())}
    ended = threading.Event()
    pauses: Counter[float] = Counter()
    thread = threading.Thread(
        target=lambda: pauses.update(stall(mark, ended, random.Random(arguments.seed)))
    )
    with subprocess.Popen(arguments.command, env=environment) as process:
        # Without this, SIGTERM would leave the command behind, and processes stopped.
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        thread.start()
        try:
            status = process.wait()
        finally:
            ended.set()
            thread.join()
    made = ", ".join(f"{count} of {pause_s} s" for pause_s, count in sorted(pauses.items()))
    print(f"stalls with seed {arguments.seed}: {made or 'none'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
