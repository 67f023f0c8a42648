"""A runner as an application of `spark-submit`: its command line, its properties, its environment.

Spark starts the driver JVM, here (deploy mode client) or on a host of the cluster (cluster), and
the JVM starts the runner, which attaches to it. The driver on another host gets what the executors
get: the packed environment, which has the runner as well, and the files that its arguments name.
"""

import os
import re
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

import attrs

from barnabas.pipeline.delivery.driver.spark_library import pyspark
from barnabas.pipeline.spark import class_archive, jar_cache, session
from barnabas.pipeline.spark.session import SessionSettings, SparkUnavailableError

DEPLOY_MODE: Final = "spark.submit.deployMode"
_FILES: Final = "spark.files"
_OF_PROCESS: Final = ("spark.master", "spark.local.dir", "spark.sql.warehouse.dir")
"""What the command line or the runner sets."""
_MANAGERS: Final = ("spark://", "yarn", "k8s://")
_HADOOP: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_IMAGES: Final = ("spark.kubernetes.container.image", "spark.kubernetes.driver.container.image")
_UPLOADS: Final = "spark.kubernetes.file.upload.path"
_CORE: Final = re.compile(r"spark-core_[\d.]+-(.+)\.jar")
_SPECIAL: Final = re.compile(r"[\\\n\r\t\f]|^ ")
_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


class DeployMode(StrEnum):
    """The host of the driver: this one, or one of the cluster."""

    CLIENT = "client"
    CLUSTER = "cluster"


@attrs.frozen
class Submission:
    """A runner to submit."""

    settings: SessionSettings
    deploy_mode: DeployMode
    program: Path
    """The Python file that the driver runs."""
    arguments: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    """Files that the arguments name, by their last part, for a driver on another host."""

    @property
    def is_remote(self) -> bool:
        """True when the driver runs on a host of the cluster."""
        return self.deploy_mode is DeployMode.CLUSTER


def check(submission: Submission, environment: Mapping[str, str]) -> None:
    """Raise SparkUnavailableError when Spark cannot run this submission."""
    settings = submission.settings
    master, given = settings.master, settings.properties
    if not master.startswith(_MANAGERS):
        raise SparkUnavailableError(
            f"spark.master={master} is not a cluster: set spark.master to spark://HOST:7077, yarn "
            "or k8s://https://HOST:443, or start `barnabas pipelines` without submit"
        )
    session.check(settings)
    if master.startswith("spark://") and submission.is_remote:
        raise SparkUnavailableError(
            "a standalone cluster does not run Python drivers: use --deploy-mode client"
        )
    if master == "yarn" and not any(environment.get(name) for name in _HADOOP):
        raise SparkUnavailableError(
            "spark.master=yarn needs the environment variable HADOOP_CONF_DIR or YARN_CONF_DIR: "
            "the directory with the configuration of the Hadoop cluster"
        )
    if master.startswith("k8s://") and not any(given.get(name) for name in _IMAGES):
        raise SparkUnavailableError(
            f"spark.master={master} needs {_IMAGES[0]}: an image with Spark "
            f"{jar_cache.spark_version()} and {_python_name()}"
        )
    if master.startswith("k8s://") and submission.is_remote and not given.get(_UPLOADS):
        raise SparkUnavailableError(
            f"--deploy-mode cluster on Kubernetes needs {_UPLOADS}: a directory, such as "
            "s3a://bucket/path, where Spark leaves files for the driver"
        )
    _spark_home(environment)


def properties(submission: Submission, jars: jar_cache.Jars, packages: Path) -> dict[str, str]:
    """Return the properties of Spark, with the packed environment `packages` and the jars."""
    settings = submission.settings
    no_archive = class_archive.Choice(())
    found = session.spark_properties(settings, jars, no_archive, packages)
    for name in _OF_PROCESS:
        found.pop(name, None)
    found |= {"spark.pyspark.python": os.environ.get("PYSPARK_PYTHON", _python_name())}
    if not submission.is_remote:
        return found | {"spark.pyspark.driver.python": sys.executable}
    found["spark.driver.extraJavaOptions"] = session.without_local_files(
        found["spark.driver.extraJavaOptions"]
    )
    files = [settings.properties.get(_FILES), *map(str, submission.files)]
    if any(files):
        found[_FILES] = ",".join(each for each in files if each)
    return found


def properties_file(found: Mapping[str, str]) -> str:
    """Return the text of a properties file, as Java reads it."""
    lines = [f"{name}={_SPECIAL.sub(_escaped, value)}\n" for name, value in sorted(found.items())]
    return "".join(lines)


def _escaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[0], f"\\{match[0]}")


def command(submission: Submission, file: Path, environment: Mapping[str, str]) -> list[str]:
    """Return the command line; `file` has the properties. Raises SparkUnavailableError."""
    settings = submission.settings
    return [
        str(_spark_home(environment) / "bin" / "spark-submit"),
        *("--master", settings.master, "--deploy-mode", submission.deploy_mode),
        *("--name", settings.application),
        *("--properties-file", str(file), "--load-spark-defaults"),
        str(submission.program),
        *submission.arguments,
    ]


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the command. Raises SparkUnavailableError."""
    return {
        **environment,
        "SPARK_HOME": str(_spark_home(environment)),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def _spark_home(environment: Mapping[str, str]) -> Path:
    """Return the installation of Spark: SPARK_HOME, or PySpark's own. Raises SparkUnavailableError.

    The jars that are sent belong to the version of PySpark.
    """
    given = environment.get("SPARK_HOME")
    if not given:
        return Path(pyspark().__file__).parent
    cores = [_CORE.fullmatch(path.name) for path in Path(given, "jars").glob("spark-core_*.jar")]
    found = next((match[1] for match in cores if match), None)
    if found != jar_cache.spark_version():
        raise SparkUnavailableError(
            f"SPARK_HOME={given} has {f'Spark {found}' if found else 'no Spark'}, and PySpark here "
            f"is {jar_cache.spark_version()}: install the same version, or unset SPARK_HOME"
        )
    return Path(given)


def _python_name() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}"
