"""SQL on a runner: statements change the stored catalog and the jobs; the engine has no Spark."""

import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
import trio
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

pytest.importorskip("sqlglot")

from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.plan.job_plan import JobFailure
from barnabas.pipeline.delivery.writing.record_producer import FencedError
from barnabas.pipeline.delivery.writing.transactional_producer import TransactionalProducer
from barnabas.pipeline.sql.hosting import exchanged_rows
from barnabas.pipeline.sql.hosting.exchanged_rows import Changes, Exchange, Row
from barnabas.pipeline.sql.hosting.hosted_sql import HostedSql, NotActiveRunnerError
from barnabas.pipeline.sql.shell.answer_values import CommandDone, QueryList
from barnabas.pipeline.sql.sql_failures import SqlError
from barnabas.testing import Node
from tests.pipeline.runner.live_runner import LiveRunner, eventually, live_runner

SOURCE = (
    "CREATE STREAM s (k INT KEY, v INT)"
    " WITH (kafka_topic='{0}', value_format='JSON', partitions=2);"
)


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as found:
        yield found


class Hosted:
    """A runner with SQL."""

    def __init__(self, runner: LiveRunner, sql: HostedSql) -> None:
        self.runner = runner
        self.sql = sql

    def execute(self, script: str) -> list[str]:
        session = self.sql.session()
        return [
            each.message if isinstance(each, CommandDone) else ""
            for each in session.execute(script)
        ]

    def jobs(self, query: str = "?hidden=true") -> list[str]:
        status, names = self.runner.ask("GET", f"/connectors{query}")
        assert status == 200
        return names


@contextmanager
def hosted(node: Node, name: str, *, is_active: bool = True) -> Iterator[Hosted]:
    found: list[HostedSql] = []
    ready = threading.Event()

    async def serve(sql: HostedSql, *_: object) -> None:
        found.append(sql)
        ready.set()
        await trio.sleep_forever()

    topics = {f"{kind}.storage.topic": f"{name}-{kind}" for kind in ("config", "offset", "status")}
    more = {**topics, "barnabas.sql.enable": "true", "barnabas.sql.storage.topic": f"{name}-sql"}
    with live_runner(node.bootstrap, more=more, serve_sql=serve, group_id=name) as runner:
        assert ready.wait(60)
        eventually(runner.is_healthy)
        if is_active:
            eventually(lambda: runner.ask("PUT", "/connectors/none/pause")[0] == 404)
        yield Hosted(runner, found[0])


def test_query_becomes_a_job_that_lists_leave_out(node: Node) -> None:
    with hosted(node, "jobs") as found:
        answers = found.execute(SOURCE.format("jobs-in") + "CREATE STREAM o AS SELECT * FROM s;")
        assert answers[1] == "started query CSAS_O_0, which writes the topic O"
        assert found.jobs("") == []
        assert found.jobs() == ["jobs-CSAS_O_0"]
        found.runner.wait_states("jobs-CSAS_O_0", "RUNNING", "RUNNING")
        plan = found.runner.engine.running()["jobs-CSAS_O_0"].plan
        assert (plan.topics, plan.target_topic) == (("jobs-in",), "O")
        assert plan.group_id == plan.transactional_id == "jobs-CSAS_O_0"
        assert found.execute("PAUSE CSAS_O_0;") == ["paused CSAS_O_0"]
        found.runner.wait_states("jobs-CSAS_O_0", "PAUSED", "PAUSED")
        eventually(lambda: found.sql.state_of("CSAS_O_0") == "PAUSED")
        assert found.execute("RESUME ALL;") == ["resumed CSAS_O_0"]
        found.runner.wait_states("jobs-CSAS_O_0", "RUNNING", "RUNNING")
        found.execute("CREATE OR REPLACE STREAM o AS SELECT k, v FROM s WHERE v > 1;")
        config = found.runner.ask("GET", "/connectors/jobs-CSAS_O_0/config")[1]
        assert config["sql.statement"].endswith("WHERE v > 1")
        assert found.execute("DROP STREAM o DELETE TOPIC;") == ["dropped stream O"]
        assert found.jobs() == []
        assert "O" not in AdminClient({"bootstrap.servers": node.bootstrap}).list_topics().topics
        assert found.runner.engine.forgotten[-1][0] == "jobs-CSAS_O_0"


