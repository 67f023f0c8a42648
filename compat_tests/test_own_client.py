"""barnabas' own client (`barnabas.client`) against either server."""

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence

import trio

from barnabas.client import KafkaClient, NewRecord, Producer, RecordReader, open_client
from barnabas.client.admin_calls import (
    TOPIC_RESOURCE,
    create_topic,
    describe_configs,
    describe_topic,
    list_offset,
)
from barnabas.client.group_session import GroupSettings, join_group
from compat_tests.servers import ServerProcess


def run(bootstrap: str, test: Callable[[KafkaClient], Awaitable[None]], **properties: str) -> None:
    named = {name.replace("_", "."): value for name, value in properties.items()}

    async def main() -> None:
        with trio.fail_after(90):
            async with open_client({"bootstrap.servers": bootstrap, **named}) as client:
                await test(client)

    trio.run(main)


class FirstLeads:
    def protocols(self) -> Sequence[tuple[str, bytes]]:
        return [("v0", b"metadata")]

    def assign(self, protocol: str, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        return {member: min(members).encode() for member in members}


def test_own_client_writes_and_reads_every_codec(bootstrap: str) -> None:
    topic = f"own-{uuid.uuid4().hex}"

    async def test(client: KafkaClient) -> None:
        if await describe_topic(client, topic) is None:
            await create_topic(client, topic, partitions=2, configs={"retention.ms": "-1"})
        producer = Producer(client)
        start = await list_offset(client, topic, 1)
        records = [NewRecord(b"k", b"%d" % number, (("h", b"v"),), 7) for number in range(1000)]
        assert await producer.send(topic, 1, records) == start
        end = await list_offset(client, topic, 1, read_committed=True)
        reader = RecordReader(client, topic, 1, start, read_committed=True)
        found = [record async for record in reader.until(end)]
        assert [record.value for record in found] == [record.value for record in records]
        assert (reader.position, found[0].headers, found[0].timestamp) == (
            start + 1000,
            (("h", b"v"),),
            7,
        )
        configuration = await describe_configs(client, TOPIC_RESOURCE, topic)
        assert configuration["retention.ms"].value == "-1"

    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        run(bootstrap, test, compression_type=codec)


def test_own_client_members_of_a_private_protocol_agree(bootstrap: str) -> None:
    settings = GroupSettings(f"own-{uuid.uuid4().hex}", "sr", heartbeat_interval_s=0.3)

    async def test(client: KafkaClient) -> None:
        async with (
            join_group(client, settings, FirstLeads()) as first,
            join_group(client, settings, FirstLeads()) as second,
        ):
            while True:
                parts = await first.wait_assigned(), await second.wait_assigned()
                if parts[0].generation == parts[1].generation:
                    break
                await trio.sleep(0.1)
            assert parts[0].assignment == parts[1].assignment
            assert [part.is_leader for part in parts].count(True) == 1

    run(bootstrap, test)


def test_own_client_producer_continues_after_kill_of_the_server(
    start_server: Callable[..., ServerProcess],
) -> None:
    server = start_server()

    async def test(client: KafkaClient) -> None:
        await create_topic(client, "killed")
        producer = Producer(client)
        acked: dict[int, bytes] = {}

        async def send() -> None:
            for number in range(200):
                value = b"%d" % number
                acked[await producer.send("killed", 0, [NewRecord(b"k", value)])] = value
                await trio.sleep(0.005)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await trio.sleep(0.4)
            await trio.to_thread.run_sync(server.kill)
            await trio.to_thread.run_sync(server.start)
        reader = RecordReader(client, "killed", 0, 0)
        end = await list_offset(client, "killed", 0)
        assert {record.offset: record.value async for record in reader.until(end)} == acked
        assert list(acked.values()) == [b"%d" % number for number in range(200)]

    run(server.bootstrap, test)
