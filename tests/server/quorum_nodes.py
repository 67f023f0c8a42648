"""Several nodes of one cluster in one event loop, with a formatted directory and fixed ports."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import trio

from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.config import NodeConfig
from barnabas.log.checkpoints import MetaProperties
from barnabas.protocol.types import Uuid
from barnabas.server.node.node import Node
from barnabas.server.quorum.quorum_files import format_directory
from barnabas.testing.free_ports import free_ports

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


class QuorumNodes:
    """Nodes that run in `nursery`; each may be killed and started again."""

    def __init__(
        self,
        directory: Path,
        nursery: trio.Nursery,
        voter_ids: Iterable[int] = (1, 2, 3),
        config: Mapping[str, str] | None = None,
        *,
        is_static: bool = False,
    ) -> None:
        self._is_static = is_static
        self.running: dict[int, Node] = {}
        self._directory = directory
        self._nursery = nursery
        self._config = config or {}
        self._scopes: dict[int, trio.CancelScope] = {}
        self._ended: dict[int, trio.Event] = {}
        self._ports: dict[int, tuple[int, int]] = {}
        self._directory_ids: dict[int, Uuid] = {}
        self.voters = VoterSet.of(*(self._voter(node_id) for node_id in voter_ids))

    def _voter(self, node_id: int) -> Voter:
        directory_id = self._directory_ids[node_id] = Uuid.random()
        endpoint = Endpoint("CONTROLLER", "127.0.0.1", self.ports(node_id)[1])
        return Voter(ReplicaKey(node_id, directory_id), (endpoint,))

    def ports(self, node_id: int) -> tuple[int, int]:
        """Return the ports of a node for clients and for controllers."""
        if node_id not in self._ports:
            broker, controller = free_ports(2)
            self._ports[node_id] = broker, controller
        return self._ports[node_id]

    @property
    def bootstrap(self) -> str:
        """The controller listeners of the voters."""
        return ",".join(f"127.0.0.1:{self.ports(voter.key.id)[1]}" for voter in self.voters)

    def properties(self, node_id: int, roles: str) -> dict[str, str]:
        """Return the configuration of a node; its directory is formatted."""
        broker, controller = self.ports(node_id)
        listeners = {
            "broker": f"PLAINTEXT://127.0.0.1:{broker}",
            "controller": f"CONTROLLER://127.0.0.1:{controller}",
        }
        return {
            "node.id": str(node_id),
            "process.roles": roles,
            "listeners": ",".join(listeners[role] for role in roles.split(",")),
            **self._discovery(),
            "log.dirs": str(self._format(node_id)),
            **self._config,
        }

    def _discovery(self) -> dict[str, str]:
        if not self._is_static:
            return {"controller.quorum.bootstrap.servers": self.bootstrap}
        voters = (f"{v.key.id}@127.0.0.1:{self.ports(v.key.id)[1]}" for v in self.voters)
        return {"controller.quorum.voters": ",".join(voters)}

    def _format(self, node_id: int) -> Path:
        directory = self._directory / str(node_id)
        if not (directory / "meta.properties").exists():
            is_voter = node_id in self.voters.voters and not self._is_static
            directory_id = self._directory_ids.setdefault(node_id, Uuid.random())
            format_directory(directory, voters=self.voters if is_voter else None, now_ms=0)
            properties = MetaProperties(CLUSTER_ID, node_id, directory_id)
            (directory / "meta.properties").write_bytes(properties.encode())
        return directory

    async def start(self, *node_ids: int, roles: str = "broker,controller") -> None:
        """Start nodes together; return when all are ready and know each other."""
        async with trio.open_nursery() as starting:
            for node_id in node_ids:
                starting.start_soon(self._start, node_id, roles)
        if "broker" in roles:
            started = [self.running[node_id] for node_id in node_ids]
            await self.eventually(
                lambda: all(node.image.active_brokers >= set(node_ids) for node in started)
            )

    async def _start(self, node_id: int, roles: str) -> None:
        if node_id in self._ended:
            await self._ended[node_id].wait()  # a killed node holds its directory until then
        node = Node(NodeConfig.load(None, self.properties(node_id, roles)))
        scope = self._scopes[node_id] = trio.CancelScope()
        ended = self._ended[node_id] = trio.Event()

        async def run(task_status: "trio.TaskStatus[None]") -> None:
            try:
                with scope:
                    await node.run(task_status)
            finally:
                ended.set()

        await self._nursery.start(run)
        self.running[node_id] = node

    async def kill(self, node_id: int) -> None:
        """End a node at once; its connections are closed."""
        self._scopes[node_id].cancel()
        del self.running[node_id]
        await trio.sleep(0.05)

    @property
    def leader_id(self) -> int:
        """The node that leads; raises StopIteration when none does."""
        return next(i for i, node in self.running.items() if node.quorum.core.is_leader)

    async def eventually(self, condition: Callable[[], bool], within_s: float = 60.0) -> None:
        """Wait until `condition()` is true, or fail."""
        with trio.fail_after(within_s):
            while not condition():  # noqa: ASYNC110  (a state of another node)
                await trio.sleep(0.01)
