"""A real group coordinator whose partition moves to another broker and back.

The other broker is a model: while it leads, it commits offsets, and broker 1 follows its log. At
any time a client asks broker 1. `run(seed)` raises AssertionError when

    G2  an answer of broker 1 is not the last committed offset, although it has applied the metadata
    NC  broker 1 has the partition, and refuses for another reason than that it is loading it
"""

import logging
import random
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import trio
from trio.testing import wait_all_tasks_blocked

from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.records.coordinator_framing import (
    encode_coordinator_key,
    encode_coordinator_value,
)
from barnabas.protocol.records.group_records import OffsetCommitKey, OffsetCommitValue
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC
from barnabas.testing.batches import NOW_MS
from tests.server.coordinators.coordinator_world import OTHER, World, start
from tests.server.coordinators.coordinator_world import run as run_trio

STEPS = 40
_LOADING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Moves:
    """One seed: the group, the offset that was committed last, and the leader of its partition."""

    def __init__(self, seed: int, world: World) -> None:
        self.random = random.Random(seed)
        self.world = world
        self.partition = world.led(OFFSETS_TOPIC)
        names = (f"g{number}" for number in range(100))
        number = self.partition.partition
        self.group = next(name for name in names if world.groups.partition_of(name) == number)
        self.offset = 0
        self.is_led_here = True

    async def run(self) -> None:
        """Commit, move the partition and ask, in a random order."""
        for _ in range(STEPS):
            match self.random.randrange(4):
                case 0:
                    self.move()
                case 1 | 2:
                    await self.commit()
                case _:
                    await trio.sleep(self.random.choice([0.0, 1.0]))
            await self.ask()

    def move(self) -> None:
        """Another epoch of the partition begins, mostly with the other leader."""
        self.is_led_here = self.random.random() < 0.5
        world, number = self.world, self.partition.partition
        topic = world.image.topics_by_name[OFFSETS_TOPIC]
        led = topic.partitions[number]
        changed = attrs.evolve(
            led,
            leader=1 if self.is_led_here else OTHER,
            leader_epoch=led.leader_epoch + 1,
            partition_epoch=led.partition_epoch + 1,
        )
        topic = attrs.evolve(topic, partitions={**topic.partitions, number: changed})
        world.image = attrs.evolve(
            world.image,
            topics_by_name={**world.image.topics_by_name, topic.name: topic},
            topics_by_id={**world.image.topics_by_id, topic.id: topic},
        )
        world.replicas.apply(world.image)
        delta: Any = SimpleNamespace(configs=[], topics={}, deleted_topics={})
        for subscriber in world.subscribers:
            subscriber(world.image, delta)

    async def commit(self) -> None:
        """Commit the next offset at the leader, wherever it is."""
        self.offset += 1
        if not self.is_led_here:
            self._commit_elsewhere()
            return
        asked = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=self.offset
        )
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[asked])
        request = OffsetCommitRequest(
            group_id=self.group, generation_id_or_member_epoch=-1, topics=[topic]
        )
        try:
            await self.world.groups.commit_offsets(request, 8)
        except KafkaError as error:
            self.offset -= 1
            self._check_refusal(error.code)

    def _commit_elsewhere(self) -> None:
        """Append the commit of the other leader to the log that broker 1 copies."""
        partition = self.partition
        key = OffsetCommitKey(group=self.group, topic="t", partition=0)
        value = OffsetCommitValue(offset=self.offset, metadata="", commit_timestamp=NOW_MS)
        end = partition.log.log_end_offset
        encoded = encode_coordinator_key(key), encode_coordinator_value(value, 3)
        record = Record(end, NOW_MS, *encoded)
        data = build_batch([record], base_offset=end, leader_epoch=partition.leader_epoch)
        partition.follower_append(data, partition.leader_epoch, NOW_MS)
        partition.follow_high_watermark(end + 1)

    async def ask(self) -> None:
        """Request the committed offset from broker 1; check G2 and NC."""
        topic = OffsetFetchRequest.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
        group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=self.group, topics=[topic])
        try:
            found = await self.world.groups.fetch_offsets(group, require_stable=False)
        except KafkaError as error:
            self._check_refusal(error.code)
            return
        answer = found.topics[0].partitions[0]
        if answer.error_code:
            self._check_refusal(answer.error_code)
            return
        expected = self.offset if self.offset else -1
        assert answer.committed_offset == expected, f"G2: {answer.committed_offset}, not {expected}"

    def _check_refusal(self, code: int) -> None:
        assert not self.is_led_here or code in _LOADING, f"NC: error {code}"


def run(seed: int) -> None:
    """Run a seed; raises AssertionError."""
    with tempfile.TemporaryDirectory() as path:
        world = World(Path(path))

        async def replicate() -> None:
            while True:
                world.replicate(OFFSETS_TOPIC)
                await trio.sleep(0.05)

        async def whole() -> None:
            async with trio.open_nursery() as nursery:
                await start(world, nursery)
                nursery.start_soon(replicate)
                await wait_all_tasks_blocked()
                await Moves(seed, world).run()
                nursery.cancel_scope.cancel()

        logging.getLogger("barnabas").setLevel(logging.CRITICAL)
        try:
            run_trio(whole)
        except BaseExceptionGroup as group:
            raise _first(group) from None


def _first(error: BaseException) -> BaseException:
    """Return what a nursery's group of exceptions begins with."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
