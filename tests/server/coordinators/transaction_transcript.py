"""A recording of a server's answers to all requests about transactions, in every version.

Producer ids are replaced by names, so that two servers can be compared line by line.
A recording of a server is made with
`python -m tests.server.coordinators.transaction_transcript HOST:PORT > FILE`.
"""

import re
import sys
import time
import uuid
from collections.abc import Iterable
from typing import Any

from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC
from tests.server.coordinators.group_transcript import RETRIABLE, Connection, shown

PARTITIONS = 4
TIMEOUT_MS = 60_000
WAIT_S = 60


def batch(producer: tuple[int, int], sequence: int, *values: bytes, transactional: bool) -> bytes:
    records = [
        Record(offset=delta, timestamp=int(time.time() * 1000), key=None, value=value)
        for delta, value in enumerate(values)
    ]
    return bytes(
        build_batch(
            records,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            is_transactional=transactional,
        )
    )


class Transcript:
    """The requests; each section has its own transactional id and partitions."""

    def __init__(self, bootstrap: str) -> None:
        self.run_id = uuid.uuid4().hex[:8]
        self.topic = f"txn-{self.run_id}"
        self.lines: list[str] = []
        self.producers: dict[int, str] = {}
        self.main = Connection(bootstrap)
        self.partition = 0

    def id(self, name: str) -> str:
        return f"{name}-{self.run_id}"

    def note(self, label: str, answer: Any) -> Any:
        text = shown(answer, {}).replace(f"-{self.run_id}", "")
        text = re.sub(r"host: '(localhost|127.0.0.1)'", "host: HOST", text)
        text = re.sub(r"port: \d+", "port: PORT", text)
        text = re.sub(r"(last_timestamp|transaction_start_time_ms): \d+", r"\1: TIME", text)
        text = re.sub(r"producer_id: (\d+)", self._name, text)
        self.lines.append(f"{label}: {text}")
        return answer

    def _name(self, found: re.Match[str]) -> str:
        producer_id = int(found[1])
        known = self.producers.setdefault(producer_id, f"P{len(self.producers)}")
        return f"producer_id: {known}"

    def run(self) -> str:
        self.prepare()
        for section in (
            self.find,
            self.bad_inits,
            self.strangers,
            self.first_version,
            self.first_version_ends,
            self.idempotent_epochs,
            self.second_version,
            self.second_version_ends,
            self.fencing,
            self.offsets,
            self.looks,
            self.markers,
        ):
            self.lines.append(f"# {section.__name__}")
            section()
        self.main.close()
        return "\n".join(self.lines) + "\n"

    def prepare(self) -> None:
        topic = CreateTopicsRequest.CreatableTopic(
            name=self.topic, num_partitions=PARTITIONS, replication_factor=1
        )
        self.main.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
        for kind, key in ((1, "x"), (0, "x")):
            self.until(
                lambda kind=kind, key=key: (
                    self.main.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4)
                    .coordinators[0]
                    .error_code
                    == 0
                )
            )
        self.until(lambda: self.end_offset(0) == 0)

    def until(self, done: Any) -> None:
        deadline = time.monotonic() + WAIT_S
        while not done():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    # Requests

    def init(
        self, name: str, version: int = 5, owner: tuple[int, int] = (-1, -1), **fields: Any
    ) -> Any:
        request = InitProducerIdRequest(
            transactional_id=self.id(name) if name else name,
            producer_id=owner[0],
            producer_epoch=owner[1],
            **({"transaction_timeout_ms": TIMEOUT_MS} | fields),
        )
        answer = self.main.ask(request, version)
        deadline = time.monotonic() + WAIT_S
        while answer.error_code in RETRIABLE and time.monotonic() < deadline:
            time.sleep(0.05)
            answer = self.main.ask(request, version)
        return answer

    def start(self, name: str) -> tuple[int, int]:
        answer = self.note(f"init {name}", self.init(name))
        return answer.producer_id, answer.producer_epoch

    def add(
        self,
        name: str,
        producer: tuple[int, int],
        partitions: Iterable[int],
        version: int = 3,
        topic: str | None = None,
        *,
        verify: bool = False,
    ) -> Any:
        topics = [
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
                name=topic or self.topic, partitions=list(partitions)
            )
        ]
        if version >= 4:
            transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                transactional_id=self.id(name),
                producer_id=producer[0],
                producer_epoch=producer[1],
                verify_only=verify,
                topics=topics,
            )
            request = AddPartitionsToTxnRequest(transactions=[transaction])
        else:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.id(name) if name else "",
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=topics,
            )
        answer = self.main.ask(request, version)
        for each in answer.results_by_topic_v3_and_below:
            each.results_by_partition.sort(key=lambda part: part.partition_index)
        for transaction in answer.results_by_transaction:
            for each in transaction.topic_results:
                each.results_by_partition.sort(key=lambda part: part.partition_index)
        return answer

    def end(
        self, name: str, producer: tuple[int, int], *, commit: bool = True, version: int = 4
    ) -> Any:
        request = EndTxnRequest(
            transactional_id=self.id(name) if name else "",
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=commit,
        )
        answer = self.main.ask(request, version)
        if name:
            self.settle(name)
        return answer

    def settle(self, name: str) -> None:
        """Wait until no markers are on their way."""

        def settled() -> bool:
            state = self.describe(name).transaction_states[0].transaction_state
            return not state.startswith("Prepare")

        self.until(settled)

    def describe(self, *names: str) -> Any:
        ids = [self.id(name) if name else name for name in names]
        answer = self.main.ask(DescribeTransactionsRequest(transactional_ids=ids), 0)
        for state in answer.transaction_states:
            for topic in state.topics:
                topic.partitions.sort()
        return answer

    def produce(
        self,
        name: str | None,
        producer: tuple[int, int],
        sequence: int,
        *values: bytes,
        partition: int = 0,
        version: int = 11,
        transactional: bool = True,
    ) -> Any:
        data = ProduceRequest.PartitionProduceData(
            index=partition,
            records=batch(producer, sequence, *values, transactional=transactional),
        )
        request = ProduceRequest(
            transactional_id=None if name is None else self.id(name),
            acks=-1,
            timeout_ms=10_000,
            topic_data=[ProduceRequest.TopicProduceData(name=self.topic, partition_data=[data])],
        )
        (answer,) = self.main.ask(request, version).responses[0].partition_responses
        return answer

    def told(self, label: str, answer: Any) -> None:
        """Record the relevant part of a Produce response; messages differ between servers."""
        self.lines.append(f"{label}: code={int(answer.error_code)} offset={answer.base_offset}")

    def end_offset(self, partition: int, isolation: int = 0) -> int:
        asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=-1)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[ListOffsetsRequest.ListOffsetsTopic(name=self.topic, partitions=[asked])],
        )
        (answer,) = self.main.ask(request, 7).topics[0].partitions
        return answer.offset if not answer.error_code else -1

    def read(self, label: str, partition: int, offset: int = 0) -> None:
        """Read a partition with consumers of both isolation levels."""
        for isolation in (0, 1):
            asked = FetchRequest.FetchPartition(
                partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
            )
            request = FetchRequest(
                replica_id=-1,
                max_wait_ms=0,
                max_bytes=1 << 20,
                isolation_level=isolation,
                topics=[FetchRequest.FetchTopic(topic=self.topic, partitions=[asked])],
            )
            (answer,) = self.main.ask(request, 12).responses[0].partitions
            batches = [
                f"{header.base_offset}-{header.last_offset}"
                f"{' control' if header.is_control else ''} e{header.producer_epoch}"
                for _, header in iter_batches(bytes(answer.records or b""))
            ]
            answer.records = None
            self.note(f"{label} level={isolation} batches={batches}", answer)
        ends = [self.end_offset(partition, isolation) for isolation in (0, 1)]
        self.lines.append(f"{label} ends: {ends}")

    # Sections

    def find(self) -> None:
        for version in range(1, 7):
            key = {"key": self.id("x")} if version < 4 else {"coordinator_keys": [self.id("x"), ""]}
            answer = self.main.ask(FindCoordinatorRequest(key_type=1, **key), version)
            self.note(f"find v{version}", answer)
        metadata = self.main.ask(
            MetadataRequest(
                topics=[MetadataRequest.MetadataRequestTopic(name="__transaction_state")]
            ),
            8,
        )
        (topic,) = metadata.topics
        self.lines.append(f"topic: {len(topic.partitions)} partitions, {topic.is_internal}")

    def bad_inits(self) -> None:
        for version in range(6):
            self.note(f"v{version} empty id", self.init("", version))
            for timeout in (0, -1, 900_001):
                answer = self.init("bad", version, transaction_timeout_ms=timeout)
                self.note(f"v{version} timeout {timeout}", answer)
        for version in (3, 4, 5):
            self.note(f"v{version} id alone", self.init("bad", version, (5, -1)))
            self.note(f"v{version} epoch alone", self.init("bad", version, (-1, 5)))
        self.note("claims another identity", self.init("claims", 5, (4_000_000, 3)))
        answer = self.init("v", 5)
        wrong = (answer.producer_id + 1_000_000, 0)
        for version in (3, 4, 5):
            self.note(f"v{version} another's id", self.init("v", version, wrong))
            self.note(
                f"v{version} no epoch of it", self.init("v", version, (answer.producer_id, 9))
            )

    def strangers(self) -> None:
        for version in range(4):
            self.note(f"add v{version} unknown", self.add("unknown", (1, 0), [0], version))
            self.note(f"add v{version} empty", self.add("", (1, 0), [0], version))
        for version in (4, 5):
            for verify in (False, True):
                answer = self.add("unknown", (1, 0), [0, 9], version, verify=verify)
                self.note(f"add v{version} unknown verify={verify}", answer)
                answer = self.add("unknown", (1, 0), [0], version, verify=verify)
                self.note(f"add v{version} unknown there verify={verify}", answer)
        for version in range(6):
            request = EndTxnRequest(
                transactional_id=self.id("unknown"), producer_id=1, producer_epoch=0, committed=True
            )
            self.note(f"end v{version} unknown", self.main.ask(request, version))
            request.transactional_id = ""
            self.note(f"end v{version} empty", self.main.ask(request, version))
        for version in range(5):
            request = AddOffsetsToTxnRequest(
                transactional_id=self.id("unknown"), producer_id=1, producer_epoch=0, group_id="g"
            )
            self.note(f"add offsets v{version} unknown", self.main.ask(request, version))

    def first_version(self) -> None:
        producer = self.start("one")
        stale, other = (producer[0], producer[1] - 1), (producer[0] + 1_000_000, 0)
        ahead = (producer[0], producer[1] + 1)
        self.told("not added v9", self.produce("one", producer, 0, b"a", version=9))
        self.told("not added v10", self.produce("one", producer, 0, b"a", version=10))
        self.told("not added v11", self.produce("one", producer, 0, b"a", version=11))
        self.told("no id", self.produce(None, producer, 0, b"a"))
        for version in range(4):
            for label, who in (("stale", stale), ("ahead", ahead), ("other", other)):
                self.note(f"add v{version} {label}", self.add("one", who, [0], version))
            self.note(f"add v{version} missing", self.add("one", producer, [0, 77], version))
        self.note("add", self.add("one", producer, [0, 1], 3))
        self.note("add again", self.add("one", producer, [1], 0))
        self.note("describe", self.describe("one"))
        for version in (4, 5):
            answer = self.add("one", producer, [0, 2], version, verify=True)
            self.note(f"verify v{version}", answer)
        self.note("verify stale", self.add("one", stale, [0], 4, verify=True))
        self.told("write", self.produce("one", producer, 0, b"a", b"b", version=9))
        self.told("again", self.produce("one", producer, 0, b"a", b"b", version=9))
        self.told("plain", self.produce("one", producer, 2, b"c", transactional=False))
        self.told("gap", self.produce("one", producer, 5, b"c"))
        self.told("partition not added", self.produce("one", producer, 0, b"c", partition=2))
        self.told("stale epoch", self.produce("one", stale, 0, b"c", partition=0))
        self.told("epoch ahead", self.produce("one", ahead, 0, b"c", partition=0))
        self.read("open", 0)
        self.note("end v1 stale", self.end("one", stale, version=1))
        self.note("end v4 stale", self.end("one", stale, version=4))
        self.note("end other", self.end("one", other, version=4))
        self.note("commit", self.end("one", producer, version=3))
        self.note("describe committed", self.describe("one"))
        self.read("committed", 0)
        self.told("after the end", self.produce("one", producer, 2, b"d", version=9))

    def first_version_ends(self) -> None:
        """EndTxn v4 in every state that stays."""
        for last in (None, True, False):
            name = f"ends-{last}"
            producer = self.start(name)
            if last is not None:
                self.add(name, producer, [3])
                self.end(name, producer, commit=last)
            for commit in (True, False):
                answer = self.end(name, producer, commit=commit, version=4)
                self.note(f"v4 after {last} commit={commit}", answer)

    def idempotent_epochs(self) -> None:
        """InitProducerId by the owner: bump, repeat, and what is too old."""
        producer = self.start("bump")
        first = self.note("bump", self.init("bump", 5, producer))
        again = self.note("bump repeated", self.init("bump", 5, producer))
        now = (again.producer_id, again.producer_epoch)
        self.note("next bump", self.init("bump", 5, now))
        self.note("the first again", self.init("bump", 5, producer))
        self.note("another new", self.init("bump", 5))
        self.note("the owner before", self.init("bump", 3, (first.producer_id, 2)))

    def second_version(self) -> None:
        producer = self.start("two")
        self.told("gap first", self.produce("two", producer, 7, b"a", partition=1, version=12))
        self.told("write", self.produce("two", producer, 0, b"a", partition=1, version=12))
        self.note("describe", self.describe("two"))
        ended = self.note("commit", self.end("two", producer, version=5))
        self.note("commit again", self.end("two", producer, version=5))
        self.note("abort of the same", self.end("two", producer, commit=False, version=5))
        following = (ended.producer_id, ended.producer_epoch)
        stale_write = self.produce("two", producer, 1, b"late", partition=1, version=12)
        self.told("late write", stale_write)
        self.told("write on", self.produce("two", following, 0, b"b", partition=1, version=12))
        self.told("gap", self.produce("two", following, 5, b"b", partition=1, version=12))
        self.note("late end", self.end("two", producer, version=5))
        self.note("abort", self.end("two", following, commit=False, version=5))
        self.read("after both", 1)
        self.read("from the abort", 1, 2)

    def second_version_ends(self) -> None:
        """EndTxn v5 in every state that stays: of the present epoch and of the one before."""
        for last in (None, True, False):
            for commit in (True, False):
                for lag in (0, 1):
                    name = f"ends2-{last}-{commit}-{lag}"
                    answer = self.init(name)
                    producer = (answer.producer_id, answer.producer_epoch)
                    if last is not None:
                        self.produce(name, producer, 0, b"x", partition=3, version=12)
                        answer = self.end(name, producer, commit=last, version=5)
                    present = (answer.producer_id, answer.producer_epoch - lag)
                    answer = self.end(name, present, commit=commit, version=5)
                    self.note(f"v5 after {last} commit={commit} lag={lag}", answer)
                    self.note("then", self.init(name))

    def fencing(self) -> None:
        for version in (3, 12):
            name = f"fence-{version}"
            producer = self.start(name)
            if version == 3:
                self.add(name, producer, [2])
            self.told("write", self.produce(name, producer, 0, b"x", partition=2, version=version))
            self.note("another starts", self.init(name))
            self.settle(name)
            self.note("described", self.describe(name))
            fenced = self.produce(name, producer, 1, b"y", partition=2, version=version)
            self.told("the first writes", fenced)
            self.note("the first ends", self.end(name, producer, version=4))
            self.note("the first ends v5", self.end(name, producer, version=5))
            self.note("the first adds", self.add(name, producer, [2]))
            self.note("the first continues", self.init(name, 5, producer))
            self.note("another starts again", self.init(name))
        self.read("after fencing", 2)

    def offsets(self) -> None:
        for version in range(6):
            name, group = f"offsets-{version}", f"og-{version}-{self.run_id}"
            producer = self.start(name)
            if version < 5:
                refused = self.commit_offsets(name, producer, group, 5, version)
                self.note(f"v{version} not added", refused)
                request = AddOffsetsToTxnRequest(
                    transactional_id=self.id(name),
                    producer_id=producer[0],
                    producer_epoch=producer[1],
                    group_id=group,
                )
                self.note("add offsets", self.main.ask(request, min(version, 4)))
            answer = self.commit_offsets(name, producer, group, 5, version)
            self.note(f"v{version} commit", answer)
            stale = (producer[0], producer[1] - 1)
            answer = self.commit_offsets(name, stale, group, 6, version)
            self.note(f"v{version} stale", answer)
            for stable in (False, True):
                self.note(f"fetch stable={stable}", self.fetch_offsets(group, stable=stable))
            end_version = 5 if version == 5 else 3
            commit = version != 2
            self.note("end", self.end(name, producer, commit=commit, version=end_version))
            self.note("fetch", self.fetch_offsets(group, stable=True))
        answer = self.commit_offsets("offsets-0", (1, 0), "", 5, 4)
        self.note("empty group", answer)
        self.note("generation", self.commit_offsets("offsets-0", (1, 0), "unknown", 5, 5, 3))

    def commit_offsets(
        self,
        name: str,
        producer: tuple[int, int],
        group: str,
        offset: int,
        version: int,
        generation: int = -1,
    ) -> Any:
        partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        request = TxnOffsetCommitRequest(
            transactional_id=self.id(name),
            group_id=group,
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[
                topic(
                    name=self.topic,
                    partitions=[
                        partition(partition_index=index, committed_offset=offset)
                        for index in (0, 99)
                    ],
                ),
                topic(name="nosuch", partitions=[partition(partition_index=0)]),
            ],
        )
        if version >= 3:
            request.generation_id = generation
        answer = self.main.ask(request, version)
        answer.topics.sort(key=lambda each: each.name)
        for each in answer.topics:
            each.partitions.sort(key=lambda part: part.partition_index)
        return answer

    def fetch_offsets(self, group: str, *, stable: bool) -> Any:
        topic = OffsetFetchRequest.OffsetFetchRequestTopics(name=self.topic, partition_indexes=[0])
        asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=[topic])
        return self.main.ask(OffsetFetchRequest(groups=[asked], require_stable=stable), 8)

    def looks(self) -> None:
        producer = self.start("looked")
        self.note("empty", self.describe("looked"))
        unknown = self.describe("nosuch", "").transaction_states
        self.lines.append(f"unknown: {[int(each.error_code) for each in unknown]}")
        self.add("looked", producer, [0, 2])
        filters: list[dict[str, Any]] = [
            {"state_filters": ["Ongoing"]},
            {"state_filters": ["ongoing", "Bogus"]},
            {"state_filters": ["Empty", "CompleteCommit"]},
            {"producer_id_filters": [producer[0]]},
            {"producer_id_filters": [producer[0] + 1_000_000]},
            {"duration_filter": 0, "state_filters": ["Ongoing"]},
            {"duration_filter": 1_000_000},
            {"transactional_id_pattern": "looked.*"},
            {"transactional_id_pattern": "looke"},
            {"transactional_id_pattern": ""},
            {"transactional_id_pattern": "(["},
        ]
        time.sleep(0.01)
        for number, wanted in enumerate(filters):
            version = 2 if "transactional_id_pattern" in wanted else 1
            version = version if "duration_filter" in wanted or version == 2 else 0
            answer = self.main.ask(ListTransactionsRequest(**wanted), version)
            answer.transaction_states = [
                each
                for each in answer.transaction_states
                if each.transactional_id == self.id("looked")
            ]
            self.note(f"list {number} {', '.join(wanted)}", answer)
        self.produce("looked", producer, 0, b"x", b"y", partition=2)
        topics = DescribeProducersRequest.TopicRequest
        request = DescribeProducersRequest(
            topics=[
                topics(name=self.topic, partition_indexes=[2, 99]),
                topics(name="nosuch", partition_indexes=[0]),
            ]
        )
        answer = self.main.ask(request, 0)
        for partition in answer.topics[0].partitions:
            partition.error_message = None
            partition.active_producers = [
                each for each in partition.active_producers if each.producer_id == producer[0]
            ]
        answer.topics[1].partitions[0].error_message = None
        self.note("producers", answer)
        self.end("looked", producer, commit=False)
        answer = self.main.ask(request, 0)
        for partition in answer.topics[0].partitions:
            partition.error_message = None
            partition.active_producers = [
                each for each in partition.active_producers if each.producer_id == producer[0]
            ]
        answer.topics[1].partitions[0].error_message = None
        self.note("producers after", answer)

    def markers(self) -> None:
        """An administrator ends a hanging transaction."""
        producer = self.start("hanging")
        answer = self.init("hanging", 5, producer)
        producer = (answer.producer_id, answer.producer_epoch)
        self.add("hanging", producer, [3])
        self.produce("hanging", producer, 0, b"x", partition=3)
        low = (producer[0], producer[1] - 1)
        self.note("stale", self.mark(low, 1))
        self.note("second version, same epoch", self.mark(producer, 2, transaction_version=2))
        self.note("abort", self.mark(producer, 1))
        self.note("again", self.mark(producer, 1))
        self.note("second version again", self.mark(producer, 2, transaction_version=2))
        self.note("older coordinator", self.mark(producer, 1, coordinator_epoch=-1))
        self.told("then", self.produce("hanging", producer, 1, b"y", partition=3, version=9))
        self.note("commit", self.end("hanging", producer))

    def mark(
        self,
        producer: tuple[int, int],
        version: int,
        *,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> Any:
        topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic
        marker = WriteTxnMarkersRequest.WritableTxnMarker(
            producer_id=producer[0],
            producer_epoch=producer[1],
            transaction_result=False,
            topics=[
                topic(name=self.topic, partition_indexes=[3, 99]),
                topic(name="nosuch", partition_indexes=[0]),
                topic(name=OFFSETS_TOPIC, partition_indexes=[0]),
            ],
            coordinator_epoch=coordinator_epoch,
        )
        if version >= 2:
            marker.transaction_version = transaction_version
        answer = self.main.ask(WriteTxnMarkersRequest(markers=[marker]), version)
        for result in answer.markers:
            result.topics.sort(key=lambda each: each.name)
            for each in result.topics:
                each.partitions.sort(key=lambda part: part.partition_index)
        return answer


if __name__ == "__main__":
    sys.stdout.write(Transcript(*sys.argv[1:]).run())
