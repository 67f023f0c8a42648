"""A nursery that other tasks of the node can use while its owner runs."""

from collections.abc import Awaitable, Callable

from barnabas import tasks


class OpenNursery:
    """Holds a nursery while `serve` runs; `current` is None before and after."""

    def __init__(self) -> None:
        self.current: tasks.Nursery | None = None

    async def serve(
        self,
        task_status: tasks.TaskStatus,
        task: Callable[[], Awaitable[None]] = tasks.sleep_forever,
    ) -> None:
        """Open the nursery, report `started`, and close it when `task` ends."""
        async with tasks.open_nursery() as nursery:
            self.current = nursery
            task_status.started()
            try:
                await task()
            finally:
                self.current = None
