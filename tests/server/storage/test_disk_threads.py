"""`DiskThreads`: blocking calls in threads, and shared fsyncs."""

import threading
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from barnabas.server.storage.disk_threads import DiskThreads


def in_trio(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        trio.run(test)

    run.__name__ = test.__name__
    return run


class Disk:
    """Counts syncs; the first one waits until it is released."""

    def __init__(self) -> None:
        self.began = 0
        self.let_go = threading.Event()

    def sync(self) -> None:
        self.began += 1
        if self.began == 1:
            self.let_go.wait(60)


@in_trio
async def test_fsync_calls_during_one_share_the_next() -> None:
    worker, disk = DiskThreads(), Disk()
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(worker.fsync, "log", disk.sync)
        await trio.testing.wait_all_tasks_blocked(0.05)
        disk.let_go.set()
    assert disk.began == 2


@in_trio
async def test_fsync_does_not_cover_writes_made_after_its_start() -> None:
    worker, disk = DiskThreads(), Disk()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.fsync, "log", disk.sync)
        with trio.fail_after(60):
            while not disk.began:  # noqa: ASYNC110 (a thread sets it)
                await trio.sleep(0.01)
        nursery.start_soon(worker.fsync, "log", disk.sync)
        await trio.testing.wait_all_tasks_blocked(0.05)
        disk.let_go.set()
    assert disk.began == 2


@in_trio
async def test_fsync_of_different_logs_runs_concurrently() -> None:
    worker, disk = DiskThreads(), Disk()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.fsync, "slow", disk.sync)
        await trio.testing.wait_all_tasks_blocked(0.05)
        await worker.fsync("other", disk.sync)
        disk.let_go.set()


@in_trio
async def test_failed_fsync_raises_in_each_caller_that_shares_it() -> None:
    worker, disk = DiskThreads(), Disk()
    failed = 0

    def broken() -> None:
        raise OSError("EIO")

    async def ask() -> None:
        nonlocal failed
        with pytest.raises(OSError, match="EIO"):
            await worker.fsync("log", broken)
        failed += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.fsync, "log", disk.sync)
        await trio.testing.wait_all_tasks_blocked(0.05)
        for _ in range(3):
            nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked(0.05)
        disk.let_go.set()
    assert failed == 3


@in_trio
async def test_cancelled_leader_completes_the_fsync_of_other_callers() -> None:
    worker, disk = DiskThreads(), Disk()
    leader = trio.CancelScope()

    async def lead() -> None:
        with leader:
            await worker.fsync("log", disk.sync)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.fsync, "log", disk.sync)
        await trio.testing.wait_all_tasks_blocked(0.05)
        nursery.start_soon(lead)
        await trio.testing.wait_all_tasks_blocked(0.05)
        nursery.start_soon(worker.fsync, "log", disk.sync)
        await trio.testing.wait_all_tasks_blocked(0.05)
        leader.cancel()
        disk.let_go.set()
    assert disk.began == 2


@in_trio
async def test_run_returns_the_result_of_the_call() -> None:
    assert await DiskThreads().run(pow, 2, 10) == 1024
