"""`barnabas pipelines submit`: the arguments of the runner, and how spark-submit is run."""

import os
import stat
from pathlib import Path

import pytest

from barnabas.cli import pipelines_submit, submitted_runner
from barnabas.cli.main import run
from barnabas.cli.pipelines_options import Given, runner_settings
from barnabas.config import properties_file
from barnabas.http import optional_packages
from barnabas.pipeline.spark import (
    class_archive,
    jar_cache,
    session,
    worker_environment,
)
from barnabas.pipeline.spark.jar_cache import Jars

MASTER = ("--spark", "spark.master=spark://h:7077")
CHECKPOINTS = ("--set", "checkpoint.dir=hdfs://h/c")
SCRIPT = """#!/bin/sh
printf '%s\\n' "$@" > "$RECORD/arguments"
while [ "$1" != --properties-file ]; do shift; done
cp -p "$2" "$RECORD/properties"
echo "$SPARK_HOME" > "$RECORD/home"
exit 7
"""


@pytest.fixture(autouse=True)
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where a spark-submit of this test leaves what it was given."""
    monkeypatch.setattr(optional_packages, "find_spec", lambda name: object())
    monkeypatch.setattr(session.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(class_archive, "java_command", lambda: "/usr/bin/java")
    monkeypatch.setattr(jar_cache, "spark_version", lambda: "4.0.0")
    monkeypatch.setattr(jar_cache, "find_or_fetch", lambda *_: Jars((Path("/jars/a.jar"),)))
    monkeypatch.setattr(worker_environment, "find_or_pack", lambda _: Path("/c/workers-1.tar.gz"))
    monkeypatch.setattr(pipelines_submit.signal, "signal", lambda *_: None)
    home = tmp_path / "spark"
    for name in ("bin", "jars"):
        (home / name).mkdir(parents=True)
    (home / "jars" / "spark-core_2.13-4.0.0.jar").touch()
    script = home / "bin" / "spark-submit"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setenv("RECORD", str(tmp_path))
    return tmp_path


def test_submit_runs_spark_submit_with_the_runner_and_returns_its_status(record: Path) -> None:
    config = record / "my runner.properties"
    config.write_text("group.id=etl\nspark.hadoop.fs.s3a.secret.key=hidden\n")
    options = ("--config", str(config), "--listen", "127.0.0.1:0", "--log-level", "debug")
    assert run(["pipelines", "submit", *MASTER, *CHECKPOINTS, *options]) == 7
    arguments = (record / "arguments").read_text().splitlines()
    program = arguments.index(submitted_runner.__file__)
    assert sorted(arguments[program + 1 :]) == sorted(
        [
            *options,
            *MASTER,
            *CHECKPOINTS,
            *("--spark", "spark.submit.deployMode=client"),
        ]
    )
    properties = properties_file.read(record / "properties")
    assert properties["spark.hadoop.fs.s3a.secret.key"] == "hidden"
    assert properties["spark.archives"] == "/c/workers-1.tar.gz#barnabas-workers"
    assert stat.S_IMODE((record / "properties").stat().st_mode) == 0o600
    assert (record / "home").read_text().strip() == os.environ["SPARK_HOME"]
    assert "hidden" not in "".join(arguments)


def test_dry_run_shows_the_command_and_hides_secrets(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = record / "runner.properties"
    config.write_text("spark.hadoop.fs.s3a.secret.key=x1y2\n")
    command = ["pipelines", "submit", *MASTER, *CHECKPOINTS, "--config", str(config)]
    assert run([*command, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{os.environ['SPARK_HOME']}/bin/spark-submit --master spark://h:7077 ")
    assert "spark.jars=/jars/a.jar" in shown.splitlines()
    assert "spark.hadoop.fs.s3a.secret.key=[hidden]" in shown.splitlines()
    assert "x1y2" not in shown
    assert not (record / "arguments").exists()


def test_runner_on_another_host_gets_its_files_by_name(
    record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    for name in ("runner.properties", "users.htpasswd"):
        (record / name).touch()
    command = [
        *("pipelines", "submit", "--spark", "spark.master=yarn", *CHECKPOINTS),
        *("--deploy-mode", "cluster", "--listen", "0.0.0.0:8083"),
        *("--config", str(record / "runner.properties")),
        *("--password-file", str(record / "users.htpasswd")),
        *("--token-keys", "https://login.example.org/keys", "--token-audience", "etl"),
        *("--token-issuer", "https://login.example.org"),
    ]
    assert run(command) == 7
    arguments = (record / "arguments").read_text().splitlines()
    for option, value in (
        ("--config", "runner.properties"),
        ("--password-file", "users.htpasswd"),
        ("--token-keys", "https://login.example.org/keys"),
    ):
        assert arguments[arguments.index(option) + 1] == value
    files = properties_file.read(record / "properties")["spark.files"].split(",")
    assert files == [str(record / "runner.properties"), str(record / "users.htpasswd")]
    assert arguments[-1] == "spark.submit.deployMode=cluster"


def test_two_files_of_one_name_cannot_go_to_another_host(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("a", "b"):
        (record / folder).mkdir()
        (record / folder / "file").touch()
    command = [
        *("pipelines", "submit", *MASTER, *CHECKPOINTS, "--deploy-mode", "cluster"),
        *("--config", str(record / "a" / "file"), "--password-file", str(record / "b" / "file")),
    ]
    assert run(command) == 2
    assert "have one name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--deploy-mode", "cluster"), "--listen 127.0.0.1:8083 answers only there"),
        (("--listen", "0.0.0.0:8083"), "without authentication"),
        (("--config", "/absent.properties"), "/absent.properties"),
        (("--set", "view.dir"), "NAME=VALUE"),
    ],
)
def test_submission_that_cannot_work_is_refused_before_spark_starts(
    record: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, str], message: str
) -> None:
    assert run(["pipelines", "submit", *MASTER, *CHECKPOINTS, *options]) != 0
    assert message in capsys.readouterr().err
    assert not (record / "arguments").exists()


def test_options_before_submit_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipelines", *MASTER, "submit", *CHECKPOINTS]) == 2
    assert "--spark goes after 'submit'" in capsys.readouterr().err


def test_directories_of_java_plugins_are_given_to_the_runner(record: Path) -> None:
    options = ("--plugin-path", "/opt/a", "--plugin-path", "/opt/b", "--listen", "127.0.0.1:0")
    assert run(["pipelines", "submit", *MASTER, *CHECKPOINTS, *options]) == 7
    arguments = (record / "arguments").read_text().splitlines()
    places = [place for place, each in enumerate(arguments) if each == "--plugin-path"]
    assert [arguments[place + 1] for place in places] == ["/opt/a", "/opt/b"]


def test_flag_of_sql_is_given_to_the_runner_without_a_value(record: Path) -> None:
    options = ("--sql", "--sql-listen", "127.0.0.1:0", "--listen", "127.0.0.1:0")
    assert run(["pipelines", "submit", *MASTER, *CHECKPOINTS, *options]) == 7
    arguments = (record / "arguments").read_text().splitlines()
    place = arguments.index("--sql")
    assert arguments[place + 1 : place + 3] == ["--sql-listen", "127.0.0.1:0"]


def test_directories_of_java_plugins_are_the_plugin_path() -> None:
    given = Given(
        None, "127.0.0.1:0", None, (), (), ("/opt/a", "/opt/b"), False, "127.0.0.1:0", None
    )
    java = runner_settings(given).java
    assert java is not None
    assert java.plugin_path == ("/opt/a", "/opt/b")
