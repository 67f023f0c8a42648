"""Options and fixtures: the server under test, and unique names."""

import gc
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from compat_tests import wire
from compat_tests.module_times import ModuleTimes
from compat_tests.scheduling import pytest_xdist_make_scheduler  # noqa: F401 - a hook of pytest
from compat_tests.servers import KINDS, ServerProcess
from compat_tests.time_limit import TimeLimit

# Tests write old timestamps; retention by time must not delete them.
KEEP_OLD_RECORDS = {"retention.ms": "-1"}
_numbers = itertools.count(1)
# A test states the limit of a quiet machine; one with other work needs several times as long.
_SLOW_MACHINE = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bootstrap", metavar="HOST:PORT", help="run against this running server")
    parser.addoption(
        "--server",
        choices=sorted(KINDS),
        default="barnabas",
        help="which server to start (kafka: Apache Kafka from its jars); with --bootstrap, which "
        "one is expected to answer",
    )
    parser.addoption(
        "--secured", action="store_true", help="run the steps of the ladder over SASL_SSL"
    )
    parser.addoption(
        "--size-mb", type=int, default=50, help="megabytes of generated web-access events"
    )
    parser.addoption(
        "--module-times", action="store_true", help="print the CPU and wall time of long modules"
    )
    parser.addoption(
        "--no-start-after",
        type=float,
        metavar="EPOCH_S",
        help="skip the tests that would start after this time, in s since 1970",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Clients of other projects may emit warnings; these tests check only their results.
    for action in ("default", "ignore::ResourceWarning", "ignore::DeprecationWarning"):
        config.addinivalue_line("filterwarnings", action)
    config.addinivalue_line(
        "markers", "barnabas_only: holds for our server by choice, not for Apache Kafka"
    )
    if config.getoption("--module-times"):
        config.pluginmanager.register(ModuleTimes())
    end_s = config.getoption("--no-start-after")
    if end_s is not None:
        config.pluginmanager.register(TimeLimit(end_s))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = config.getoption("--server") == "barnabas"
    skip = pytest.mark.skip(reason="holds for barnabas by choice, not for Apache Kafka")
    for item in items:
        if not ours and any(item.iter_markers("barnabas_only")):
            item.add_marker(skip)
        limit = item.get_closest_marker("timeout")
        limit_s = float(limit.args[0] if limit else config.getini("timeout"))
        item.add_marker(pytest.mark.timeout(_SLOW_MACHINE * limit_s), append=False)


@pytest.fixture(scope="module", autouse=True)
def _closed_clients() -> Iterator[None]:
    """Close the clients of a module's jobs, and those in cycles of unused objects, at its end.

    They would connect to its stopped servers until the process ends, each 100 ms.
    """
    yield
    if "barnabas.pipeline.delivery" in sys.modules:
        from tests.pipeline.kept_clients import close_kept_clients

        close_kept_clients()
    gc.collect()


@pytest.fixture(scope="module")
def start_server(request: pytest.FixtureRequest) -> Iterator[Callable[..., ServerProcess]]:
    """Start another server of the kind under test, for tests that stop or kill it.

    It is stopped after the module's last test.
    """
    if request.config.getoption("--bootstrap"):
        pytest.skip("needs a server that the test may kill, so not with --bootstrap")
    started: list[ServerProcess] = []

    def start(properties: dict[str, str] | None = None) -> ServerProcess:
        process = KINDS[request.config.getoption("--server")](properties)
        started.append(process)
        process.start()
        return process

    yield start
    for process in started:
        process.close()


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess | None]:
    """The server that the suite started; None with --bootstrap."""
    if request.config.getoption("--bootstrap"):
        yield None
        return
    process = KINDS[request.config.getoption("--server")]()
    try:
        process.start()
        yield process
    finally:
        process.close()


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest, server: ServerProcess | None) -> str:
    """The bootstrap address of the server under test."""
    return request.config.getoption("--bootstrap") or server.bootstrap


@pytest.fixture(scope="session")
def server_kind(request: pytest.FixtureRequest) -> str:
    """The kind of the server under test, "barnabas" or "kafka", where outcomes differ by choice."""
    return request.config.getoption("--server")


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Return a topic or group name that is unique over all tests and runs."""

    def name(prefix: str) -> str:
        return f"{prefix}-{os.getpid():x}-{next(_numbers)}-{os.urandom(3).hex()}"

    return name


@dataclass
class Topics:
    """Creates topics through the admin client, and waits until they are usable."""

    admin: AdminClient
    bootstrap: str
    unique: Callable[[str], str]

    def create(
        self, prefix: str = "topic", *, partitions: int = 1, config: dict[str, str] | None = None
    ) -> str:
        topic = self.unique(prefix)
        kept = {**KEEP_OLD_RECORDS, **(config or {})}
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=kept)
        self.admin.create_topics([new])[topic].result(60)
        self.wait_until_led(topic, partitions)
        return topic

    def wait_until_led(self, topic: str, partitions: int) -> None:
        """Wait until the broker serves its partitions; until then clients retry."""
        ends = {TopicPartition(topic, p): OffsetSpec.latest() for p in range(partitions)}
        admin = self.admin
        deadline = time.monotonic() + 60
        while True:
            try:
                for future in admin.list_offsets(ends).values():
                    future.result(60)
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
                # A client caches that a topic is missing, so use a new client.
                admin = AdminClient({"bootstrap.servers": self.bootstrap})
            else:
                return


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def topics(admin: AdminClient, bootstrap: str, unique: Callable[[str], str]) -> Topics:
    return Topics(admin, bootstrap, unique)


@pytest.fixture
def client_id(monkeypatch: pytest.MonkeyPatch) -> str:
    """The client id of raw requests, which no other test has."""
    name = f"client-{time.time_ns()}"
    monkeypatch.setattr(wire, "CLIENT_ID", name)
    return name
