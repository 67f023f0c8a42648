"""Companion processes: started, restarted, stopped, and never left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
import trio

from barnabas.server.companion.companion_process import CompanionPlan, Companions
from barnabas.server.companion.companion_supervision import RestartPolicy
from tests.client.harness import eventually
from tests.processes import is_alive

FAST = RestartPolicy(first_delay_s=0.02, longest_delay_s=0.1, stop_grace_s=0.5)

# Writes its process id, priority and address, then does what the test says.
COMPANION = """
import os, signal, sys, time
path, address, what = sys.argv[1:]
def end_slowly(*_):
    time.sleep(1)
    with open(path, "a") as file:
        print("ended", file=file)
    sys.exit(0)
if what == "slow":
    signal.signal(signal.SIGTERM, end_slowly)
with open(path, "a") as file:
    print(os.getpid(), os.getpriority(os.PRIO_PROCESS, 0), address, file=file)
if what == "ignore":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if what.isdecimal():
    sys.exit(int(what))
# A signal just before a sleep does not end it, and its handler runs after it.
for _ in range(600):
    time.sleep(0.1)
"""


def plan(path: Path, what: str) -> CompanionPlan:
    return CompanionPlan(
        "test",
        lambda bootstrap: [sys.executable, "-c", COMPANION, str(path), bootstrap, what],
    )


def starts(path: Path) -> list[list[str]]:
    """Return process id, priority and address of each start so far."""
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def supervise(
    companion: CompanionPlan, condition: Callable[[], bool], *, ends_by_itself: bool = False
) -> None:
    """Run a companion until a condition holds, then stop it."""

    async def main() -> None:
        companions = Companions([companion], FAST)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(companions.run, "127.0.0.1:9092")
            await eventually(condition)
            if not ends_by_itself:
                await companions.stop()

    trio.run(main)


def test_companion_runs_at_lower_priority_and_stops(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    supervise(plan(path, "sleep"), lambda: len(starts(path)) == 1)
    [[pid, priority, address]] = starts(path)
    assert address == "127.0.0.1:9092"
    assert int(priority) >= 10 or os.getpriority(os.PRIO_PROCESS, 0) >= 10
    assert not is_alive(int(pid))


def test_companion_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    supervise(plan(path, "ignore"), lambda: len(starts(path)) == 1)
    assert not is_alive(int(starts(path)[0][0]))


def test_companion_with_its_own_grace_ends_its_work(tmp_path: Path) -> None:
    """With the policy's grace it would be killed before it has written the second line."""
    path = tmp_path / "starts"
    supervise(attrs.evolve(plan(path, "slow"), stop_grace_s=30.0), lambda: len(starts(path)) == 1)
    assert len(starts(path)) == 2


def test_companion_that_ends_restarts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "starts"
    supervise(plan(path, "1"), lambda: len(starts(path)) >= 3)
    assert "companion ended with status 1, restarting delay_s=0.02 failures=1" in caplog.text


def test_companion_that_is_killed_restarts(tmp_path: Path) -> None:
    path = tmp_path / "starts"

    killed: list[int] = []

    def second_start() -> bool:
        if len(starts(path)) == 1 and not killed:
            killed.append(int(starts(path)[0][0]))
            os.kill(killed[0], signal.SIGKILL)
        return len(starts(path)) == 2

    supervise(plan(path, "sleep"), second_start)


def test_companion_with_wrong_usage_is_not_restarted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "starts"
    supervise(plan(path, "2"), lambda: len(starts(path)) == 1, ends_by_itself=True)
    assert "companion cannot run with its configuration" in caplog.text
    assert len(starts(path)) == 1


def test_companion_command_that_does_not_exist_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    missing = CompanionPlan("test", lambda bootstrap: ["/nonexistent/command"])
    supervise(missing, lambda: "No such file or directory" in caplog.text)


def test_companion_ends_with_a_cancelled_node(tmp_path: Path) -> None:
    path = tmp_path / "starts"

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Companions([plan(path, "ignore")], FAST).run, "x:1")
            await eventually(lambda: len(starts(path)) == 1)
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert not is_alive(int(starts(path)[0][0]))


HOSTED = """
import sys
from functools import partial
from barnabas.http import HttpSettings, ListenAddress, serve_app
from barnabas.http.companion_main import run_companion

async def app(scope, receive, send):
    assert scope["type"] == "http"

async def serve(stop):
    print("pid", __import__("os").getpid(), flush=True)
    await serve_app(app, HttpSettings(ListenAddress.parse(sys.argv[1])), stop=stop)

sys.exit(run_companion(serve))
"""

PARENT = """
import sys, trio
from barnabas.server.companion.companion_process import CompanionPlan, Companions
plan = CompanionPlan("test", lambda bootstrap: [sys.executable, "-c", sys.argv[1], bootstrap])
trio.run(Companions([plan]).run, "127.0.0.1:0")
"""


def test_companion_ends_when_the_node_is_killed() -> None:
    command = [sys.executable, "-c", PARENT, HOSTED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline().split()[1])
        assert is_alive(pid)
        parent.kill()
    deadline = time.monotonic() + 60
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(pid)


@pytest.mark.parametrize(
    ("listen", "status", "line"),
    [
        ("127.0.0.1:99999", 2, "barnabas: Invalid value 127.0.0.1:99999 for --listen"),
        ("no.such.host.invalid:1", 1, "barnabas: cannot listen on no.such.host.invalid:1"),
    ],
)
def test_companion_main_start_failure_is_one_line(listen: str, status: int, line: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", HOSTED, listen], capture_output=True, text=True, check=False
    )
    assert result.returncode == status
    assert result.stderr.startswith(line)
    assert result.stderr.count("\n") == 1


def test_companion_main_stops_on_sigterm() -> None:
    command = [sys.executable, "-c", HOSTED, "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as it:
        assert it.stdout is not None
        it.stdout.readline()
        time.sleep(0.3)
        it.terminate()
        _, err = it.communicate(timeout=60)
    assert it.returncode == 0
    assert "stop requested signal=SIGTERM" in err
