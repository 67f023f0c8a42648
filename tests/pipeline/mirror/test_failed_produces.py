"""Batches in flight when an earlier one is refused: their answers are awaited before an abort."""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from barnabas.client import KafkaClient
from barnabas.pipeline.mirror.batch_copy import CopiedData
from barnabas.pipeline.mirror.tail_produces import PartitionBatches, TailProduces
from barnabas.pipeline.mirror.target_produces import TargetProduces
from barnabas.pipeline.mirror.target_transaction import TargetTransaction
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.messages_base import Message
from tests.client.harness import FakeBroker, metadata, with_fake_broker

WHERE = ("t", 0)
BATCHES = [CopiedData(b"batch", 1, 1, 0) for _ in range(4)]
REFUSED = 2
"""The request that the broker refuses; later ones get no answer."""


async def send_as_tail(client: KafkaClient) -> None:
    transaction = TargetTransaction(client, "flow:tail", "flow")
    await TailProduces(client, transaction).send([PartitionBatches(WHERE, BATCHES)])


async def send_as_task(client: KafkaClient) -> None:
    produces = TargetProduces(client, WHERE, "flow:t-0")
    for batch in BATCHES:
        await produces.send(batch)
    await produces.flush()


@pytest.mark.parametrize("send", [send_as_tail, send_as_task])
def test_a_refusal_is_raised_after_the_answers_to_later_batches(
    send: Callable[[KafkaClient], Awaitable[None]],
) -> None:
    produced = 0
    has_all = trio.Event()

    def handle(request: Message, version: int) -> Message | None:
        del version
        nonlocal produced
        if isinstance(request, ApiVersionsRequest):
            return None
        if isinstance(request, MetadataRequest):
            return metadata(broker)
        assert isinstance(request, ProduceRequest)
        produced += 1
        if produced == len(BATCHES):
            has_all.set()
        if produced > REFUSED:
            return None
        code = ErrorCode.NOT_ENOUGH_REPLICAS if produced == REFUSED else ErrorCode.NONE
        answer = ProduceResponse.PartitionProduceResponse(index=0, error_code=code)
        topic = ProduceResponse.TopicProduceResponse(name="t", partition_responses=[answer])
        return ProduceResponse(responses=[topic])

    broker = FakeBroker(handle)

    async def test(client: KafkaClient, broker: FakeBroker) -> None:
        del broker
        is_over = False

        async def run() -> None:
            nonlocal is_over
            try:
                await send(client)
            finally:
                is_over = True

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await has_all.wait()
            await trio.testing.wait_all_tasks_blocked(0.2)
            assert not is_over
            nursery.cancel_scope.cancel()

    with_fake_broker(broker, test)
