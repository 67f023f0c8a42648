"""Growth: jobs and apps that are changed to a new version, and what Spark makes of a submission."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import Producer

from barnabas import streams as ks
from barnabas.cli import submitted_runner
from barnabas.pipeline.delivery.micro_batches import query_version
from barnabas.pipeline.delivery.micro_batches.checkpoint_files import CheckpointFiles
from barnabas.pipeline.delivery.plan.job_plan import REBUILD, JobKind, JobPlan
from barnabas.pipeline.delivery.plan.task_failures import JobStartError
from barnabas.pipeline.spark import jar_cache, submission
from barnabas.pipeline.spark.session import SessionSettings
from barnabas.pipeline.spark.submission import DeployMode, Submission
from compat_tests import spark as setup
from compat_tests.pipeline.conftest import eventually
from compat_tests.pipeline.count_job import CountJob, count_job
from compat_tests.pipeline.killed_job import read_committed

pytestmark = [
    setup.needed,
    pytest.mark.timeout(300),
]


@pytest.fixture
def job(engine: Any, bootstrap: str, topics: Any, unique: Any, tmp_path: Path) -> Any:
    found = count_job(engine, bootstrap, topics, unique("versions"), tmp_path / "checkpoint")
    yield found
    found.stop()


def windowed(job: CountJob, *lengths: str) -> Any:
    """Count by key and window of time."""
    from pyspark.sql import functions

    groups = ["key", functions.window("timestamp", *lengths)]
    counts = job.rows().groupBy(*groups).agg(functions.count("*").alias("n"))
    return counts.selectExpr("key", "CAST(n AS STRING) AS value")


def refusal(job: CountJob, frame: Any) -> str:
    with pytest.raises(JobStartError) as caught:
        job.start(frame)
    assert caught.value.failure.is_permanent
    assert REBUILD in caught.value.failure.message
    return caught.value.failure.message


def test_new_version_of_a_job_continues_with_its_state(job: CountJob) -> None:
    """Rows may be filtered, and outputs be named and formed otherwise."""
    from pyspark.sql import functions

    job.run(100)
    rows = job.rows().where("length(value) < 9").withColumn("unused", functions.lit(1))
    counts = rows.groupBy("key").agg(functions.count("*").alias("renamed"))
    job.plan = attrs.evolve(job.plan, generation=2)
    job.start(counts.selectExpr("key", "CAST(renamed AS STRING) AS value"))
    job.send(50)
    job.wait_counts()
    job.wait_epoch()
    job.stop()
    job.run(10)  # and back


def test_new_version_that_does_not_fit_is_refused_with_the_difference(
    job: CountJob, topics: Any
) -> None:
    from pyspark.sql import functions

    job.run(100)
    newest = job.rows().groupBy("key").agg(functions.max("timestamp").alias("newest"))
    message = refusal(job, newest.selectExpr("key", "CAST(newest AS STRING) AS value"))
    assert "'aggregate of count(1) bigint by key' in the state" in message
    assert "'aggregate of max(timestamp) timestamp by key' in the query" in message
    message = refusal(job, job.rows().dropDuplicates(["key"]).select("key", "value"))
    assert "'deduplication by key' in the query" in message
    plan = job.plan
    job.plan = attrs.evolve(plan, topics=(topics.create("other"),))
    message = refusal(job, job.frame())
    assert f"sources is 'kafka {plan.topics[0]}' in the state" in message
    job.plan = plan
    job.run(20)
    assert job.counts().total() == 120


def test_window_of_another_length_is_refused(job: CountJob) -> None:
    """Spark would take the old windows for the new ones: their columns are the same."""
    job.send(10)
    job.start(windowed(job, "1 minute"))
    eventually(lambda: len(job.updates()) == 5, job._job)
    job.stop()
    message = refusal(job, windowed(job, "5 minutes"))
    assert "by key, window(60000 ms every 60000 ms from 0 ms)' in the state" in message
    assert "by key, window(300000 ms every 300000 ms from 0 ms)' in the query" in message
    assert "every 30000 ms" in refusal(job, windowed(job, "1 minute", "30 seconds"))
    job.start(windowed(job, "1 minute"))


def test_version_of_a_query_is_the_same_when_it_is_built_again(job: CountJob) -> None:
    """Names of columns and nodes differ: a restarted job must not be taken for a changed one."""
    from pyspark.sql import functions

    def version(length: str = "1 minute") -> query_version.QueryVersion:
        rows = job.rows().withWatermark("timestamp", "1 minute").where("length(value) > 0")
        windows = rows.groupBy("key", functions.window("timestamp", length, "10 seconds"))
        frame = windows.agg(functions.count("*").alias("n")).selectExpr("key", "n AS value")
        return query_version.of_frame(frame, "append")

    assert version() == version()
    assert version().digest != version("2 minutes").digest


@pytest.fixture
def app(engine: Any, bootstrap: str, unique: Any, tmp_path: Path) -> Iterator[Callable[[], ks.App]]:
    """Return versions of one app; one runs at a time."""
    name = unique("app")
    made: list[ks.App] = []

    def make() -> ks.App:
        state = tmp_path / "state"
        made.append(ks.App.attach(engine.session, name, bootstrap, state=state))
        return made[-1]

    yield make
    for each in made:
        each.stop()


ORDER = ks.Json("city STRING, price BIGINT, paid BIGINT")


def describe(app: ks.App, source: str, target: str, result: str, length: str) -> None:
    orders = app.topic(source, key=ks.String(), value=ORDER)
    if result == "fold":
        grouped = orders.group_by_key().window(ks.session(length))
        totals = grouped.fold(0, add, returns="BIGINT", merge=lambda left, right: left + right)
    else:
        grouped = orders.group_by("value.city").window(ks.tumbling(length))
        totals = grouped.sum(result)
    app.write(totals, target, name=f"{target}-totals")


def add(total: int, value: Any) -> int:
    return total + value["price"]


def run(app: ks.App) -> None:
    """Run an app to its end."""
    app.start()
    assert app.wait(120), "the app continues"


def send(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        order = json.dumps({"city": f"c{number % 3}", "price": 2, "paid": 1})
        producer.produce(topic, order, "k", timestamp=1_000 + number)
    assert producer.flush(60) == 0


@setup.long
@pytest.mark.parametrize(
    ("first", "other", "shown"),
    [
        (("value.price", "1 minute"), ("value.paid", "1 hour"), "sum(value.paid) bigint"),
        (("fold", "1 minute"), ("fold", "1 hour"), "gap_ms is 60000 in the state"),
    ],
    ids=["aggregate", "kernel"],
)
def test_app_that_does_not_fit_its_state_ends_with_the_difference_and_can_be_rebuilt(
    app: Any, topics: Any, bootstrap: str, tmp_path: Path, first: Any, other: Any, shown: str
) -> None:
    source, target = topics.create("orders"), topics.create("totals")
    send(bootstrap, source, 6)
    old = app()
    describe(old, source, target, *first)
    files = CheckpointFiles(str(tmp_path / "state" / "checkpoints" / f"{target}-totals"))
    with old:
        eventually(lambda: read_committed(bootstrap, target))
        eventually(lambda: files.is_committed(files.newest_batch()))
    written = len(read_committed(bootstrap, target))
    send(bootstrap, source, 6)
    new = app()
    describe(new, source, target, *other)
    with pytest.raises(ks.StreamFailedError) as caught:
        run(new)
    new.stop()
    message = caught.value.failure.message
    assert shown in message
    assert REBUILD in message
    assert len(read_committed(bootstrap, target)) == written, "the refused version has written"
    rebuilt = app()
    describe(rebuilt, source, target, *other)
    rebuilt.reset()
    with rebuilt:
        eventually(lambda: len(read_committed(bootstrap, target)) > written)


def row_source(
    bootstrap: str, name: str, topic: str, folder: Path, generation: int = 1, **more: str
) -> JobPlan:
    string = "org.apache.kafka.connect.storage.StringConverter"
    properties = {
        "name": name,
        "spark.format": "json",
        "path": str(folder / "in"),
        "schema": "id BIGINT, city STRING",
        "topic": topic,
        "checkpoint.location": str(folder / "checkpoint"),
        "key.converter": string,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        **more,
    }
    return JobPlan(
        name,
        generation,
        JobKind.SPARK_SOURCE,
        bootstrap,
        group_id=f"connect-{name}",
        transactional_id=name,
        connector_class="barnabas.SparkSource",
        task_configs=(properties,),
        properties=properties,
    )


def test_row_source_keeps_its_position_or_names_what_does_not_fit(
    engine: Any, bootstrap: str, topics: Any, unique: Any, tmp_path: Path
) -> None:
    name, first, second = unique("rows"), topics.create("first"), topics.create("second")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_text('{"id": 1, "city": "x"}\n')
    running = engine.start_job(row_source(bootstrap, name, first, tmp_path))
    eventually(lambda: len(read_committed(bootstrap, first)) == 1, running)
    eventually((tmp_path / "checkpoint" / "commits" / "0").exists, running)
    running.stop()
    for change, shown in (
        ({"path": str(tmp_path)}, f"path is '{folder}' in the state and '{tmp_path}' in the query"),
        ({"tasks.write": "3"}, "tasks.write is '2' in the state and '3' in the query"),
        ({"spark.format": "csv"}, "spark.format is 'json' in the state and 'csv' in the query"),
    ):
        with pytest.raises(JobStartError) as caught:
            engine.start_job(row_source(bootstrap, name, first, tmp_path, 2, **change))
        assert shown in caught.value.failure.message
        assert REBUILD in caught.value.failure.message
    (folder / "b.json").write_text('{"id": 2, "city": "y"}\n')
    changed = {"key.column": "city", "schema": "id BIGINT, city STRING, new STRING"}
    running = engine.start_job(row_source(bootstrap, name, second, tmp_path, 2, **changed))
    eventually(lambda: len(read_committed(bootstrap, second)) == 1, running)
    running.stop()
    (message,) = read_committed(bootstrap, second)
    assert (message.key(), json.loads(message.value())["id"]) == (b"y", 2)


@pytest.mark.parametrize(
    ("master", "mode", "main"),
    [
        ("spark://h:7077", "client", "org.apache.spark.deploy.PythonRunner"),
        ("yarn", "client", "org.apache.spark.deploy.PythonRunner"),
        ("yarn", "cluster", "org.apache.spark.deploy.yarn.YarnClusterApplication"),
        ("k8s://https://h:443", "client", "org.apache.spark.deploy.PythonRunner"),
        (
            "k8s://https://h:443",
            "cluster",
            "org.apache.spark.deploy.k8s.submit.KubernetesClientApplication",
        ),
    ],
)
def test_spark_prepares_the_application_of_a_submitted_runner(
    engine: Any, tmp_path: Path, master: str, mode: str, main: str
) -> None:
    """Spark's own SparkSubmit reads the command line and the properties; nothing is started."""
    cluster = {
        "spark.kubernetes.container.image": "registry/spark",
        "spark.kubernetes.file.upload.path": "s3a://bucket/uploads",
    }
    settings = SessionSettings(tmp_path, master, "hdfs://h/c", properties=cluster)
    config = tmp_path / "runner.properties"
    config.touch()
    given = Submission(
        settings,
        DeployMode(mode),
        Path(submitted_runner.__file__),
        ("--config", "runner.properties", "--spark", f"spark.submit.deployMode={mode}"),
        (config,),
    )
    jars = jar_cache.find_or_fetch(settings.cache_directory)
    packages = tmp_path / "workers-1.tar.gz"
    packages.touch()
    properties = submission.properties(given, jars, packages)
    file = tmp_path / "spark.properties"
    file.write_text(submission.properties_file(properties))
    environment = {"HADOOP_CONF_DIR": "/etc/hadoop"}
    child, conf, found = prepared(
        engine.session._jvm, submission.command(given, file, environment)[1:], environment
    )
    assert found == main
    if found.endswith("KubernetesClientApplication"):
        program = Path(submitted_runner.__file__).as_uri().replace("///", "/")
        assert child[:2] == ["--primary-py-file", program]
    assert child.count("runner.properties") == 1
    archives = "spark.yarn.dist.archives" if master == "yarn" else "spark.archives"
    assert conf(archives, "").endswith("workers-1.tar.gz#barnabas-workers")
    assert conf("spark.executorEnv.PYTHONPATH", "") == "barnabas-workers"
    names = "spark.yarn.dist.jars" if master == "yarn" else "spark.jars"
    assert conf(names, "").count("spark-sql-kafka-0-10") == 1
    if mode == "cluster":
        files = "spark.yarn.dist.files" if master == "yarn" else "spark.files"
        assert conf(files, "").endswith("runner.properties")


def prepared(jvm: Any, command: list[str], environment: dict[str, str]) -> Any:
    """Return what SparkSubmit would start: its arguments, its configuration, its main class."""

    def scala_object(name: str) -> Any:
        return jvm.java.lang.Class.forName(f"{name}$").getField("MODULE$").get(None)

    words = jvm.java.util.ArrayList()
    for word in command:
        words.add(word)
    variables = scala_object("scala.collection.immutable.Map").empty()
    for name, value in environment.items():
        variables = variables.updated(name, value)
    sequence = jvm.scala.jdk.javaapi.CollectionConverters.asScala(words).toList()
    arguments = jvm.org.apache.spark.deploy.SparkSubmitArguments(sequence, variables)
    none = scala_object("scala.None")
    parts = jvm.org.apache.spark.deploy.SparkSubmit().prepareSubmitEnvironment(arguments, none)
    child = [str(parts._1().apply(index)) for index in range(parts._1().size())]
    return child, parts._3().get, str(parts._4())
