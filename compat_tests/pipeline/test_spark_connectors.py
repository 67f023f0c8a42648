"""Records as files that Spark writes, and rows of Spark's sources as records."""

import json
import time
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.pipeline.connect.plugin_registry import PluginKind, plugin_registry
from barnabas.pipeline.delivery.driver.spark_library import pyspark
from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan, OnTrim, RecordPosition
from barnabas.pipeline.delivery.plan.task_failures import JobStartError
from barnabas.pipeline.jobs.job_config import RunnerDefaults, job_plan
from compat_tests import spark as setup
from compat_tests.pipeline.conftest import eventually, failure_of
from compat_tests.pipeline.killed_job import read_committed
from tests.pipeline.connect.test_ddl_columns import INVALID, VALID

pytestmark = [
    setup.needed,
    pytest.mark.timeout(300),
]

PAGE = (Path(__file__).parents[2] / "docs" / "pipelines.md").read_text()
STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
CONVERTERS = {"key.converter": STRING, "value.converter": JSON}
PLAIN = {**CONVERTERS, "value.converter.schemas.enable": "false"}
COLUMNS = "id BIGINT, city STRING"
ROW = {
    "type": "struct",
    "fields": [
        {"field": "id", "type": "int64"},
        {"field": "city", "type": "string", "optional": True},
    ],
}


@pytest.fixture
def start(engine) -> Any:
    started = []

    def run(plan: JobPlan) -> Any:
        started.append(engine.start_job(plan))
        return started[-1]

    yield run
    for job in started:
        job.stop(20)


@pytest.fixture
def sink(bootstrap, topics, unique, tmp_path: Path) -> Any:
    """Return a function that makes the plan of a sink of one topic."""
    name, topic = unique("lake"), topics.create("lake", partitions=2)

    def plan(props: dict[str, str], **more: str) -> JobPlan:
        own = {
            "name": name,
            "topics": topic,
            "spark.format": "parquet",
            "path": str(tmp_path / "table"),
            "rotate.interval.ms": "200",
            **props,
            **{key.replace("__", "."): value for key, value in more.items()},
        }
        return JobPlan(
            name,
            1,
            JobKind.SPARK_SINK,
            bootstrap,
            group_id=f"connect-{name}",
            transactional_id=name,
            topics=(topic,),
            connector_class="barnabas.SparkSink",
            properties=own,
        )

    return plan


def produce(plan: JobPlan, values: list[Any], *, has_schema: bool = True) -> None:
    producer = Producer({"bootstrap.servers": plan.bootstrap})
    for value in values:
        text = json.dumps({"schema": ROW, "payload": value} if has_schema else value)
        data = None if value is None else text.encode()
        producer.produce(plan.topics[0], key=b"k", value=data, partition=0)
    assert producer.flush(30) == 0


def rows(first: int, last: int) -> list[dict[str, Any]]:
    return [{"id": number, "city": f"c{number % 3}"} for number in range(first, last)]


def numbers(engine: Any, plan: JobPlan) -> list[int]:
    """Return the ids that Spark reads from the files, sorted."""
    reader = engine.session.read.format(plan.properties["spark.format"])
    if plan.properties["spark.format"] in ("csv", "json"):
        reader = reader.schema(COLUMNS)
    frame = reader.load(plan.properties["path"])
    return sorted(row.id for row in frame.select("id").collect())


def position(plan: JobPlan) -> int:
    """Return the offset that the group shows for the first partition."""
    consumer = Consumer({"bootstrap.servers": plan.bootstrap, "group.id": plan.group_id})
    found = consumer.committed([TopicPartition(plan.topics[0], 0)], 30)[0].offset
    consumer.close()
    return found


def wait_for(plan: JobPlan, job: Any, offset: int) -> None:
    """Wait until the job shows an offset in its group; it commits when its progress is read."""
    eventually(lambda: job.progress() and position(plan) == offset, job)


def wait_counted(job: Any, offsets: int) -> None:
    """Wait until the job has read or skipped a number of offsets."""

    def counted() -> int:
        progress = job.progress()
        return progress.records + progress.trimmed

    eventually(lambda: counted() == offsets, job)


def lose_commit(plan: JobPlan) -> None:
    """Leave the checkpoint as a kill does between the sink's commit and Spark's."""
    commits = Path(plan.properties["path"]) / "_checkpoints" / plan.name / "commits"
    newest = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    (commits / str(newest)).unlink()
    (commits / f".{newest}.crc").unlink(missing_ok=True)


