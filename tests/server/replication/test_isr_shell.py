"""The ISR shell: proposals reach the controller, and its answers the partitions."""

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import trio

from barnabas.cluster.replication import Partition
from barnabas.config import TopicConfig
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from barnabas.server.replication import isr_shell
from barnabas.server.replication.isr_shell import IsrShell
from barnabas.testing.batches import batch
from tests.server.coordinators.coordinator_world import OTHER, World, run

LAG_S = 30.0
EPOCH = 7


class Controller:
    """The channel to a controller that accepts every change, after the given failures."""

    def __init__(self, *failures: ErrorCode, delay_s: float = 0.01) -> None:
        self.failures = list(failures)
        self.delay_s = delay_s
        self.requests: list[AlterPartitionRequest] = []
        self.in_flight = 0

    async def send(self, request: Any, response_type: Any, **_options: Any) -> Any:
        self.in_flight += 1
        assert self.in_flight == 1
        self.requests.append(request)
        await trio.sleep(self.delay_s)
        self.in_flight -= 1
        if self.failures and self.failures[0] is ErrorCode.REQUEST_TIMED_OUT:
            raise KafkaError(self.failures.pop(0), "no controller")
        if self.failures:
            return AlterPartitionResponse(error_code=self.failures.pop(0))
        return AlterPartitionResponse(
            topics=[
                AlterPartitionResponse.TopicData(
                    topic_id=topic.topic_id,
                    partitions=[
                        AlterPartitionResponse.PartitionData(
                            partition_index=asked.partition_index,
                            leader_epoch=asked.leader_epoch,
                            partition_epoch=asked.partition_epoch + 1,
                            isr=[each.broker_id for each in asked.new_isr_with_epochs],
                        )
                        for asked in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def run_shell(world: World, controller: Controller, test: Callable[[], Any]) -> None:
    broker: Any = SimpleNamespace(identity=SimpleNamespace(epoch=EPOCH))

    async def main() -> None:
        shell = IsrShell(world.replicas, controller, broker, world.clock)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(shell.run)
            await test()
            nursery.cancel_scope.cancel()

    run(main)


def isr(partition: Partition) -> tuple[int, ...]:
    state = partition.leader_state
    assert state is not None
    return state.isr.committed


def publish(world: World) -> None:
    """The metadata have the changes that the controller has accepted."""
    for partition in led(world):
        state, image = partition.leader_state, partition.image
        assert state is not None
        assert image is not None
        if state.isr.proposed is not None:
            epoch = image.partition_epoch + 1
            image = attrs.evolve(image, isr=state.isr.proposed, partition_epoch=epoch)
            partition.update(image, TopicConfig(world.config))


def append(partition: Partition) -> None:
    partition.append(batch(b"v"), required_acks=1, origin="client", now_ms=1_800_000_000_000)


def led(world: World) -> list[Partition]:
    return [each for each in world.replicas.partitions() if each.is_leader]


def test_lagging_follower_leaves_all_isrs_in_one_request_and_returns(world: World) -> None:
    controller = Controller()

    async def test() -> None:
        partitions = [each for each in led(world) if each.topic == "t"]
        for partition in partitions:
            append(partition)
        await trio.sleep(LAG_S * 2)
        publish(world)
        assert [isr(partition) for partition in partitions] == [(1,)] * len(partitions)
        (request,) = controller.requests
        assert request.broker_epoch == EPOCH
        assert sum(len(topic.partitions) for topic in request.topics) == len(led(world))
        partition = partitions[0]
        partition.follower_fetched(OTHER, 1, 0)
        await trio.sleep(1)
        assert isr(partition) == (1, OTHER)
        assert len(controller.requests) == 2
        assert (world.replicas.isr_shrinks, world.replicas.isr_expands) == (len(led(world)), 1)

    run_shell(world, controller, test)


def test_hung_controller_does_not_stop_the_check_of_isrs(world: World) -> None:
    controller = Controller(delay_s=LAG_S * 100)

    async def test() -> None:
        later = led(world)[0]
        await trio.sleep(LAG_S)
        later.follower_fetched(OTHER, 0, 0)
        await trio.sleep(LAG_S * 0.6)
        assert len(controller.requests) == 1
        state = later.leader_state
        assert state is not None
        assert state.isr.proposed is None
        append(later)
        await trio.sleep(LAG_S * 2)
        assert state.isr.proposed == (1,)
        assert len(controller.requests) == 1

    run_shell(world, controller, test)


@pytest.mark.parametrize("failure", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.STALE_BROKER_EPOCH])
def test_request_that_failed_is_sent_again(world: World, failure: ErrorCode) -> None:
    controller = Controller(failure, failure)

    async def test() -> None:
        await trio.sleep(LAG_S * 2)
        assert len(controller.requests) == 3
        publish(world)
        assert {isr(partition) for partition in led(world)} == {(1,)}

    run_shell(world, controller, test)


def test_request_with_many_changes_writes_one_line(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isr_shell, "LINES_PER_WINDOW", 1)
    caplog.set_level(logging.INFO, "barnabas")

    async def test() -> None:
        for partition in led(world):
            append(partition)
        await trio.sleep(LAG_S * 2)
        assert f"changing ISRs partitions={len(led(world))}" in caplog.text

    run_shell(world, Controller(), test)
