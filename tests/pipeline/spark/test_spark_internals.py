"""Spark's inside, which a version of Spark may change, is touched in one module."""

import inspect
import logging
import re
from pathlib import Path

import pytest

import barnabas
from barnabas.pipeline.delivery.driver import spark_internals

ROOT = Path(barnabas.__file__).parent
HOME = "spark_internals.py"
INSIDE = re.compile(r"\._(?:jvm|jsc|jdf|jsq|jsparkSession|gateway|accumulatorServer)\b")


def test_inside_of_spark_is_touched_in_one_module() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted(ROOT.rglob("*.py"))
        for line in path.read_text().splitlines()
        if path.name != HOME and INSIDE.search(line) and "self._jvm" not in line
    ]
    assert found == []
    (home,) = ROOT.rglob(HOME)
    assert INSIDE.search(home.read_text())


class Client:
    """Answers Py4J's commands, and keeps them."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.commands: list[str] = []

    def send_command(self, command: str, retry: bool = True) -> str:
        self.commands.append(command)
        return self.answer


@pytest.mark.parametrize(
    ("command", "answer", "times"),
    [
        ("r\nu\norg.apache.spark\nrj\ne\n", "yp", 1),
        ("r\nu\norg.apache.spark.sql.functions\nrj\ne\n", "ycorg.apache.spark.sql.functions", 1),
        ("r\nm\norg.apache.spark.sql.functions\ncol\ne\n", "ym", 1),
        # The class may be in a jar that the session adds later.
        ("r\nu\nio.delta.DeltaTable\nrj\ne\n", "yp", 3),
        # The value of a static field.
        ("r\nm\norg.apache.spark.SparkEnv\nvalue\ne\n", "yro12", 3),
        ("r\nm\norg.apache.spark.SparkEnv\nnothing\ne\n", "xsNo such member", 3),
        # The call of a method.
        ("c\nz:org.apache.spark.sql.functions\ncol\nsa\ne\n", "ym", 3),
    ],
)
def test_name_that_stays_what_it_is_is_requested_once(
    command: str, answer: str, times: int
) -> None:
    client = Client(answer)
    spark_internals.remember_names(client)
    assert [client.send_command(command) for _ in range(3)] == [answer] * 3
    assert client.commands == [command] * times


def test_client_of_a_second_session_keeps_what_it_remembers() -> None:
    client = Client("ym")
    spark_internals.remember_names(client)
    first = client.send_command
    spark_internals.remember_names(client)
    assert client.send_command is first


def test_names_are_remembered_apart() -> None:
    client = Client("ym")
    spark_internals.remember_names(client)
    commands = [f"r\nm\norg.apache.spark.sql.functions\n{name}\ne\n" for name in ("col", "lit")]
    for command in commands * 2:
        assert client.send_command(command, retry=False) == "ym"
    assert client.commands == commands


def test_trace_of_a_lost_connection_is_not_logged() -> None:
    text = "Exception while sending command."
    gateway = pytest.importorskip("py4j.java_gateway")
    assert text in inspect.getsource(gateway)
    records = [
        logging.LogRecord("root", logging.ERROR, "", 0, each, (), None) for each in (text, "x")
    ]
    assert [spark_internals.is_no_lost_connection(each) for each in records] == [False, True]
