"""The time of each module of `make compat`: wall time, and CPU time of its processes.

`scheduling.py` divides the modules by these figures. The CPU time of a module is that of the
process of the tests, of its descendants that run, and of those that have ended, so the work of a
JVM that modules share counts for the module that needs it. A descendant does not count after its
parent has ended.
"""

import os
import resource
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import attrs
import pytest

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_SHOWN_MIN_S = 20.0


@attrs.frozen
class ModuleTime:
    """A module that a process has run."""

    module: str
    worker: str
    start_s: float
    wall_s: float
    cpu_s: float


def parse_stat(text: str) -> tuple[int, float]:
    """Return the parent, and the CPU seconds with those of ended children, of a /proc/PID/stat."""
    fields = text[text.rindex(")") + 2 :].split()  # the name of a program may have spaces
    return int(fields[1]), sum(map(int, fields[11:15])) / _TICKS_PER_S


def _running() -> dict[int, tuple[int, float]]:
    found: dict[int, tuple[int, float]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(path.parent.name)] = parse_stat(path.read_text())
        except OSError:  # it has ended
            continue
    return found


def below(root: int, parents: dict[int, int]) -> set[int]:
    """Return the descendants of a process among processes with their parents."""
    children: dict[int, list[int]] = defaultdict(list)
    for process, parent in parents.items():
        children[parent].append(process)
    found: set[int] = set()
    left = [root]
    while left:
        for child in children[left.pop()]:
            found.add(child)
            left.append(child)
    return found


def cpu_s() -> float:
    """Return the CPU seconds of this process and of its descendants, running and ended."""
    processes = _running()
    descendants = below(os.getpid(), {each: parent for each, (parent, _) in processes.items()})
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    own = sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, kinds))
    return own + sum(processes[each][1] for each in descendants)


def table(times: list[ModuleTime]) -> list[str]:
    """Return the lines of the long modules, and of the end of each process of the tests."""
    begin = min(each.start_s for each in times)
    lines = [f"{'CPU s':>7} {'wall s':>7} {'from':>6} {'process':>8}  module"]
    for each in sorted(times, key=lambda each: -each.cpu_s):
        if max(each.cpu_s, each.wall_s) >= _SHOWN_MIN_S:
            start = each.start_s - begin
            figures = f"{each.cpu_s:7.1f} {each.wall_s:7.1f} {start:6.0f} {each.worker:>8}"
            lines.append(f"{figures}  {each.module}")
    for worker in sorted({each.worker for each in times}):
        of_worker = [each for each in times if each.worker == worker]
        end = max(each.start_s + each.wall_s for each in of_worker) - begin
        total = sum(each.cpu_s for each in of_worker)
        lines.append(f"{total:7.1f} {end:7.1f} {'':6} {worker:>8}  {len(of_worker)} modules")
    return lines


class ModuleTimes:
    """A plug-in of pytest: it measures where the tests run, and prints where they were started."""

    def __init__(self) -> None:
        self.times: list[ModuleTime] = []
        self._worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        self._last = time.time(), cpu_s()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        self._last = time.time(), cpu_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Any:
        """Measure a module after its last test, whose end stops what the module shares."""
        result = yield
        if nextitem is None or nextitem.path != item.path:
            (start, before), now = self._last, (time.time(), cpu_s())
            module = item.nodeid.partition("::")[0]
            wall = now[0] - start
            self.times.append(ModuleTime(module, self._worker, start, wall, now[1] - before))
            self._last = now
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["module_times"] = [attrs.astuple(each) for each in self.times]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        rows = getattr(node, "workeroutput", {}).get("module_times", ())
        self.times += [ModuleTime(*row) for row in rows]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.times:
            terminalreporter.section("times of modules")
            for line in table(self.times):
                terminalreporter.write_line(line)
