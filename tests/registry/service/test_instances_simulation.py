"""Three instances on one topic, two of which may believe that they lead, and any may be killed.

The service is the real one; topic and group are simulated on a clock that jumps. After any
order of events, what was acknowledged is there, an id has one content, and a version one id.
"""

import os
import random
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from barnabas.client import ClientError
from barnabas.protocol.batches.record_decoding import Record
from barnabas.registry.core.registry_core import RegistryCore
from barnabas.registry.rest.registry_app import RegistryApp
from barnabas.registry.service.election_protocol import InstanceAddress
from barnabas.registry.service.registry_service import RegistryService
from barnabas.registry.service.schemas_topic import Appended, SchemasTopic
from tests.registry.asgi_calls import HttpAnswer, ask

SEEDS = int(os.environ.get("BARNABAS_SEEDS", "25"))
INSTANCES = 3
SUBJECTS = ["a", "b"]


@attrs.define
class SimulatedLog:
    """The topic's records, and the chance that rules all delays."""

    chance: random.Random
    records: list[Record] = attrs.Factory(list)

    async def delay(self, most: float) -> None:
        await trio.sleep(self.chance.uniform(0, most))

    def append(self, records: list[tuple[bytes, bytes | None]]) -> int:
        first = len(self.records)
        for key, value in records:
            offset = len(self.records)
            self.records.append(Record(offset, offset, key, value, ()))
        return first


class SimulatedTopic(SchemasTopic):
    """One instance's view of the log."""

    def __init__(self, log: SimulatedLog, core: RegistryCore) -> None:
        super().__init__(None, "_schemas", core)  # type: ignore[arg-type]
        self._log = log

    async def end(self) -> int:
        await self._log.delay(0.01)
        return len(self._log.records)

    async def append(self, records: Any) -> Appended:
        await self._log.delay(0.05)
        if self._log.chance.random() < 0.03:
            raise ClientError("not sent")
        written = self._core.encoded(records)
        first = self._log.append(written)
        await self._log.delay(0.05)
        if self._log.chance.random() < 0.03:
            raise ClientError("answer lost")
        await self.wait_replayed(first + len(written))
        return Appended(first, len(written))

    async def follow(self) -> None:
        while True:
            for record in self._log.records[self.position :]:
                self.replay(record)
                self.position = record.offset + 1
            self._replayed.set()
            self._replayed = trio.Event()
            await self._log.delay(0.03)
            await trio.sleep(0.001)


@attrs.define
class SimulatedLeadership:
    """The view that one instance has of the group."""

    own: InstanceAddress
    leader: InstanceAddress | None = None

    @property
    def is_leader(self) -> bool:
        return self.leader == self.own

    async def known(self) -> InstanceAddress:
        while self.leader is None:  # noqa: ASYNC110 (time jumps here)
            await trio.sleep(0.01)
        return self.leader

    async def changed(self) -> None:
        await trio.sleep(0.05)