TABLE = "TABLE t WITH (kafka_topic='{0}-t') AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;"
WIDER = "TABLE t WITH (kafka_topic='{0}-t') AS SELECT k, COUNT(*) AS n, 1 AS m FROM s GROUP BY k;"


@contextmanager
def building(node: Node, name: str) -> Iterator[Hosted]:
    """Yield a runner on which a query builds a table, and does not run."""
    with hosted(node, name) as found:
        refused = JobFailure("not yet", is_permanent=True)
        engine = found.runner.engine
        engine.refuse = lambda plan: refused if str(plan.target_topic)[-7:] == "staging" else None
        found.execute(SOURCE.format(f"{name}-in") + "CREATE " + TABLE.format(name))
        found.runner.wait_states(f"{name}-CTAS_T_0", "RUNNING", "RUNNING")
        answers = found.execute("CREATE OR REPLACE " + WIDER.format(name))
        assert answers == ["started query CTAS_T_1, which rebuilds T to replace it"]
        eventually(lambda: found.sql.state_of("CTAS_T_1") == "FAILED")
        yield found


def test_table_is_built_beside_the_query_that_has_it_and_then_swapped(node: Node) -> None:
    with building(node, "swap") as found:
        config = found.runner.ask("GET", "/connectors/swap-CTAS_T_1/config")[1]
        assert config["sql.phase"] == "building"
        assert config["target.topic"] == "swap-CTAS_T_1-staging"
        (shown,) = found.sql.session().execute("SHOW QUERIES;")
        assert isinstance(shown, QueryList)
        assert [(each.id, each.state, each.is_building) for each in shown.queries] == [
            ("CTAS_T_0", "RUNNING", False),
            ("CTAS_T_1", "ERROR", True),
        ]
        produce(node, "swap-t", [(b"a", b"1", 0), (b"b", b"2", 1), (b"c", b"3", 1)])
        produce(node, config["target.topic"], [(b"a", b"4", 0), (b"c", b"3", 1), (b"d", b"5", 1)])
        found.runner.engine.refuse = lambda _: None
        assert found.runner.ask("POST", "/connectors/swap-CTAS_T_1/restart")[0] == 204
        eventually(lambda: [each.replacement for each in found.sql.catalog.queries] == [None])
        assert rows(node, "swap-t") == [
            [(b"a", b"1"), (b"a", b"4")],
            [(b"b", b"2"), (b"c", b"3"), (b"b", None), (b"d", b"5")],
        ]
        found.runner.wait_states("swap-CTAS_T_1", "RUNNING", "RUNNING")
        plan = found.runner.engine.running()["swap-CTAS_T_1"].plan
        assert plan.target_topic == "swap-t"
        assert "sql.phase" not in plan.properties
        assert found.jobs() == ["swap-CTAS_T_1"]
        assert [each.name for each in found.sql.catalog.sources["T"].value] == ["N", "M"]
        assert "swap-CTAS_T_0" in [each[0] for each in found.runner.engine.forgotten]
        topics = AdminClient({"bootstrap.servers": node.bootstrap}).list_topics().topics
        assert "swap-CTAS_T_1-staging" not in topics


def test_rebuilt_table_warns_of_records_that_its_source_has_deleted(node: Node) -> None:
    with hosted(node, "less") as found:
        found.execute(SOURCE.format("less-in") + "CREATE " + TABLE.format("less"))
        produce(node, "less-in", [(b"a", b"1", 1)] * 3)
        ClusterState({"bootstrap.servers": node.bootstrap}).delete_records({("less-in", 1): 2})
        (answer,) = found.sql.session().execute("CREATE OR REPLACE " + WIDER.format("less"))
        assert isinstance(answer, CommandDone)
        assert answer.warnings == (
            "The rebuilt table lacks the rows of records that are deleted from topic less-in: "
            "partition 1 starts at offset 2",
        )