def test_spark_sink_writes_each_record_once_through_restarts(engine, sink, start) -> None:
    plan = sink(CONVERTERS, partition__by="city")
    job = start(plan)
    job.progress()
    assert job.is_running()
    produce(plan, rows(0, 100))
    wait_for(plan, job, 100)
    assert job.progress().written == 100
    assert job.progress().lag[0].lag == 0
    job.stop()
    lose_commit(plan)
    produce(plan, rows(100, 150))
    again = start(attrs.evolve(plan, generation=2))
    wait_for(plan, again, 150)
    again.stop()
    assert numbers(engine, plan) == list(range(150))
    frame = engine.session.read.parquet(plan.properties["path"])
    assert dict(frame.dtypes) == {"id": "bigint", "city": "string"}
    assert (Path(plan.properties["path"]) / "city=c1").is_dir()


def test_spark_sink_records_that_do_not_fit_are_dead_letters(engine, sink, start, topics) -> None:
    letters = topics.create("letters")
    plan = sink(
        PLAIN,
        schema=COLUMNS,
        errors__tolerance="all",
        errors__deadletterqueue__topic__name=letters,
        errors__deadletterqueue__context__headers__enable="true",
    )
    produce(plan, [*rows(0, 5), None, {"id": "x"}, {"id": 5, "more": 1}], has_schema=False)
    job = start(plan)
    eventually(lambda: job.progress().records >= 8, job)
    job.stop()
    progress = job.progress()
    assert (progress.written, progress.dead_letters) == (5, 3)
    lose_commit(plan)
    again = start(attrs.evolve(plan, generation=2))
    produce(plan, [{"id": 6}], has_schema=False)
    wait_for(plan, again, 9)
    again.stop()
    assert numbers(engine, plan) == [0, 1, 2, 3, 4, 6]
    found = read_committed(plan.bootstrap, letters)
    reasons = [dict(message.headers())["__connect.errors.exception.message"] for message in found]
    assert reasons == [
        b"the record has no value and behavior.on.null.values is fail",
        b"the value.id: java.lang.String 'x' does not fit long",
        b"the value has the field more, for which there is no column",
    ]
    assert {dict(m.headers())["__connect.errors.stage"] for m in found} == {b"TASK_PUT"}


def test_spark_sink_record_that_does_not_fit_fails_the_job(sink, start) -> None:
    plan = sink(PLAIN, schema=COLUMNS, behavior__on__null__values="ignore")
    produce(plan, [{"id": 1}, None, {"id": 2**63}], has_schema=False)
    failure = failure_of(start(plan))
    assert failure.is_permanent
    assert failure.record == RecordPosition(plan.topics[0], 0, 2)
    assert "does not fit long" in failure.message


def test_spark_sink_counts_the_offsets_that_it_skips(engine, sink, start) -> None:
    """Records are deleted while the job runs and while it is stopped: each is read or counted."""
    plan = sink(PLAIN, schema=COLUMNS, rotate__interval__ms="2000")
    plan = attrs.evolve(plan, on_trim=OnTrim.SKIP)
    admin = AdminClient({"bootstrap.servers": plan.bootstrap})

    def produce_and_delete(first: int, kept: int) -> None:
        produce(plan, rows(first, first + 10), has_schema=False)
        cut = TopicPartition(plan.topics[0], 0, first + 10 - kept)
        admin.delete_records([cut])[cut].result(60)

    produce(plan, rows(0, 10), has_schema=False)
    job = start(plan)
    wait_for(plan, job, 10)
    assert job.progress().trimmed == 0
    end, deadline = 10, time.monotonic() + 120
    # A batch may begin before its records are deleted, and read them: then there is another round.
    for kept in (4, 0):
        before = job.progress().trimmed
        while job.progress().trimmed == before:
            assert time.monotonic() < deadline, "each round was read before it was deleted"
            produce_and_delete(end, kept)
            end += 10
            wait_counted(job, end)
    job.stop()
    read = job.progress().records
    assert len(numbers(engine, plan)) == read
    produce_and_delete(end, 5)
    again = start(attrs.evolve(plan, generation=2))
    wait_for(plan, again, end + 10)
    assert (again.progress().trimmed, again.progress().records) == (5, 5)
    again.stop()
    assert len(numbers(engine, plan)) == read + 5


