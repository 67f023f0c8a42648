"""A simulated cluster: nodes on one network, faults, and the end of all faults."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.protocol.types import Uuid
from barnabas.testing.simulation.faults import Fault, FaultKind
from barnabas.testing.simulation.network import Delays, Network
from barnabas.testing.simulation.sim_node import SimNode
from barnabas.testing.simulation.sim_requests import SimRequests
from barnabas.testing.simulation.sim_streams import SimStreams
from barnabas.testing.simulation.world import World

_SLOW_FSYNC_MS = 5_000
_REPLACED_ID = 1_000_000


class SimCluster:
    """The nodes of a cluster, by id; `apply` begins a fault. `close` removes its files."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.network = Network()
        self.streams = SimStreams(world, self.network)
        self.requests = SimRequests(self.streams)
        memory = "/dev/shm"  # where each fsync would cost ms of real time on a disk
        self._files = TemporaryDirectory(
            prefix="barnabas-sim-", dir=memory if os.path.isdir(memory) else None
        )
        self.nodes: dict[int, SimNode] = {}
        self._is_healed = False
        self._replaced = 0

    @property
    def path(self) -> Path:
        """The folder of all nodes' directories."""
        return Path(self._files.name)

    def close(self) -> None:
        """Remove the files, and what is left of the tasks."""
        for life in self.world.lives:
            life.dispose()
        self._files.cleanup()

    @property
    def controller_ids(self) -> list[int]:
        """The ids of the controllers, which are voters or can become voters."""
        return [node_id for node_id, node in self.nodes.items() if node.is_controller]

    def newest_image(self) -> MetadataImage:
        """Return the newest committed image of any node that runs."""
        images = [node.committed_image for node in self.nodes.values() if node.process.is_running]
        known = (image for image in images if image is not None)
        return max(known, key=lambda image: image.offset, default=MetadataImage())

    def add(self, node: SimNode) -> None:
        """Add a node; it does not run yet."""
        self.nodes[node.process.node_id] = node

    def start(self) -> None:
        """Start all nodes, within a tenth of a second."""
        for node in self.nodes.values():
            self.world.after(self.world.random.randrange(100_000), self.start_node, node)

    def start_node(self, node: SimNode) -> None:
        """Start a node, unless it runs."""
        if not node.process.is_running:
            self.world.note(node.process, "starts")
            node.start()

    def schedule(self, faults: Iterable[Fault]) -> None:
        """Begin each fault at its time, counted from now."""
        for fault in faults:
            self.world.after(fault.at_ms * 1000, self.apply, fault)

    def apply(self, fault: Fault) -> None:
        """Begin a fault; it ends by itself."""
        self.world.note("fault", str(fault))
        if not fault.nodes:
            self._disturb_leader(fault)
            return
        nodes = [self.nodes[node_id] for node_id in fault.nodes]
        match fault.kind:
            case FaultKind.KILL:
                self._stop(nodes, fault, SimNode.kill)
            case FaultKind.POWER_LOSS | FaultKind.POWER_LOSS_OF_ALL:
                self._stop(nodes, fault, SimNode.lose_power)
            case FaultKind.SHUTDOWN:
                self._shut_down(nodes[0], fault)
            case FaultKind.DIRECTORY_FAILS:
                self._fail_directory(nodes[0], fault)
            case FaultKind.DISK_REPLACED:
                self._stop(nodes, fault, SimNode.kill)
                self._replaced += 1
                directory = Uuid((_REPLACED_ID + self._replaced).to_bytes(16, "big"))
                nodes[0].replace_disk(int(fault.amount * 3), directory)
            case FaultKind.CRASH_BETWEEN_EFFECTS:
                nodes[0].process.effects_before_crash = int(fault.amount * 8)
                self.world.after(fault.for_ms * 1000, self.start_node, nodes[0])
            case FaultKind.PAUSE:
                nodes[0].process.pause(fault.for_ms)
            case FaultKind.CLOCK:
                nodes[0].process.clock_rate = 0.99 + 0.02 * fault.amount
            case FaultKind.SLOW_DISK:
                nodes[0].slow_down(0.2, fault.amount * _SLOW_FSYNC_MS)
                self.world.after(fault.for_ms * 1000, nodes[0].mend_disk)
            case _:
                self._disturb_network(fault)

    def _stop(
        self, nodes: Iterable[SimNode], fault: Fault, stop: Callable[[SimNode], None]
    ) -> None:
        for node in nodes:
            if node.process.is_running:
                stop(node)
            self.world.after(fault.for_ms * 1000, self.start_node, node)

    def _fail_directory(self, node: SimNode, fault: Fault) -> None:
        """Break a disk; later it is mended, and the broker restarted."""
        volumes = node.logs.volumes
        if volumes:
            volume = volumes[int(fault.amount * len(volumes))]
            volume.break_down(is_full=fault.for_ms % 2 == 0)
            self.world.after(fault.for_ms * 1000, self._mend_directories, node)

    def _mend_directories(self, node: SimNode) -> None:
        for volume in node.logs.volumes:
            volume.mend()
        if node.process.is_running and node.logs.has_offline:
            node.kill()
        self.start_node(node)

    def _shut_down(self, node: SimNode, fault: Fault) -> None:
        """Stop a node as SIGTERM does; it starts again some time after it has stopped."""

        def stopped() -> None:
            self.world.note(node.process, "has stopped cleanly")
            self.world.after(0 if self._is_healed else fault.for_ms * 1000, self.start_node, node)

        node.process.call(node.process.life, node.shut_down, (stopped,))

    def _disturb_leader(self, fault: Fault) -> None:
        """Begin a fault of each node that leads the quorum, or believes that it does."""
        for node in self.nodes.values():
            if not node.is_leader:
                continue
            match fault.kind:
                case FaultKind.RESIGN:
                    node.process.call(node.process.life, node.resign)
                case FaultKind.CUT_LEADER:
                    self._disturb_network(attrs.evolve(fault, nodes=(node.process.node_id,)))
                case _:
                    node.slow_down(fault.for_ms, fault.for_ms)
                    delay_us = int(fault.amount * fault.for_ms) * 1000
                    self.world.after(delay_us, self._lose_power_of, node, fault)

    def _lose_power_of(self, node: SimNode, fault: Fault) -> None:
        if not self._is_healed:
            node.mend_disk()
            self._stop([node], fault, SimNode.lose_power)

    def _disturb_network(self, fault: Fault) -> None:
        network, chosen = self.network, fault.nodes
        others = [node_id for node_id in self.nodes if node_id not in chosen]
        match fault.kind:
            case FaultKind.CUT_NODE | FaultKind.CUT_LEADER | FaultKind.CUT_HALF:
                for one in chosen:
                    for other in others:
                        network.cut(one, other)
                        network.cut(other, one)
            case FaultKind.CUT_ONE_WAY if len(chosen) == 2:
                network.cut(*chosen)
            case FaultKind.CUT_PAIR if len(chosen) == 2:
                network.cut(*chosen)
                network.cut(*reversed(chosen))
            case FaultKind.RESETS:
                network.reset_chance = 0.2 * fault.amount
            case FaultKind.DELAYS:
                network.delays = Delays(tail=int(20_000_000 * fault.amount), tail_chance=0.05)
            case _:
                return
        self.world.after(fault.for_ms * 1000, self.calm_network)

    def calm_network(self) -> None:
        """End cuts, resets and long delays."""
        self.network.heal()
        self.network.reset_chance = 0.0
        self.network.delays = Delays()

    def heal(self) -> None:
        """End all faults and start the nodes that do not run."""
        self._is_healed = True
        self.calm_network()
        self.streams.reset_damaged()
        self.requests.reset_damaged()
        for node in self.nodes.values():
            node.mend_disk()
            self._mend_directories(node)
            node.process.effects_before_crash = None
            node.process.resume()
            self.start_node(node)
