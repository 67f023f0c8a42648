"""Swaps of tables that were rebuilt, also when the runner is killed before any of its steps."""

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("sqlglot")

from barnabas.pipeline.delivery.plan.job_plan import JobProgress, PartitionLag
from barnabas.pipeline.jobs.core.job_supervision import TargetState
from barnabas.pipeline.jobs.core.store_records import ConnectorRecord, TargetRecord
from barnabas.pipeline.sql.analysis.applied_statements import Definition
from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
from barnabas.pipeline.sql.catalog.source_definitions import Defaults
from barnabas.pipeline.sql.hosting import table_swaps
from barnabas.pipeline.sql.hosting.table_swaps import TableSwaps
from barnabas.pipeline.sql.scripts import parse_statement, statement_texts
from barnabas.pipeline.sql.shell.catalog_change import CatalogChange
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.stored.object_codec import query_json, read_query

SCRIPT = """
CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE n AS SELECT k, COUNT(*) AS c FROM s GROUP BY k;
CREATE OR REPLACE TABLE n AS SELECT k, COUNT(*) AS c, SUM(v) AS t FROM s GROUP BY k;
"""
OLD, NEW = "CTAS_N_0", "CTAS_N_1"
STAGING = f"{NEW}-staging"
END = 100


class KilledError(BaseException):
    """The process is killed."""


class World:
    """A runner's store and topics, which outlive its process."""

    client = {"bootstrap.servers": "127.0.0.1:9"}

    def __init__(self) -> None:
        self.catalog = Catalog()
        for each in statement_texts(SCRIPT):
            statement = parse_statement(each, {})
            assert isinstance(statement, Definition)
            change = CatalogChange(statement, each.text, Defaults(), "earliest")
            self.catalog = change.applied_to(self.catalog).catalog
        self.configs: dict[str, Mapping[str, str | None]] = {
            OLD: {"topics": "s", "target.topic": "N"},
            NEW: {"topics": "s", "target.topic": STAGING, "sql.phase": "building"},
        }
        self.targets = {OLD: "STARTED", NEW: "STARTED"}
        self.position = END
        self.old_position = END
        self.is_exchanged = False
        self.forgotten: list[str] = []
        self.topics = {"s", "N", STAGING}
        self.steps = 0
        self.killed_before: int | None = None

    def step(self) -> None:
        if self.steps == self.killed_before:
            raise KilledError
        self.steps += 1

    def job_of(self, query: str, /) -> str:
        return query

    def config_of(self, job: str, /) -> Mapping[str, str | None] | None:
        return self.configs.get(job)

    def target_of(self, job: str, /) -> TargetState | None:
        return TargetState(self.targets[job]) if job in self.configs else None

    def write(self, after: Catalog, configurations: Sequence[Any]) -> None:
        self.step()
        self.catalog = after
        for each in configurations:
            if isinstance(each, TargetRecord):
                self.targets[each.connector] = each.state or "STARTED"
            elif isinstance(each, ConnectorRecord) and each.properties is None:
                self.configs.pop(each.connector, None)
            elif isinstance(each, ConnectorRecord):
                assert each.properties is not None
                self.configs[each.connector] = each.properties
        if self.is_exchanged:
            assert not self.runs(OLD)
            assert not self.runs(NEW) or self.configs[NEW]["target.topic"] == "N"
        else:
            assert self.configs[NEW]["target.topic"] == STAGING

    def runs(self, job: str) -> bool:
        return job in self.configs and self.targets[job] == "STARTED"

    def progress(self, job: str, /) -> JobProgress | None:
        if not self.runs(job):
            return None
        position = self.position if job == NEW else self.old_position
        return JobProgress(lag=(PartitionLag("s", 0, position, END),))

    def is_stopped(self, job: str, /) -> bool:
        return not self.runs(job)

    def forget_state(self, job: str, /) -> None:
        self.step()
        self.forgotten.append(job)


