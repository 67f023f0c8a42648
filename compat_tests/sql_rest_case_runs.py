"""Sends the statements of a case to a runner's REST API, and compares its answers."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Self, cast

import httpx
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from barnabas.pipeline.sql.scripts import statement_texts
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError
from barnabas.pipeline.streams.test_driver import TestRecord
from compat_tests import sql_case_bytes
from compat_tests.sql_case_files import RestCase
from compat_tests.sql_case_runs import CaseRun, DifferenceError
from compat_tests.sql_case_schemas import CaseSchemas
from compat_tests.sql_case_session import CaseEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from compat_tests.sql_case_files import Case

_WAIT_S: Final = 120.0
_REQUEST_S: Final = 240.0
_POLL_S: Final = 2.0
_APART_S: Final = 10.0
_TOPIC: Final = re.compile(r"kafka_topic *= *'([^']*)'", re.IGNORECASE)
_PARTITIONS: Final = re.compile(r"partitions *= *(\d+)", re.IGNORECASE)
_V1: Final = {"Accept": "application/vnd.ksql.v1+json"}


class RefusedError(Exception):
    """The server refused a statement; the message says why."""


class RestServers:
    """A node, a registry and a runner, on which cases run one after the other."""

    def __init__(
        self,
        bootstrap: str,
        registry: str,
        url: str,
        wait_s: float = _WAIT_S,
        push_s: float = _WAIT_S,
    ) -> None:
        """`wait_s` is for an answer to become the one that is expected, `push_s` for a row."""
        self._registry = registry
        self._wait_s, self._push_s = wait_s, push_s
        self._topics: list[str] = []
        self._bootstrap = bootstrap
        self._client = httpx.Client(base_url=url, timeout=_REQUEST_S)
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def failure_of(self, case: Case) -> str | None:
        """Return the reason why a case fails, None where it passes."""
        assert isinstance(case, RestCase)
        try:
            reason = self._failure_of(case)
        finally:
            self._clear()
        return reason

    def _failure_of(self, case: RestCase) -> str | None:
        try:
            schemas = CaseSchemas.registered(self._registry, case.topics)
            self._create_topics(case)
            run = _RestRun(case, schemas, self._client, self._bootstrap)
            run.wait_s, run.push_s = self._wait_s, self._push_s
            run.run()
        except RefusedError as error:
            return None if case.refused else f"refused: {error}"
        except DifferenceError as error:
            return f"differs: {error}"
        except Exception as error:  # a tool reports all failures of its cases
            return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:300]}"
        return "an error is expected, and there is none" if case.refused else None

    def _create_topics(self, case: RestCase) -> None:
        counts = {each.topic: 1 for each in (*case.inputs, *case.outputs)}
        counts |= {each["name"]: each.get("partitions", 1) for each in case.topics}
        for text in case.statements:
            for match in _TOPIC.finditer(text):
                partitions = _PARTITIONS.search(text)
                counts[match[1]] = int(partitions[1]) if partitions else counts.get(match[1], 1)
        self._topics = list(counts)
        topics = [NewTopic(name, each, 1) for name, each in counts.items()]
        for each in self._admin.create_topics(topics).values() if topics else ():
            each.result(30)

    def _clear(self) -> None:
        """Remove the queries, the topics and the schemas of a case."""
        body = {"deleteTopicList": [".*"]}
        self._client.post("/ksql/terminate", json=body).raise_for_status()
        types = self._client.post("/ksql", json={"ksql": "SHOW TYPES;"}).json()[0]["types"]
        for name in types:
            self._client.post("/ksql", json={"ksql": f"DROP TYPE `{name}`;"}).raise_for_status()
        known = self._admin.list_topics(timeout=30).topics
        left = [each for each in self._topics if each in known]
        for each in self._admin.delete_topics(left).values() if left else ():
            each.result(30)
        with httpx.Client(base_url=self._registry, timeout=_REQUEST_S) as client:
            # A schema that another one refers to is removed in the second round.
            for _ in range(2):
                for each in client.get("/subjects", params={"deleted": "true"}).json():
                    for is_permanent in ("false", "true"):
                        client.delete(f"/subjects/{each}", params={"permanent": is_permanent})


class _RestRun:
    """One run of a case."""

    def __init__(
        self, case: RestCase, schemas: CaseSchemas, client: httpx.Client, bootstrap: str
    ) -> None:
        self.wait_s = self.push_s = _WAIT_S
        self._case = case
        self._apart_s = _APART_S if _is_pushed_table(case) else 0
        self._arrived = threading.Semaphore(0)
        self._client = client
        self._bootstrap = bootstrap
        self._local = CaseRun(CaseEngine(None, schemas.registry), case, schemas)
        self._properties = {name: str(each) for name, each in case.properties.items()}
        texts = [each.text for text in case.statements for each in statement_texts(text)]
        self._queries = [each for each in texts if each.split()[0].upper() == "SELECT"]
        self._commands = [each for each in texts if each not in self._queries]

    def run(self) -> None:
        """Run the case. Raises RefusedError, DifferenceError."""
        self._run_commands()
        self._add_inputs()
        if (self._case.is_waiting and not self._case.refused) or self._apart_s:
            self._push_before_inputs()
        else:
            self._produce()
            self._run_queries()
        if self._case.outputs:
            self._until(self._compare_outputs)

    def _run_commands(self) -> None:
        found = [each for text in self._commands for each in self._command(text)]
        expected = [each["admin"] for each in self._case.responses if "admin" in each]
        given = [each for each in found if each["@type"] != "insert"]
        for actual, wanted in zip(given, expected, strict=False):
            if not _has(actual, wanted):
                raise DifferenceError(f"the answer is {actual}, and not {wanted}")

    def _command(self, text: str) -> list[dict[str, Any]]:
        body = {"ksql": f"{text};", "streamsProperties": self._properties}
        return cast("list[dict[str, Any]]", _checked(self._client.post("/ksql", json=body)).json())

    def _add_inputs(self) -> None:
        """Encode the records by the sources of the case."""
        local = self._local
        texts = tuple(f"{each};" for each in self._commands if not _is_insert(each))
        local.case = RestCase(**{**vars(self._case), "statements": texts})
        try:
            local.queries()
        except (SqlError, UnresolvedError) as error:
            if not self._case.refused:
                raise RefusedError(str(error)) from None
        for each in self._case.inputs:
            local.add(each)

    def _produce(self) -> None:
        # librdkafka has no time 0, and writes the present time instead.
        producer: Any = KafkaProducer(bootstrap_servers=self._bootstrap)
        places: Counter[str] = Counter()
        for each in self._case.inputs:
            records = self._local.topics.get(each.topic)
            if not records:
                continue
            record = records[places[each.topic]]
            places[each.topic] += 1
            time_ms = record.timestamp if each.timestamp is not None else None
            headers = [*record.headers]
            sent = producer.send(each.topic, record.value, record.key, headers, None, time_ms)
            sent.get(30)
            self._arrived.acquire(timeout=self._apart_s)
        producer.close()

    def _run_queries(self) -> None:
        expected = [each["query"] for each in self._case.responses if "query" in each]
        if self._case.refused:
            for text in self._queries:
                self._answer(text)
            return
        for text, wanted in zip(self._queries, expected, strict=True):
            if " EMIT " in text.upper():
                _compare(self._answer(text), wanted, text)
            else:
                self._until(lambda text=text, wanted=wanted: self._compare(text, wanted))

    def _compare(self, text: str, wanted: list[dict[str, Any]]) -> None:
        _compare(self._answer(text), wanted, text)

    def _answer(self, text: str) -> list[dict[str, Any]]:
        body = {"ksql": f"{text};", "streamsProperties": self._properties}
        found: Any = json.loads(
            _checked(self._client.post("/query", json=body, headers=_V1, timeout=self.push_s)).text,
            parse_float=str,
        )
        return _without_errors(found)

    def _push_before_inputs(self) -> None:
        """Write the records when the head of the rows is there."""
        (text,) = self._queries
        (wanted,) = [each["query"] for each in self._case.responses if "query" in each]
        body = {"ksql": f"{text};", "streamsProperties": self._properties}
        request = {"json": body, "headers": _V1, "timeout": self.push_s}
        with self._client.stream("POST", "/query", **request) as response:
            if not response.is_success:
                response.read()
            _checked(response)
            parts = response.iter_text()
            head = next(parts)
            written = threading.Thread(target=self._produce)
            written.start()
            try:
                found: Any = json.loads(head + "".join(map(self._seen, parts)))
            finally:
                written.join()
        _compare(_without_errors(found), wanted, text)

    def _seen(self, part: str) -> str:
        """Let the next record be written."""
        self._arrived.release()
        return part

    def _compare_outputs(self) -> None:
        local = self._local
        local.case = self._case
        for topic in {each.topic for each in self._case.outputs}:
            local.topics[topic] = _consumed(self._bootstrap, topic)
        local.compare()

    def _until(self, compare: Callable[[], None]) -> None:
        """Compare until there is no difference; the last one is raised."""
        deadline = time.monotonic() + self.wait_s
        while True:
            try:
                compare()
                break
            except DifferenceError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_POLL_S)


def _is_pushed_table(case: RestCase) -> bool:
    """True for a case whose only SELECT pushes the rows of aggregates.

    Several updates of a key in one micro-batch are one row, so each record is written when
    the row of the one before has come, or after a while.
    """
    texts = [each.upper() for each in case.statements]
    selects = [each for each in texts if each.split()[0] == "SELECT"]
    if case.refused or len(selects) != 1 or " EMIT " not in selects[0]:
        return False
    return any(name in each for each in texts for name in ("GROUP BY", "COUNT(", "SUM("))


def _is_insert(text: str) -> bool:
    return text.split()[:2] == ["INSERT", "INTO"] and "SELECT" not in text.upper()


def _checked(response: httpx.Response) -> httpx.Response:
    if not response.is_success:
        found = response.json()
        text = f"{response.status_code} {found.get('message')}"
        if response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            raise DifferenceError(text)
        raise RefusedError(text)
    return response


def _without_errors(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for each in found:
        if "errorMessage" in each:
            raise DifferenceError(f"an error behind rows: {each['errorMessage']['message'][:200]}")
    return found


def _has(actual: Any, wanted: dict[str, Any]) -> bool:
    return all(actual.get(name) == each for name, each in wanted.items())


def _compare(actual: Sequence[dict[str, Any]], wanted: Sequence[dict[str, Any]], text: str) -> None:
    """Raise DifferenceError unless an answer to a SELECT is the one that is expected."""
    for name, one, other in (
        ("header", _schema(actual), _schema(wanted)),
        ("final message", _final(actual), _final(wanted)),
    ):
        if one != other:
            raise DifferenceError(f"the {name} is {one}, and not {other}")
    found, expected = _rows(actual), _rows(wanted)
    if " EMIT " not in text.upper():
        found, expected = sorted(found, key=str), sorted(expected, key=str)
    same = len(found) == len(expected) and all(map(sql_case_bytes.same, found, expected))
    if not same:
        raise DifferenceError(f"rows {found}, and not {expected}")


def _schema(answer: Sequence[dict[str, Any]]) -> str | None:
    return next((each["header"]["schema"] for each in answer if "header" in each), None)


def _final(answer: Sequence[dict[str, Any]]) -> str | None:
    return next((each["finalMessage"] for each in answer if "finalMessage" in each), None)


def _rows(answer: Sequence[dict[str, Any]]) -> list[Any]:
    return [each["row"] for each in answer if "row" in each]


def _consumed(bootstrap: str, topic: str) -> list[TestRecord]:
    """Return all committed records of a topic."""
    settings = {"group.id": "sql-rest-cases", "enable.partition.eof": True}
    consumer: Any = Consumer({"bootstrap.servers": bootstrap, **settings})
    try:
        partitions = consumer.list_topics(topic, 30).topics[topic].partitions
        found: list[TestRecord] = []
        for number in partitions:
            consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING)])
            while (each := consumer.poll(30)) is not None and each.error() is None:
                headers = tuple(each.headers() or ())
                found.append(TestRecord(each.key(), each.value(), each.timestamp()[1], headers))
            assert each is not None, f"{topic}-{number} has not sent its records"
            if each.error().code() != KafkaError._PARTITION_EOF:
                raise KafkaException(each.error())
        return found
    finally:
        consumer.close()
