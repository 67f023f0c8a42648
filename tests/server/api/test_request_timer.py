"""The time that the loop works on a request."""

import time

import pytest
import trio

from barnabas.server.api.request_timer import RequestTimer


def work(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def test_waiting_does_not_count() -> None:
    async def handler() -> str:
        work(0.02)
        await trio.sleep(0.3)
        work(0.02)
        return "done"

    async def main() -> tuple[str, int]:
        timer = RequestTimer()
        timed = timer.timed(handler())
        time.sleep(0.1)  # noqa: ASYNC251 - other work of the loop, before the handler begins
        return await timed, timer.elapsed_ns()

    result, elapsed_ns = trio.run(main)
    assert result == "done"
    assert 40e6 <= elapsed_ns < 90e6


def test_error_of_the_work_is_raised() -> None:
    async def handler() -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError("a bug")

    async def main() -> None:
        await RequestTimer().timed(handler())

    with pytest.raises(ValueError, match="a bug"):
        trio.run(main)


def test_work_is_cancelled_where_it_waits() -> None:
    ended: list[str] = []

    async def handler() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("finally")

    async def main() -> None:
        with trio.move_on_after(0.01) as scope:
            await RequestTimer().timed(handler())
        assert scope.cancelled_caught

    trio.run(main)
    assert ended == ["finally"]


@pytest.mark.filterwarnings("error")
def test_work_that_never_began_is_closed_without_a_warning() -> None:
    async def handler() -> None:
        raise AssertionError

    RequestTimer().timed(handler()).close()
