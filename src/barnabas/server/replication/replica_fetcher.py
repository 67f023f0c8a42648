"""Fetches from other brokers: one task and one connection for each fetcher core.

The cores decide (`barnabas.cluster.replication.fetcher_core`). The tasks send their requests to the
leaders, and start, wake and end with the assignments of each metadata image. A node without
followed partitions has no fetcher.

One more task creates or loads logs of replicated partitions, some at a time: a node may have
thousands, and the loop serves other requests in between.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas import tasks
from barnabas.cluster.metadata.stepwise import Steps
from barnabas.cluster.replication.fetch_settings import FetchSettings
from barnabas.server.peer_security import Secured, plain
from barnabas.server.work_slices import in_slices

if TYPE_CHECKING:
    from barnabas.clock import Clock
    from barnabas.cluster.broker.broker_lifecycle import BrokerLifecycle
    from barnabas.cluster.metadata.delta import MetadataDelta
    from barnabas.cluster.metadata.image import MetadataImage
    from barnabas.cluster.replication.fetcher_assignments import FetcherAssignments, FetcherKey
    from barnabas.config import NodeConfig
    from barnabas.config.subscriptions import ConfigSubscriptions
    from barnabas.server.quorum.metadata_publisher import MetadataPublisher
    from barnabas.server.replication.fetcher_task import FetcherTask

_DYNAMIC: Final = ("num.replica.fetchers",)


def fetch_settings(config: "NodeConfig") -> FetchSettings:
    """Return the settings of the fetchers of followers."""
    return FetchSettings(
        wait_max_ms=config.get_int("replica.fetch.wait.max.ms"),
        min_bytes=config.get_int("replica.fetch.min.bytes"),
        partition_max_bytes=config.get_int("replica.fetch.max.bytes"),
        response_max_bytes=config.get_int("replica.fetch.response.max.bytes"),
        backoff_ms=config.get_int("replica.fetch.backoff.ms"),
    )


class ReplicaFetchers:
    """Runs the fetchers of `assignments` while the metadata has partitions to follow."""

    def __init__(
        self,
        assignments: "FetcherAssignments",
        publisher: "MetadataPublisher",
        settings: "ConfigSubscriptions",
        broker: "BrokerLifecycle",
        clock: "Clock",
        *,
        secured: Secured = plain,
    ) -> None:
        self._assignments = assignments
        self._publisher = publisher
        self._settings = settings
        self._broker = broker
        self._clock = clock
        self._secured = secured
        self._tasks: dict[FetcherKey, FetcherTask] = {}
        self._nursery: tasks.Nursery | None = None
        self._unopened = tasks.event()

    def open_logs_soon(self) -> None:
        """There are logs to open."""
        self._unopened.set()

    async def open_logs(self, open_next: Callable[[], bool]) -> None:
        """Create or load logs, until cancelled; the fetchers then learn of them.

        `open_next` opens a log, and returns True while there are more. A file system may take ten
        times as long for new files as it did before, so a step ends after a time, not a number.
        """
        while True:
            await self._unopened.wait()
            self._unopened = tasks.event()
            await in_slices(_opening(open_next))
            self._follow_assignments()
            await tasks.checkpoint()

    async def run(self, task_status: tasks.TaskStatus = tasks.IGNORED) -> None:
        """Start and end fetchers as the metadata changes, until cancelled."""
        async with tasks.open_nursery() as nursery:

            def configure(config: "NodeConfig") -> None:
                self._configure(config)
                self._follow_assignments()

            def follow(_: "MetadataImage", __: "MetadataDelta | None") -> None:
                self._follow_assignments()

            self._nursery = nursery
            configure(self._settings.current)
            self._settings.subscribe(_DYNAMIC, configure)
            self._publisher.subscribe("replica fetchers", follow, essential=True)
            task_status.started()
            try:
                await tasks.sleep_forever()
            finally:
                self._nursery = None  # a stopping node may still get images

    def _configure(self, config: "NodeConfig") -> None:
        self._assignments.configure(fetch_settings(config))
        self._assignments.resize(config.get_int("num.replica.fetchers"))

    def _follow_assignments(self) -> None:
        nursery = self._nursery
        if nursery is None:
            return
        for key in self._assignments.take_changed():
            core, task = self._assignments.cores.get(key), self._tasks.get(key)
            if task is not None and task.core is core:
                task.wake()
                continue
            if task is not None:
                task.stop()
                del self._tasks[key]
            if core is not None:
                # A node without followed partitions does not need the client at start-up.
                from barnabas.server.replication.fetcher_task import FetcherTask

                started = self._tasks[key] = FetcherTask(
                    key,
                    core,
                    settings=self._settings,
                    image=lambda: self._publisher.image,
                    broker=self._broker,
                    clock=self._clock,
                    secured=self._secured,
                )
                nursery.start_soon(started.run)


def _opening(open_next: Callable[[], bool]) -> Steps[None]:
    while open_next():
        yield