class FakeExchange:
    def __init__(self, world: World, staging: str, topic: str) -> None:
        assert (staging, topic) == (STAGING, "N")
        self._world = world

    def is_done(self) -> bool:
        return self._world.is_exchanged

    def run(self) -> int:
        world = self._world
        world.step()
        assert not world.runs(OLD)
        assert not world.runs(NEW)
        world.is_exchanged = True
        world.step()
        return 1


class FakeCluster:
    def __init__(self, world: World) -> None:
        self._world = world

    def topics(self, names: Sequence[str]) -> dict[str, Any]:
        return {each: SimpleNamespace(name=each) for each in names}

    def log_ranges(self, topics: Sequence[Any]) -> dict[tuple[str, int], tuple[int, int]]:
        return {(each.name, 0): (0, END) for each in topics}

    def ends(self, places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return dict.fromkeys(places, END)

    def delete_topic(self, name: str) -> None:
        self._world.step()
        self._world.topics.discard(name)


def patched_world(patch: pytest.MonkeyPatch) -> World:
    """Return a world that swaps use in place of a cluster."""
    found = World()

    def exchange(staging: str, topic: str, properties: Any, timeout_ms: int) -> FakeExchange:
        del properties, timeout_ms
        return FakeExchange(found, staging, topic)

    patch.setattr(table_swaps, "Exchange", exchange)
    patch.setattr(table_swaps, "ClusterState", lambda _: FakeCluster(found))
    patch.setattr(table_swaps, "_WAIT_S", 0.0)
    return found


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return patched_world(monkeypatch)


def check_swapped(world: World) -> None:
    (query,) = world.catalog.queries
    assert (query.name, query.replacement) == (NEW, None)
    assert [each.name for each in world.catalog.sources["N"].value] == ["C", "T"]
    assert world.configs == {NEW: {"topics": "s", "target.topic": "N"}}
    assert world.runs(NEW)
    assert world.topics == {"s", "N"}
    assert OLD in world.forgotten
    assert NEW not in world.forgotten


def test_table_is_swapped_once_its_new_query_has_caught_up(world: World) -> None:
    swaps = TableSwaps(world)
    world.position = END - 1
    swaps.look()
    assert world.steps == 0
    assert [each.name for each in world.catalog.sources["N"].value] == ["C"]
    world.position = END
    swaps.look()
    check_swapped(world)


def test_new_query_that_is_as_far_behind_as_the_earlier_one_has_caught_up(world: World) -> None:
    world.position = world.old_position = END - 50
    with pytest.MonkeyPatch.context() as patch:
        # The new query reads on until it has all that the earlier one has read.
        patch.setattr(FakeCluster, "ends", lambda _, places: dict.fromkeys(places, END - 50))
        TableSwaps(world).look()
    check_swapped(world)


def test_query_without_positions_has_caught_up_where_its_topics_are_empty(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(World, "progress", lambda *_: JobProgress())
    TableSwaps(world).look()
    assert world.steps == 0
    ranges = {("s", 0): (END, END)}
    monkeypatch.setattr(FakeCluster, "log_ranges", lambda *_: ranges)
    TableSwaps(world).look()
    check_swapped(world)


def test_killed_runner_continues_the_swap() -> None:
    killed = 0
    while True:
        with pytest.MonkeyPatch.context() as patch:
            found = patched_world(patch)
            found.killed_before = killed
            try:
                TableSwaps(found).look()
            except KilledError:
                killed += 1
            else:
                break
            found.killed_before = None
            for _ in range(2):
                TableSwaps(found).look()
            check_swapped(found)
    assert killed >= 8


def refused(_: FakeExchange) -> int:
    raise UnresolvedError("the topic is not there")


def test_swap_that_cannot_be_made_leaves_both_queries_running(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeExchange, "run", refused)
    swaps = TableSwaps(world)
    swaps.look()
    assert [each.name for each in world.catalog.queries] == [OLD, NEW]
    replacement = world.catalog.queries[1].replacement
    assert replacement is not None
    assert replacement.phase == "BUILDING"
    assert world.runs(OLD)
    assert world.runs(NEW)
    steps = world.steps
    swaps.look()  # not at once
    assert world.steps == steps


@pytest.mark.parametrize("target", ["PAUSED", "STOPPED"])
def test_query_that_did_not_run_does_not_when_the_swap_fails(
    world: World, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    world.targets[OLD] = target
    with monkeypatch.context() as patch:
        patch.setattr(FakeExchange, "run", refused)
        TableSwaps(world).look()
    assert world.targets == {OLD: target, NEW: "STARTED"}
    TableSwaps(world).look()
    check_swapped(world)


def test_stopped_query_stays_stopped_when_the_runner_is_killed_in_the_swap(world: World) -> None:
    world.targets[OLD] = "STOPPED"
    world.killed_before = 2
    with pytest.raises(KilledError):
        TableSwaps(world).look()
    world.killed_before = None
    queries = tuple(read_query(query_json(each)) for each in world.catalog.queries)
    world.catalog = dataclasses.replace(world.catalog, queries=queries)
    TableSwaps(world).look()
    assert world.targets == {OLD: "STOPPED", NEW: "STARTED"}


def test_stopped_query_stays_stopped_when_its_successor_is_deleted(world: World) -> None:
    world.targets[OLD] = "STOPPED"
    del world.configs[NEW]
    written: list[Any] = []
    world.write = lambda _, records: written.extend(records)  # type: ignore[method-assign]
    TableSwaps(world).look()
    assert written == []


def test_swap_that_fails_again_is_tried_at_longer_intervals(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[float] = []

    def refused(self: FakeExchange) -> int:
        del self
        tried.append(now)
        raise UnresolvedError("the topic is not there")

    now = 0.0
    clock = SimpleNamespace(monotonic=lambda: now, sleep=lambda _: None)
    monkeypatch.setattr(table_swaps, "time", clock)
    monkeypatch.setattr(FakeExchange, "run", refused)
    swaps = TableSwaps(world)
    while now <= 3 * 3600:
        swaps.look()
        now += 30
    between = [later - earlier for earlier, later in pairwise(tried)]
    assert between == [60, 120, 240, 480, 960, 1920, 3600]


def test_swap_that_fails_does_not_hold_another_one_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: FakeExchange) -> bool:
        del self
        raise UnresolvedError("the cluster does not answer")

    built = world.catalog.queries[1]
    assert built.replacement is not None
    gone = dataclasses.replace(built, name="CTAS_N_9")
    swapping = dataclasses.replace(
        built, replacement=dataclasses.replace(built.replacement, phase="SWAPPING")
    )
    world.catalog = dataclasses.replace(world.catalog, queries=(swapping, gone))
    monkeypatch.setattr(FakeExchange, "is_done", refused)
    monkeypatch.setattr(table_swaps, "Exchange", lambda *_: FakeExchange(world, STAGING, "N"))
    TableSwaps(world).look()
    assert [each.name for each in world.catalog.queries] == [NEW]


def test_new_query_that_does_not_run_is_not_waited_for(world: World) -> None:
    world.targets[NEW] = "PAUSED"
    TableSwaps(world).look()
    assert world.steps == 0


def test_deleted_job_ends_the_replacement(world: World) -> None:
    del world.configs[NEW]
    world.configs = {OLD: world.configs[OLD]}
    world.write = lambda after, _: setattr(world, "catalog", after)  # type: ignore[method-assign]
    TableSwaps(world).look()
    assert [each.name for each in world.catalog.queries] == [OLD]
    assert world.topics == {"s", "N"}


def test_ended_query_leaves_no_staging_topic(world: World) -> None:
    TableSwaps(world).forget(world.catalog.queries[1])
    assert world.topics == {"s", "N"}
    assert OLD not in world.forgotten
    removing = dataclasses.replace(
        world.catalog.queries[1],
        replacement=dataclasses.replace(
            world.catalog.queries[1].replacement,  # type: ignore[type-var]
            phase="REMOVING",
        ),
    )
    TableSwaps(world).forget(removing)
    assert OLD in world.forgotten
