"""Kill cycles of a flow under load: at the end both clusters have the same records.

python -m compat_tests.pipeline.mirror_kills --kills 20 --offsets identical assigned --target kafka

Spark's worker alone, the JVM alone, and both clusters are killed, at planted points of a copy and
at random, and stopped for a while. A target that is Apache Kafka has offsets=assigned.
"""

import argparse
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from compat_tests.pipeline.killed_job import (
    DriverProcess,
    Load,
    create_topics,
    read_committed,
    wait_until,
)
from compat_tests.pipeline.mirror_daemon import POINTS
from compat_tests.servers import KINDS, ServerProcess

PARTITIONS = 2
PAUSE_MAX_S = 1.5


class KilledFlow:
    """A flow under load, with the processes that a cycle kills."""

    def __init__(
        self, source: ServerProcess, target: ServerProcess, directory: Path, offsets: str
    ) -> None:
        self.source, self.target = source, target
        self.topic = f"killed-{offsets}"
        create_topics(source.bootstrap, [self.topic], PARTITIONS)
        plan = {
            "name": self.topic,
            "generation": 1,
            "kind": "mirror",
            "bootstrap": target.bootstrap,
            "group_id": f"mirror-{self.topic}",
            "transactional_id": f"mirror-{self.topic}",
            "topics": [self.topic],
            "properties": {
                "name": self.topic,
                "offsets": offsets,
                "source.bootstrap.servers": source.bootstrap,
                "tail.copies.enabled": "false",  # the planted points are those of a task
            },
            "transaction_timeout_ms": 10_000,
        }
        daemon = "compat_tests.pipeline.mirror_daemon"
        self.driver = DriverProcess(directory, {"plan": plan, "daemon": daemon})
        self.load = Load(source.bootstrap, self.topic)
        self.driver.start()
        self.driver.wait_for_progress()

    def cycles(self) -> list[Callable[[], object]]:
        """Return everything that a soak may do to the flow."""
        return [
            *[partial(self.kill_worker_at, point) for point in POINTS],
            *[partial(self.kill_jvm_at, point) for point in POINTS],
            self.kill_workers,
            self.kill_jvm,
            partial(self.kill_cluster, self.source),
            partial(self.kill_cluster, self.target),
            *self.pauses(),
        ]

    def pauses(self) -> list[Callable[[], object]]:
        """Return the cycles that stop a process for a while (SIGSTOP)."""
        return [
            partial(pause, lambda: [self.source.pid]),
            partial(pause, lambda: [self.target.pid]),
            partial(pause, self.driver.workers),
            partial(pause, lambda: [self.driver.jvm()]),
        ]

    def short_cycles(self) -> list[Callable[[], object]]:
        """Return 20 cycles that take less than a minute: the JVM starts again only once."""
        clusters = [partial(self.kill_cluster, each) for each in (self.source, self.target)]
        return [
            *[partial(self.kill_worker_at, point) for point in POINTS * 2],
            *clusters,
            self.kill_workers,
            *self.pauses(),
            self.kill_workers,
            *clusters,
            partial(self.kill_jvm_at, "sent"),
            self.kill_workers,
            *clusters,
        ]

    def kill_worker_at(self, point: str) -> None:
        """Kill Spark's Python worker alone, inside a copy."""
        failures = len(self.driver.events("failed"))
        self.driver.plant(point, "kill-worker")
        self._wait_for_event("failed", failures + 1)
        self._wait_for_event("started", failures + 2)

    def kill_jvm_at(self, point: str) -> None:
        """Kill the JVM alone inside a copy, which the worker may still finish."""
        self.driver.plant(point, "kill-jvm")
        self.restart()

    def kill_workers(self) -> None:
        time.sleep(random.uniform(0, 0.5))
        for worker in self.driver.workers():
            os.kill(worker, signal.SIGKILL)

    def kill_jvm(self) -> None:
        time.sleep(random.uniform(0, 0.5))
        os.kill(self.driver.jvm(), signal.SIGKILL)
        self.restart()

    def kill_cluster(self, server: ServerProcess) -> None:
        server.kill()
        time.sleep(random.uniform(0, 1))
        server.start()

    def restart(self) -> None:
        """Start the driver again; it continues where the target says."""
        self.driver.kill()
        self.driver.start()
        self.driver.wait_for_progress()

    def _wait_for_event(self, name: str, count: int) -> None:
        wait_until(lambda: len(self.driver.events(name)) >= count, name, self.driver)

    def check(self) -> int:
        """Stop the load, wait for the flow, compare both sides; return the number of records."""
        sent = self.load.end()
        expected = self._values(self.source)
        assert sum(map(len, expected.values())) == sent
        found: dict[int, list[bytes]] = {}

        def has_all() -> bool:
            nonlocal found
            found = self._values(self.target)
            return sum(map(len, found.values())) >= sent

        wait_until(has_all, "end of the source", self.driver)
        self.driver.kill()
        assert found == expected, "records are missing, doubled or in another order"
        return sent

    def _values(self, server: ServerProcess) -> dict[int, list[bytes]]:
        """Return the committed records of each partition, in order."""
        found: dict[int, list[Any]] = {number: [] for number in range(PARTITIONS)}
        for message in read_committed(server.bootstrap, self.topic):
            found[message.partition() or 0].append(message.value())
        return found


def pause(pids: Callable[[], list[int]]) -> None:
    """Stop processes for a moment; one that has ended meanwhile is left out."""
    stopped = pids()
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        time.sleep(random.uniform(0.2, PAUSE_MAX_S))


def soak(target_kind: str, offsets: str, kills: int) -> int:
    """Kill at random; return the number of records."""
    source, target = KINDS["barnabas"](), KINDS[target_kind]()
    with tempfile.TemporaryDirectory() as directory:
        try:
            source.start()
            target.start()
            flow = KilledFlow(source, target, Path(directory), offsets)
            cycles = flow.cycles()
            for number in range(kills):
                cycle = cycles[number] if number < len(cycles) else random.choice(cycles)
                cycle()
                print(f"kill {number + 1}: {flow.load.sent} records sent", flush=True)
            return flow.check()
        finally:
            source.close()
            target.close()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--offsets", nargs="+", default=["identical", "assigned"])
    parser.add_argument("--target", default="barnabas", choices=sorted(KINDS))
    arguments = parser.parse_args()
    for offsets in arguments.offsets:
        if offsets == "identical" and arguments.target != "barnabas":
            continue
        sent = soak(arguments.target, offsets, arguments.kills)
        print(f"offsets={offsets}: {sent} records, each once and in order at the target")
    return 0


if __name__ == "__main__":
    sys.exit(main())
