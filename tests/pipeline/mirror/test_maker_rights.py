"""MirrorMaker 2's connectors under ACLs, with the rights of docs/mirror-maker.md.

They suffice, and each is needed: without it, the error or the log has the name of the resource.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import trio
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
)

from barnabas.client import ClientError, NewRecord, Producer, open_client
from barnabas.client.admin_calls import create_topic
from barnabas.client.client_config import ClientConfig
from barnabas.pipeline.delivery.driver.group_offsets import (
    GroupEntry,
    GroupOffsets,
    GroupOffsetsError,
)
from barnabas.pipeline.delivery.plan.job_plan import OnTrim
from barnabas.pipeline.delivery.plan.task_failures import JobStartError, TaskFailureError
from barnabas.pipeline.mirror import cluster_queries
from barnabas.pipeline.mirror.flow_driver import FlowDriver, FlowTopics
from barnabas.pipeline.mirror.mirrormaker.checkpoint_job import CheckpointJob
from barnabas.pipeline.mirror.mirrormaker.heartbeat_job import HeartbeatJob
from barnabas.pipeline.mirror.mirrormaker.maker_settings import (
    checkpoint_settings,
    heartbeat_settings,
    source_settings,
)
from barnabas.pipeline.mirror.mirrormaker.timed_job import TimedJob
from barnabas.pipeline.runner.flow_host import flow_plan
from barnabas.protocol.errors import KafkaError
from tests.pipeline.mirror.node_flows import Flow
from tests.secured_node import ANY_ACL, SecuredNode, add_users, allow, secured_node

PAGE = Path(__file__).parents[3] / "docs" / "mirror-maker.md"
CONNECTORS = ("source", "checkpoint", "heartbeat")
"""Each is a user with its name."""
RECORDS = 10
Nodes = tuple[SecuredNode, SecuredNode]


class Right(NamedTuple):
    """A right of the page's table."""

    connector: str
    cluster: str
    resource: str
    operation: str

    def resource_in(self, case: "Case") -> str:
        """Return the resource with the names of one case."""
        found = self.resource.replace("A-B.MirrorSourceConnector", case.name)
        found = re.sub(r"\bA\.", f"{case.name}A.", found.replace(".B.", f".{case.name}B."))
        return found.replace("orders", case.topic).replace("readers", case.group)


def rights() -> Iterator[Right]:
    text = PAGE.read_text()
    table = text[text.index("| connector | cluster | on | rights |") :].split("\n\n")[0]
    for connector, cluster, resource, operations in re.findall(
        r"^\| (\w+) \| (source|target) \| (.*) \| (.*) \|$", table, re.MULTILINE
    ):
        kind, _, name = resource.partition(" ")
        is_cluster = kind == "cluster,"
        for operation in operations.split(", "):
            on = "broker:kafka-cluster" if is_cluster else f"{kind}:{name.strip('`')}"
            yield Right(connector, cluster, on, re.sub(r"(?<=.)([A-Z])", r"_\1", operation).upper())


RIGHTS = tuple(rights())


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with secured_node() as source, secured_node() as target:
        for node in (source, target):
            add_users(node, *CONNECTORS)
        yield source, target


