"""Transactions of other processes: end them, describe them, take their ids over.

A transaction belongs to a transactional id, a producer id and an epoch. Who knows the three may end
it, as Flink's sink does after a failure. The calls block, and retry until brokers answer.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

import attrs
import trio

from barnabas.client import Address, ClientError, KafkaClient, open_client
from barnabas.client.failures import raise_for
from barnabas.pipeline.sink.commit_record import PreparedTransaction
from barnabas.pipeline.sink.sink_errors import SinkError
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from barnabas.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from barnabas.protocol.messages_base import Message

_TRANSACTIONAL_ID: Final = 1
_ONE_KEY_MAX: Final = 3
"""The newest version of FindCoordinator that asks for one key."""
_END_MAX: Final = 4
"""From version 5 on, EndTxn raises the epoch; the transactions are of librdkafka, which sends
earlier versions."""
_IN_FLIGHT: Final = 16
_TIMEOUT_S: Final = 60.0
_GONE: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)
_ONGOING: Final = "Ongoing"

R = TypeVar("R", bound=Message)
A = TypeVar("A")


@attrs.frozen
class TransactionControl:
    """Calls to the coordinators of one cluster."""

    properties: Mapping[str, str] = attrs.field(repr=False)
    """Client properties with bootstrap.servers."""

    def end(
        self, transactions: Sequence[PreparedTransaction], *, committed: bool
    ) -> list[PreparedTransaction]:
        """End transactions; return those that have ended otherwise. Raises SinkError.

        A transaction that has ended in the same way counts as ended.
        """

        async def one(calls: _Calls, each: PreparedTransaction) -> bool:
            request = EndTxnRequest(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                committed=committed,
            )
            answer = await calls.ask(each.transactional_id, request, EndTxnResponse, _END_MAX)
            return _is_valid(answer.error_code, each.transactional_id)

        return self._failed(transactions, one)

    def ended(self, transactions: Sequence[PreparedTransaction]) -> list[PreparedTransaction]:
        """Return the transactions that are not open any longer. Raises SinkError."""

        async def one(calls: _Calls, each: PreparedTransaction) -> bool:
            request = DescribeTransactionsRequest(transactional_ids=[each.transactional_id])
            answer = await calls.ask(each.transactional_id, request, DescribeTransactionsResponse)
            [found] = answer.transaction_states
            is_known = _is_valid(found.error_code, each.transactional_id)
            identity = (found.producer_id, found.producer_epoch)
            is_same = identity == (each.producer_id, each.producer_epoch)
            return is_known and is_same and found.transaction_state == _ONGOING

        return self._failed(transactions, one)

    def take_over(self, transactional_ids: Sequence[str], timeout_ms: int) -> None:
        """Abort open transactions of ids, and fence the tasks that began them. Raises SinkError."""

        async def one(calls: _Calls, each: str) -> bool:
            request = InitProducerIdRequest(
                transactional_id=each, transaction_timeout_ms=timeout_ms
            )
            answer = await calls.ask(each, request, InitProducerIdResponse)
            raise_for(answer.error_code, f"transactional id {each}")
            return True

        self._failed(transactional_ids, one)

    def _failed(self, items: Sequence[A], one: "Callable[[_Calls, A], Awaitable[bool]]") -> list[A]:
        """Return the items for which `one` has returned False."""
        if not items:
            return []
        try:
            return trio.run(self._run, items, one)
        except (KafkaError, ClientError) as error:
            raise SinkError(
                f"a transaction could not be ended or described: {error}. The query needs the ACLs "
                "Describe and Write on transactional ids with its `name` as prefix"
            ) from error

    async def _run(
        self, items: Sequence[A], one: "Callable[[_Calls, A], Awaitable[bool]]"
    ) -> list[A]:
        failed: list[A] = []  # in no order: the calls are concurrent
        errors: list[Exception] = []
        limit = trio.CapacityLimiter(_IN_FLIGHT)

        async def guarded(calls: "_Calls", each: A) -> None:
            async def attempt() -> bool:
                return await one(calls, each)

            try:
                async with limit:
                    is_done = await calls.client.retry("a call for a transaction", attempt)
            except (KafkaError, ClientError) as error:
                errors.append(error)
            else:
                if not is_done:
                    failed.append(each)

        async with open_client(self.properties) as client, trio.open_nursery() as nursery:
            calls = _Calls(client)
            for each in items:
                nursery.start_soon(guarded, calls, each)
        if errors:
            raise errors[0]
        return [each for each in items if each in failed]


@attrs.frozen
class _Calls:
    """Requests to coordinators."""

    client: KafkaClient

    async def ask(
        self,
        transactional_id: str,
        request: Message,
        answer: type[R],
        version_max: int | None = None,
    ) -> R:
        """Return a coordinator's response; each attempt looks the coordinator up."""
        address = await self._coordinator(transactional_id)
        connection = await self.client.pool.connection(address)
        return await connection.ask(request, answer, timeout_s=_TIMEOUT_S, max_version=version_max)

    async def _coordinator(self, transactional_id: str) -> Address:
        request = FindCoordinatorRequest(key=transactional_id, key_type=_TRANSACTIONAL_ID)
        found = await self.client.ask_any(
            request, FindCoordinatorResponse, max_version=_ONE_KEY_MAX
        )
        raise_for(found.error_code, f"transactional id {transactional_id}")
        return Address(found.host, found.port)


def _is_valid(number: int, transactional_id: str) -> bool:
    """Return False for a transaction that has ended; raises KafkaError for other errors."""
    if number in _GONE:
        return False
    raise_for(number, f"transactional id {transactional_id}")
    return True
