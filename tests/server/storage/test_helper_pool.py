"""`HelperPool`: processes are started when borrowed, reused, ended when idle or broken."""

import os
import resource
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from barnabas.log.helper_framing import SCRUB_JOB, Fields
from barnabas.server.storage import helper_pool
from barnabas.server.storage.helper_pool import (
    CLEANING,
    COSTLY_RECORDS,
    ORDINARY_RECORDS,
    SCRUBBING,
    HelperPool,
)
from barnabas.server.storage.helper_process import (
    HelperGoneError,
    HelperKind,
    HelperProcess,
)

WAIT_S = 60.0


def with_pool(story: Callable[[HelperPool], Awaitable[None]]) -> None:
    """Run the story with a pool, and check that no process is left afterwards."""

    async def main() -> None:
        pool = HelperPool()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.run)
            with trio.fail_after(WAIT_S):
                await story(pool)
            pids = [each.pid for each in pool._processes]
            nursery.cancel_scope.cancel()
        assert pool._processes == []
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)

    trio.run(main)


def scrub_job(directory: Path) -> Fields:
    return {"job": SCRUB_JOB, "directory": str(directory), "bytes_per_second": 1e9}


async def run_job(helper: HelperProcess, directory: Path) -> Fields:
    await helper.send(scrub_job(directory))
    fields, payload = await helper.receive()
    assert payload == b""
    return fields


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  (processes end without an event)
        await trio.sleep(0.01)


def test_pool_starts_no_process_before_one_is_borrowed(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    start = HelperProcess.start

    async def observe(kind: HelperKind) -> HelperProcess:
        started.append(kind.name)
        return await start(kind)

    async def story(pool: HelperPool) -> None:
        await trio.testing.wait_all_tasks_blocked()
        assert started == []
        async with pool.borrow(CLEANING) as helper:
            assert pool.pids(CLEANING) == [helper.pid]
        await trio.testing.wait_all_tasks_blocked()
        assert started == ["cleaning"]

    monkeypatch.setattr(HelperProcess, "start", observe)
    with_pool(story)


def test_idle_process_is_reused_for_its_kind_only(tmp_path: Path) -> None:
    async def story(pool: HelperPool) -> None:
        async with pool.borrow(SCRUBBING) as first:
            await run_job(first, tmp_path)
        async with pool.borrow(SCRUBBING) as again, pool.borrow(CLEANING) as other:
            assert (again is first, other is first) == (True, False)
        assert (pool.starts(SCRUBBING), pool.starts(CLEANING)) == (1, 1)
        assert pool.pids(SCRUBBING) == [first.pid]

    with_pool(story)


def test_each_borrower_has_a_process_alone(tmp_path: Path) -> None:
    async def story(pool: HelperPool) -> None:
        async with pool.borrow(CLEANING) as first, pool.borrow(CLEANING) as second:
            assert first.pid != second.pid
        assert len(pool.pids(CLEANING)) == 2

    with_pool(story)


def test_process_is_ended_when_its_borrower_leaves_during_a_job(tmp_path: Path) -> None:
    async def story(pool: HelperPool) -> None:
        async with pool.borrow(SCRUBBING) as helper:
            os.kill(helper.pid, signal.SIGSTOP)
            with trio.move_on_after(0.05):
                await run_job(helper, tmp_path)
        assert pool.pids(SCRUBBING) == []
        async with pool.borrow(SCRUBBING) as another:
            assert (await run_job(another, tmp_path))["bytes"] == 0

    with_pool(story)


def test_killed_process_raises_during_a_job_and_is_replaced_when_idle(tmp_path: Path) -> None:
    async def story(pool: HelperPool) -> None:
        async with pool.borrow(SCRUBBING) as helper:
            os.kill(helper.pid, signal.SIGKILL)
            with pytest.raises(HelperGoneError) as raised:
                await run_job(helper, tmp_path)
        assert raised.value.returncode == -signal.SIGKILL
        async with pool.borrow(SCRUBBING) as idle:
            await run_job(idle, tmp_path)
        os.kill(idle.pid, signal.SIGKILL)
        await until(lambda: idle.has_ended)
        async with pool.borrow(SCRUBBING) as replaced:
            await run_job(replaced, tmp_path)
        assert pool.pids(SCRUBBING) == [replaced.pid]

    with_pool(story)


def test_process_that_cannot_be_started_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.server.storage.helper_process.sys.executable", "/nowhere")

    async def story(pool: HelperPool) -> None:
        with pytest.raises(HelperGoneError):
            async with pool.borrow(SCRUBBING):
                pass
        assert pool.starts(SCRUBBING) == 0

    with_pool(story)


def test_idle_process_ends_after_a_while_and_a_used_one_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(helper_pool, "_IDLE_S", 0.05)

    async def story(pool: HelperPool) -> None:
        async with pool.borrow(CLEANING) as used:
            async with pool.borrow(SCRUBBING):
                pass
            await until(lambda: not pool.pids(SCRUBBING))
            assert pool.pids(CLEANING) == [used.pid]

    with_pool(story)


def test_end_idle_ends_the_processes_of_one_kind() -> None:
    async def story(pool: HelperPool) -> None:
        async with pool.borrow(CLEANING), pool.borrow(SCRUBBING):
            pass
        await pool.end_idle(SCRUBBING)
        assert (len(pool.pids(CLEANING)), pool.pids(SCRUBBING)) == (1, [])

    with_pool(story)


def test_borrowed_process_is_ended_when_the_pool_has_ended() -> None:
    async def main() -> None:
        pool = HelperPool()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.run)
            async with pool.borrow(CLEANING) as helper:
                nursery.cancel_scope.cancel()
                with trio.CancelScope(shield=True):
                    await trio.sleep(0.05)
                    assert not helper.has_ended
        assert helper.has_ended

    trio.run(main)


@pytest.mark.parametrize(
    ("kind", "niceness"),
    [(ORDINARY_RECORDS, 5), (COSTLY_RECORDS, 10), (CLEANING, 10), (SCRUBBING, 15)],
    ids=lambda each: getattr(each, "name", each),
)
def test_helper_runs_with_the_priority_and_memory_of_its_kind(kind, niceness, tmp_path) -> None:
    async def story(pool: HelperPool) -> None:
        async with pool.borrow(kind) as helper:
            await run_job(helper, tmp_path)
            assert os.getpriority(os.PRIO_PROCESS, helper.pid) == min(19, niceness + os.nice(0))
            memory, _ = resource.prlimit(helper.pid, resource.RLIMIT_AS)
            expected = 2 << 30 if kind.has_payloads else resource.RLIM_INFINITY
            assert memory == expected

    with_pool(story)
