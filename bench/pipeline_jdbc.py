"""The row of `bench.pipeline` with a JDBC sink: upserts in PostgreSQL, each row written twice."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from bench.pipeline_connectors import STRING, Figures, Measurement, connector
from bench.pipeline_contenders import ConnectJava, OurWorker
from bench.pipeline_topics import PARTITIONS, fill, topics
from compat_tests import jars, postgres
from compat_tests.pipeline.connect_workers import ConnectWorker
from compat_tests.postgres import PostgresServer

SHARE = 5
"""A fifth of the records of the other rows: each of them costs more."""

JSON = "org.apache.kafka.connect.json.JsonConverter"
SCHEMA = {
    "type": "struct",
    "fields": [
        {"field": "id", "type": "int64"},
        {"field": "version", "type": "int64"},
        {"field": "text", "type": "string"},
    ],
}


Sink: TypeAlias = Callable[[PostgresServer], dict[str, str]]
"""Returns the configuration of a sink for a database."""

LIBRARY = jars.ROOT / ".cache" / "jdbc-sink" / "lib"


class DebeziumWorker(ConnectJava):
    """Java's Connect with Debezium's JDBC sink as a plug-in."""

    plugins = LIBRARY.parent


def our_sink(database: PostgresServer) -> dict[str, str]:
    """Return the configuration of our sink, which writes exactly once."""
    return {
        **database.properties,
        "connector.class": "JdbcSink",
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
        "auto.create": "true",
    }


def debezium_sink(database: PostgresServer) -> dict[str, str]:
    """Return the configuration of Debezium's sink, which writes at least once."""
    return {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "connection.url": database.jdbc_url,
        "connection.username": database.user,
        "connection.password": database.password,
        "insert.mode": "upsert",
        "primary.key.mode": "record_value",
        "primary.key.fields": "id",
        "schema.evolution": "basic",
        "collection.name.format": "${topic}",
    }


def measurements() -> dict[str, Measurement]:
    """Return the measurement of each contender."""
    return {
        "barnabas": partial(_measure, OurWorker, our_sink),
        "Debezium in Java Connect": partial(_measure, DebeziumWorker, debezium_sink),
    }


def _measure(contender: type[ConnectWorker], sink: Sink, bootstrap: str, count: int) -> Figures:
    """Measure upserts in a new PostgreSQL server, whose CPU is not in the figures."""
    if reason := postgres.missing():
        raise RuntimeError(reason)
    database = PostgresServer()
    try:
        database.start()
        prepare = partial(_upserts, database, sink)
        return connector(prepare, contender, bootstrap, count // SHARE)
    finally:
        database.close()


def _upserts(
    database: PostgresServer, sink: Sink, bootstrap: str, _: Path, count: int, name: str
) -> tuple[dict[str, str], Callable[[], bool]]:
    """Prepare a topic with two versions of each row, and a sink that writes them."""
    topics(bootstrap, name)
    ids = max(1, count // 2)
    fill(bootstrap, name, lambda number: _row(number % ids, number), count)
    config = {**sink(database), "topics": name, "tasks.max": "2"}
    config |= {"key.converter": STRING, "value.converter": JSON}

    def has_last_rows() -> bool:
        if database.run(f"SELECT to_regclass('{name}')") == [(None,)]:
            return False
        last = f"SELECT count(*) FROM {name} WHERE version >= {count - PARTITIONS}"
        return database.run(last) == [(min(count, PARTITIONS),)]

    return config, has_last_rows


def _row(identity: int, version: int) -> str:
    row = {"id": identity, "version": version, "text": f"{version:060d}"}
    return json.dumps({"schema": SCHEMA, "payload": row})