def test_stream_over_a_compacted_topic_has_a_warning(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = ClusterState({"bootstrap.servers": node.bootstrap})
    cluster.create_topic("compacted-in", 1, {"cleanup.policy": "delete,compact"})
    cluster.create_topic("compacted-all", 1, {})
    columns = "(k INT {}KEY, v INT) WITH (kafka_topic='{}', value_format='JSON');"
    script = (
        "CREATE STREAM s " + columns.format("", "compacted-in"),
        "CREATE TABLE t " + columns.format("PRIMARY ", "compacted-in"),
        "CREATE STREAM u " + columns.format("", "compacted-all"),
    )
    with hosted(node, "compacted") as found:
        warned, *others = found.sql.session().execute("".join(script))
    assert isinstance(warned, CommandDone)
    (warning,) = warned.warnings
    assert "The topic compacted-in of the stream S is compacted" in warning
    assert [each.warnings for each in others if isinstance(each, CommandDone)] == [(), ()]
    assert warning in caplog.text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("TERMINATE CTAS_T_1;", ["{0}-CTAS_T_0"]),
        ("DROP TABLE t;", []),
        ("CREATE OR REPLACE " + WIDER, ["{0}-CTAS_T_0", "{0}-CTAS_T_2"]),
    ],
)
def test_query_that_builds_a_table_can_be_ended(node: Node, text: str, left: list[str]) -> None:
    name = text.partition(" ")[0].lower()
    with building(node, name) as found:
        found.execute(text.format(name))
        assert found.jobs() == [each.format(name) for each in left]
        topics = AdminClient({"bootstrap.servers": node.bootstrap}).list_topics().topics
        assert f"{name}-CTAS_T_1-staging" not in topics


def test_topic_that_has_the_name_of_a_staging_topic_is_not_written(node: Node) -> None:
    with hosted(node, "foreign") as found:
        found.execute(SOURCE.format("foreign-in") + "CREATE " + TABLE.format("foreign"))
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.create_topics([NewTopic("foreign-CTAS_T_1-staging", 1)])
        eventually(lambda: "foreign-CTAS_T_1-staging" in admin.list_topics().topics)
        with pytest.raises(SqlError, match="foreign-CTAS_T_1-staging, in which the table would be"):
            found.execute("CREATE OR REPLACE " + WIDER.format("foreign"))
        assert found.jobs() == ["foreign-CTAS_T_0"]


def produce(node: Node, topic: str, records: list[tuple[bytes, bytes, int]]) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for key, value, partition in records:
        producer.produce(topic, value, key, partition)
    assert producer.flush(30) == 0


def rows(node: Node, topic: str) -> list[list[tuple[bytes, bytes | None]]]:
    """Return the committed records of both partitions."""
    settings = {"bootstrap.servers": node.bootstrap, "group.id": "rows"}
    found: list[list[tuple[bytes, bytes | None]]] = [[], []]
    with closing(Consumer({**settings, "enable.partition.eof": True})) as consumer:
        consumer.assign([TopicPartition(topic, each, 0) for each in range(2)])
        left = 2
        while left:
            for each in consumer.consume(100, 1.0):
                if each.error() is not None:
                    left -= 1
                else:
                    found[each.partition() or 0].append((each.key() or b"", each.value()))
    return found


