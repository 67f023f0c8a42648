"""Spark's format `barnabas`: rows of any Spark job, once in a topic, through kills and failures."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient

from compat_tests import spark as setup
from compat_tests.pipeline.conftest import eventually
from compat_tests.pipeline.killed_job import (
    DriverProcess,
    create_topics,
    read_committed,
    wait_until,
)
from compat_tests.pipeline.sink_program import ROWS_PER_BATCH

if TYPE_CHECKING:
    from compat_tests.pipeline.conftest import SharedJvm

pytestmark = [
    setup.needed,
    pytest.mark.timeout(600),
]

KILLED_PROCESS = ("prepared", "decided", "halved")
"""The points (planted_sink) at which a worker or the process that commits is killed."""
KILLED_DRIVER = ("prepared", "committed")
"""The points at which the program and its JVM are killed, too."""
PAGES = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def session(shared_jvm: "SharedJvm") -> Any:
    import barnabas.spark

    found = shared_jvm.process().session
    barnabas.spark.register(found)
    # Spark looks a format up in the thread's active session, which this makes of the session.
    found.createDataFrame([(1,)], "number INT")
    return found


@pytest.fixture
def topic(bootstrap: str, unique: Callable[[str], str]) -> str:
    name = unique("sink")
    create_topics(bootstrap, [name], 3)
    return name


def write(rows: Any, bootstrap: str, **options: str) -> None:
    writer = rows.write.format("barnabas").mode("append")
    writer.option("kafka.bootstrap.servers", bootstrap).options(**options).save()


def visible(bootstrap: str, topic: str, count: int) -> list[Any]:
    """Return the committed records: Apache Kafka shows them a moment after the commit."""
    return eventually(
        lambda: found if len(found := read_committed(bootstrap, topic)) >= count else None
    )


def last_batch(options: dict[str, str]) -> int:
    """Complete a decided batch, as the next driver does; return the number of the last one."""
    from barnabas.pipeline.sink import kafka_data_source, sink_options

    found = sink_options.parse(options, is_stream=True)
    return kafka_data_source._commits(found, "the test").before_tasks().batch


def refusal(write_rows: Callable[[], object]) -> str:
    """Return the message of the sink in the error that Spark raises."""
    with pytest.raises(Exception, match="Sink") as raised:
        write_rows()
    return re.findall(r"sink_errors\.\w+: (.*)", str(raised.value))[-1]


def test_batch_write_with_all_columns_makes_records_with_them(session, bootstrap, topic) -> None:
    rows = session.range(300).selectExpr(
        "CAST(id AS STRING) AS key",
        "CAST(CAST(id AS STRING) AS BINARY) AS value",
        "IF(id % 2 = 0, 2, NULL) AS partition",
        "timestamp_millis(1700000000123 + id) AS timestamp",
        "IF(id = 7, array(struct('a' AS key, CAST('b' AS BINARY) AS value)), NULL) AS headers",
        f"'{topic}' AS topic",
        "id AS another",
    )
    write(rows, bootstrap)
    found = {int(each.key()): each for each in read_committed(bootstrap, topic)}
    assert sorted(found) == list(range(300))
    assert all(each.value() == str(n).encode() for n, each in found.items())
    assert {each.partition() for n, each in found.items() if n % 2 == 0} == {2}
    assert len({each.partition() for n, each in found.items() if n % 2}) == 3
    assert all(each.timestamp()[1] == 1700000000123 + n for n, each in found.items())
    assert {n: each.headers() for n, each in found.items() if each.headers()} == {7: [("a", b"b")]}


def test_second_session_of_a_program_has_the_format(session, bootstrap, topic) -> None:
    """The session of the fixture stays the one that is active in the thread."""
    import barnabas.spark

    other = session.newSession()
    barnabas.spark.register(other)
    for number, each in enumerate((other, session)):
        write(each.range(1).selectExpr(f"'{number}' AS value"), bootstrap, topic=topic)
    assert sorted(each.value() for each in visible(bootstrap, topic, 2)) == [b"0", b"1"]


def test_batch_write_that_fails_leaves_no_visible_row(session, bootstrap, topic) -> None:
    rows = session.range(0, 1000, 1, 4).selectExpr(
        "CAST(id AS STRING) AS value", f"IF(id < 990, '{topic}', NULL) AS topic"
    )
    assert "column `topic` is null in 10 of" in refusal(lambda: write(rows, bootstrap))
    assert read_committed(bootstrap, topic) == []


def test_stream_repeated_under_its_checkpoint_adds_no_row(
    session, bootstrap, topic, unique, tmp_path
) -> None:
    """The newest commit of the checkpoint is removed, as after a kill before Spark writes it."""
    name = unique("query")
    (tmp_path / "in").mkdir()

    def run(number: int) -> None:
        (tmp_path / "in" / f"{number}.txt").write_text("".join(f"{number}-{i}\n" for i in range(9)))
        query = (
            session.readStream.text(str(tmp_path / "in"))
            .writeStream.format("barnabas")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", topic)
            .option("name", name)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run(0)
    commits = tmp_path / "checkpoint" / "commits"
    for each in (commits / "0", commits / ".0.crc"):
        each.unlink(missing_ok=True)
    run(1)
    counts = Counter(each.value().decode() for each in visible(bootstrap, topic, 18))
    assert counts == {f"{number}-{i}": 1 for number in (0, 1) for i in range(9)}
    # Another checkpoint is another query, whose batches have other rows.
    (tmp_path / "checkpoint").rename(tmp_path / "old")
    assert f"the name '{name}' belongs to another query" in refusal(lambda: run(2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "the rows have no topic: set the option `topic`"),
        ({"topic": "absent"}, "topic absent does not exist on"),
        ({"topics": "a"}, "option `topics` is unknown"),
        ({"topic": "a", "kafka.linger": "1"}, 'No such configuration property: "linger"'),
        (
            {"topic": "a", "kafka.transaction.timeout.ms": "500"},
            'a `kafka.` option is wrong: Configuration property "transaction.timeout.ms" value 500',
        ),
    ],
    ids=["no topic", "absent topic", "unknown option", "unknown property", "short timeout"],
)
def test_options_that_are_wrong_are_refused_by_name(session, bootstrap, options, message) -> None:
    rows = session.range(3).selectExpr("CAST(id AS STRING) AS value")
    assert message in refusal(lambda: write(rows, bootstrap, **options))


def test_stream_without_a_name_is_refused(session, bootstrap, topic, tmp_path) -> None:
    def run() -> None:
        rows = session.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
        writer = rows.writeStream.format("barnabas").option("topic", topic)
        writer = writer.option("kafka.bootstrap.servers", bootstrap)
        writer.option("checkpointLocation", str(tmp_path)).start().processAllAvailable()

    assert "option `name` is missing" in refusal(run)


def test_example_of_the_page_writes_each_order_once(session, bootstrap, tmp_path) -> None:
    """docs/pipelines.md begins with it; it runs twice, with a file between."""
    page = (PAGES / "pipelines.md").read_text()
    (code,) = [each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
               if 'format("barnabas")' in each]  # fmt: skip
    code = code.replace("127.0.0.1:9092", bootstrap).replace("/tmp/", f"{tmp_path}/")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if "orders" not in admin.list_topics(timeout=30).topics:
        create_topics(bootstrap, ["orders"], 1)
    before = len(read_committed(bootstrap, "orders"))
    (tmp_path / "orders").mkdir()
    for number in range(2):
        line = f'{{"id": {number}, "customer": "c", "amount": 2.5}}\n'
        (tmp_path / "orders" / f"{number}.json").write_text(line)
        exec(compile(code, "pipelines.md", "exec"), {})
    found = visible(bootstrap, "orders", before + 2)[before:]
    assert [each.value() for each in found] == [
        f'{{"id":{number},"customer":"c","amount":2.5}}'.encode() for number in range(2)
    ]


def test_rows_are_written_once_when_processes_are_killed_at_every_point(
    bootstrap, topic, unique, tmp_path
) -> None:
    """The killed process is a task's worker, the process that commits, or the whole driver."""
    options = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "name": unique("killed")}
    settings = {
        "options": options,
        "checkpoint": str(tmp_path / "checkpoint"),
        "daemon": "compat_tests.pipeline.planted_sink",
    }
    driver = DriverProcess(tmp_path, settings, "compat_tests.pipeline.sink_program")
    driver.start()
    driver.wait_for_progress()
    for point in KILLED_PROCESS:
        driver.plant(point, "kill-worker")
        before = driver.newest_records()
        wait_until(lambda: driver.newest_records() > before, f"batch after {point}", driver)  # noqa: B023
    for point in KILLED_DRIVER:
        driver.plant(point, "kill-driver")
        driver.kill()
        driver.start()
        driver.wait_for_progress()
    driver.kill()
    rows = ROWS_PER_BATCH * (last_batch(options) + 1)
    counts = Counter(int(each.key()) for each in visible(bootstrap, topic, rows))
    assert counts == dict.fromkeys(range(rows), 1)
    assert rows >= ROWS_PER_BATCH * (len(KILLED_PROCESS) + len(KILLED_DRIVER))
