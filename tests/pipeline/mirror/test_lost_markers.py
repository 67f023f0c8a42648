"""The target's group has an offset of a transaction that never ends."""

import attrs
import pytest

from barnabas.client import open_client
from barnabas.client.admin_calls import create_topic
from barnabas.client.failures import raise_for
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.mirror.flow_values import FlowRange
from barnabas.pipeline.mirror.range_copies import RangeCopier
from barnabas.pipeline.mirror.target_transaction import TargetTransaction
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from barnabas.testing import Node
from tests.pipeline.mirror.node_flows import TOPIC, Flow, with_flow, write


async def leave_pending(flow: Flow) -> None:
    """Commit an offset of the flow's group in a transaction that another producer leaves open."""
    group = flow.settings.group_id
    identity = await TargetTransaction(flow.target, "lost", group).begin(60_000)
    partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=20
    )
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    request = TxnOffsetCommitRequest(
        transactional_id="lost",
        group_id=group,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        topics=[topic],
    )

    def check(response: TxnOffsetCommitResponse) -> None:
        raise_for(response.topics[0].partitions[0].error_code)

    await flow.target.ask_coordinator(group, "tests", request, TxnOffsetCommitResponse, check)


def test_the_failure_says_what_to_do() -> None:
    async def test(flow: Flow) -> None:
        await create_topic(flow.source, TOPIC)
        await write(flow.source, 0, 10)
        await flow.turn()
        await leave_pending(flow)
        await write(flow.source, 10, 10)
        plan = flow.driver.task_plan(transaction_timeout_ms=60_000)
        limits = attrs.evolve(plan.target, api_timeout_s=3.0, delivery_timeout_s=0.001)
        async with open_client(limits) as target:
            copier = RangeCopier(plan, flow.source, target)
            wanted = FlowRange(TOPIC, 0, 10, 20, flow.driver.epochs[TOPIC, 0])
            remedy = "UNSTABLE_OFFSET_COMMIT: group mirror-flow; .* abort it as docs/mirror.md says"
            with pytest.raises(TaskFailureError, match=remedy):
                await copier.copy(wanted)

    with Node() as source, Node() as target:
        with_flow((source, target), test, "assigned")
