"""ASSERT in a session: topics of a cluster that is not there, and schemas over HTTP."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from barnabas.cli.sql_output import Line
from barnabas.cli.sql_scripts import LocalExecutor, Script, run_script
from barnabas.pipeline.delivery.driver.cluster_state import Topic
from barnabas.pipeline.sql.shell import session_statements
from barnabas.pipeline.sql.shell.answer_values import AssertedSchema, AssertedTopic, Message
from barnabas.pipeline.sql.shell.session_backend import Backend
from barnabas.pipeline.sql.shell.session_statements import SessionStatements
from barnabas.pipeline.sql.shell.session_values import SessionSettings
from barnabas.pipeline.sql.sql_failures import AssertionFailedError, SqlError
from tests.pipeline.http_answers import serving

CLICKS = Topic("clicks", "id", 2, replicas=1)


class Cluster:
    """Topics by their names; one that is an error is raised."""

    def __init__(self, *topics: Topic) -> None:
        self.known = {each.name: each for each in topics}
        self.error: KafkaException | None = None

    def topics(self, names: Sequence[str]) -> Mapping[str, Topic | None]:
        if self.error is not None:
            raise self.error
        return {name: self.known.get(name) for name in names}


class WithoutSpark:
    """The part of a backend that ASSERT needs."""

    def __init__(self, registry: str) -> None:
        self.settings = SessionSettings("127.0.0.1:9", registry=registry)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster(CLICKS)
    monkeypatch.setattr(session_statements, "ClusterState", lambda properties: found)
    return found


def session(registry: str = "", wait: Callable[[float], object] = lambda _: None) -> Any:
    found = SessionStatements(cast(Backend, WithoutSpark(registry)))
    found.wait = wait
    return found


def failure(text: str, registry: str = "") -> str:
    with pytest.raises(AssertionFailedError) as raised:
        list(session(registry).execute(f"{text} TIMEOUT 0 SECONDS"))
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "answer", "line"),
    [
        ("TOPIC clicks", AssertedTopic("clicks", True), "Topic clicks exists."),
        (
            "TOPIC 'clicks' WITH (PARTITIONS=2, replicas=1)",
            AssertedTopic("clicks", True),
            "Topic clicks exists.",
        ),
        ("NOT EXISTS TOPIC c", AssertedTopic("c", False), "Topic c does not exist."),
    ],
)
def test_topic_is_as_asserted(
    cluster: Cluster, text: str, answer: AssertedTopic, line: str
) -> None:
    assert list(session().execute(f"ASSERT {text};")) == [answer]
    printed = run_script(LocalExecutor(session()), Script(f"ASSERT {text};"))
    assert list(printed) == [Line(line)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ASSERT TOPIC none", "line 1:14: Topic none does not exist"),
        ("\n ASSERT NOT EXISTS TOPIC clicks", "line 2:26: Topic clicks exists"),
        (
            "ASSERT TOPIC clicks WITH (partitions=3, replicas='1', cleanup='a')",
            "line 1:14: Mismatched configuration for topic clicks: For config partitions, expected "
            "3 got 2; Mismatched configuration for topic clicks: For config replicas, expected "
            '"1" got 1; Cannot assert unknown topic property: CLEANUP, only PARTITIONS and '
            "REPLICAS",
        ),
        (
            "ASSERT TOPIC clicks WITH (replicas=TRUE)",
            "line 1:14: Mismatched configuration for topic clicks: For config replicas, expected "
            "true got 1",
        ),
    ],
)
def test_topic_that_is_not_as_asserted_is_an_error(
    cluster: Cluster, text: str, message: str
) -> None:
    assert failure(text) == message


def test_cluster_that_does_not_answer_fails_the_assertion(cluster: Cluster) -> None:
    cluster.error = KafkaException(KafkaError(KafkaError._TRANSPORT, "no broker"))
    assert failure("ASSERT TOPIC clicks") == ("line 1:14: Cannot check topic existence: no broker")


def test_condition_is_checked_until_it_is_true(cluster: Cluster) -> None:
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            cluster.known["late"] = CLICKS

    script = "ASSERT TOPIC late TIMEOUT 1 HOUR;"
    assert list(session(wait=wait).execute(script)) == [AssertedTopic("late", True)]
    assert waited == [0.1, 0.1, 0.1]


def test_failed_assertion_ends_a_script(cluster: Cluster) -> None:
    answers = session().execute("DEFINE a = 'b'; ASSERT TOPIC ${a} TIMEOUT 0 DAYS; DEFINE c = 'd';")
    assert next(answers) == Message("set the variable A")
    with pytest.raises(SqlError, match="line 1:30: Topic b does not exist"):
        next(answers)
    assert list(answers) == []


def test_property_is_the_time_of_statements_without_timeout(cluster: Cluster) -> None:
    waited: list[float] = []
    found = session(wait=waited.append)
    name = "ksql.assert.topic.default.timeout.ms"
    with pytest.raises(AssertionFailedError):
        list(found.execute(f"SET '{name}'='0'; ASSERT TOPIC none;"))
    assert waited == []
    with pytest.raises(SqlError, match=f"{name} is a number of milliseconds .* and not '1s'"):
        list(found.execute(f"SET '{name}'='1s';"))
    found.properties[name] = "-1"
    with pytest.raises(SqlError, match="and not '-1'"):
        list(found.execute("ASSERT TOPIC clicks;"))


def refused(code: int) -> tuple[int, dict[str, str], bytes]:
    return 404, {}, json.dumps({"error_code": code, "message": "not there"}).encode()


ANSWERS = {
    "/subjects/c-value/versions/latest": (200, {}, b'{"id": 7}'),
    "/subjects/none/versions/latest": refused(40401),
    "/schemas/ids/7": (200, {}, b'{"schema": "\\"int\\""}'),
    "/schemas/ids/8": refused(40403),
    "/schemas/ids/7/subjects": (200, {}, b'["c-value"]'),
    "/schemas/ids/8/subjects": refused(40403),
    "/schemas/ids/9": (401, {}, b'{"error_code": 40101, "message": "no"}'),
}


@pytest.mark.parametrize(
    ("text", "answer", "line"),
    [
        (
            "SCHEMA SUBJECT 'c-value'",
            AssertedSchema("c-value", None, True),
            "Schema with subject c-value exists.",
        ),
        ("SCHEMA ID 7", AssertedSchema(None, 7, True), "Schema with id 7 exists."),
        (
            "SCHEMA SUBJECT `c-value` ID 7",
            AssertedSchema("c-value", 7, True),
            "Schema with subject c-value id 7 exists.",
        ),
        (
            "NOT EXISTS SCHEMA SUBJECT none",
            AssertedSchema("none", None, False),
            "Schema with subject none does not exist.",
        ),
        (
            "NOT EXISTS SCHEMA ID 8",
            AssertedSchema(None, 8, False),
            "Schema with id 8 does not exist.",
        ),
    ],
)
def test_schema_is_as_asserted(text: str, answer: AssertedSchema, line: str) -> None:
    with serving(ANSWERS) as (url, _):
        assert list(session(url).execute(f"ASSERT {text};")) == [answer]
        printed = list(run_script(LocalExecutor(session(url)), Script(f"ASSERT {text};")))
    assert printed == [Line(line)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ASSERT SCHEMA SUBJECT none", "Schema with subject name none does not exist"),
        ("ASSERT SCHEMA SUBJECT none ID 7", "Schema with subject name none id 7 does not exist"),
        ("ASSERT SCHEMA SUBJECT x ID 8", "Schema with subject name x id 8 does not exist"),
        ("ASSERT NOT EXISTS SCHEMA ID 7", "Schema with id 7 exists"),
        ("ASSERT SCHEMA ID 9", "Cannot check schema existence: no; error code: 40101"),
    ],
)
def test_schema_that_is_not_as_asserted_is_an_error(text: str, message: str) -> None:
    with serving(ANSWERS) as (url, _):
        assert failure(text, url).partition(": ")[2] == message


def test_schema_that_is_registered_in_time_is_found() -> None:
    answers = dict(ANSWERS)

    def wait(seconds: float) -> None:
        answers["/schemas/ids/8"] = ANSWERS["/schemas/ids/7"]

    with serving(answers) as (url, _):
        found = list(session(url, wait).execute("ASSERT SCHEMA ID 8 TIMEOUT 1 HOUR;"))
    assert found == [AssertedSchema(None, 8, True)]


def test_schema_without_a_registry_names_the_remedy() -> None:
    assert failure("ASSERT SCHEMA ID 7") == (
        "line 1:15: Cannot check schema existence: there is no schema registry: name it with "
        "--registry, or to a runner with ksql.schema.registry.url"
    )
