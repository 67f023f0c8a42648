"""The properties of topics that statements create: how long their records stay."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from barnabas.pipeline.delivery.driver.cluster_state import ClusterState, Topic
from barnabas.pipeline.sql.analysis.written_results import created
from barnabas.pipeline.sql.catalog.source_definitions import Defaults, declared
from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.shell.created_topics import create_declared, create_sink
from barnabas.pipeline.sql.statement_values import CreateSource
from tests.pipeline.sql.test_query_analysis import CATALOG

RETENTION_MS = {"s": -1, "r": 3_600_000}
WINDOW = "SELECT id, COUNT(*) AS n FROM r WINDOW TUMBLING (SIZE 1 MINUTE{}) GROUP BY id"


class FakeCluster:
    """The topics `s` and `r`, and what is created beside them."""

    def __init__(self) -> None:
        self.created: dict[str, dict[str, str]] = {}

    def topics(self, names: Sequence[str]) -> dict[str, Topic | None]:
        return {name: Topic(name, name, 3) if name in RETENTION_MS else None for name in names}

    def retention_ms(self, topic: str) -> int | None:
        return RETENTION_MS[topic]

    def create_topic(
        self, name: str, partitions: int, config: Mapping[str, str], replication: int
    ) -> None:
        assert (partitions, replication) == (3, -1)
        self.created[name] = dict(config)


def config_of(text: str) -> dict[str, str]:
    """Return the properties of the topic of a CREATE."""
    (statement,) = parse_script(f"{text};")
    assert isinstance(statement, CreateSource)
    fake = FakeCluster()
    cluster = cast(ClusterState, cast(Any, fake))
    if statement.query is None:
        create_declared(cluster, declared(statement, {}, Defaults()))
    else:
        create_sink(cluster, created(statement, statement.query, CATALOG, Defaults()))
    (found,) = fake.created.values()
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE STREAM a AS SELECT * FROM s", {"retention.ms": "-1"}),
        ("CREATE STREAM a AS SELECT * FROM r", {"retention.ms": "3600000"}),
        ("CREATE STREAM a WITH (retention_ms=5) AS SELECT * FROM s", {"retention.ms": "5"}),
        (
            "CREATE STREAM a AS SELECT r.id, s.name FROM r JOIN s WITHIN 1 HOUR ON r.id = s.id",
            {"retention.ms": "3600000"},
        ),
        (
            "CREATE TABLE a WITH (retention_ms=5) AS SELECT id, COUNT(*) AS n FROM s GROUP BY id",
            {"cleanup.policy": "compact"},
        ),
        (
            f"CREATE TABLE a AS {WINDOW.format('')}",
            {"cleanup.policy": "compact,delete", "retention.ms": "3600000"},
        ),
        (
            f"CREATE TABLE a AS {WINDOW.format(', RETENTION 1 DAY')}",
            {"cleanup.policy": "compact,delete", "retention.ms": "86400000"},
        ),
        (
            f"CREATE TABLE a AS {WINDOW.format(', RETENTION 1 DAY').replace('FROM r', 'FROM s')}",
            {"cleanup.policy": "compact,delete", "retention.ms": "-1"},
        ),
        (
            "CREATE STREAM a (x INT) WITH (kafka_topic='a', value_format='JSON', partitions=3, "
            "retention_ms=7)",
            {"retention.ms": "7"},
        ),
    ],
)
def test_records_stay_as_long_as_those_that_they_are_from(
    text: str, expected: dict[str, str]
) -> None:
    assert config_of(text) == expected