@pytest.mark.parametrize("kind", ["csv", "json", "orc"])
def test_spark_sink_writes_the_format(engine, sink, start, kind: str) -> None:
    plan = sink(CONVERTERS, spark__format=kind, flush__size="10", spark__option__compression="none")
    produce(plan, rows(0, 25))
    job = start(plan)
    wait_for(plan, job, 25)
    job.stop()
    assert numbers(engine, plan) == list(range(25))
    files = [f for f in Path(plan.properties["path"]).iterdir() if f.name.endswith(f".{kind}")]
    assert len(files) == 3


def test_spark_sink_refuses_files_of_another_job(sink, start, unique) -> None:
    plan = sink(CONVERTERS)
    produce(plan, rows(0, 5))
    job = start(plan)
    wait_for(plan, job, 5)
    job.stop()
    other = {**plan.properties, "name": unique("other")}
    with pytest.raises(JobStartError, match="has the files of another job") as refused:
        start(attrs.evolve(plan, name=other["name"], properties=other))
    assert refused.value.failure.is_permanent


def test_spark_sink_refuses_a_configuration_that_its_files_do_not_fit(sink, start) -> None:
    plan = sink(PLAIN, schema=COLUMNS)
    produce(plan, rows(0, 5), has_schema=False)
    job = start(plan)
    wait_for(plan, job, 5)
    job.stop()

    def changed(generation: int, **props: str) -> JobPlan:
        more = {name.replace("__", "."): value for name, value in props.items()}
        return attrs.evolve(plan, generation=generation, properties={**plan.properties, **more})

    for props, message in (
        ({"spark__format": "json"}, "spark.format is 'parquet' in the state and 'json'"),
        ({"partition__by": "city"}, "partition.by is '' in the state and 'city'"),
        ({"schema": "id STRING"}, "column id is 'long' in the state and 'string'"),
    ):
        with pytest.raises(JobStartError, match=message) as refused:
            start(changed(2, **props))
        assert refused.value.failure.is_permanent
    produce(plan, [{"id": 5, "more": "text"}], has_schema=False)
    again = start(changed(3, schema=f"{COLUMNS}, more STRING"))
    wait_for(plan, again, 6)
    assert again.progress().written == 1


@pytest.mark.parametrize(
    ("props", "message"),
    [
        ({"schema": "id NONSENSE"}, "NONSENSE"),
        ({"schema": "id INTERVAL"}, "interval is not supported"),
        ({"schema": "id BIGINT, m MAP<STRING, INT>", "spark.format": "csv"}, "CSV"),
        ({"schema": COLUMNS, "partition.by": "gone"}, "gone"),
        ({"spark.format": "delta"}, "set lake.formats=delta"),
        ({"spark.format": "iceberg"}, "set lake.formats=iceberg"),
    ],
)
def test_spark_sink_configuration_that_cannot_run_is_refused(
    sink, start, props: dict[str, str], message: str
) -> None:
    with pytest.raises(JobStartError, match=message) as refused:
        start(sink({**PLAIN, **props}))
    assert refused.value.failure.is_permanent


@pytest.mark.parametrize("text", [*VALID, *INVALID])
def test_columns_of_a_configuration_are_those_of_sparks_own_parser(engine, text: str) -> None:
    parse = pyspark("sql.types").StructType.fromDDL
    assert engine.is_alive()
    if text in VALID:
        assert parse(text).names == VALID[text]
    else:
        with pytest.raises(pyspark("errors").PySparkException):
            parse(text)


def test_spark_sink_without_schemas_needs_columns(sink, start) -> None:
    plan = sink(PLAIN)
    produce(plan, [{"id": 1}], has_schema=False)
    with pytest.raises(JobStartError, match="set the property schema"):
        start(plan)


@pytest.fixture
def source(bootstrap, topics, unique, tmp_path: Path) -> Any:
    """Return a function that makes the plan of a source."""
    name, topic = unique("rows"), topics.create("rows", partitions=2)

    def plan(**more: str) -> JobPlan:
        own = {
            **PLAIN,
            "name": name,
            "topic": topic,
            "checkpoint.location": str(tmp_path / "checkpoint"),
            **{key.replace("__", "."): value for key, value in more.items()},
        }
        return JobPlan(
            name,
            1,
            JobKind.SPARK_SOURCE,
            bootstrap,
            group_id=f"connect-{name}",
            transactional_id=f"test-{name}",
            connector_class="barnabas.SparkSource",
            properties=own,
        )

    return plan


