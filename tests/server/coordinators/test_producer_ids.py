"""Producer ids from the controller: prefetching, one request in flight, failures."""

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from barnabas.server.coordinators.transactions.producer_ids import ProducerIds
from tests.server.coordinators.coordinator_world import Asked, run


class Controller:
    """Allocates blocks of ten ids; the test holds the answers back, or lets them fail."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.allocated = 0
        self.error = ErrorCode.NONE
        self.open = trio.Event()
        self.open.set()

    async def send(self, request: Any, _response_type: Any) -> AllocateProducerIdsResponse:
        self.requests.append(request)
        await self.open.wait()
        if self.error:
            return AllocateProducerIdsResponse(error_code=self.error)
        self.allocated += 10
        return AllocateProducerIdsResponse(
            producer_id_start=self.allocated - 10, producer_id_len=10
        )


def ids(controller: Any, nursery: trio.Nursery) -> ProducerIds:
    broker: Any = SimpleNamespace(identity=SimpleNamespace(id=3, epoch=14))
    return ProducerIds(broker, controller, nursery.start_soon)


def test_next_block_is_requested_before_the_last_ids_are_used() -> None:
    async def test() -> None:
        controller = Controller()
        async with trio.open_nursery() as nursery:
            producer_ids = ids(controller, nursery)
            assert [await producer_ids.next() for _ in range(8)] == list(range(8))
            assert len(controller.requests) == 1
            assert (controller.requests[0].broker_id, controller.requests[0].broker_epoch) == (
                3,
                14,
            )
            controller.open = trio.Event()
            assert await producer_ids.next() == 8
            await wait_all_tasks_blocked()
            assert len(controller.requests) == 2
            assert await producer_ids.next() == 9
            waiting = [Asked(nursery, producer_ids.next) for _ in range(3)]
            await wait_all_tasks_blocked()
            assert len(controller.requests) == 2
            controller.open.set()
            await wait_all_tasks_blocked()
            assert sorted(each.answers[0] for each in waiting) == [10, 11, 12]

    run(test)


def test_producer_retries_while_the_controller_refuses_or_is_away() -> None:
    async def test() -> None:
        controller = Controller()
        async with trio.open_nursery() as nursery:
            producer_ids = ids(controller, nursery)
            controller.error = ErrorCode.STALE_BROKER_EPOCH
            with pytest.raises(KafkaError) as raised:
                await producer_ids.next()
            assert raised.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            controller.error = ErrorCode.NONE
            controller.open = trio.Event()
            with pytest.raises(KafkaError) as raised:
                await producer_ids.next()
            assert raised.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            controller.open.set()
            assert await producer_ids.next() == 0

    run(test)


def test_block_below_the_current_one_is_not_used() -> None:
    async def test() -> None:
        controller = Controller()
        async with trio.open_nursery() as nursery:
            producer_ids = ids(controller, nursery)
            assert await producer_ids.next() == 0
            controller.allocated = 0  # a controller that forgot what it allocated
            taken = [await producer_ids.next() for _ in range(9)]
            with pytest.raises(KafkaError):
                await producer_ids.next()
            assert taken == list(range(1, 10))

    run(test)
