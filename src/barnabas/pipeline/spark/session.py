"""The session: its settings, and the process of the driver JVM.

Spark's defaults are made for jobs of minutes. A pipeline runs batches of milliseconds, so the
session has its own settings; docs/performance.md has the figure of each.
"""

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from barnabas.pipeline.delivery.driver import spark_internals
from barnabas.pipeline.delivery.driver.spark_library import SparkSession, pyspark
from barnabas.pipeline.spark import (
    class_archive,
    jar_cache,
    local_file_system,
    object_store,
    table_formats,
    worker_environment,
)

_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties").as_uri()
_LOG_OPTION: Final = "-Dlog4j2.configurationFile="
_JVM_OPTIONS: Final = (
    "-XX:+UseSerialGC",
    # Loading Spark's classes passes the default limit, and each time is a full collection.
    "-XX:MetaspaceSize=256m",
    # Catalyst recurses into expressions: 240 conditions with OR overflow the default of 1 MB.
    "-Xss16m",
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
    f"{_LOG_OPTION}{_LOG_SETTINGS}",
)
_LONG_LIVED: Final = (
    # Four times the defaults. The planner of each micro-batch has thousands of methods, with which
    # the second compiler took a fifth of a query's CPU; methods of records are called more often.
    "-XX:Tier4InvocationThreshold=20000",
    "-XX:Tier4MinInvocationThreshold=2400",
    "-XX:Tier4CompileThreshold=60000",
    "-XX:Tier4BackEdgeThreshold=160000",
)
SHORT_LIVED: Final = (
    "-XX:TieredStopAtLevel=1",
    # With one compiler the JVM keeps 48 MB of code by default, and then stops compiling.
    "-XX:ReservedCodeCacheSize=240m",
    # Half as many calls as by default, or less: its code has no profiles, and is cheap to make.
    "-XX:Tier3InvocationThreshold=100",
    "-XX:Tier3MinInvocationThreshold=50",
    "-XX:Tier3CompileThreshold=1000",
    "-XX:Tier3BackEdgeThreshold=20000",
    *class_archive.IN_PLACE,
)
"""Options of a driver JVM that ends before the second compiler has paid for itself."""
_LAUNCHER_OPTIONS: Final = "SPARK_LAUNCHER_OPTS"
_TRACE_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark's, which print a trace of the JVM to stderr for each exception that it raises."""
_FILE_MANAGER: Final = (
    "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
)
_ARCHIVES: Final = "spark.archives"
_PYTHON_PATH: Final = "spark.executorEnv.PYTHONPATH"
_MERGED: Final = (_ARCHIVES, _PYTHON_PATH)
"""What the user gives is added to ours."""
# Spark's own expression, and private keys as PEM. It is compared with names and with values.
_REDACTED: Final = "(?i)secret|password|token|access[.]?key|private key"
_ARCHIVE_TIMEOUT_S: Final = 120.0
"""To write an archive takes a JVM ten seconds of CPU at its exit: on a busy machine a minute."""
_ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class SparkUnavailableError(Exception):
    """Spark cannot start here; the message names what to install or to set."""


def cache_directory() -> Path:
    """Return the directory of the user's cache that keeps jars and class-data archives."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "barnabas" / "spark"


@attrs.frozen
class SessionSettings:
    """The master that Spark runs on, and the places of its files."""

    work_directory: Path
    """Scratch files of this process: checkpoints of jobs whose position is a group's offsets."""
    master: str = "local[*]"
    checkpoint_directory: str | None = None
    """Checkpoints of jobs with state (`checkpoint.dir`), shared by all hosts of the cluster."""
    cache_directory: Path = attrs.field(factory=cache_directory)
    application: str = "barnabas pipelines"
    driver_memory: str = "1g"
    formats: tuple[str, ...] = ()
    """The table formats whose libraries the session has (`lake.formats`)."""
    is_short_lived: bool = False
    """True for commands that end within a minute: the JVM compiles less."""
    properties: Mapping[str, str] = attrs.field(factory=dict[str, str])
    """Spark's own settings (`spark.*`), which go before those of this module."""
    is_submitted: bool = False
    """True in a runner that spark-submit started: the driver JVM runs, with its properties."""

    @property
    def is_local(self) -> bool:
        """True when the executors are threads of the driver JVM."""
        return is_local(self.master)


