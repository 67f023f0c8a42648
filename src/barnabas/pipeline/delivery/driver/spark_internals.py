"""The parts of Spark 4.0 that the driver uses and that are not its public interface.

The objects of the JVM behind a session, a DataFrame and a query; the JVM's process and its end; the
directory of artifacts. Other modules of the driver take these objects from here and use the public
methods of their classes in Spark. `spark/python_daemon.py` does the same in the process of Spark's
Python daemon. Before another version of PySpark is allowed, compare it with these two files.
"""

import contextlib
import functools
import logging
import re
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

from barnabas.pipeline.delivery.driver.spark_library import (
    DataFrame,
    SparkSession,
    StreamingQuery,
    pyspark,
)

_EXIT_TIMEOUT_S: Final = 30.0
_JARS: Final = "spark.jars"
_SECRET: Final = re.compile(r"secret|password|token|access[._]?key", re.IGNORECASE)
"""The names of properties that Spark does not show in its logs, and of variables of Amazon's."""
_NAME_QUESTIONS: Final = ("r\nu\n", "r\nm\n")
"""Py4J's commands that request what an unknown name is, and what a member of a class is."""
_PACKAGE: Final = "yp"
_CLASS_OR_METHOD: Final = ("yc", "ym")
"""How Py4J's answers start; the name of a class follows."""
_LOST_CONNECTION: Final = "Exception while sending command."
"""What Py4J logs, with a trace, when the JVM has gone."""
_ARTIFACTS: Final = "org.apache.spark.sql.artifact.ArtifactManager$"
_ARTIFACTS_ROOT: Final = "artifactRootDirectory"
_ARTIFACTS_ARE_SET: Final = "bitmap$0"


def jvm(session: SparkSession) -> Any:
    """Return the classes of the driver JVM, by package."""
    return session._jvm


def java_session(session: SparkSession) -> Any:
    """Return the session in the JVM."""
    return session._jsparkSession


@contextlib.contextmanager
def active_session(session: Any) -> Generator[None]:
    """Make a session the active one of this thread meanwhile.

    Spark 4.0 refuses to register a format in another session while the active session has it.
    """
    own = getattr(session, "_jsparkSession", None)  # a client of Spark Connect has none
    if own is None:
        yield
        return
    sessions = session._get_j_spark_session_class(session._jvm)
    before = sessions.getActiveSession()
    sessions.setActiveSession(own)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def hadoop_configuration(session: SparkSession) -> Any:
    """Return Hadoop's configuration of the session."""
    return session._jsc.hadoopConfiguration()


def analyzed_plan(frame: DataFrame) -> Any:
    """Return the analyzed logical plan of a frame."""
    return frame._jdf.queryExecution().analyzed()


def explained(frame: DataFrame) -> str:
    """Return the physical plan of a frame, as `DataFrame.explain` prints it."""
    execution = frame._jdf.queryExecution()
    return str(frame.sparkSession._jvm.PythonSQLUtils.explainString(execution, "simple"))


def java_schema(frame: DataFrame) -> Any:
    """Return the schema of a frame in the JVM."""
    return frame._jdf.schema()


def is_instance(frame: DataFrame, name: str, value: Any) -> bool:
    """True when an object of the JVM is of a class, which has its full name."""
    return bool(frame.sparkSession._jvm.py4j.reflection.TypeUtil.isInstanceOf(name, value))


def recent_progress(query: StreamingQuery) -> Any:
    """Return the newest reports of a query, oldest first, as objects of the JVM."""
    return query._jsq.recentProgress()


def new_context(configuration: Any, directory: Path) -> Any:
    """Return the context of this process, in a JVM that keeps its artifacts below a directory.

    PySpark starts the JVM with the properties on its command line, which other users of the host
    see: secrets are set in the JVM instead. `spark.jars` is not set again there, since spark-submit
    has added the jars of `spark.jars.packages` to it.
    """
    every: list[tuple[str, str]] = configuration.getAll()
    shown = pyspark().SparkConf(loadDefaults=False)
    shown.setAll([(name, value) for name, value in every if not _SECRET.search(name)])
    pyspark().SparkContext._ensure_initialized(conf=shown)
    whole = pyspark().SparkConf()
    whole.setAll([(name, value) for name, value in every if name != _JARS])
    context = pyspark().SparkContext.getOrCreate(whole)
    remember_names(context._gateway._gateway_client)
    _place_artifacts(context._jvm, directory)
    # The JVM keeps a connection to it: its end would be a trace on standard error.
    context._accumulatorServer.handle_error = _ignore
    logging.getLogger().addFilter(is_no_lost_connection)
    _close_connections_of_results()
    return context


def add_packages(session: SparkSession, archive: Path, directory: str) -> None:
    """Have the executors unpack an archive, and their Python workers import from it.

    `directory` is the name that they unpack it under. Python workers look for modules in the
    directories whose names the context keeps, below the one of the executor's files.
    """
    context: Any = session.sparkContext
    if directory in context._python_includes:
        return
    context.addArchive(f"{archive}#{directory}")
    context._python_includes.append(directory)


