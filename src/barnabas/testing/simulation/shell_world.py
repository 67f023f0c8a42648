"""Seeds of a cluster whose nodes run the server's own quorum, under kills, cuts and slow disks.

    python -m barnabas.testing.simulation.shell_world --seed 7

An admin creates topics over its own connections. At the end there is one leader that all nodes
know, every broker is unfenced, and each topic that was acknowledged exists on every node.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from barnabas import tasks
from barnabas.client.broker_connection import Sockets, open_connection
from barnabas.client.client_config import ClientConfig
from barnabas.client.failures import ClientError
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.testing.simulation.network import Network
from barnabas.testing.simulation.quorum_format import initial_controllers
from barnabas.testing.simulation.quorum_invariants import QuorumInvariants, require
from barnabas.testing.simulation.shell_node import ShellNode, address_of, voter_key
from barnabas.testing.simulation.sim_streams import SimSockets, SimStreams
from barnabas.testing.simulation.world import Process, World

_ADMIN: Final = 40_000
_CALM_MS: Final = 4_000
_REST_MS: Final = 30_000
_TIMEOUT_S: Final = 5.0
_FAULTS: Final = (
    "kill", "power", "crash", "pause", "cut", "slow", "resets", "delays", "election",
)  # fmt: skip


class ShellWorld:
    """The cluster of one seed; its files are removed by `close`."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.network = Network(self.world)
        self.streams = SimStreams(self.network)
        self.invariants = QuorumInvariants(_digest, lambda _: None)
        self.acknowledged: list[str] = []
        self._random = self.world.stream("faults")
        memory = "/dev/shm"  # where each fsync would cost ms of real time on a disk
        self._path = Path(
            tempfile.mkdtemp(prefix="barnabas-sim-", dir=memory if os.path.isdir(memory) else None)
        )
        nodes = self._random.choice((3, 3, 5))
        keys = [voter_key(node_id) for node_id in range(1, nodes + 1)]
        voters = initial_controllers(keys)
        self.nodes = [
            ShellNode(
                Process(self.world, key.id),
                self.streams,
                self.invariants,
                directory=self._path / f"node-{key.id}",
                voters=voters,
                properties=_properties(key.id, self._random.choice((2_000, 20_000))),
            )
            for key in keys
        ]
        self._admin = Process(self.world, _ADMIN)
        self._is_stopped = False

    def close(self) -> None:
        """Remove the files."""
        for life in self.world.lives:
            life.dispose()
        shutil.rmtree(self._path, ignore_errors=True)

    def run(self, seconds: int = 40) -> None:
        """Run the seed. Raises InvariantError."""
        for node in self.nodes:
            self.world.after(self._random.randrange(100_000), node.start)
        self._start_admin()
        self.world.run(_CALM_MS)
        end_us = self.world.now_us + seconds * 1_000_000
        self._next_fault(end_us)
        self.world.run(seconds * 1000)
        self._heal()
        self.world.run(_REST_MS)
        self._check_end()

    # Faults

    def _next_fault(self, end_us: int) -> None:
        if self.world.now_us >= end_us:
            return
        random = self._random
        self._begin_fault(random.choice(self.nodes), random.randrange(50, 6_000))
        self.world.after(random.randrange(200_000, 4_000_000), self._next_fault, end_us)

    def _begin_fault(self, node: ShellNode, for_ms: int) -> None:
        process, random = node.process, self._random
        kind = random.choice(_FAULTS)
        self.world.note("fault", kind, process, for_ms)
        match kind:
            case "kill" | "power" | "crash":
                self._end(node, kind)
            case "election":
                self._disturb_election(for_ms)
            case "pause":
                process.pause(for_ms)
            case "cut":
                for other in self.nodes:
                    if random.random() < 0.7:
                        self.network.cut(process.node_id, other.node_id)
                    if random.random() < 0.7:
                        self.network.cut(other.node_id, process.node_id)
            case "slow":
                process.disk_ms = (1.0, float(for_ms))
            case "resets":
                self.network.reset_chance = 0.1
            case _:
                self.network.delays.tail_chance, self.network.delays.tail = 0.1, for_ms * 1000
        restart = kind in ("kill", "power", "crash")
        after: Callable[..., None] = self._restart if restart else self._calm
        self.world.after(for_ms * 1000, after, node)

    def _disturb_election(self, for_ms: int) -> None:
        """Kill the leader, delay all messages, and restart the voters at once, several times."""
        self.network.delays.tail_chance, self.network.delays.tail = 0.5, 1_500_000
        for node in self.nodes:
            if node.process.is_running and node.view is not None and node.view.core.is_leader:
                node.process.kill()
                self.world.after(for_ms * 1000, self._restart, node)
        for _ in range(20):
            at_us = self._random.randrange(500_000, 6_000_000)
            self.world.after(at_us, self._restart_at_once, self._random.choice(self.nodes))

    def _restart_at_once(self, node: ShellNode) -> None:
        if node.process.is_running and not self._is_stopped:
            node.process.kill()
            self.world.after(self._random.randrange(1_000, 20_000), self._restart, node)

    def _end(self, node: ShellNode, kind: str) -> None:
        process = node.process
        if not process.is_running:
            return
        if kind == "kill":
            process.kill()
        elif kind == "power":
            node.lose_power(self._random)
        else:
            process.effects_before_crash = self._random.randrange(8)

    def _restart(self, node: ShellNode) -> None:
        node.process.effects_before_crash = None
        if not node.process.is_running:
            self.world.note(node.process, "starts")
            node.start()

    def _calm(self, node: ShellNode) -> None:
        node.process.disk_ms = (0.05, 0.5)
        self.network.heal()
        self.network.reset_chance = 0.0
        self.network.delays.tail_chance = 0.0

    def _heal(self) -> None:
        self.world.note("healed")
        self._is_stopped = True
        for node in self.nodes:
            self._calm(node)
            node.process.resume()
            self._restart(node)
        self.streams.reset_damaged()

    # The admin

    def _start_admin(self) -> None:
        admin = self._admin
        admin.start()
        admin.tasks.provide(Sockets, SimSockets(self.streams, admin))
        admin.call(admin.life, admin.tasks.spawn_system_task, (self._create_topics,))

    async def _create_topics(self) -> None:
        number = 0
        while not self._is_stopped:
            await tasks.sleep(self._random.random() * 0.4)
            number += 1
            node = self._random.choice(self.nodes)
            with tasks.move_on_after(_TIMEOUT_S):
                await self._create(f"topic-{number}", node.node_id)

    async def _create(self, name: str, node_id: int) -> None:
        request = CreateTopicsRequest
        topic = request.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        config = ClientConfig((address_of(node_id),), client_id="admin", request_timeout_s=5.0)
        async with tasks.open_nursery() as readers:
            try:
                connection = await open_connection(address_of(node_id), config, readers)
                response = await connection.ask(
                    request(topics=[topic], timeout_ms=4_000), CreateTopicsResponse
                )
                if response.topics[0].error_code == ErrorCode.NONE:
                    self.acknowledged.append(name)
            except ClientError:
                return
            finally:
                readers.cancel_scope.cancel()

    # The end

    def _check_end(self) -> None:
        leaders = {(node.quorum.core.leader_id, node.quorum.core.epoch) for node in self.nodes}
        is_one = len(leaders) == 1 and None not in next(iter(leaders))
        require(is_one, "LIVENESS", f"the nodes know the leaders {leaders}")
        for node in self.nodes:
            image = node.quorum.image
            fenced = [
                other.node_id
                for other in self.nodes
                if other.node_id not in image.brokers or image.brokers[other.node_id].fenced
            ]
            require(not fenced, "LIVENESS", f"on {node.process} the brokers {fenced} are fenced")
            missing = [name for name in self.acknowledged if name not in image.topics_by_name]
            require(not missing, "R3", f"on {node.process} acknowledged topics miss: {missing}")
        require(bool(self.acknowledged), "LIVENESS", "no topic was created")