class Case:
    """A topic, a group and aliases that no other case has, and users without rights."""

    _numbers = count()

    def __init__(self, nodes: Nodes) -> None:
        number = next(self._numbers)
        self.nodes = nodes
        self.name, self.topic, self.group = f"c{number}", f"numbers{number}", f"group{number}"

    def allow(self, connector: str, missing: Right | None) -> None:
        """Allow a connector what the page says; Describe in place of what is missing."""
        for right in RIGHTS:
            operation = right.operation
            if right == missing:
                if operation in ("DESCRIBE", "CREATE"):
                    continue
                operation = "DESCRIBE"
            if right.connector == connector:
                node = self.nodes[right.cluster == "target"]
                allow(node, connector, right.resource_in(self), operation)

    def properties(self, connector: str) -> dict[str, str]:
        found = {
            "name": self.name,
            "source.cluster.alias": f"{self.name}A",
            "target.cluster.alias": f"{self.name}B",
            "topics": self.topic,
            "groups": self.group,
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "0",
        }
        for side, node in zip(("source", "target"), self.nodes, strict=True):
            for name, value in node.properties(connector, f"{connector}-secret").items():
                found[f"{side}.cluster.{name}"] = value
        return found

    def admin(self, target: bool = False) -> ClientConfig:
        return ClientConfig.from_properties({"bootstrap.servers": self.nodes[target].bootstrap})

    async def prepare(self) -> None:
        async with open_client(self.admin()) as source:
            await create_topic(source, self.topic)
            records = [NewRecord(None, b"%d" % number) for number in range(RECORDS)]
            await Producer(source).send(self.topic, 0, records)
            entry = GroupEntry(RECORDS)
            await GroupOffsets(source).commit(self.group, {(self.topic, 0): entry})
        for node in self.nodes:
            admin = AdminClient({"bootstrap.servers": node.bootstrap})
            for removed in admin.delete_acls([ANY_ACL]).values():
                removed.result(60)
        with suppress(KafkaException):  # the first case has not created it
            admin.delete_topics(["heartbeats"])["heartbeats"].result(60)

    def run(self, connector: str) -> None:
        """Run a connector until it has done everything once, and some again."""
        if connector == "source":
            trio.run(self._copy)
        elif connector == "checkpoint":
            settings = checkpoint_settings(self.properties(connector), {})
            for _ in range(2):  # the second one reads what the first has written
                self._run_job(CheckpointJob, "Checkpoint", settings)
        else:
            settings = heartbeat_settings(self.properties(connector), {})
            self._run_job(HeartbeatJob, "Heartbeat", settings)

    def _run_job(self, kind: Any, name: str, settings: Any) -> None:
        config = {
            **self.properties(name.lower()),
            "connector.class": f"org.apache.kafka.connect.mirror.Mirror{name}Connector",
        }
        session = SimpleNamespace(sparkContext=None)  # these jobs run nothing on Spark
        job: TimedJob = kind(session, flow_plan(config, self.nodes[1].bootstrap), settings)
        try:
            job.call(job.work)
        finally:
            job.clients.close()

    async def _copy(self) -> None:
        settings = source_settings(self.properties("source"), {})
        wanted = FlowTopics((), ".*")
        async with (
            open_client(settings.source) as source,
            open_client(settings.target) as target,
            open_client(self.admin()) as admin,
        ):
            driver = FlowDriver(settings, wanted, OnTrim.FAIL, source, target)
            flow = Flow(settings, source, target, driver)
            await flow.turn()
            await cluster_queries.add_partitions(admin, self.topic, 2)
            await cluster_queries.alter_configs(admin, self.topic, {"retention.ms": "99999999"})
            await flow.turn()
            await flow.restarted(OnTrim.FAIL, wanted).turn()


FAILURES = (KafkaError, ClientError, GroupOffsetsError, JobStartError, TaskFailureError)


def run_all(case: Case, connectors: Sequence[str], missing: Right | None = None) -> str:
    """Run connectors; return why one of them failed."""
    trio.run(case.prepare)
    for connector in connectors:
        case.allow(connector, missing)
        try:
            case.run(connector)
        except FAILURES as error:
            return str(error)
    return ""


def test_the_documented_rights_suffice(nodes: Nodes, caplog: pytest.LogCaptureFixture) -> None:
    case = Case(nodes)
    assert run_all(case, CONNECTORS) == ""
    assert "AUTHORIZATION" not in caplog.text
    assert "not copied" not in caplog.text

    async def check() -> None:
        async with open_client(case.admin(target=True)) as target:
            remote = f"{case.name}A.{case.topic}"
            topics = await cluster_queries.topics(target)
            assert topics[remote].partitions == 2
            configs = await cluster_queries.topic_configs(target, [remote])
            assert configs[remote]["retention.ms"] == "99999999"
            copied = await GroupOffsets(target).committed(case.group)
            assert copied[remote, 0] >= RECORDS
            assert {"heartbeats", f"{case.name}A.checkpoints.internal"} <= topics.keys()

    trio.run(check)


@pytest.mark.parametrize("right", RIGHTS, ids=" ".join)
def test_a_missing_right_is_named(
    nodes: Nodes, caplog: pytest.LogCaptureFixture, right: Right
) -> None:
    case = Case(nodes)
    caplog.set_level("DEBUG", "barnabas.pipeline.mirror")
    before = () if right.connector == "source" else ("source",)
    text = run_all(case, (*before, right.connector), right) + caplog.text
    kind, _, name = right.resource_in(case).partition(":")
    if kind == "broker":
        assert f"the right {right.operation.capitalize()} on the cluster" in text
    elif right.operation == "DESCRIBE":
        assert "AUTHORIZATION" not in text  # the principal does not see it
    else:
        assert "AUTHORIZATION_FAILED" in text
        assert name.rstrip("*") in text