def test_catalog_outlives_the_runner(node: Node) -> None:
    script = (
        SOURCE.format("kept-in")
        + SOURCE.format("kept-other").replace("STREAM s", "STREAM other")
        + "CREATE TYPE both AS STRUCT<a INT, b INT>;"
        + "CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;"
        + "INSERT INTO s SELECT * FROM other;TERMINATE INSERTQUERY_S_1;"
    )
    with hosted(node, "kept") as found:
        found.execute(script)
        before = found.sql.catalog
    assert [each.name for each in before.queries] == ["CTAS_T_0"]
    with hosted(node, "kept") as found:
        assert found.sql.catalog == before
        found.runner.wait_states("kept-CTAS_T_0", "RUNNING", "RUNNING")
        found.execute("CREATE STREAM u AS SELECT * FROM s;")
        assert found.jobs() == ["kept-CSAS_U_2", "kept-CTAS_T_0"]


def test_deleted_job_ends_its_query(node: Node) -> None:
    with hosted(node, "deleted") as found:
        found.execute(SOURCE.format("deleted-in") + "CREATE STREAM o AS SELECT * FROM s;")
        assert found.runner.ask("DELETE", "/connectors/deleted-CSAS_O_0")[0] == 204
        assert found.sql.catalog.queries == ()
        assert found.runner.engine.forgotten == []
        assert found.execute("DROP STREAM s;") == ["dropped stream S"]
        assert found.runner.engine.forgotten[-1][0] == "deleted-CSAS_O_0"


def test_statement_that_is_refused_changes_nothing(node: Node) -> None:
    with hosted(node, "refused") as found:
        found.execute(SOURCE.format("refused-in"))
        before = found.sql.catalog
        for text, message in (
            ("PAUSE CSAS_O_0;", "line 1:1: There is no query CSAS_O_0"),
            (
                "CREATE STREAM r (k INT KEY) WITH (kafka_topic='refused-r', "
                "value_format='JSON', partitions=1, replicas=7);",
                "line 1:1: The topic refused-r was not created: ",
            ),
            ("CREATE STREAM p AS SELECT * FROM q;", "There is no stream or table Q"),
            (
                "SET 'trigger.ms'='x';CREATE STREAM p AS SELECT * FROM s;",
                "Invalid value x for configuration trigger.ms",
            ),
        ):
            with pytest.raises(SqlError, match=message):
                found.execute(text)
        assert found.sql.catalog == before
        assert found.jobs() == []


def test_statement_that_has_nothing_to_do_creates_and_deletes_no_topic(node: Node) -> None:
    with hosted(node, "nothing") as found:
        found.execute(SOURCE.format("nothing-in"))
        before = found.sql.catalog
        admin: Any = AdminClient({"bootstrap.servers": node.bootstrap})
        for each in admin.delete_topics(["nothing-in"]).values():
            each.result(120)
        again = SOURCE.format("nothing-in").replace("STREAM s", "STREAM IF NOT EXISTS s")
        assert found.execute(again) == [""]
        assert found.execute("DROP STREAM IF EXISTS x DELETE TOPIC;") == [
            "Source `X` does not exist."
        ]
        assert found.sql.catalog == before
        assert "nothing-in" not in admin.list_topics(timeout=120).topics


def test_record_of_a_later_version_refuses_changes(node: Node) -> None:
    with hosted(node, "later") as found:
        found.execute(SOURCE.format("later-in"))
        producer = Producer({"bootstrap.servers": node.bootstrap})
        key = b'{"kind":"source","name":"X"}'
        producer.produce("later-sql", b'{"version":2}', key)
        assert producer.flush(30) == 0
        with pytest.raises(SqlError) as raised:
            found.execute("DROP STREAM s;")
        assert str(raised.value) == (
            "line 1:1: The catalog is not complete, so nothing changes it: the record "
            '{"kind":"source","name":"X"} at offset 2 of topic later-sql cannot be read: it has '
            "version 2, and this version of barnabas reads up to 1. Upgrade barnabas, or write a "
            "null value for this key"
        )
        assert list(found.sql.catalog.sources) == ["S"]
        producer.produce("later-sql", None, key)
        assert producer.flush(30) == 0
        assert found.execute("DROP STREAM s;") == ["dropped stream S"]