def is_local(master: str) -> bool:
    """True when the executors of a master are threads of the driver JVM."""
    return master.startswith("local") and not master.startswith("local-cluster")


def send_packages(session: SparkSession) -> None:
    """Send barnabas, and what it needs, to the executors of a session that the caller has made.

    A session of ours has the archive among its properties, which cannot be set later.
    """
    if not is_local(session.sparkContext.master):
        packages = worker_environment.find_or_pack(cache_directory())
        spark_internals.add_packages(session, packages, worker_environment.DIRECTORY)


def check(settings: SessionSettings) -> None:
    """Raise SparkUnavailableError when Spark cannot start with these settings."""
    if importlib.util.find_spec("pyspark") is None:
        raise SparkUnavailableError("PySpark is missing: pip install 'barnabas[spark]'")
    version = jar_cache.spark_version()
    if version not in jar_cache.SUPPORTED_VERSIONS:
        raise SparkUnavailableError(
            f"PySpark {version} is not supported: pip install "
            f"pyspark=={jar_cache.SUPPORTED_VERSIONS[-1]}"
        )
    if problem := class_archive.java_problem("Spark needs", "Spark"):
        raise SparkUnavailableError(problem)
    if not settings.is_local and settings.checkpoint_directory is None:
        raise SparkUnavailableError(
            f"spark.master={settings.master} needs checkpoint.dir: a directory or URI that all "
            "hosts of the cluster share"
        )


class SparkProcess:
    """The driver JVM with its session."""

    def __init__(self, session: SparkSession, archive: class_archive.NewArchive | None) -> None:
        self.session = session
        self._archive = archive
        for name in _TRACE_LOGGERS:
            pyspark("logger").PySparkLogger.getLogger(name).disabled = True
        self._jvm = spark_internals.DriverJvm(session)

    @classmethod
    def start(cls, settings: SessionSettings) -> "SparkProcess":
        """Start the JVM and its session. Raises SparkUnavailableError."""
        check(settings)
        os.environ.update(object_store.variables(settings.properties))
        if settings.is_submitted:
            return cls(_attached(settings), None)
        try:
            jars = jar_cache.find_or_fetch(
                settings.cache_directory, table_formats.packages(settings.formats)
            )
        except jar_cache.JarsUnavailableError as error:
            raise SparkUnavailableError(str(error)) from error
        archive = class_archive.choose(
            settings.cache_directory, (*jars.files, *jar_cache.spark_jars())
        )
        packages = None
        if not settings.is_local:
            packages = worker_environment.find_or_pack(settings.cache_directory)
        configuration = pyspark().SparkConf(loadDefaults=False)
        for name, value in spark_properties(settings, jars, archive, packages).items():
            configuration.set(name, value)
        os.environ.update(_environment(settings))
        try:
            session = _session(configuration, settings)
        except pyspark("errors").PySparkRuntimeError as error:
            raise SparkUnavailableError(f"the driver JVM did not start: {error}") from error
        return cls(session, archive.new)

    def is_alive(self) -> bool:
        """True while the JVM runs and its session is open."""
        return self._jvm.is_alive()

    def stop(self) -> None:
        """Stop the session and its JVM, and keep the class-data archive that it wrote."""
        if self._archive is None:
            self._jvm.stop()
        elif self._jvm.stop(_ARCHIVE_TIMEOUT_S):
            self._archive.keep()


def _session(configuration: Any, settings: SessionSettings) -> SparkSession:
    """Return a session, in a JVM that keeps its files below the work directory."""
    given = pyspark().SparkConf()  # has the properties of spark-submit
    spark_internals.new_context(given.setAll(configuration.getAll()), settings.work_directory)
    session = pyspark("sql").SparkSession.builder.config(conf=configuration).getOrCreate()
    if settings.is_local:
        hadoop = spark_internals.hadoop_configuration(session)
        local_file_system.install(spark_internals.jvm(session), hadoop, settings.cache_directory)
    return session


