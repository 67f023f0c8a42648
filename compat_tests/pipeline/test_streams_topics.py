"""Apps whose source topics are recreated or trimmed while they are down, after a kill."""

import contextlib
import json
import os
import shlex
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import Consumer, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas import streams as ks
from barnabas.pipeline.delivery.plan.offset_metadata import url_safe
from compat_tests import spark as setup
from compat_tests.pace import WAIT_S
from compat_tests.pipeline.conftest import eventually
from compat_tests.pipeline.killed_job import children, read_committed
from compat_tests.pipeline.recreated_app import Settings, describe

pytestmark = [
    setup.needed,
    pytest.mark.timeout(600),
]

CASES = ("copied-recreated", "counted-recreated", "copied-trimmed", "counted-trimmed")
READ = 20
"""Records that the app has read when it is killed."""
NEW = 50
"""Records of a recreated topic: the old offset is inside the new topic."""
TRIMMED = 15
"""Records that retention deletes before the app reads them."""


@attrs.frozen
class KilledApp:
    """The topics and the results of an app that was killed."""

    settings: Settings
    ids: dict[str, str]
    """The ids of the topics that it read, by case."""

    def output(self, case: str) -> int:
        """Return the number of records that a case has processed."""
        found = read_committed(self.settings.bootstrap, self.settings.target(case))
        if case.startswith("copied"):
            return len(found)
        newest = {each.key(): struct.unpack(">q", each.value())[0] for each in found}
        return sum(newest.values())


class Cluster:
    """Changes topics."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, topic: str) -> None:
        new = NewTopic(topic, 1, 1, config={"retention.ms": "-1"})
        self._admin.create_topics([new], operation_timeout=60)[topic].result(90)

    def recreate(self, topic: str) -> None:
        self._admin.delete_topics([topic], operation_timeout=60)[topic].result(90)
        self.create(topic)

    def trim(self, topic: str, offset: int) -> None:
        """Delete the records before an offset, as retention does."""
        place = TopicPartition(topic, 0, offset)
        self._admin.delete_records([place], operation_timeout=60)[place].result(90)

    def topic_id(self, topic: str) -> str:
        found = self._admin.describe_topics(TopicCollection([topic]))[topic].result(60)
        return url_safe(str(found.topic_id))

    def send(self, topic: str, count: int) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap})
        for number in range(count):
            producer.produce(topic, str(number), f"k{number % 3}", partition=0)
        assert producer.flush(90) == 0

    def position(self, group: str, topic: str) -> int:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        with contextlib.closing(consumer):
            (found,) = consumer.committed([TopicPartition(topic, 0)], 60)
        return found.offset


@pytest.fixture(scope="module")
def killed(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> KilledApp:
    """Kill an app when it has processed its records, then recreate and trim its topics."""
    directory: Path = tmp_path_factory.mktemp("killed")
    name = f"killed-{os.urandom(4).hex()}"
    settings = Settings(name, bootstrap, str(directory / "state"), CASES)
    cluster = Cluster(bootstrap)
    for case in CASES:
        cluster.create(settings.source(case))
        cluster.create(settings.target(case))
        cluster.send(settings.source(case), READ)
    app = KilledApp(settings, {each: cluster.topic_id(settings.source(each)) for each in CASES})
    process = started(settings, directory)
    try:
        deadline = time.monotonic() + WAIT_S
        while not all(is_read(cluster, app, case) for case in CASES):
            log = (directory / "app.log").read_text(errors="replace")[-4000:]
            assert process.poll() is None, log
            assert time.monotonic() < deadline, log
            time.sleep(0.2)
    finally:
        for pid in [*children(process.pid), process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
    for case in CASES:
        source = settings.source(case)
        if case.endswith("recreated"):
            cluster.recreate(source)
        cluster.send(source, NEW)
        if case.endswith("trimmed"):
            cluster.trim(source, READ + TRIMMED)
    return app


def started(settings: Settings, directory: Path) -> "subprocess.Popen[bytes]":
    file = directory / "settings.json"
    file.write_text(json.dumps(attrs.asdict(settings)))
    with (directory / "app.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "compat_tests.pipeline.recreated_app", str(file)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def is_read(cluster: Cluster, app: KilledApp, case: str) -> bool:
    """True when the app has written its results and its position."""
    source = app.settings.source(case)
    return app.output(case) == READ and cluster.position(source, source) == READ


@pytest.fixture
def restarted(engine: Any, killed: KilledApp) -> Iterator[Callable[..., ks.App]]:
    """Return the app with one of its queries, in the session of the module."""
    running: list[ks.App] = []
    engine.session.conf.set("spark.sql.shuffle.partitions", "2")

    def make(case: str, **options: Any) -> ks.App:
        for each in running:
            each.stop()
        settings = killed.settings
        app = ks.App.attach(
            engine.session,
            settings.app,
            settings.bootstrap,
            state=settings.state,
            **options,
        )
        describe(app, settings, case)
        running.append(app)
        return app

    yield make
    for each in running:
        each.stop()


def failure_of(app: ks.App) -> str:
    """Return why an app does not start."""
    with pytest.raises(ks.StreamFailedError) as info:
        app.start()
    assert info.value.failure.is_permanent
    return str(info.value)


@pytest.mark.parametrize("case", ["copied-recreated", "counted-recreated"])
def test_app_ends_when_its_topic_was_recreated_while_it_was_down(
    killed: KilledApp, restarted: Callable[..., ks.App], case: str
) -> None:
    settings, source = killed.settings, killed.settings.source(case)
    new_id = Cluster(settings.bootstrap).topic_id(source)
    for _ in range(2):  # a second start does not accept the topic either
        message = failure_of(restarted(case))
        assert f"query {source} failed: topic {source} was recreated" in message
        assert killed.ids[case] in message
        assert new_id in message
    assert killed.output(case) == READ
    app = restarted(case)
    if case.startswith("counted"):
        assert "App.reset()" in message
        app.reset()
        expected = NEW
    else:
        reset_offsets(settings, message)
        expected = READ + NEW
    with app:
        eventually(lambda: killed.output(case) == expected)
    with restarted(case):  # the new topic is known now
        pass
    assert killed.output(case) == expected


def reset_offsets(settings: Settings, message: str) -> None:
    """Run the command of the error."""
    command = shlex.split(message.split("`")[1])
    assert command[:3] == ["barnabas", "group", "reset-offsets"]
    environment = {**os.environ, "BARNABAS_BOOTSTRAP": settings.bootstrap}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", ["copied-trimmed", "counted-trimmed"])
def test_app_ends_when_retention_deleted_records_that_it_has_not_read(
    killed: KilledApp, restarted: Callable[..., ks.App], case: str
) -> None:
    source = killed.settings.source(case)
    message = failure_of(restarted(case))
    expected = f"retention deleted offsets {READ} to {READ + TRIMMED - 1} of {source}-0"
    assert expected in message
    assert "App(on_trim='skip')" in message
    assert killed.output(case) == READ
    with restarted(case, on_trim="skip"):
        eventually(lambda: killed.output(case) == READ + NEW - TRIMMED)


def test_reset_of_an_unknown_query_is_refused(restarted: Callable[..., ks.App]) -> None:
    with pytest.raises(ValueError, match=r"no query absent; its queries: killed-.*-copied-trimmed"):
        restarted("copied-trimmed").reset("absent")
