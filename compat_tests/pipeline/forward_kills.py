"""Kill cycles of a forward job; other kinds of jobs have the same ones.

A job copies a topic under load while its worker, its driver or the broker is killed, at planted
points of the transaction and at random. At the end every record must be in the target once, in the
order of its key, and the group's offsets must be at the end of the source.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from compat_tests.pipeline.killed_job import (
    DriverProcess,
    Load,
    check_copied,
    create_topics,
    is_caught_up,
    wait_until,
)
from compat_tests.pipeline.planted_daemon import POINTS
from compat_tests.servers import ServerProcess

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def forward_plan(bootstrap: str, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "generation": 1,
        "kind": "copy",
        "bootstrap": bootstrap,
        "group_id": name,
        "transactional_id": name,
        "topics": [f"{name}-source"],
        "target_topic": f"{name}-target",
        "properties": {"key.converter": BYTES, "value.converter": BYTES},
        "transaction_timeout_ms": 10_000,
    }


class ForwardJob:
    """A forward job under load, with the processes that a cycle kills."""

    points: tuple[str, ...] = POINTS
    zombie_point = "offsets-sent"

    def __init__(self, server: ServerProcess, directory: Path, name: str) -> None:
        self.server = server
        self.name = name
        self.source, self.target = f"{name}-source", f"{name}-target"
        create_topics(server.bootstrap, [self.source, self.target])
        self.driver = DriverProcess(directory, self.settings())
        self.load = Load(server.bootstrap, self.source)
        self.driver.start()
        self.driver.wait_for_progress()

    def settings(self) -> dict[str, Any]:
        """Return what the driver reads."""
        return {"plan": self.plan()}

    def plan(self) -> dict[str, Any]:
        return forward_plan(self.server.bootstrap, self.name)

    def cycles(self) -> list[Callable[[], object]]:
        """Return everything that a soak may do to the job."""
        return [
            *[partial(self.kill_worker_at, point) for point in self.points],
            *[partial(self.kill_driver_at, point) for point in self.points],
            *[self.kill_driver, self.kill_workers, self.kill_broker, self.kill_all],
            partial(self.resume_zombie, self.zombie_point),
        ]

    def kill_worker_at(self, point: str) -> None:
        self.driver.plant(point, "kill-worker")
        self._wait_for_another_start()

    def kill_driver_at(self, point: str) -> None:
        self.driver.plant(point, "kill-driver")
        self.restart_driver()

    def kill_driver(self) -> None:
        time.sleep(random.uniform(0, 1))
        self.restart_driver()

    def kill_workers(self) -> None:
        time.sleep(random.uniform(0, 0.5))
        for worker in self.driver.workers():
            os.kill(worker, signal.SIGKILL)
        time.sleep(0.5)

    def kill_broker(self) -> None:
        self.server.kill()
        time.sleep(random.uniform(0, 1))
        self.server.start()
        time.sleep(1)

    def kill_all(self) -> None:
        self.driver.kill()
        self.kill_broker()
        self.restart_driver()

    def resume_zombie(self, point: str = "offsets-sent") -> str:
        """Suspend a worker inside a transaction, let a new driver work, and resume the worker."""
        (self.driver.points / "failed-commits").unlink(missing_ok=True)
        self.driver.plant(point, "suspend-worker")
        zombie = int((self.driver.points / f"{point}.reached").read_text())
        self.replace_driver_of_zombie()
        os.kill(zombie, signal.SIGCONT)
        notes = self.driver.points / "failed-commits"
        wait_until(
            lambda: notes.exists() and bool(notes.read_text()),  # it is empty for a moment
            "failed commit of the suspended worker",
            self.driver,
        )
        return notes.read_text()

    def replace_driver_of_zombie(self) -> None:
        """Start a driver that works while the worker is suspended."""
        self.restart_driver()

    def restart_driver(self) -> None:
        self.driver.kill()
        self.driver.start()
        self.driver.wait_for_progress()

    def check(self) -> int:
        """Stop the load, wait for the job, check the target; return the number of records."""
        sent = self.load.end()
        caught_up: Callable[[], bool] = lambda: is_caught_up(  # noqa: E731
            self.server.bootstrap, self.source, self.name
        )
        wait_until(caught_up, "end of the source", self.driver)
        self.driver.kill()
        self.check_output(sent)
        return sent

    def check_output(self, sent: int) -> None:
        check_copied(self.server.bootstrap, self.source, self.target, self.name, sent)

    def _wait_for_another_start(self) -> None:
        wait_until(lambda: bool(self.driver.events("failed")), "failure", self.driver)
        starts = len(self.driver.events("failed")) + 1
        wait_until(lambda: len(self.driver.events("started")) >= starts, "start", self.driver)
