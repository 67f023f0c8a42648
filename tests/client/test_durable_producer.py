"""Killed nodes and lost answers under a producer: every acked record is there once, in order."""

import contextlib
import random

import trio

from barnabas.client import KafkaClient, NewRecord, Producer, RecordReader, open_client
from barnabas.client.admin_calls import create_topic, list_offset
from barnabas.testing import Node
from barnabas.testing.node_process_control import NodeProcess
from tests.client.harness import FAST, eventually, run

KILLS = 4
SENDERS = 4
LOSSES = 30


async def send_until(
    producer: Producer, name: int, stop: trio.CancelScope, acked: dict[bytes, int]
) -> None:
    """Send numbered records one after another until `stop` is cancelled."""
    number = 0
    while not stop.cancel_called:
        value = b"%d:%d" % (name, number)
        acked[value] = await producer.send("t", 0, [NewRecord(b"k", value)])
        number += 1


async def check_log(client: KafkaClient, acked: dict[bytes, int]) -> None:
    """Every record is where its ack said, nothing else is there, and senders' orders hold."""
    end = await list_offset(client, "t", 0)
    reader = RecordReader(client, "t", 0, 0)
    found = {record.offset: record.value async for record in reader.until(end)}
    assert {offset: value for value, offset in acked.items()} == found
    for name in range(SENDERS):
        own = [value for _, value in sorted(found.items()) if value.startswith(b"%d:" % name)]
        assert own == [b"%d:%d" % (name, number) for number in range(len(own))]


def test_producer_over_kills_of_the_node_writes_each_record_once() -> None:
    acked: dict[bytes, int] = {}
    choose = random.Random(7)

    async def test() -> None:
        async with open_client({"bootstrap.servers": node.bootstrap, **FAST}) as client:
            await create_topic(client, "t")
            producer = Producer(client)
            stop = trio.CancelScope()
            async with trio.open_nursery() as nursery:
                for name in range(SENDERS):
                    nursery.start_soon(send_until, producer, name, stop, acked)
                for _ in range(KILLS):
                    wanted = len(acked) + 20
                    await eventually(lambda wanted=wanted: len(acked) >= wanted)
                    await trio.sleep(choose.uniform(0, 0.3))
                    await trio.to_thread.run_sync(node.kill)
                    await trio.sleep(choose.uniform(0, 0.1))
                    await trio.to_thread.run_sync(node.start)
                await trio.sleep(0.2)
                stop.cancel()
            await check_log(client, acked)

    with NodeProcess() as node:
        run(test, 90)


class LossyProxy:
    """A node behind a proxy that now and then loses an answer together with the connection."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.share = 0.0
        self.losses = 0
        self.bootstrap = ""
        self.node = Node()

    def start_node(self) -> None:
        self.node = Node(config={"advertised.listeners": f"PLAINTEXT://{self.bootstrap}"})
        self.node.start()

    async def serve(self, task_status: "trio.TaskStatus[None]") -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.bootstrap = f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        task_status.started()
        await trio.serve_listeners(self._pass, listeners)

    async def _pass(self, client: trio.SocketStream) -> None:
        node = await trio.open_tcp_stream("127.0.0.1", self.node.port)
        async with node, trio.open_nursery() as nursery:
            nursery.start_soon(self._forward, client, node, nursery.cancel_scope)
            with contextlib.suppress(trio.BrokenResourceError):
                async for data in node:
                    if self.choose.random() < self.share:
                        self.losses += 1
                        break
                    await client.send_all(data)
            nursery.cancel_scope.cancel()

    async def _forward(
        self, client: trio.SocketStream, node: trio.SocketStream, scope: trio.CancelScope
    ) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            async for data in client:
                await node.send_all(data)
        scope.cancel()


def test_producer_over_lost_answers_writes_each_record_once() -> None:
    acked: dict[bytes, int] = {}

    async def test() -> None:
        proxy = LossyProxy(random.Random(3))
        async with trio.open_nursery() as nursery:
            await nursery.start(proxy.serve)
            await trio.to_thread.run_sync(proxy.start_node)
            async with open_client({"bootstrap.servers": proxy.bootstrap, **FAST}) as client:
                await create_topic(client, "t")
                proxy.share = 0.2
                producer = Producer(client)
                stop = trio.CancelScope()
                async with trio.open_nursery() as senders:
                    for name in range(SENDERS):
                        senders.start_soon(send_until, producer, name, stop, acked)
                    await eventually(lambda: proxy.losses >= LOSSES)
                    stop.cancel()
                proxy.share = 0.0
                await check_log(client, acked)
            await trio.to_thread.run_sync(proxy.node.close)
            nursery.cancel_scope.cancel()

    run(test)