def _attached(settings: SessionSettings) -> SparkSession:
    """Return a session in the JVM that has started this process, which has all properties."""
    configuration = pyspark().SparkConf(loadDefaults=False)
    configuration.set("spark.sql.warehouse.dir", str(settings.work_directory / "warehouse"))
    try:
        return _session(configuration, settings)
    except Exception as error:  # the JVM may be gone
        raise SparkUnavailableError(f"the session did not start: {error}") from error


def without_local_files(java_options: str) -> str:
    """Return the options of a JVM without those that name files of this host."""
    return " ".join(each for each in java_options.split() if not each.startswith(_LOG_OPTION))


def _environment(settings: SessionSettings) -> dict[str, str]:
    """Return variables that Spark reads when its JVM starts."""
    found = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    # For the JVM that prints the command of the driver JVM, which takes 0.2 s with them, not 0.4.
    launcher = os.environ.get(_LAUNCHER_OPTIONS, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    found[_LAUNCHER_OPTIONS] = launcher
    if settings.is_local:
        return {**found, "SPARK_LOCAL_IP": "127.0.0.1"}
    # The executors' hosts have another path to Python than this one.
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return {**found, "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", version)}


def spark_properties(
    settings: SessionSettings,
    jars: jar_cache.Jars,
    archive: class_archive.Choice,
    packages: Path | None = None,
) -> dict[str, str]:
    """Return the properties of the session; those of the user replace ours.

    `packages` is the archive of `worker_environment` for a master that is not local.
    """
    compilers = SHORT_LIVED if settings.is_short_lived else _LONG_LIVED
    options = [*_JVM_OPTIONS, *archive.options, *compilers]
    found = {
        "spark.app.name": settings.application,
        "spark.master": settings.master,
        "spark.driver.memory": settings.driver_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.speculation": "false",
        "spark.redaction.regex": _REDACTED,
        "spark.python.daemon.module": "barnabas.pipeline.spark.python_daemon",
        "spark.sql.adaptive.enabled": "false",
        # Each micro-batch is planned again. Constraints took half of that, and only add filters.
        "spark.sql.constraintPropagation.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        "spark.sql.streaming.stopTimeout": "30s",
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.warehouse.dir": str(settings.work_directory / "warehouse"),
        "spark.local.dir": str(settings.work_directory / "spark"),
    }
    if settings.is_local:
        found |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraClassPath": jars.class_path,
        }
    else:
        found |= _of_cluster(settings, jars, packages)
    if _is_local_path(settings.checkpoint_directory):
        found["spark.sql.streaming.checkpointFileManagerClass"] = _FILE_MANAGER
    found |= table_formats.properties(settings.formats, str(settings.work_directory / "warehouse"))
    merged = () if settings.is_local else _MERGED
    found |= {name: value for name, value in settings.properties.items() if name not in merged}
    extra = settings.properties.get("spark.driver.extraJavaOptions", "")
    found["spark.driver.extraJavaOptions"] = " ".join([*options, extra]).strip()
    return found


def _of_cluster(
    settings: SessionSettings, jars: jar_cache.Jars, packages: Path | None
) -> dict[str, str]:
    """Return the properties that send jars and Python packages to executors."""
    directory = worker_environment.DIRECTORY
    archives = [settings.properties.get(_ARCHIVES), packages and f"{packages}#{directory}"]
    # Spark starts the Python daemon in the directory where it unpacks the archives.
    python_path = [directory, settings.properties.get(_PYTHON_PATH)]
    store = object_store.variables(settings.properties)
    return {
        **{f"spark.executorEnv.{name}": value for name, value in store.items()},
        "spark.jars": ",".join(map(str, jars.files)),
        _ARCHIVES: ",".join(each for each in archives if each),
        _PYTHON_PATH: os.pathsep.join(each for each in python_path if each),
    }


def _is_local_path(directory: str | None) -> bool:
    return directory is None or "://" not in directory or directory.startswith("file://")