def _ignore(request: object, address: object) -> None:
    """Take an error of a connection, which the one who uses the connection reports."""


def is_no_lost_connection(record: logging.LogRecord) -> bool:
    """Return False for a lost connection to the JVM, which the caller gets as an error, too."""
    return record.msg != _LOST_CONNECTION


def _close_connections_of_results() -> None:
    """Have the connection that a result comes by closed with the file that reads it.

    PySpark closes the file only, and leaves the connection to the garbage collector.
    """
    util = pyspark("util")
    connect = util.local_connect_and_auth
    if hasattr(connect, "__wrapped__"):
        return

    @functools.wraps(connect)
    def connected(port: Any, secret: str) -> tuple[Any, Any]:
        file, connection = connect(port, secret)
        connection.close()  # it stays open for as long as the file is
        return file, connection

    util.local_connect_and_auth = connected


def remember_names(client: Any) -> None:
    """Request once from the JVM what a name is: a package, a class, or a method of a class.

    PySpark requests it for each function of each expression, and each time the JVM looks for the
    class in all of its jars, and copies the list of the methods of the class.
    """
    send = client.send_command
    if hasattr(send, "__wrapped__"):  # the JVM outlives its sessions
        return
    answers: dict[str, str] = {}

    @functools.wraps(send)
    def sent(command: str, *args: Any, **options: Any) -> Any:
        if not command.startswith(_NAME_QUESTIONS):
            return send(command, *args, **options)
        if (answer := answers.get(command)) is None:
            answer = send(command, *args, **options)
            if _is_final(command, answer):
                answers[command] = answer
        return answer

    client.send_command = sent


def _is_final(command: str, answer: str) -> bool:
    """True when a name stays what it is. A class that is added later was a package before."""
    if answer == _PACKAGE:
        return command.split("\n")[2].rpartition(".")[2].islower()
    return answer.startswith(_CLASS_OR_METHOD)


def _place_artifacts(machine: Any, directory: Path) -> None:
    """Have the sessions of a JVM keep the files that users add below a directory.

    Spark 4.0.0 makes it in the working directory, as `artifacts`, and removes it when the JVM ends:
    a JVM that is killed leaves it there. No property changes that (SPARK-52396), so the value is
    set before the session reads it.
    """
    with contextlib.suppress(Exception):  # a version of Spark without these fields has no need
        loader = machine.java.lang.Thread.currentThread().getContextClassLoader()
        manager = loader.loadClass(_ARTIFACTS)
        fields = [manager.getDeclaredField(each) for each in (_ARTIFACTS_ROOT, _ARTIFACTS_ARE_SET)]
        utils = machine.org.apache.spark.util.Utils
        root = utils.createTempDir(str(directory), "artifacts").toPath()
        for field, value in zip(fields, (root, True), strict=True):
            field.setAccessible(True)
            field.set(None, value)


class DriverJvm:
    """The driver JVM of a session. The one of spark-submit ends after this process."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._context: Any = session.sparkContext
        self._gateway: Any = self._context._gateway
        self._process: subprocess.Popen[bytes] | None = getattr(self._gateway, "proc", None)

    def is_alive(self) -> bool:
        """True while the JVM runs and its session is open."""
        if self._has_ended():
            return False
        try:
            return not java_session(self._session).sparkContext().isStopped()
        except Exception:
            return False

    def stop(self, exit_timeout_s: float = _EXIT_TIMEOUT_S) -> bool:
        """Stop the session and its JVM; return True when the JVM has ended by itself in time.

        The next session of this process is a new one, also after the JVM was killed.
        """
        if not self._has_ended():
            with contextlib.suppress(Exception):
                self._session.stop()
        self._forget_session()
        if self._process is None:
            return False
        self._forget_gateway()
        return self._ended_in_time(self._process, exit_timeout_s)

    def _has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def _forget_session(self) -> None:
        """Do what `SparkSession.stop` does, and does not do when the JVM is gone."""
        self._context._jsc = None
        server = self._context._accumulatorServer
        if server is not None:
            self._context._accumulatorServer = None
            server.shutdown()
        classes = pyspark("sql").SparkSession
        classes._instantiatedSession = None
        classes._activeSession = None
        pyspark("sql").SQLContext._instantiatedContext = None
        context = pyspark().SparkContext
        with context._lock:
            context._active_spark_context = None

    def _forget_gateway(self) -> None:
        """Let the next session start a JVM, and close the connections to this one."""
        with contextlib.suppress(Exception):
            self._gateway.shutdown()
        self._gateway._gateway_client.close()  # also those of other threads
        context = pyspark().SparkContext
        context._gateway = None
        context._jvm = None

    @staticmethod
    def _ended_in_time(process: "subprocess.Popen[bytes]", timeout_s: float) -> bool:
        """Wait for the JVM, which ends when its input is closed; kill one that does not."""
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return False
        return True