def test_runner_on_standby_names_the_active_one(node: Node) -> None:
    with hosted(node, "pair") as active, hosted(node, "pair", is_active=False) as standby:
        active.execute(SOURCE.format("pair-in"))
        eventually(lambda: "S" in standby.sql.catalog.sources)
        with pytest.raises(
            SqlError, match=f"send the statement to the active one, {active.runner.url}"
        ):
            standby.execute("DROP STREAM s;")
        with pytest.raises(NotActiveRunnerError):
            standby.sql.new_app()


def test_start_without_sql_imports_nothing_of_it(node: Node) -> None:
    program = (
        "import sys, time\n"
        "from tests.pipeline.runner.live_runner import eventually, live_runner\n"
        "with live_runner(sys.argv[1], group_id='without') as runner:\n"
        "    eventually(runner.is_healthy)\n"
        "    runner.ask('GET', '/connector-plugins')\n"
        "    names = ('barnabas.pipeline.sql', 'sqlglot')\n"
        "    found = [each for each in sys.modules if each.startswith(names)]\n"
        "    assert not found, found\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, node.bootstrap], capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()


def exchange_of(node: Node, table: str) -> Exchange:
    """Return the exchange of a table's topic, which is new, as its staging topic is."""
    properties = {"bootstrap.servers": node.bootstrap}
    names = (table, f"{table}-staging")
    admin = AdminClient(properties)
    for future in admin.create_topics([NewTopic(each, 2) for each in names]).values():
        future.result(30)
    return Exchange(names[1], table, properties, 60_000)


def test_exchange_of_a_runner_that_has_lost_its_role_writes_nothing(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = exchange_of(node, "lost")
    produce(node, "lost", [(b"a", b"1", 0)])
    produce(node, "lost-staging", [(b"a", b"2", 0), (b"b", b"1", 1)])
    changes_of = exchanged_rows.changes_of

    def taken_over(partition: int, table: Iterable[Row], built: Iterable[Row]) -> Changes:
        assert not exchange.is_done()
        return changes_of(partition, table, built)

    with monkeypatch.context() as patch:
        patch.setattr(exchanged_rows, "changes_of", taken_over)
        with pytest.raises(FencedError):
            exchange.run()
    assert rows(node, "lost") == [[(b"a", b"1")], []]
    assert not exchange.is_done()
    assert exchange.run() == 2
    assert rows(node, "lost") == [[(b"a", b"1"), (b"a", b"2")], [(b"b", b"1")]]
    assert exchange.is_done()
    assert exchange.run() == 0


class KilledError(Exception):
    """The process ends here."""


def test_exchange_that_was_killed_in_its_transaction_is_made_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = exchange_of(node, "half")
    produce(node, "half", [(b"a", b"1", 0), (b"b", b"1", 1)])
    produce(node, "half-staging", [(b"a", b"2", 0), (b"c", b"1", 0)])
    send = TransactionalProducer.produce
    killed: list[TransactionalProducer] = []

    def killed_later(producer: TransactionalProducer, *record: Any) -> None:
        send(producer, *record)
        if record[2] == b"c":
            producer.flush()
            killed.append(producer)
            raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(TransactionalProducer, "produce", killed_later)
        patch.setattr(exchanged_rows, "abandon", lambda _: None)
        with pytest.raises(KilledError):
            exchange.run()
    assert killed
    assert not exchange.is_done()
    assert rows(node, "half") == [[(b"a", b"1")], [(b"b", b"1")]]
    assert exchange.run() == 3
    assert rows(node, "half") == [
        [(b"a", b"1"), (b"a", b"2"), (b"c", b"1")],
        [(b"b", b"1"), (b"b", None)],
    ]


def test_exchange_may_take_as_long_as_the_brokers_allow(node: Node) -> None:
    found = ClusterState({"bootstrap.servers": node.bootstrap}).transaction_ms_max()
    assert found == 900_000
