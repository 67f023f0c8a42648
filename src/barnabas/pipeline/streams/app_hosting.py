"""An app whose queries a runner starts, watches and starts again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs

from barnabas.pipeline.delivery.driver.spark_library import SparkSession
from barnabas.pipeline.delivery.plan.job_plan import RunningJob
from barnabas.pipeline.streams.app_queries import QuerySettings
from barnabas.pipeline.streams.repartition_topics import RepartitionTrimmer
from barnabas.pipeline.streams.state_directory import StateDirectory
from barnabas.pipeline.streams.stream_app import App
from barnabas.pipeline.streams.topic_reading import OnError, TopicInput

_STOP_S: Final = 30.0


class HostedState(StateDirectory):
    """The state of an app below the directories of a runner, which locks nothing here."""

    def __init__(self, work: Path, checkpoint: Callable[[str], str]) -> None:
        """Take the directory of scratch files, and what gives a query its checkpoint."""
        super().__init__(work)
        self._checkpoint = checkpoint

    def checkpoint(self, query: str) -> str:
        """Return the place of a query's checkpoint."""
        return self._checkpoint(query)


class HostedApp(App):
    """An app in the session of a runner. `settings.app` is the name of the job."""

    def __init__(
        self,
        session: SparkSession,
        settings: QuerySettings,
        registry: str,
        dead_letters: str | None = None,
    ) -> None:
        """Take the session, in which the app's frames are made.

        With `dead_letters`, records that the app would skip are written to this topic.
        """
        self._session, self._engine = session, None
        self._dead_letters = dead_letters
        self._set_up(settings, registry)

    @property
    def spark(self) -> SparkSession:
        """Return the session of the runner."""
        return self._session

    def _input(self, *args: Any, **options: Any) -> TopicInput:
        found = super()._input(*args, **options)
        if found.on_error is not OnError.SKIP or self._dead_letters is None:
            return found
        return attrs.evolve(found, on_error=OnError.DEAD_LETTER, dead_letters=self._dead_letters)

    def started(self, generation: int) -> "HostedQueries":
        """Start all queries. Raises JobStartError."""
        self._queries.assign_letters()
        jobs: list[RunningJob] = []
        try:
            for query in self._queries.needed():
                jobs += [query.start_job(generation)]
        except BaseException:
            for job in jobs:
                job.stop(_STOP_S)
            raise
        return HostedQueries(jobs, self._queries.trimmer())


class HostedQueries:
    """The jobs of an app's queries, with what runs beside them.

    The runner keeps their committed positions, also while the app is paused.
    """

    def __init__(self, jobs: list[RunningJob], trimmer: RepartitionTrimmer) -> None:
        """Take running jobs."""
        self.jobs = jobs
        self._trimmer = trimmer
        self._trimmer.start()

    def stop(self, timeout_s: float) -> None:
        """Stop all jobs after their running transactions."""
        self._trimmer.stop()
        for job in self.jobs:
            job.stop(timeout_s)