def test_spark_source_reads_each_row_of_files_once(source, start, tmp_path: Path) -> None:
    directory = tmp_path / "in"
    directory.mkdir()

    def add(name: str, first: int, last: int) -> None:
        lines = "".join(json.dumps(row) + "\n" for row in rows(first, last))
        (directory / f".{name}").write_text(lines)
        (directory / f".{name}").rename(directory / name)

    plan = source(
        spark__format="json",
        path=str(directory),
        schema=COLUMNS,
        key__column="city",
        spark__option__maxFilesPerTrigger="1",
    )
    add("a.json", 0, 10)
    add("b.json", 10, 20)
    job = start(plan)
    eventually(lambda: job.progress().written >= 20, job)
    assert job.progress().batches == 2
    job.stop()
    add("c.json", 20, 50)
    again = start(attrs.evolve(plan, generation=2))
    eventually(lambda: again.progress().written >= 30, again)
    again.stop()
    messages = read_committed(plan.bootstrap, plan.properties["topic"])
    assert sorted(json.loads(m.value())["id"] for m in messages) == list(range(50))
    by_key = {m.key(): m.partition() for m in messages}
    assert all(by_key[m.key()] == m.partition() for m in messages)
    assert by_key.keys() == {b"c0", b"c1", b"c2"}


def test_spark_source_starts_once_its_path_is_there(source, start, tmp_path: Path) -> None:
    directory = tmp_path / "later"
    plan = source(spark__format="text", path=str(directory))
    with pytest.raises(JobStartError, match="later does not exist yet") as refused:
        start(plan)
    assert not refused.value.failure.is_permanent
    directory.mkdir()
    job = start(attrs.evolve(plan, generation=2))
    (tmp_path / "line").write_text("a line\n")
    (tmp_path / "line").rename(directory / "line")
    eventually(lambda: job.progress().written == 1, job)
    job.stop()
    messages = read_committed(plan.bootstrap, plan.properties["topic"])
    assert [json.loads(message.value()) for message in messages] == [{"value": "a line"}]


def test_spark_source_damaged_lines_are_dead_letters(source, start, topics, tmp_path: Path) -> None:
    letters = topics.create("letters")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1}\nnonsense\n{"id": "x"}\n{"id": 2}\n')
    plan = source(
        spark__format="json",
        path=str(tmp_path / "in"),
        schema=COLUMNS,
        errors__tolerance="all",
        errors__deadletterqueue__topic__name=letters,
    )
    job = start(plan)
    eventually(lambda: job.progress().records == 4, job)
    assert (job.progress().written, job.progress().dead_letters) == (2, 2)
    job.stop()
    found = read_committed(plan.bootstrap, plan.properties["topic"])
    rows_found = sorted(json.loads(message.value())["id"] for message in found)
    assert rows_found == [1, 2]
    broken = {message.value() for message in read_committed(plan.bootstrap, letters)}
    assert broken == {b"nonsense", b'{"id": "x"}'}
    strict = {**plan.properties, "errors.tolerance": "none", "name": f"{plan.name}-strict"}
    strict["checkpoint.location"] += "-strict"
    failure = failure_of(start(attrs.evolve(plan, name=strict["name"], properties=strict)))
    assert failure.is_permanent
    assert "a line of a file does not fit the schema" in failure.message


