"""`spark-submit` of a runner: its command line and properties, for each kind of cluster."""

from pathlib import Path

import attrs
import pytest

from barnabas.config import properties_file
from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan
from barnabas.pipeline.delivery.plan.task_failures import JobStartError
from barnabas.pipeline.spark import (
    class_archive,
    jar_cache,
    own_application,
    session,
    submission,
)
from barnabas.pipeline.spark.jar_cache import Jars
from barnabas.pipeline.spark.session import SessionSettings, SparkUnavailableError
from barnabas.pipeline.spark.submission import DeployMode, Submission

CLIENT, CLUSTER = DeployMode.CLIENT, DeployMode.CLUSTER
IMAGE = {"spark.kubernetes.container.image": "registry/spark-python"}
UPLOADS = {"spark.kubernetes.file.upload.path": "s3a://bucket/uploads"}
HADOOP = {"HADOOP_CONF_DIR": "/etc/hadoop"}


@pytest.fixture(autouse=True)
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an installation of Spark, in an environment that has all that Spark needs."""
    monkeypatch.setattr(session.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(class_archive, "java_command", lambda: "/usr/bin/java")
    monkeypatch.setattr(class_archive, "java_version", lambda: 'openjdk version "17.0.19"')
    monkeypatch.setattr(jar_cache, "spark_version", lambda: "4.0.0")
    monkeypatch.setattr(submission, "_python_name", lambda: "python3.11")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark-core_2.13-4.0.0.jar").touch()
    return home


def submitted(
    master: str, mode: DeployMode = CLIENT, files: tuple[Path, ...] = (), **spark: str
) -> Submission:
    settings = SessionSettings(
        Path("/work"), master=master, checkpoint_directory="hdfs://h/c", properties=spark
    )
    arguments = ("--bootstrap", "kafka:9092", "--spark", f"spark.submit.deployMode={mode}")
    return Submission(settings, mode, Path("/lib/submitted_runner.py"), arguments, files)


def properties(given: Submission) -> dict[str, str]:
    jars = Jars((Path("/jars/a.jar"), Path("/jars/b.jar")))
    return submission.properties(given, jars, Path("/cache/workers-1.tar.gz"))


@pytest.mark.parametrize(
    ("master", "mode"),
    [
        ("spark://h:7077", CLIENT),
        ("yarn", CLIENT),
        ("yarn", CLUSTER),
        ("k8s://https://h:443", CLIENT),
        ("k8s://https://h:443", CLUSTER),
    ],
)
def test_runner_is_submitted_with_its_jars_and_packages(
    spark_home: Path, master: str, mode: DeployMode
) -> None:
    given = submitted(master, mode, **IMAGE, **UPLOADS)
    environment = {**HADOOP, "SPARK_HOME": str(spark_home)}
    submission.check(given, environment)
    assert submission.command(given, Path("/run/spark.properties"), environment) == [
        str(spark_home / "bin" / "spark-submit"),
        *("--master", master, "--deploy-mode", mode.value, "--name", "barnabas pipelines"),
        *("--properties-file", "/run/spark.properties", "--load-spark-defaults"),
        *("/lib/submitted_runner.py", "--bootstrap", "kafka:9092"),
        *("--spark", f"spark.submit.deployMode={mode.value}"),
    ]
    found = properties(given)
    assert found["spark.jars"] == "/jars/a.jar,/jars/b.jar"
    assert found["spark.archives"] == "/cache/workers-1.tar.gz#barnabas-workers"
    assert found["spark.executorEnv.PYTHONPATH"] == "barnabas-workers"
    assert found["spark.pyspark.python"] == "python3.11"
    assert found["spark.sql.adaptive.enabled"] == "false"
    assert not {"spark.master", "spark.local.dir", "spark.sql.warehouse.dir"} & found.keys()


def test_driver_on_another_host_gets_files_and_no_path_of_this_one(tmp_path: Path) -> None:
    own = {"spark.files": "hdfs://h/core.xml"}
    config = tmp_path / "runner.properties"
    found = properties(submitted("yarn", CLUSTER, (config,), **own))
    assert found["spark.files"] == f"hdfs://h/core.xml,{config}"
    assert "log4j2" not in found["spark.driver.extraJavaOptions"]
    assert "-XX:+UseSerialGC" in found["spark.driver.extraJavaOptions"]
    assert "spark.pyspark.driver.python" not in found
    here = properties(submitted("yarn", CLIENT, (config,), **own))
    assert here["spark.files"] == "hdfs://h/core.xml"
    assert "log4j2" in here["spark.driver.extraJavaOptions"]
    assert Path(here["spark.pyspark.driver.python"]).is_file()


@pytest.mark.parametrize(
    ("given", "environment", "message"),
    [
        (submitted("local[*]"), {}, r"spark\.master=local\[\*\] is not a cluster"),
        (submitted("spark://h:7077", CLUSTER), {}, "use --deploy-mode client"),
        (submitted("yarn"), {}, "HADOOP_CONF_DIR or YARN_CONF_DIR"),
        (
            submitted("k8s://h"),
            {},
            r"image: an image with Spark 4\.0\.0 and python3\.11",
        ),
        (submitted("k8s://h", CLUSTER, **IMAGE), {}, r"file\.upload\.path: a directory"),
    ],
)
def test_submission_that_spark_cannot_run_is_refused(
    given: Submission, environment: dict[str, str], message: str
) -> None:
    with pytest.raises(SparkUnavailableError, match=message):
        submission.check(given, environment)


def test_submission_needs_a_checkpoint_directory() -> None:
    given = submitted("yarn")
    bare = attrs.evolve(given, settings=attrs.evolve(given.settings, checkpoint_directory=None))
    with pytest.raises(SparkUnavailableError, match=r"needs checkpoint\.dir"):
        submission.check(bare, HADOOP)


@pytest.mark.parametrize(
    ("jar", "shown"), [("spark-core_2.13-3.5.1.jar", "Spark 3.5.1"), ("x.jar", "no Spark")]
)
def test_spark_of_another_version_is_refused(tmp_path: Path, jar: str, shown: str) -> None:
    (tmp_path / "other" / "jars").mkdir(parents=True)
    (tmp_path / "other" / "jars" / jar).touch()
    environment = {**HADOOP, "SPARK_HOME": str(tmp_path / "other")}
    with pytest.raises(SparkUnavailableError, match=rf"has {shown}, and PySpark here is 4\.0\.0"):
        submission.check(submitted("yarn"), environment)


def test_properties_are_written_as_java_reads_them() -> None:
    values = {
        "spark.a": "C:\\dir \\u0041",
        "spark.b": "  two blanks",
        "spark.c": "line\nline\ttab",
        "spark.d": "a=b:c#d!é",
        "spark.e": "",
    }
    assert properties_file.parse(submission.properties_file(values)) == values


def test_isolated_job_is_refused_where_the_driver_is_on_another_host(tmp_path: Path) -> None:
    plan = JobPlan("j", 1, JobKind.COPY, "h:9092", "j", "j", is_isolated=True)
    settings = SessionSettings(
        tmp_path, "yarn", "hdfs://h/c", properties={submission.DEPLOY_MODE: "cluster"}
    )
    with pytest.raises(JobStartError, match="isolation=own is not possible"):
        own_application.start(settings, plan)