def _properties(node_id: int, snapshot_bytes: int) -> dict[str, str]:
    return {
        "node.id": str(node_id),
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://node-{node_id}:9092,CONTROLLER://node-{node_id}:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "node-1:9093,node-2:9093,node-3:9093",
        "metadata.log.max.record.bytes.between.snapshots": str(snapshot_bytes),
        "metadata.max.retention.bytes": str(4 * snapshot_bytes),
    }


def _digest(image: MetadataImage) -> object:
    brokers = ((each.id, each.epoch, each.fenced) for each in image.brokers.values())
    return tuple(sorted(brokers)), tuple(sorted(image.topics_by_name))


def run_seed(seed: int, log: Callable[[str], None] | None = None) -> ShellWorld:
    """Run one seed. Raises InvariantError."""
    simulation = ShellWorld(seed)
    simulation.world.log = log
    try:
        simulation.run()
    finally:
        simulation.close()
    return simulation


def main() -> int:
    """Run one seed with its log, or seeds for a time."""
    parser = argparse.ArgumentParser(prog="python -m barnabas.testing.simulation.shell_world")
    parser.add_argument("--seed", type=int, help="run this seed alone and print what happens")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seconds", type=float, default=60, help="the time to run seeds for")
    given: Any = parser.parse_args()
    if given.seed is not None:
        run_seed(given.seed, print)
        return 0
    seed, failed, end = given.first, 0, time.monotonic() + given.seconds
    while time.monotonic() < end:
        try:
            run_seed(seed)
        except Exception as error:
            failed += 1
            print(f"seed {seed} fails: {type(error).__name__}: {error}")
        seed += 1
    print(f"{seed - given.first} seeds, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