def test_spark_source_reads_a_python_data_source_once_at_its_largest_rate(
    source, start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_numbers(tmp_path / "packages", monkeypatch)
    limit = tmp_path / "limit"
    limit.write_text("150")
    plan = source(spark__format="numbers", spark__option__limit=str(limit), key__column="city")
    plan = attrs.evolve(plan, records_per_second_max=100)
    began = time.monotonic()
    job = start(plan)
    eventually(lambda: job.progress().written == 150, job)
    assert time.monotonic() - began > 1.4
    job.stop()
    lose_micro_batch(plan)
    limit.write_text("180")
    again = start(attrs.evolve(plan, generation=2))
    eventually(lambda: again.progress().written == 30, again)
    again.stop()
    assert again.progress().skipped == 150
    messages = read_committed(plan.bootstrap, plan.properties["topic"])
    assert sorted(json.loads(m.value())["id"] for m in messages) == list(range(180))
    assert {message.key() for message in messages} == {b"c0", b"c1", b"c2"}


def with_numbers(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package whose entry point is the data source `numbers`."""
    info = directory / "numbers-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: numbers\nVersion: 1\n")
    place = "compat_tests.pipeline.number_source:NumberSource"
    (info / "entry_points.txt").write_text(f"[barnabas.data_sources]\nnumbers = {place}\n")
    monkeypatch.syspath_prepend(str(directory))


def lose_micro_batch(plan: JobPlan) -> None:
    """Leave the checkpoint as a kill does between a micro-batch's transactions and its commit."""
    commits = Path(plan.properties["checkpoint.location"]) / "commits"
    newest = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    (commits / str(newest)).unlink()
    (commits / f".{newest}.crc").unlink(missing_ok=True)


def test_spark_sink_with_a_largest_rate_has_batches_of_its_interval(sink, start) -> None:
    plan = sink(CONVERTERS, schema=COLUMNS, rotate__interval__ms="500")
    produce(plan, rows(0, 250))
    job = start(attrs.evolve(plan, records_per_second_max=200))
    wait_for(plan, job, 250)
    assert job.progress().batches == 3


def test_spark_source_keeps_headers(source, start) -> None:
    plan = source(
        spark__format="rate-micro-batch",
        spark__option__rowsPerBatch="5",
        transforms="head",
        transforms__head__type="org.apache.kafka.connect.transforms.InsertHeader",
        transforms__head__header="from",
        transforms__head__value__literal="spark",
    )
    job = start(plan)
    eventually(lambda: job.progress().written >= 20, job)
    job.stop()
    messages = read_committed(plan.bootstrap, plan.properties["topic"])
    assert all(message.headers() == [("from", b"spark")] for message in messages)
    found = sorted(json.loads(message.value())["value"] for message in messages)
    assert found == list(range(len(found)))


def documented(name: str) -> dict[str, str]:
    """Return the configuration that the page shows as a file."""
    text = PAGE.partition(f"`{name}`:")[2].partition("```json\n")[2].partition("```")[0]
    found = json.loads(text)
    return {"name": found["name"], **found["config"]}


def test_documented_files_hold_a_topic_that_is_read_again(
    start, bootstrap, topics, unique, tmp_path: Path
) -> None:
    names = {each: topics.create(each) for each in ("orders", "orders-again")}
    jobs = []
    for name, kind in (("lake.json", PluginKind.SINK), ("rows.json", PluginKind.SOURCE)):
        config = {
            key: value.replace("/tmp", str(tmp_path)) for key, value in documented(name).items()
        }
        config["name"] = unique(config["name"])
        for key in config.keys() & {"topic", "topics"}:
            config[key] = names[config[key]]
        plugin = plugin_registry().find(config["connector.class"], kind)
        plan = job_plan(plugin, config, [config], 1, RunnerDefaults("runners", bootstrap))
        if kind is PluginKind.SINK:
            produce(plan, rows(0, 30))
        jobs.append((plan, start(plan)))
        eventually(lambda: jobs[-1][1].progress().written >= 30, jobs[-1][1])
    found = [json.loads(m.value()) for m in read_committed(bootstrap, names["orders-again"])]
    assert sorted(each["payload"]["id"] for each in found) == list(range(30))
    assert found[0]["schema"]["fields"][1]["field"] == "city"


@pytest.mark.parametrize(
    ("props", "message"),
    [
        ({"spark__format": "socket"}, "must be one of"),
        ({"spark__format": "json", "path": "/tmp"}, "the format json needs it"),
        ({"spark__format": "text"}, "the format text needs it"),
        ({"spark__format": "rate", "key__column": "gone"}, "gone is not a column"),
        ({"spark__format": "rate", "spark__option__path": "/tmp"}, "set path"),
        ({"spark__format": "iceberg", "path": "/tmp"}, "set lake.formats=iceberg"),
    ],
)
def test_spark_source_configuration_that_cannot_run_is_refused(
    source, start, props: dict[str, str], message: str
) -> None:
    with pytest.raises(JobStartError, match=message) as refused:
        start(source(**props))
    assert refused.value.failure.is_permanent
