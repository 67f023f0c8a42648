"""CREATE OR REPLACE TABLE on a runner: a query that has rebuilt a table takes it over.

    BUILDING  the new query writes to its staging topic until it has caught up
    SWAPPING  the earlier query stops; the new one reads what that one has read, and stops; the
              rows that differ go to the table's topic, in one transaction (`exchanged_rows`)
    REMOVING  the new query writes to the table's topic; staging topic and earlier state are removed

Each phase is a record of the catalog, written in one transaction with the jobs' configurations. The
active runner continues from the phase there: before the rows are exchanged both queries start
again, afterwards the rest is done.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.jobs.core.job_supervision import TargetState
from barnabas.pipeline.jobs.core.store_records import ConnectorRecord, TargetRecord
from barnabas.pipeline.jobs.job_config import TARGET_TOPIC
from barnabas.pipeline.sql.hosting.exchanged_rows import Exchange
from barnabas.pipeline.sql.hosting.query_configs import staging_topic
from barnabas.pipeline.sql.hosting.query_properties import PHASE, TOPICS
from barnabas.pipeline.sql.sql_failures import UnresolvedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barnabas.pipeline.delivery.plan.job_plan import JobProgress
    from barnabas.pipeline.jobs.core.store_records import ConfigRecord
    from barnabas.pipeline.sql.catalog.catalog_changes import (
        Catalog,
        PersistentQuery,
        Replacement,
        ReplacementPhase,
    )

logger: Final = logging.getLogger(__name__)

_WAIT_S: Final = 120.0
_POLL_S: Final = 0.1
_RETRY_S: Final = 60.0
_RETRY_MAX_S: Final = 3600.0
_STOPPED: Final = TargetState.STOPPED.value
_STARTED: Final = TargetState.STARTED.value


class SwapPort(Protocol):
    """The parts of SQL on a runner that a swap needs."""

    @property
    def catalog(self) -> Catalog:
        """Return the stored catalog."""
        ...

    @property
    def client(self) -> Mapping[str, str]:
        """Return the properties of clients."""
        ...

    def job_of(self, query: str, /) -> str:
        """Return the name of the job of a query."""
        ...

    def config_of(self, job: str, /) -> Mapping[str, str | None] | None:
        """Return the stored configuration of a job, None without one."""
        ...

    def target_of(self, job: str, /) -> TargetState | None:
        """Return the state that is wanted of a job, None without one."""
        ...

    def write(self, after: Catalog, configurations: Sequence[ConfigRecord]) -> None:
        """Write a change in one transaction. Raises UnresolvedError."""
        ...

    def progress(self, job: str, /) -> JobProgress | None:
        """Return the progress of a job that runs, None for another one."""
        ...

    def is_stopped(self, job: str, /) -> bool:
        """True when no run of a job is left, and none is wanted. Raises UnresolvedError."""
        ...

    def forget_state(self, job: str, /) -> None:
        """Remove positions and state of a job, once it has ended. Blocks."""
        ...


class TableSwaps:
    """Looks after the queries that build tables, one look at a time."""

    def __init__(self, port: SwapPort) -> None:
        self._port = port
        self._failures: dict[str, int] = {}
        """The number of failures of each query; a later query has another name."""
        self._retry_at: dict[str, float] = {}

    def look(self) -> None:
        """Take each query one phase further where it can be. Blocks.

        After a failure the next attempt for the query is a minute later; the time doubles with each
        further one, up to an hour.
        """
        for query in self._port.catalog.queries:
            now = time.monotonic()
            if query.replacement is None or now < self._retry_at.get(query.name, now):
                continue
            try:
                _Swap(self._port, query, query.replacement).look()
            except Exception as error:
                name = query.name
                self._retry_at[name] = time.monotonic() + self._retry_s(name)
                logger.warning("cannot replace a table now query=%s error=%s", name, error)

    def _retry_s(self, name: str) -> float:
        """Count a failure of a query; return the seconds until its next attempt."""
        count = self._failures.get(name, 0)
        self._failures[name] = count + 1
        return min(_RETRY_S * 2 ** min(count, 16), _RETRY_MAX_S)

    def forget(self, query: PersistentQuery) -> None:
        """Remove what a query that has ended leaves behind. Blocks; raises KafkaException."""
        if query.replacement is not None:
            _Swap(self._port, query, query.replacement).remove()


class _Swap:
    """One query that replaces another one."""

    def __init__(self, port: SwapPort, query: PersistentQuery, found: Replacement) -> None:
        self._port = port
        self._query = query
        self._found = found
        self._new, self._old = port.job_of(query.name), port.job_of(found.query)
        self._staging = staging_topic(self._new)
        self._properties = kafka_properties.for_librdkafka(port.client)
        self._exchange = Exchange(
            self._staging,
            found.sink.topic,
            self._properties,
            kafka_properties.transaction_timeout_ms(port.client),
        )

    def look(self) -> None:
        """Take the query one phase further. Raises UnresolvedError, KafkaException."""
        phase = self._found.phase
        if self._port.config_of(self._new) is None:
            self._give_up()
        elif phase == "REMOVING":
            self._finish()
        elif phase == "SWAPPING":
            self._recover()
        elif self._has_caught_up():
            self._swap()

    def remove(self) -> None:
        """Remove the staging topic, and after the swap the state of the earlier query."""
        if self._found.phase == "REMOVING":
            self._port.forget_state(self._old)
        ClusterState(self._properties).delete_topic(self._staging)
        self._port.forget_state(self._staging)

    def _has_caught_up(self) -> bool:
        """True when the new query lags at most as the earlier one, or by a second of records."""
        new, old = self._port.progress(self._new), self._port.progress(self._old)
        if new is None:
            return False
        if not new.lag:
            return new.lag_inside == 0 and not self._ends()
        behind = _behind(old) if old is not None and old.lag else 0
        return new.lag_inside == 0 and _behind(new) <= max(behind, new.records_per_second)

    def _swap(self) -> None:
        logger.info("swapping table=%s query=%s", self._query.sink, self._query.name)
        target = self._port.target_of(self._old)
        records = [TargetRecord(self._old, _STOPPED)] if target is TargetState.STARTED else []
        stays_stopped = target is TargetState.STOPPED
        self._found = replace(self._found, phase="SWAPPING", stays_stopped=stays_stopped)
        self._port.write(self._with_phase("SWAPPING"), records)
        try:
            self._exchange_rows()
        except Exception:
            self._recover()
            raise
        self._recover()

    def _exchange_rows(self) -> None:
        self._wait(lambda: self._port.is_stopped(self._old), "the earlier query stops")
        ends = self._ends()
        self._wait(lambda: self._has_read(ends), "the new query has caught up")
        self._port.write(self._port.catalog, [TargetRecord(self._new, _STOPPED)])
        self._wait(lambda: self._port.is_stopped(self._new), "the new query stops")
        count = self._exchange.run()
        logger.info("exchanged rows table=%s records=%d", self._query.sink, count)

    def _recover(self) -> None:
        """Complete a swap whose rows are exchanged; otherwise start what it has stopped."""
        if self._exchange.is_done():
            self._switch()
            self._finish()
        else:
            records = self._restarted(self._new, *self._earlier())
            self._port.write(self._with_phase("BUILDING"), records)

    def _earlier(self) -> list[str]:
        """Return the earlier query, when the swap stopped it."""
        return [self._old] if self._found.starts_again else []

    def _restarted(self, *jobs: str) -> list[TargetRecord]:
        """Return what starts jobs that the swap stopped; those that are paused stay so."""
        found = [each for each in jobs if self._port.target_of(each) is TargetState.STOPPED]
        return [TargetRecord(each, _STARTED) for each in found]

    def _switch(self) -> None:
        """Make the new query the one that writes the table."""
        config = dict(self._port.config_of(self._new) or {})
        config.pop(PHASE, None)
        config[TARGET_TOPIC] = self._found.sink.topic
        records: list[ConfigRecord] = [
            ConnectorRecord(self._old, None),
            TargetRecord(self._old, None),
            ConnectorRecord(self._new, config),
            TargetRecord(self._new, _STARTED),
        ]
        sink = self._found.sink
        changed = self._with_phase("REMOVING")
        queries = tuple(each for each in changed.queries if each.name != self._found.query)
        after = replace(changed, sources={**changed.sources, sink.name: sink}, queries=queries)
        self._port.write(after, records)
        self._found = replace(self._found, phase="REMOVING")
        logger.info("swapped table=%s query=%s", self._query.sink, self._query.name)

    def _finish(self) -> None:
        self._wait(lambda: self._port.is_stopped(self._old), "the earlier query ends")
        self.remove()
        self._port.write(self._with(replace(self._query, replacement=None)), [])

    def _give_up(self) -> None:
        """Forget a query whose job was deleted."""
        records = self._restarted(*self._earlier())
        self.remove()
        self._port.write(self._port.catalog.without_query(self._query.name), records)

    def _with_phase(self, phase: ReplacementPhase) -> Catalog:
        return self._with(replace(self._query, replacement=replace(self._found, phase=phase)))

    def _with(self, query: PersistentQuery) -> Catalog:
        found = self._port.catalog
        queries = tuple(query if each.name == query.name else each for each in found.queries)
        return replace(found, queries=queries)

    def _ends(self) -> dict[tuple[str, int], int]:
        """Return the ends of the partitions that the query reads and that have records."""
        config = self._port.config_of(self._new) or {}
        cluster = ClusterState(self._properties)
        topics = cluster.topics((config.get(TOPICS) or "").split(","))
        ranges = cluster.log_ranges([each for each in topics.values() if each is not None])
        places = [place for place, (start, end) in ranges.items() if start < end]
        return cluster.ends(places) if places else {}

    def _has_read(self, ends: Mapping[tuple[str, int], int]) -> bool:
        """True when the new query has read its topics up to these ends."""
        found = self._port.progress(self._new)
        if found is None or found.lag_inside:
            return False
        places = {(each.topic, each.partition): each.position for each in found.lag}
        return all(places.get(place, -1) >= end for place, end in ends.items())

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + _WAIT_S
        while not condition():
            if time.monotonic() > until:
                raise UnresolvedError(f"waited {_WAIT_S:.0f} s until {what}")
            time.sleep(_POLL_S)


def _behind(progress: JobProgress) -> int:
    return sum(each.lag for each in progress.lag)
