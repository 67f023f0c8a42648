"""The examples of docs/pipelines.md, run unchanged except for ports, directories and passwords."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from barnabas.testing.free_ports import free_ports
from compat_tests import spark
from compat_tests.installed import Installed
from compat_tests.pipeline.killed_job import read_committed
from compat_tests.postgres import PostgresServer
from compat_tests.servers import BarnabasProcess

pytestmark = [
    pytest.mark.timeout(900),  # pip installs the package first
    pytest.mark.barnabas_only,
    spark.needed,
]

PAGE = (Path(__file__).parents[2] / "docs" / "pipelines.md").read_text()
TIMEOUT_S = 300
RUN_TIMEOUT_S = 750  # `--wait` waits up to 720 s for Spark and a job


class ServedPipelines(BarnabasProcess):
    """`barnabas serve --pipelines` of the environment that the README installs."""

    def __init__(self, installed: Installed) -> None:
        super().__init__()
        self.url = f"http://127.0.0.1:{free_ports(1)[0]}"
        self.installed = installed

    def command(self) -> list[str]:
        listen = self.url.removeprefix("http://")
        _python, _module, _name, *arguments = super().command()
        program = str(self.installed.programs / "barnabas")
        return [program, *arguments, "--pipelines", "--pipelines-listen", listen]

    def environment(self) -> dict[str, str]:
        return self.installed.environment(PYTHONUNBUFFERED="1")


@pytest.fixture(scope="module")
def served(installed: Installed) -> Iterator[ServedPipelines]:
    """A node with a runner that the examples share."""
    process = ServedPipelines(installed)
    try:
        process.start()
        wait(lambda: "runner is active" in process.log_tail(500), process)
        yield process
    finally:
        process.stop()
        process.close()


class Example:
    """A section of the page: its files are in a directory, which stands for /tmp.

    `changes` are other texts of the page, with what stands for them in the test.
    """

    def __init__(
        self,
        served: ServedPipelines,
        directory: Path,
        title: str,
        changes: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.served = served
        self.directory = directory
        text = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
        for found, used in (("/tmp/", f"{directory}/"), *changes.items()):
            text = text.replace(found, used)
        self.text = text
        files = re.findall(
            r"`([\w-]+\.json)`[^`]*(?:`[^`]+`[^`]*)*?```json\n(.*?)```", self.text, re.S
        )
        self.files = dict(files)
        for name, content in files:
            (directory / name).write_text(content)
        lines = re.findall(r"^\$ (.*)$", self.text, re.MULTILINE)
        self.commands = [
            line for line in lines if not line.startswith(("pip install", "barnabas serve"))
        ]

    def blocks(self, language: str) -> list[str]:
        """Return the blocks of a language."""
        return re.findall(rf"```{language}\n(.*?)```", self.text, re.DOTALL)

    def run(self, command: str) -> str:
        """Run a command of the page and return its output."""
        places = {"BARNABAS_PIPELINES": self.served.url}
        places["BARNABAS_BOOTSTRAP"] = self.served.bootstrap
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.directory,
            env=self.served.installed.environment(**places),
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr + self.served.log_tail()
        return done.stdout

    def wait_lines(self, name: str, expected: list[str]) -> None:
        """Wait until a file has as many lines; they must be the expected ones."""
        file = self.directory / name
        wait(
            lambda: file.exists() and len(file.read_text().splitlines()) >= len(expected),
            self.served,
        )
        assert file.read_text().splitlines() == expected


def wait(condition: Callable[[], bool], served: ServedPipelines) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, served.log_tail()
        time.sleep(0.2)


def test_quickstart_copies_each_line_once(served: ServedPipelines, tmp_path: Path) -> None:
    example = Example(served, tmp_path, "Quickstart")
    assert list(example.files) == ["source.json", "sink.json"]
    *commands, show = example.commands
    outputs = [example.run(command) for command in commands]
    assert "access-copy" in outputs[-1]
    assert "access-log" in outputs[-2]
    example.wait_lines("access-copy.log", ["GET /"])
    assert example.run(show) == "GET /\n"
    lines = [f"GET /{number}" for number in range(100)]
    with (tmp_path / "access.log").open("a") as log:
        log.writelines(f"{line}\n" for line in lines)
    example.wait_lines("access-copy.log", ["GET /", *lines])


def test_quickstarts_of_both_pages_share_no_topic() -> None:
    streams = (Path(__file__).parents[2] / "docs" / "streams.md").read_text()
    created = set(re.findall(r"^\$ barnabas topic create (\S+)", streams, re.MULTILINE))
    start = PAGE.partition("## Quickstart\n")[2].partition("\n## ")[0]
    used = set(re.findall(r'"topics?": "([^"]+)"', start))
    assert "access" in created
    assert used
    assert not used & created


def test_dead_letter_is_sent_back_and_written_once(served: ServedPipelines, tmp_path: Path) -> None:
    example = Example(served, tmp_path, "Example: a transformation and dead letters")
    assert list(example.files) == ["readings.json", "celsius.json", "celsius-as-text.json"]
    (tmp_path / "readings.log").write_text(*example.blocks("text"))
    create_source, create_sink, count, apply, redrive = example.commands
    example.run(create_source)
    example.run(create_sink)
    example.wait_lines("celsius.txt", ["21.5", "-3.0"])
    # The lines are in the file before the transaction with the dead letter is committed.
    wait(lambda: example.run(count).startswith("found 1 dead letter,"), served)
    example.run(apply)
    assert example.run(redrive).startswith("sent 1 dead letter,")
    example.wait_lines("celsius.txt", ["21.5", "-3.0", "9,5"])
    assert example.run(redrive).startswith("sent 0 dead letters,")


def test_dead_letter_of_a_source_is_sent_to_a_copy(served: ServedPipelines, tmp_path: Path) -> None:
    example = Example(served, tmp_path, "Example: dead letters of a source")
    assert list(example.files) == ["temperatures.json", "temperatures-again.json"]
    (tmp_path / "temperatures.log").write_text(*example.blocks("text"))
    create_source, redrive, create_copy = example.commands
    example.run(create_source)
    # The job runs before the letter is written: nothing is sent until then.
    wait(lambda: example.run(redrive).startswith("sent 1 dead letter,"), served)
    example.run(create_copy)
    wait(lambda: len(read_committed(served.bootstrap, "temperatures")) >= 3, served)
    found = read_committed(served.bootstrap, "temperatures")
    numbers = sorted(float(each.value()) for each in found if not each.headers())
    assert numbers == [-3.0, 21.5]
    texts = [(each.value(), dict(each.headers())) for each in found if each.headers()]
    assert texts == [(b"70 F", {"unread": b"yes"})]


def test_table_is_in_the_lake_the_copy_and_a_second_topic(
    served: ServedPipelines, database: PostgresServer, tmp_path: Path
) -> None:
    changes = {
        "jdbc:postgresql://127.0.0.1:5432/postgres": database.jdbc_url,
        '"tester"': json.dumps(database.user),
        '"secret"': json.dumps(database.password),
    }
    title = "Example: a table to a topic, to Parquet, and back"
    example = Example(served, tmp_path, title, changes)
    create, update = example.blocks("sql")
    database.run(create)
    for command in example.commands:
        if "people-again" in command:  # the source needs the directory that the sink makes
            wait(lambda: any((tmp_path / "people").glob("**/*.parquet")), served)
        example.run(command)
    wait(lambda: end_of(served.bootstrap, "people-again") >= 3, served)
    database.run(update)
    rows = [(1, "Ada Lovelace"), (2, "Bo"), (3, "Cy")]
    copy = "SELECT id, name FROM people_copy ORDER BY id"
    wait(lambda: database.run(copy) == rows, served)
    wait(lambda: end_of(served.bootstrap, "people-again") == 4, served)
    files = list((tmp_path / "people").glob("**/*.parquet"))
    assert files
    import pyarrow.parquet as pq

    names = [name for each in files for name in pq.read_table(each)["name"].to_pylist()]
    assert sorted(names) == ["Ada", "Ada Lovelace", "Bo", "Cy"]


def end_of(bootstrap: str, topic: str) -> int:
    """Return the number of committed records of partition 0, 0 when there is no topic."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": "reader"}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    try:
        if topic not in consumer.list_topics(timeout=30).topics:
            return 0
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = 0
        while (message := consumer.poll(60)) is not None and message.error() is None:
            found += 1
        return found  # the end of the partition is an error
    finally:
        consumer.close()