@attrs.define
class Simulation:
    """A run: instances that start and are killed, clients that register, and what they got."""

    log: SimulatedLog
    addresses: list[InstanceAddress]
    running: dict[int, tuple[RegistryService, trio.CancelScope]] = attrs.Factory(dict)
    acknowledged: list[tuple[str, str, int, int]] = attrs.Factory(list)

    async def instance(self, number: int) -> None:
        """Run one instance until it is killed."""
        core = RegistryCore()
        topic = SimulatedTopic(self.log, core)
        leadership = SimulatedLeadership(self.addresses[number])
        service = RegistryService(None, topic, core, leadership)  # type: ignore[arg-type]
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(topic.follow)
                nursery.start_soon(self._believe, leadership)
                await topic.wait_replayed(await topic.end())
                service.ready({})
                self.running[number] = service, scope
        self.running.pop(number, None)

    async def _believe(self, leadership: SimulatedLeadership) -> None:
        """Change minds at random: two instances may lead at the same time."""
        while True:
            leadership.leader = self.log.chance.choice([None, leadership.own, leadership.own])
            await self.log.delay(2)

    async def chaos(self, nursery: trio.Nursery) -> None:
        """Kill and start instances."""
        for _ in range(12):
            await self.log.delay(1)
            number = self.log.chance.randrange(INSTANCES)
            if number in self.running:
                _, scope = self.running.pop(number)
                scope.cancel()
                await trio.sleep(0.001)
                nursery.start_soon(self.instance, number)

    async def client(self, name: int) -> None:
        """Register schemas at any instance, and again until they are acknowledged."""
        for count in range(12):
            subject = self.log.chance.choice(SUBJECTS)
            field = f'{{"name":"f{name}x{count}","type":"int","default":0}}'
            text = f'{{"type":"record","name":"R","fields":[{field}]}}'
            for _ in range(40):
                answer = await self._register(subject, text)
                if answer is not None:
                    self.acknowledged.append((subject, text, answer["id"], answer["version"]))
                    await self._read(answer["id"])
                    break
                await self.log.delay(0.2)

    async def _read(self, schema_id: int) -> None:
        """Any instance that is not killed meanwhile has what was acknowledged."""
        answer = await self._ask_any("GET", f"/schemas/ids/{schema_id}")
        assert answer is None or answer.status == 200, answer

    async def _register(self, subject: str, text: str) -> Any:
        target = f"/subjects/{subject}/versions"
        answer = await self._ask_any("POST", target, {"schema": text}, {"x-forward": "true"})
        assert answer is None or answer.status in (200, 500)
        return None if answer is None or answer.status != 200 else answer.json

    async def _ask_any(self, *request: Any) -> HttpAnswer | None:
        """Return the answer of one of the instances; None when it was killed meanwhile."""
        if not self.running:
            return None
        service, scope = self.log.chance.choice(list(self.running.values()))
        app = RegistryApp(service).asgi()
        answer = None
        async with trio.open_nursery() as nursery:

            async def wait_for_the_end() -> None:
                while not scope.cancel_called:  # noqa: ASYNC110 (time jumps here)
                    await trio.sleep(0.01)
                nursery.cancel_scope.cancel()

            nursery.start_soon(wait_for_the_end)
            answer = await ask(app, *request)
            nursery.cancel_scope.cancel()
        return None if scope.cancel_called else answer


async def _simulated(seed: int) -> Simulation:
    log = SimulatedLog(random.Random(seed))
    addresses = [InstanceAddress("http", "h", number) for number in range(INSTANCES)]
    simulation = Simulation(log, addresses)
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as clients:
            for number in range(INSTANCES):
                nursery.start_soon(simulation.instance, number)
            clients.start_soon(simulation.chaos, nursery)
            for name in range(4):
                clients.start_soon(simulation.client, name)
        nursery.cancel_scope.cancel()
    return simulation


def _replayed(records: list[Record]) -> RegistryCore:
    core = RegistryCore()
    for record in records:
        core.replay(record.key, record.value, offset=record.offset, timestamp_ms=0)
    return core


def _compacted(records: list[Record]) -> list[Record]:
    last = {record.key: record for record in records}
    return [record for record in records if last[record.key] is record]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_instances_that_write_at_the_same_time_lose_and_repeat_nothing(seed: int) -> None:
    simulation = trio.run(_simulated, seed, clock=trio.testing.MockClock(autojump_threshold=0))
    log = simulation.log
    core = _replayed(log.records)
    log.append(core.encoded(core.take_repairs()))
    assert len(simulation.acknowledged) > 20
    ids: dict[int, str] = {}
    versions: dict[tuple[str, int], str] = {}
    for core in (_replayed(log.records), _replayed(_compacted(log.records))):
        for subject, text, schema_id, number in simulation.acknowledged:
            assert ids.setdefault(schema_id, text) == text
            assert versions.setdefault((subject, number), text) == text
            version = core.state.version(subject, number)
            assert version is not None
            assert (version.schema_id, version.content.text) == (schema_id, text)
