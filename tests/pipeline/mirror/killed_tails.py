"""Processes of flows that are killed, the load that they copy, and the records at the target."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from barnabas.client import open_client
from barnabas.client.admin_calls import create_topic
from tests.pipeline.mirror.node_flows import TOPIC, Served, numbers, write

DEADLINE_S = 180


@contextmanager
def process(
    source: Served, target: Served, offsets: str, *options: str
) -> Iterator[subprocess.Popen[str]]:
    """Yield a flow that has copied its first range; kill it at the end."""
    command = [sys.executable, "-m", "tests.pipeline.mirror.tail_process"]
    started = subprocess.Popen(
        [*command, source.bootstrap, target.bootstrap, offsets, *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert started.stdout is not None
        assert started.stdout.readline().startswith("range"), "the flow has not started"
        yield started
    finally:
        started.kill()
        started.communicate()


class Load:
    """Writes numbers without end in a thread, until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: trio.run(self._write))
        self.written = 0

    async def _write(self) -> None:
        async with open_client({"bootstrap.servers": self._bootstrap}) as client:
            while not self._stopping.is_set():
                await write(client, self.written, 20)
                self.written += 20
                await trio.sleep(0.002)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()


async def until(target: Served, count: int) -> list[int]:
    """Return the records of the target once there are as many."""
    with trio.fail_after(DEADLINE_S):
        async with open_client({"bootstrap.servers": target.bootstrap}) as client:
            while len(found := await numbers(client)) < count:  # noqa: ASYNC110  (no event)
                await trio.sleep(0.1)
            return [number for _, number in found]


async def prepare(bootstrap: str) -> None:
    async with open_client({"bootstrap.servers": bootstrap}) as client:
        await create_topic(client, TOPIC)
